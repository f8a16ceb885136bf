"""A table that the modules of a package fill: what each registers under names of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from xdlc.discovery import import_modules

Key = TypeVar("Key", bound=Hashable)
Held = TypeVar("Held")


class Registry(Generic[Key, Held]):
    """What the modules of a package register; they are imported when it is first read.

    Args:
        package: The package, like ``xdlc.runtime.ops``; every module directly in it is imported.
        what: What is registered under a key, for messages, like ``lowering``.
    """

    def __init__(self, package: str, what: str) -> None:
        self._package = package
        self._what = what
        self._held: dict[Key, Held] = {}

    def add(self, key: Key, held: Held) -> None:
        """Register something under a key.

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
        """Return everything that is registered, by key."""
        import_modules(self._package)
        return MappingProxyType(self._held)

    def find(self, key: Key) -> Held | None:
        """Return what is registered under a key, or None."""
        return self.all().get(key)
