"""Plugins that the user names, and plugins of installed packages."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from xdlc.errors import UsageError, XdlcError, nearest_names
from xdlc.ir.files import read_bytes
from xdlc.options import spell
from xdlc.runtime.udo.python import on_path
from xdlc.udo.load import plugin_entries
from xdlc.udo.plugin.base import Plugin
from xdlc.udo.plugin.user_code import user_code

MAX_FILE = 8 << 20


def named_plugins(name: str) -> list[type[Plugin]]:
    """Return the plugins of a name.

    Args:
        name: ``module:Class``, ``path/to/file.py:Class``, or ``path/to/file.py`` for all that it defines.

    Raises:
        UsageError: If there is no such module or class, or it is no plugin.
        StorageError: If the file cannot be read.
    """
    place, _, attribute = name.rpartition(":")
    if name.endswith(".py") or not place:
        place, attribute = name, ""
    if place.endswith(".py"):
        module = _load_file(Path(place))
    elif attribute:
        module = _import(place, name)
    else:
        raise UsageError(
            f"{name!r} names no plugin", fix="name a plugin like module:Class or path/to/file.py:Class"
        )
    if not attribute:
        return _all(module, name)
    if not hasattr(module, attribute):
        near = nearest_names(attribute, [plugin.__name__ for plugin in _defined(module)])
        raise UsageError(f"there is no {attribute!r} in {place}", fix=near or None)
    return [checked_plugin(getattr(module, attribute), name)]


def entry_plugins() -> dict[type[Plugin], str]:
    """Return the plugins of installed packages by name, with their entry points.

    Raises:
        UsageError: If one cannot be loaded, or is not a plugin.
    """
    plugins: dict[type[Plugin], str] = {}
    for entry in plugin_entries():
        owner = f" of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
        origin = f"entry point {entry.name!r}{owner}"
        try:
            with user_code(entry.name, "import", _origin(entry.module), origin):
                loaded = entry.load()
            plugins.setdefault(checked_plugin(loaded, origin), origin)
        except XdlcError as error:
            error.fix = f"correct the plugin, or ignore all plugins with {spell('no_plugins', True)}"
            raise
    return plugins


def _origin(module: str) -> str:
    """Return the file of a module's outermost package, or an empty text."""
    head = module.partition(".")[0]
    spec = importlib.util.find_spec(head) if head else None
    return f"{spec.origin}:1" if spec is not None and spec.origin else ""


def _load_file(path: Path) -> ModuleType:
    """Return the module of a Python file; no cache file is written.

    Its folder can be imported from meanwhile, after all other folders.

    Raises:
        StorageError: If the file cannot be read.
        UsageError: If it cannot be imported.
    """
    source = read_bytes(path, MAX_FILE)
    if len(source) > MAX_FILE:
        raise UsageError(f"is larger than {MAX_FILE >> 20} MiB", where=str(path), fix="name a plugin's file")
    whole = path.resolve()
    digest = hashlib.sha256(str(whole).encode() + source).hexdigest()[:16]
    name = f"xdlc_plugin_{whole.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(whole)
    sys.modules[name] = module
    try:
        with user_code(path.name, "import", f"{path}:1"), _importable(str(whole.parent)):
            exec(compile(source, str(whole), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with on_path(folder):
            yield
    finally:
        sys.dont_write_bytecode = written


def _import(module: str, name: str) -> ModuleType:
    with user_code(name, "import", _origin(module)):
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            raise UsageError(
                f"there is no module {module!r}",
                fix="install the module, or name a file: path/to/file.py:Class",
            )
        return importlib.import_module(module)


def _all(module: ModuleType, name: str) -> list[type[Plugin]]:
    found = _defined(module)
    if not found:
        raise UsageError("the file defines no plugin", where=name, fix="derive a class from xdlc.udo.Plugin")
    return found


def _defined(module: ModuleType) -> list[type[Plugin]]:
    """Return the plugins of a module in its order; bases have no operator."""
    plugins = dict.fromkeys(value for value in vars(module).values() if _is_plugin(value))
    return [value for value in plugins if value.op_type and value.__module__ == module.__name__]


def _is_plugin(value: Any) -> bool:
    """Return whether a value is a plugin's class."""
    return isinstance(value, type) and issubclass(value, Plugin) and value is not Plugin


def checked_plugin(value: Any, name: str) -> type[Plugin]:
    """Return a plugin's class.

    Raises:
        UsageError: If it is something else.
    """
    if not _is_plugin(value):
        raise UsageError(
            f"{name} is {_title(value)}, not a plugin",
            fix="name a class that is derived from xdlc.udo.Plugin or decorated with xdlc.udo.plugin",
        )
    plugin: type[Plugin] = value
    return plugin


def _title(value: Any) -> str:
    return f"the {type(value).__name__} {getattr(value, '__name__', None) or repr(value)[:60]}"


def place_of(plugin: type[Plugin]) -> str:
    """Return file and line of a plugin's class, or else its module."""
    try:
        file = inspect.getsourcefile(plugin) or ""
        return f"{file}:{inspect.getsourcelines(plugin)[1]}"
    except (OSError, TypeError):
        hooks = (value for value in vars(plugin).values() if callable(getattr(value, "__func__", value)))
        codes = [getattr(getattr(value, "__func__", value), "__code__", None) for value in hooks]
        known = [f"{code.co_filename}:{code.co_firstlineno}" for code in codes if code is not None]
        return known[0] if known else plugin.__module__
