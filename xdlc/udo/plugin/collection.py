"""UDOs of plugins, in the form for conversions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.opdefs.collections import merge
from xdlc.opdefs.source_match import UdoSet
from xdlc.options import spell
from xdlc.udo.plugin.base import Plugin, overrides
from xdlc.udo.plugin.discovery import checked_plugin, entry_plugins, named_plugins
from xdlc.udo.plugin.hooks import Notify, PluginHooks, mistyped, plugin_hooks

_log = logging.getLogger(__name__)


def plugin_set(
    names: Sequence[str | type[Plugin]], entry_points: bool = True, notify: Notify = None
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
    origins = {plugin: "" for name in names for plugin in _classes(name)}
    for plugin, origin in (entry_plugins() if entry_points else {}).items():
        origins.setdefault(plugin, origin)
    every, problems = list[PluginHooks](), list[XdlcError]()
    for plugin in origins:
        try:
            every.append(plugin_hooks(plugin, notify))
        except XdlcError as error:
            problems.append(error)
    raise_all([*problems, *_clashes(every)], where="plugins")
    every.sort(key=lambda hooks: not _is_choosy(hooks))
    ops = []
    for hooks in every:
        plugin, origin = type(hooks.plugin), origins[type(hooks.plugin)]
        if origin:
            ops.append(hooks.udo((f"xdlc uses plugin {plugin.__name__}: {origin}", *mistyped(plugin))))
            continue
        ops.append(hooks.udo())
        for text in mistyped(plugin):
            notify(text)
    by_name = sorted(every, key=_key)
    collections = merge(
        [hooks.declaration.collection for hooks in by_name], [hooks.udo().source for hooks in by_name]
    )
    return UdoSet(tuple(ops), collections)


def _classes(name: str | type[Plugin]) -> list[type[Plugin]]:
    return named_plugins(name) if isinstance(name, str) else [checked_plugin(name, "a plugin")]


def _is_choosy(hooks: PluginHooks) -> bool:
    return overrides(hooks.plugin, "accepts")


def _key(hooks: PluginHooks) -> tuple[str, str]:
    return hooks.declaration.definition.package, hooks.declaration.definition.name


def _clashes(every: Sequence[PluginHooks]) -> Iterator[UsageError]:
    for place, hooks in enumerate(every):
        for earlier in every[:place]:
            problem = _clash(earlier, hooks)
            if problem:
                yield UsageError(
                    f"{earlier.udo().source} and {hooks.udo().source} both {problem}",
                    where=hooks.place,
                    fix="omit one of the plugins (installed plugins with "
                    f"{spell('no_plugins', True)}), or give one an accepts hook and its own op",
                )


def _clash(first: PluginHooks, second: PluginHooks) -> str:
    if _key(first) == _key(second):
        return f"define {'::'.join(_key(first))}"
    if _is_choosy(first) or _is_choosy(second):
        return ""
    one, other = first.declaration, second.declaration
    types = sorted(set(one.types) & set(other.types))
    frameworks = sorted(set(one.frameworks) & set(other.frameworks))
    if types and frameworks and (one.domain == other.domain or None in (one.domain, other.domain)):
        return f"convert {types[0]} of {frameworks[0]}"
    return ""
