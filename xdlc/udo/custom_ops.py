"""From what a user names on the command line to the operations that a conversion knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xdlc import opdefs
from xdlc.errors import UsageError, raise_all
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import ShapeFunction, UdoSet
from xdlc.runtime.udo.sources import paths_of
from xdlc.udo.configured_ops import Paths, configured_ops
from xdlc.udo.entries import plugin_entries

if TYPE_CHECKING:
    from xdlc.runtime.udo import Kernels
    from xdlc.udo.plugin import Plugin

_log = logging.getLogger(__name__)


@contextmanager
def custom_ops(
    *,
    udo_config_paths: Paths = None,
    op_package_config: Paths = None,
    package_name: str | None = None,
    converter_op_package_lib: Paths = None,
    plugin: Sequence[str | type[Plugin]] = (),
    no_plugins: bool = False,
    notify: Callable[[str], None] | None = None,
) -> Iterator[UdoSet]:
    """Return the operations that configurations and plugins define, while the context is open.

    Args:
        udo_config_paths: JSON UDO configurations or OpDef XML; a path or several.
        op_package_config: The same, under the name that QNN's converters use.
        package_name: Op package of all native operations, which goes without ``op_package_config``.
        converter_op_package_lib: Registration libraries, or Python files with shape functions, that tell what
            ops give; a path or several.
        plugin: Names of plugins: ``module:Class``, or ``path/to/file.py``; or their classes.
        no_plugins: Whether plugins of installed packages are left out.
        notify: Called with each line that the user should read; default: the log.

    Raises:
        UsageError: If options exclude each other, or a plugin cannot be loaded or clashes with another.
        XdlcError: If a configuration cannot be read.
    """
    if package_name is not None and op_package_config:
        raise UsageError(
            "package_name and op_package_config exclude each other",
            fix="name the packages in the configuration alone",
        )
    configured = configured_ops(udo_config_paths, op_package_config, notify)
    plugged = _plugged(plugin, not no_plugins, notify)
    raise_all(_clashes(configured, plugged))
    ops = (*configured.ops, *plugged.ops)
    packages = [
        (name, package) for part in (configured, plugged) for name, package in part.collections.items()
    ]
    collections = opdefs.merge(
        [package for _, package in packages], [f"package {name!r}" for name, _ in packages]
    )
    if not paths_of(converter_op_package_lib):
        yield UdoSet(ops, collections)
        return
    from xdlc.runtime.udo import Kernels

    with Kernels(converter_op_package_lib) as kernels:
        shapes = {
            (op.definition.package, op.definition.name): _shape_function(kernels, op.definition) for op in ops
        }
        yield UdoSet(ops, collections, shapes)
        for path in kernels.unused():
            (notify or _log.warning)(f"{path} told of no op of the model what it gives")


def _clashes(configured: UdoSet, plugged: UdoSet) -> list[UsageError]:
    """Return the errors of ops that a configuration and a plugin both define."""
    told = {(op.definition.package, op.definition.name): op.source for op in configured.ops}
    both = [
        (op.source, key) for op in plugged.ops if (key := (op.definition.package, op.definition.name)) in told
    ]
    return [
        UsageError(
            f"{source} and {told[key]} both define {'::'.join(key)}",
            fix="leave one of them out; what a plugin names as its config is read without being given",
        )
        for source, key in both
    ]


def _shape_function(kernels: Kernels, definition: OpDef) -> ShapeFunction:
    def infer(op: OpView) -> Sequence[TensorSpec] | None:
        return kernels.infer(op, definition)

    return infer


def _plugged(
    names: Sequence[str | type[Plugin]], entry_points: bool, notify: Callable[[str], None] | None
) -> UdoSet:
    """Return the ops of plugins; without any, plugins are not even imported."""
    if not names and not (entry_points and plugin_entries()):
        return UdoSet()
    from xdlc.udo.plugin import plugin_ops

    return plugin_ops(names, entry_points, notify)
