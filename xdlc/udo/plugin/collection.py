"""UDOs of plugins, in the form for conversions."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from xdlc import opdefs
from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.opdefs.model import Collection
from xdlc.opdefs.source_match import Udo, UdoSet
from xdlc.options import spell
from xdlc.udo.plugin.base import Plugin, overrides
from xdlc.udo.plugin.declaration import declare
from xdlc.udo.plugin.discovery import checked_plugin, entry_plugins, named_plugins, place_of
from xdlc.udo.plugin.formats import QUANTIZED
from xdlc.udo.plugin.hooks import PluginHooks
from xdlc.udo.plugin.user_code import user_code

_log = logging.getLogger(__name__)


def plugin_ops(
    names: Sequence[str | type[Plugin]],
    entry_points: bool = True,
    notify: Callable[[str], None] | None = None,
) -> UdoSet:
    """Return the ops of plugins.

    Plugins that take some nodes only (they have an ``accepts`` of their own) go before those that
    take all, in the order of their names.

    Args:
        names: Names of plugins: ``module:Class``, ``path/to/file.py:Class`` or ``path/to/file.py``; or their
            classes.
        entry_points: Whether those of installed packages, entry point group ``xdlc.plugins``, are used too.
        notify: Called with each line that the user should read; default: the log.

    Raises:
        UsageError: If a plugin cannot be found or loaded, is not complete, or two clash.
        StorageError: If a file cannot be read.
    """
    notify = notify or _log.warning
    if isinstance(names, str):
        raise UsageError(f"plugins are the string {names!r}", fix=f"give a list: [{names!r}]")
    classes = {plugin: "" for name in names for plugin in _classes(name)}
    for plugin, origin in (entry_plugins() if entry_points else {}).items():
        classes.setdefault(plugin, origin)
    ops, problems = [], []
    for plugin, origin in classes.items():
        try:
            ops.append(plugin_op(plugin, notify, origin))
        except XdlcError as error:
            problems.append(error)
    raise_all([*problems, *_clashes(ops)], where="plugins")
    ops.sort(key=lambda op: not _is_choosy(op))
    return UdoSet(tuple(ops), _collections(ops))


def _classes(name: str | type[Plugin]) -> list[type[Plugin]]:
    return named_plugins(name) if isinstance(name, str) else [checked_plugin(name, "a plugin")]


def plugin_op(plugin: type[Plugin], notify: Callable[[str], None] | None = None, origin: str = "") -> Udo:
    """Return the op of a plugin.

    Args:
        notify: Called with each line that the user should read, warnings of the compiler among them.
        origin: The entry point of an installed plugin that the user has not named.

    Raises:
        UsageError: If the plugin cannot be made, or is not complete.
    """
    op, hooks = plugin_hooks(plugin, notify)
    notes = [*_dropped(plugin, hooks)] + [
        f"plugin {plugin.__name__} has {name!r}, which xdlc ignores: did you mean {meant!r}?"
        for name, meant in _mistyped(plugin)
    ]
    if origin:
        return replace(op, installed=(f"xdlc uses plugin {plugin.__name__}: {origin}", *notes))
    if notify is not None:
        for text in notes:
            notify(text)
    return op


def plugin_hooks(
    plugin: type[Plugin], notify: Callable[[str], None] | None = None
) -> tuple[Udo, PluginHooks]:
    """Return the op of a plugin, and its hooks."""
    place = place_of(plugin)
    with user_code(plugin.__name__, "__init__", place):
        made = plugin()
    with user_code(plugin.__name__, "declaration", place):
        declaration = declare(made, place.rpartition(":")[0])
    hooks = PluginHooks(made, declaration, place, notify)
    line = f"{Path(place.rpartition(':')[0]).name}:{place.rpartition(':')[2]}"
    op = Udo(
        declaration.definition,
        declaration.types,
        declaration.frameworks,
        declaration.domain,
        hooks,
        f"plugin {plugin.__name__} ({line})",
    )
    return op, hooks


def _mistyped(found: type[Plugin]) -> Iterator[tuple[str, str]]:
    """Yield unknown names, each with the hook or attribute that it resembles."""
    known = [name for name in dir(Plugin) if not name.startswith("_")] + ["compute"]
    for name in dir(found):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if near and name not in known and not name.startswith("_"):
            yield name, near[0]


def _dropped(plugin: type[Plugin], hooks: PluginHooks) -> Iterator[str]:
    """Yield declarations of a plugin that have no effect in xdlc."""
    formats = plugin.weight_formats
    weights = sum(tensor.is_static for tensor in hooks.declaration.definition.inputs)
    if not isinstance(formats, dict) and weights and len(formats) == weights + len(QUANTIZED):
        yield (
            f"plugin {plugin.__name__}: xdlc ignores the last {len(QUANTIZED)} of "
            f"{len(formats)} weight_formats: they are for constants of quantization, which xdlc stores as "
            "encodings"
        )


def _is_choosy(op: Udo) -> bool:
    return isinstance(op.hooks, PluginHooks) and overrides(op.hooks.plugin, "accepts")


def _clashes(ops: Sequence[Udo]) -> list[UsageError]:
    problems = []
    for place, op in enumerate(ops):
        for earlier in ops[:place]:
            problem = _clash(earlier, op)
            if problem:
                assert isinstance(op.hooks, PluginHooks)
                problems.append(
                    UsageError(
                        problem,
                        where=op.hooks.place,
                        fix="omit one of the plugins (installed plugins with "
                        f"{spell('no_plugins', True)}), or give one an accepts hook and its own op",
                    )
                )
    return problems


def _clash(first: Udo, second: Udo) -> str:
    sources = f"{first.source} and {second.source}"
    if (first.definition.package, first.definition.name) == (
        second.definition.package,
        second.definition.name,
    ):
        return f"{sources} both define {first.definition.package}::{first.definition.name}"
    if _is_choosy(first) or _is_choosy(second):
        return ""
    types = sorted(set(first.source_types) & set(second.source_types))
    frameworks = sorted(set(first.frameworks) & set(second.frameworks))
    if types and frameworks and (first.domain == second.domain or None in (first.domain, second.domain)):
        return f"{sources} both convert {types[0]} of {frameworks[0]}"
    return ""


def _collections(ops: Sequence[Udo]) -> dict[str, Collection]:
    ordered = sorted(ops, key=lambda op: (op.definition.package, op.definition.name))
    packages = [op.hooks.declaration.collection for op in ordered if isinstance(op.hooks, PluginHooks)]
    return opdefs.merge(packages, [op.source for op in ordered])
