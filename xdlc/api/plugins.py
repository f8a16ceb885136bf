"""Checks of plugins on random nodes, and kernels of a DLC as files."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdlc.api.conversion import convert
from xdlc.api.execution import run
from xdlc.container.udo import kernels as model_kernels
from xdlc.errors import BackendError, StorageError, UsageError, XdlcError, nearest_names
from xdlc.ir import Model
from xdlc.ir.dtype import FLOAT32
from xdlc.udo.plugin import REQUIRED, Bool, Bools, Bytes, Enum, Float, Floats, Int, Ints, Json, Str, Tensor
from xdlc.udo.plugin.collection import plugin_hooks
from xdlc.udo.plugin.discovery import named_plugins
from xdlc.udo.plugin.numba_kernel import uses_numba

_TRIES = 20
"""Random nodes for each one that a plugin takes."""
_FILE = """from xdlc.udo import Plugin
from xdlc.udo.plugin.discovery import named_plugins
base = named_plugins({name!r})[0]
Checked = type(base.__name__, (base,), dict(__module__=__name__, {changes}))
del base
"""
_WAYS = {"numba": "", "compute": 'build_kernel=Plugin.build_kernel, imply_type=""'}
"""Kernels of a plugin's file, and how a plugin that has this one alone differs from it."""


@dataclass(slots=True)
class PluginReport:
    """Result of a check of a plugin.

    Attributes:
        plugin: Its name.
        nodes: Number of nodes that it took.
        declined: Number of nodes that ``accepts`` declined.
        kernels: Its kernels: ``embedded`` (made by ``compile_c``), ``numba``, ``compute``.
        error: Largest difference of two kernels, relative to the largest element; None for one kernel.
        problems: What is wrong, with the number of nodes; empty if nothing is.
    """

    plugin: str
    nodes: int = 0
    declined: int = 0
    kernels: tuple[str, ...] = ()
    error: float | None = None
    problems: dict[str, int] = field(default_factory=dict)

    def note(self, problem: str) -> None:
        """Count a problem."""
        self.problems[problem] = self.problems.get(problem, 0) + 1

    def check(self) -> None:
        """Raise the problems as one error.

        Raises:
            BackendError: If there are any.
        """
        if self.problems:
            raise BackendError(
                f"plugin {self.plugin} has problems: {'; '.join(self.problems)}", fix="correct it"
            )

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        yield f"plugin {self.plugin}: {self.nodes} random nodes, {self.declined} more declined by accepts"
        yield f"kernels: {', '.join(self.kernels) or 'none'}"
        if self.error is not None:
            yield f"largest difference between kernels: {self.error:.2e} of the largest element"
        yield from (f"problem on {count} nodes: {text}" for text, count in self.problems.items())


