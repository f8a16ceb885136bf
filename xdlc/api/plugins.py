"""Checks of plugins on random nodes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdlc.api.conversion import convert
from xdlc.api.execution import run
from xdlc.errors import BackendError, UsageError, XdlcError
from xdlc.ir import Model
from xdlc.json_fields import choice
from xdlc.worker.temporary import TemporaryFolder

_MOST_ELEMENTS = 1 << 24
_TRIES = 20
"""Random nodes to try for each node that the plugin accepts."""
_FILE = """from xdlc.udo import Plugin
from xdlc.udo.plugin.discovery import named_plugins
base = named_plugins({name!r})[0]
Checked = type(base.__name__, (base,), dict(__module__=__name__, {changes}))
del base
"""
_WAYS = {"numba": "", "compute": 'build_kernel=Plugin.build_kernel, imply_type=""'}
"""Kernels of a plugin's file, and the changes that leave a plugin only this kernel."""


@dataclass(slots=True)
class PluginReport:
    """Result of a check of a plugin.

    Attributes:
        plugin: Its name.
        nodes: Number of nodes that it took.
        declined: Number of nodes that ``accepts`` declined.
        kernels: Its kernels: ``compile_c``, ``numba``, ``compute``.
        error: Largest difference of two kernels, relative to the largest element; None for one kernel.
        problems: What is wrong, with the number of nodes; empty if nothing is.
    """

    plugin: str
    nodes: int = 0
    declined: int = 0
    kernels: tuple[str, ...] = ()
    error: float | None = None
    problems: Counter[str] = field(default_factory=Counter)

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text.

        Raises:
            BackendError: After the last, if there are problems.
        """
        yield f"plugin {self.plugin}: {self.nodes} random nodes; accepts declined {self.declined} more"
        yield f"kernels: {', '.join(self.kernels) or 'none'}"
        if self.error is not None:
            yield f"largest difference between kernels: {self.error:.2e} of the largest element"
        if self.problems:
            texts = "; ".join(f"{text} ({count} times)" for text, count in self.problems.items())
            raise BackendError(f"plugin {self.plugin}: {texts}", fix="correct the plugin")


def check_plugin(
    plugin: str,
    nodes: int = 4,
    *,
    seed: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    attributes: Mapping[str, Any] | None = None,
    tolerance: float = 1e-4,
) -> PluginReport:
    """Convert random nodes with a plugin, and compare the results of its kernels.

    Attributes and inputs get random values of their declared kinds and types.  Inputs without a declared rank
    share a shape of 4 axes.  The same seed makes the same nodes.

    Args:
        plugin: Name of the plugin: ``path/to/file.py:Class``.
        nodes: Number of nodes, 1 to 1,000.
        seed: Seed of the random values.
        shapes: Shapes of inputs by name, instead of random ones.
        attributes: Attributes of the source by name, instead of random values.  A text may be JSON, or the
            elements of a list.
        tolerance: Largest allowed difference of two kernels, relative to the largest element.

    Raises:
        XdlcError: If the plugin or an input is missing or incomplete, or a number is out of range.
    """
    import numpy

    from xdlc.udo.plugin.discovery import named_plugins
    from xdlc.udo.plugin.hooks import plugin_hooks
    from xdlc.udo.plugin.numba_kernel import uses_numba
    from xdlc.udo.plugin.random_nodes import random_node

    plugins = named_plugins(plugin)
    if len(plugins) != 1 or not 1 <= nodes <= 1000:
        names = " or ".join(f"{plugin}:{candidate.__name__}" for candidate in plugins)
        raise UsageError(
            f"you passed {nodes} nodes and {len(plugins)} plugins; xdlc tries 1 to 1000 nodes of one plugin",
            fix=f"pass {names}, and a number of nodes from 1 to 1000",
        )
    report, taken = PluginReport(plugins[0].__name__), list[bool]()

    def accepts(self: Any, node: Any) -> bool:
        taken.append(bool(plugins[0].accepts(self, node)))
        return taken[-1]

    changes = {"framework": "onnx", "domain": None, "accepts": accepts, "__module__": plugins[0].__module__}
    checked: Any = type(report.plugin, (plugins[0],), changes)
    declaration = plugin_hooks(checked).declaration
    inputs = [tensor.name for tensor in declaration.definition.inputs]
    for name, shape in (shapes or {}).items():
        if name not in inputs:
            raise UsageError(f"the model has no input {name!r}", fix=choice(name, inputs))
        if min(shape, default=0) < 0 or math.prod(shape) > _MOST_ELEMENTS:
            fix = f"pass dimensions of 0 or more, with at most {_MOST_ELEMENTS} elements"
            raise UsageError(f"the shape {list(shape)} of input {name!r} is not valid", fix=fix)
    rng, fixed = numpy.random.default_rng(seed), dict(attributes or {})
    lists = {kind.source or key for key, kind in declaration.kinds.items() if kind.definition.rank == 1}
    for name, value in fixed.items():
        if isinstance(value, str):
            with suppress(ValueError):
                fixed[name] = json.loads(f"[{value}]" if name in lists and value[:1] != "[" else value)
    with TemporaryFolder("xdlc_plugin_") as name:
        folder = Path(name)
        ways = {"numba": uses_numba(checked), "compute": callable(getattr(checked, "compute", None))}
        files = _files(folder, plugin, report.plugin, [way for way, is_there in ways.items() if is_there])
        for _ in range(nodes * _TRIES):
            taken.clear()
            node, feeds = random_node(declaration, rng, shapes or {}, fixed)
            (folder / "node.onnx").write_bytes(node)
            try:
                model = convert(
                    folder / "node.onnx", plugin=[checked], no_plugins=True, notify=lambda _: None
                )
                model.save(folder / "node.dlc", crc=False)
                results = dict(_results(model, feeds, folder, files)) if taken != [False] else {}
                _compare(report, results, tolerance)
            except XdlcError as error:
                if taken != [False]:
                    report.problems[f"{error.where}: {error.problem}".splitlines()[0]] += 1
            report.declined += taken == [False]
            report.nodes += taken != [False]
            if report.nodes == nodes:
                break
    if not report.nodes:
        report.problems["the plugin accepted no random node: pass valid shapes and attributes"] += 1
    elif not report.kernels and not report.problems:
        report.problems["the plugin has no kernel: write the method build_kernel or compute"] += 1
    return report


def _files(folder: Path, plugin: str, name: str, ways: Sequence[str]) -> dict[str, Path]:
    """Write one plugin file per kernel kind; return the paths by kind."""
    file = plugin.rpartition(".py")[0]
    found = {way: folder / f"only_{way}.py" for way in ways}
    for way, path in found.items():
        named = f"{Path(file).absolute()}.py:{name}" if file else plugin
        path.write_text(_FILE.format(name=named, changes=_WAYS[way]))
    return found


def _results(
    model: Model, feeds: Mapping[str, Any], folder: Path, files: Mapping[str, Path]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the outputs of a model by kernel."""
    from xdlc.runtime.udo.kernel_files import FOLDER

    if model.files:
        yield "compile_c", run(model, feeds, udo_package_path=folder / FOLDER)
    for way, file in files.items():
        yield way, run(model, feeds, udo_package_path=file)


def _compare(report: PluginReport, results: Mapping[str, Mapping[str, Any]], tolerance: float) -> None:
    import numpy

    report.kernels = tuple(dict.fromkeys((*report.kernels, *results)))
    for kernel in list(results)[1:]:
        first = next(iter(results))
        for name, wanted in results[first].items():
            one, other = (array.astype(numpy.float64) for array in (wanted, results[kernel][name]))
            same = (one == other) | (numpy.isnan(one) & numpy.isnan(other))
            largest = numpy.abs(one[numpy.isfinite(one)]).max(initial=1e-30)
            error = float(numpy.where(same, 0.0, numpy.abs(one - other)).max(initial=0.0) / largest)
            report.error = max(report.error or 0.0, error)
            if not error <= tolerance:
                report.problems[f"{first} and {kernel} differ in output {name!r}"] += 1
