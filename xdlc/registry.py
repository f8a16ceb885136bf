"""Registries: tables that the modules of a package fill when imported."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Held = TypeVar("Held")


class Registry(Generic[Key, Held]):
    """A table of what a package's modules register, imported at first use.

    Args:
        package: The package, like ``xdlc.runtime.ops``; every module directly in it is imported.
        what: Kind of the entries, for messages, like ``lowering``.
    """

    def __init__(self, package: str, what: str) -> None:
        self._package = package
        self._what = what
        self._held: dict[Key, Held] = {}

    def add(self, key: Key, held: Held) -> None:
        """Register an entry under a key.

        Raises:
            ValueError: If something else is registered under it.
        """
        if self._held.setdefault(key, held) is not held:
            name = ".".join(map(str, key)) if isinstance(key, tuple) else key
            raise ValueError(f"there is a {self._what} of {name} already")

    def register(self, *keys: Key) -> Callable[[Held], Held]:
        """Return a decorator that registers a function under some keys.

        Raises:
            ValueError: If another is registered under one of them; by the decorator.
        """

        def decorate(held: Held) -> Held:
            for key in keys:
                self.add(key, held)
            return held

        return decorate

    def all(self) -> Mapping[Key, Held]:
        """Return all registered objects by key."""
        import_modules(self._package)
        return MappingProxyType(self._held)

    def find(self, key: Key) -> Held | None:
        """Return the object registered for a key, or None."""
        return self.all().get(key)


@cache
def import_modules(package: str) -> None:
    """Import every module of a package.

    Several threads may call it at once: none goes on before all modules are there.

    Args:
        package: Name of the package, like ``xdlc.runtime.ops``.
    """
    for name in module_names(package):
        importlib.import_module(f"{package}.{name}")


@cache
def module_names(package: str) -> tuple[str, ...]:
    """Return the sorted names of a package's modules, without importing them."""
    top, *inner = package.split(".")
    places = [os.path.join(place, *inner) for place in importlib.import_module(top).__path__]
    names = (module.name for module in pkgutil.iter_modules(places))
    return tuple(sorted(name for name in names if not name.startswith("_")))