def check_plugin(
    plugin: str,
    nodes: int = 4,
    *,
    seed: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    attributes: Mapping[str, Any] | None = None,
    tolerance: float = 1e-4,
) -> PluginReport:
    """Convert random nodes with a plugin and run them with each of its kernels, which must agree.

    Attributes and inputs are random values of the declared kinds and types; inputs of no stated rank get one
    shape of 4 axes.  The same seed makes the same nodes.  The kernels run in the process of kernels.

    Args:
        plugin: Name of the plugin: ``path/to/file.py:Class``.
        nodes: Number of nodes, 1 to 1000.
        seed: Number that the random values follow from.
        shapes: Shapes of inputs by name, instead of random ones.
        attributes: Attributes of the source by name, instead of random ones.
        tolerance: Largest allowed difference of two kernels, relative to the largest element.

    Raises:
        XdlcError: If there is no such plugin or input, it is not complete, or a number is out of range.
    """
    import numpy

    found = named_plugins(plugin)
    if len(found) != 1 or not 1 <= nodes <= 1000:
        names = " or ".join(f"{plugin}:{each.__name__}" for each in found)
        raise UsageError(f"{nodes} nodes of {len(found)} plugins", fix=f"name {names}, and 1 to 1000 nodes")
    report, taken = PluginReport(found[0].__name__), list[bool]()

    def accepts(self: Any, node: Any) -> bool:
        taken.append(bool(found[0].accepts(self, node)))
        return taken[-1]

    changes = {"framework": "onnx", "domain": None, "accepts": accepts, "__module__": found[0].__module__}
    checked: Any = type(report.plugin, (found[0],), changes)
    declaration = plugin_hooks(checked)[1].declaration
    inputs = [tensor.name for tensor in declaration.inputs]
    for name in (shapes or {}).keys() - set(inputs):
        raise UsageError(f"there is no input {name!r}", fix=nearest_names(name, inputs) or None)
    rng = numpy.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="xdlc_plugin_") as folder:
        files = _files(Path(folder), plugin, report.plugin)
        for _ in range(nodes * _TRIES):
            taken.clear()
            path, feeds = _random_node(Path(folder), declaration, rng, shapes or {}, attributes or {})
            try:
                model = convert(path, plugin=[checked], no_plugins=True, notify=lambda _: None)
                if taken != [False]:
                    _compare(
                        report,
                        dict(_results(model, feeds, files, uses_numba(checked.build_kernel))),
                        tolerance,
                    )
            except XdlcError as error:
                if taken != [False]:
                    report.note(f"{error.where}: {error.problem}".splitlines()[0])
            report.nodes, report.declined = (
                report.nodes + (taken != [False]),
                report.declined + (taken == [False]),
            )
            if report.nodes == nodes:
                break
    if not report.nodes:
        report.note("no random node was taken: give shapes and attributes that suit the plugin")
    elif not report.kernels and not report.problems:
        report.note("there is no kernel: write build_kernel or compute")
    return report


def _files(folder: Path, plugin: str, name: str) -> dict[str, Path]:
    """Write files with one kernel of a plugin alone, and return them by its kind."""
    file, found = plugin.rpartition(".py")[0], {}
    named = f"{Path(file).absolute()}.py:{name}" if file else plugin
    for way, change in _WAYS.items():
        found[way] = folder / f"only_{way}.py"
        found[way].write_text(_FILE.format(name=named, changes=change))
    return found


