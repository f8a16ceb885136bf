"""UDOs of configurations, plugins and libraries, in the form for converters."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xdlc.errors import UsageError, raise_all
from xdlc.ir.files import checked_path
from xdlc.opdefs.source_match import Udo, UdoSet
from xdlc.options import spell

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from xdlc.opdefs.model import OpDef, TensorDef
    from xdlc.opdefs.op_view import OpView, TensorSpec
    from xdlc.runtime.udo import Kernels
    from xdlc.udo.plugin import Plugin

GROUP = "xdlc.plugins"
_METADATA = (".dist-info", ".egg-info", "EGG-INFO")
_log = logging.getLogger(__name__)
PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike] | None
NHWC = "NHWC"


@contextmanager
def load(
    *,
    udo_config_paths: Paths = None,
    op_package_config: Paths = None,
    package_name: str | None = None,
    converter_op_package_lib: Paths = None,
    plugin: Sequence[str | type[Plugin]] = (),
    no_plugins: bool = False,
    notify: Callable[[str], None] | None = None,
) -> Iterator[UdoSet]:
    """Open the UDOs that configurations and plugins define.

    Packages of one name are merged; a file that is named twice counts once.  A UDO is bound to the
    operator of its name, in any domain of the source model.

    Args:
        udo_config_paths: JSON UDO configurations or OpDef XML; a path or several.
        op_package_config: The same, under the name that QNN's converters use.
        package_name: Op package of all native operations, without ``op_package_config``.
        converter_op_package_lib: Registration libraries, or Python files with shape functions, which
            infer outputs; a path or several.
        plugin: Names of plugins: ``module:Class``, or ``path/to/file.py``; or their classes.
        no_plugins: Whether plugins of installed packages are ignored.
        notify: Called with each line that the user should read; default: the log.

    Raises:
        UsageError: If options exclude each other, or a plugin cannot be loaded or clashes with another.
        StorageError: If a file cannot be read.
        ModelError: If a configuration breaks a rule; a ProblemList of several problems.
    """
    if package_name is not None and op_package_config:
        raise UsageError(
            f"{spell('package_name')} and {spell('op_package_config')} exclude each other",
            fix="name the packages only in the configuration",
        )
    notify = notify or _log.warning
    paths = _distinct((*_listed(udo_config_paths), *_listed(op_package_config)))
    configured = _configured(paths, notify) if paths else UdoSet()
    plugged = _plugged(plugin, not no_plugins, notify)
    if configured == plugged == UdoSet() and converter_op_package_lib is None:
        yield UdoSet()
        return
    from xdlc.opdefs.collections import merge
    from xdlc.runtime.udo.sources import paths_of

    raise_all(_clashes(configured, plugged))
    ops = (*configured.ops, *plugged.ops)
    packages = [
        (name, package) for part in (configured, plugged) for name, package in part.collections.items()
    ]
    collections = merge([package for _, package in packages], [f"package {name!r}" for name, _ in packages])
    if not paths_of(converter_op_package_lib):
        yield UdoSet(ops, collections)
        return
    from xdlc.runtime.udo import Kernels

    with Kernels(converter_op_package_lib) as kernels:
        shapes = {
            (op.definition.package, op.definition.name): partial(_inferred, kernels, op.definition)
            for op in ops
        }
        yield UdoSet(ops, collections, shapes)
        for path in kernels.unused():
            notify(f"xdlc does not use {path}, because it infers the outputs of no op of the model")


def _inferred(kernels: Kernels, definition: OpDef, op: OpView) -> Sequence[TensorSpec] | None:
    return kernels.infer(op, definition)


def _clashes(configured: UdoSet, plugged: UdoSet) -> list[UsageError]:
    """Return an error for each UDO that a configuration and a plugin both define."""
    sources = {(op.definition.package, op.definition.name): op.source for op in configured.ops}
    keys = [(op.source, (op.definition.package, op.definition.name)) for op in plugged.ops]
    return [
        UsageError(
            f"{source} and {sources[key]} both define {'::'.join(key)}",
            fix="omit one definition; a plugin's config needs no option",
        )
        for source, key in keys
        if key in sources
    ]


def _plugged(
    names: Sequence[str | type[Plugin]], entry_points: bool, notify: Callable[[str], None]
) -> UdoSet:
    """Return the UDOs of plugins; without any, the plugin package is not imported."""
    if not names and not (entry_points and plugin_entries()):
        return UdoSet()
    from xdlc.udo.plugin.collection import plugin_set

    return plugin_set(names, entry_points, notify)


def _configured(paths: Sequence[PathLike], notify: Callable[[str], None]) -> UdoSet:
    """Return the UDOs that configurations define."""
    from xdlc.opdefs.collections import merge
    from xdlc.udo.config.reader import clashes, read_config

    configs = [read_config(path) for path in paths]
    raise_all(clashes(configs))
    for text in (text for config in configs for text in config.notices):
        notify(text)
    ops, packages = list[Udo](), []
    for config in configs:
        for p, collection in enumerate(config.collections):
            lines, definitions = config.op_lines(p), []
            for i, definition in enumerate(collection.opdefs):
                settled, notice = with_output_layouts(definition)
                if notice:
                    notify(f"{config.places[p, i]}: {notice}")
                definitions.append(settled)
                ops.append(Udo(settled, source=config.places[p, i], lines=lines[i]))
            packages.append(replace(collection, opdefs=tuple(definitions)))
    return UdoSet(tuple(ops), merge(packages))


def _listed(paths: Paths) -> tuple[PathLike, ...]:
    if paths is None:
        return ()
    return (paths,) if isinstance(paths, str | os.PathLike) else tuple(paths)


def _distinct(paths: Sequence[PathLike]) -> list[PathLike]:
    seen: set[Path] = set()
    distinct = []
    for path in paths:
        real = Path(os.path.realpath(checked_path(path)))
        if real not in seen:
            distinct.append(path)
        seen.add(real)
    return distinct


def with_output_layouts(op: OpDef) -> tuple[OpDef, str]:
    """Copy the layout of the inputs to outputs without one; return op and notice.

    The vendor's JSON template states layouts of inputs only, and a kernel that reads channels last writes
    them last.  An output in the order of the source model is of layout ``UNDEFINED``.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> from xdlc.opdefs.model import OpDef, TensorDef
        >>> x = TensorDef("x", True, (FLOAT32,), 4, layout="NHWC")
        >>> y = TensorDef("y", True, (FLOAT32,), 4)
        >>> made, notice = with_output_layouts(OpDef("Blur", "Filters", (x,), (y,), {}))
        >>> made.outputs[0].layout, notice
        ('NHWC', "op 'Blur': output 'y' has no layout: xdlc uses NHWC; UNDEFINED means the model's order")
    """
    fed = [entry for entry in op.inputs if not entry.is_static] or op.inputs
    taken = [entry.name for entry in op.outputs if _is_open(entry)]
    if not taken or {entry.layout for entry in fed if entry.rank in (None, 4)} != {NHWC}:
        return op, ""
    outputs = (replace(entry, layout=NHWC) if _is_open(entry) else entry for entry in op.outputs)
    which = f"output {taken[0]!r} has" if len(taken) == 1 else f"outputs {', '.join(map(repr, taken))} have"
    notice = f"op {op.name!r}: {which} no layout: xdlc uses {NHWC}; UNDEFINED means the model's order"
    return replace(op, outputs=tuple(outputs)), notice


def _is_open(entry: TensorDef) -> bool:
    return not entry.layout and entry.rank in (None, 4)


def plugin_entries() -> tuple[EntryPoint, ...]:
    """Return the entry points of plugins, in the order of their names.

    The search takes as long as converting a small model; it is repeated only if folders of
    ``sys.path`` change.
    """
    return _entries(tuple((folder, _changed(folder or ".")) for folder in sys.path))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except (OSError, ValueError):
        return 0


@functools.lru_cache(maxsize=1)
def _entries(_: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    if not any(map(_may_have_plugins, sys.path)):
        return ()
    from importlib.metadata import entry_points

    found = [entry for entry in entry_points(group=GROUP) if _is_installed(entry)]
    return tuple(sorted(found, key=lambda entry: (entry.name, entry.value)))


def _may_have_plugins(folder: str) -> bool:
    """Return whether a package of a folder names the group, or the place is no folder."""
    try:
        packages = [entry.path for entry in os.scandir(folder or ".") if entry.name.endswith(_METADATA)]
    except FileNotFoundError:
        return False
    except OSError:
        return True
    for package in packages:
        with suppress(OSError):
            if f"[{GROUP}]" in Path(package, "entry_points.txt").read_text("utf-8", "replace"):
                return True
    return False


def _is_installed(entry: EntryPoint) -> bool:
    """Return whether a package's folder is independent of the working directory."""
    return entry.dist is None or os.path.isabs(str(entry.dist.locate_file("")))