def _results(
    model: Model, feeds: Mapping[str, Any], files: Mapping[str, Path], has_numba: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the outputs of a model by kernel."""
    if model_kernels(model):
        yield "embedded", run(model, feeds, allow_embedded_kernels=True)
    for way, file in files.items():
        if way == "compute" or has_numba:
            try:
                yield way, run(model, feeds, udo_package_path=file)
            except XdlcError as error:
                if "marks no function" not in error.problem and "there is no kernel" not in error.problem:
                    error.problem = f"{way}: {error.problem}"
                    raise


def _compare(report: PluginReport, results: Mapping[str, Mapping[str, Any]], tolerance: float) -> None:
    import numpy

    report.kernels = tuple(dict.fromkeys((*report.kernels, *results)))
    first = next(iter(results), "")
    for kernel in list(results)[1:]:
        for name, wanted in results[first].items():
            one, other = (array.astype(numpy.float64) for array in (wanted, results[kernel][name]))
            same = (one == other) | (numpy.isnan(one) & numpy.isnan(other))
            scale = float(
                numpy.abs(one, where=numpy.isfinite(one), out=numpy.zeros_like(one)).max(initial=1e-30)
            )
            error = float(numpy.where(same, 0.0, numpy.abs(one - other)).max(initial=0.0)) / scale
            report.error = max(report.error or 0.0, error)
            if not error <= tolerance:
                report.note(f"{first} and {kernel} differ in output {name!r}")


def _random_node(
    folder: Path, declared: Any, rng: Any, shapes: Mapping[str, Sequence[int]], attributes: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """Write a model of one random node, and return its path and inputs."""
    import onnx
    from onnx import helper, numpy_helper

    common = tuple(int(size) for size in rng.integers(1, 6, 4))
    given = {key: _random_value(kind, rng) for key, kind in declared.kinds.items() if _is_stated(kind, rng)}
    given = {declared.kinds[key].source or key: value for key, value in given.items()} | dict(attributes)
    names, feeds, weights = [], {}, []
    for tensor in declared.inputs:
        omitted = not tensor.mandatory and tensor.name not in shapes and rng.random() < 0.5
        names.append("" if omitted else tensor.name)
        if omitted:
            continue
        rank = len(common) if tensor.rank is None else tensor.rank
        shape = tuple(shapes.get(tensor.name, (*common, *(2,) * rank)[:rank]))
        dtypes = [dtype for dtype in tensor.dtypes if not dtype.is_fixed]
        feeds[tensor.name] = _random_array(
            next((d for d in dtypes if d is FLOAT32), (*dtypes, FLOAT32)[0]), shape, rng
        )
        if tensor.is_static:
            weights.append(numpy_helper.from_array(feeds.pop(tensor.name), tensor.name))
    outputs = [tensor.name for tensor in declared.outputs if tensor.mandatory] or ["result"]
    domain = "" if onnx.defs.has(declared.types[0]) else "checked"
    arrays = {key: numpy_helper.from_array(v, key) if hasattr(v, "dtype") else v for key, v in given.items()}
    node = helper.make_node(declared.types[0], names, outputs, "checked", domain=domain, **arrays)
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    values = [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in feeds.items()]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    opsets = [
        helper.make_opsetid(each, 1 if each else onnx.defs.onnx_opset_version()) for each in {"", domain}
    ]
    graph = helper.make_graph([node], "checked", values, ends, weights)
    path = folder / "checked.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    return path, feeds


def _is_stated(kind: Any, rng: Any) -> bool:
    return kind.default is REQUIRED or bool(rng.random() < 0.5)


def _random_array(dtype: Any, shape: Sequence[int], rng: Any) -> Any:
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0, 2 if dtype.kind == "bool" else 4, shape).astype(dtype.numpy)


def _random_value(kind: Any, rng: Any) -> Any:
    """Return a value of the source for a kind of parameter."""
    found: dict[type, Callable[[], Any]] = {
        Enum: lambda: kind.names[int(rng.integers(len(kind.names)))],
        Bool: lambda: int(rng.integers(2)),
        Int: lambda: int(rng.integers(0 if kind.dtype.kind == "uint" else -2, 4)),
        Float: lambda: float(rng.standard_normal()),
        Bytes: lambda: bytes(rng.integers(0, 256, 4).tolist()),
        Json: lambda: ["a", "b"],
        Tensor: lambda: _random_array(kind.dtype, (2,) * (kind.rank() or 1), rng),
        Ints: lambda: rng.integers(0, 4, 2).tolist(),
        Bools: lambda: rng.integers(0, 2, 2).tolist(),
        Floats: lambda: rng.standard_normal(2).tolist(),
        Str: lambda: "text",
    }
    return next(make() for type, make in found.items() if isinstance(kind, type))


def write_kernels(model: Model, folder: str | Path = "kernel_meta") -> list[Path]:
    """Write each kernel that a model carries as a library, and its description as JSON beside it.

    Args:
        model: The model.
        folder: The folder, which is made if it is missing; files of the same names in it are replaced.

    Returns:
        The files.

    Raises:
        UsageError: If the model carries no kernels.
        ContainerError: If a record of one is damaged.
        StorageError: If a file cannot be written.
    """
    found, target, paths = model_kernels(model), Path(folder), list[Path]()
    if not found:
        fix = "convert it with a plugin whose build_kernel returns compile_c"
        raise UsageError("the model carries no kernels", fix=fix)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for held in found:
            kernel = held.kernel
            path = target / f"{re.sub(r'[^0-9A-Za-z_]', '_', kernel.name)}.json"
            path = path.with_stem(f"{path.stem}_{len(paths) // 2}") if path in paths else path
            values = [value.tolist() if hasattr(value, "tolist") else value for value in kernel.values]
            description = {
                **{key: getattr(kernel, key) for key in ("name", "entry", "arguments", "machine", "tool")},
                **{key: getattr(held, key) for key in ("package", "type", "ops")},
                "values": values,
                "binary": path.with_suffix(".so").name,
                "sha256": held.digest,
            }
            path.write_text(f"{json.dumps(description, indent=2)}\n")
            path.with_suffix(".so").write_bytes(kernel.binary)
            paths += [path, path.with_suffix(".so")]
    except OSError as error:
        problem, fix = f"cannot be written: {error.strerror or error}", "check the path and its permissions"
        raise StorageError(problem, where=str(error.filename or target), fix=fix) from error
    return paths
