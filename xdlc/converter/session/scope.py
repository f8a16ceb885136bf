"""Values by the names that the graphs of the source have for them."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.values import AnyValue, Value


class Unsettled(Exception):
    """A value cannot be had, because of a problem that has been reported already."""


class Scope(dict[str, AnyValue]):
    """Values by the names that a graph has for them; others are looked for in the scope around it.

    Args:
        outer: The scope around it.
        capture: Makes a value of the outer scope one of this graph; default: it is that already.
    """

    def __init__(
        self, outer: Scope | None = None, capture: Callable[[str, AnyValue], AnyValue] | None = None
    ):
        super().__init__()
        self._outer = outer
        self._capture = capture

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (self._outer is not None and name in self._outer)

    def __missing__(self, name: str) -> AnyValue:
        if self._outer is None:
            raise KeyError(name)
        value = self._outer[name]
        if self._capture is not None:
            value = self[name] = self._capture(name, value)
        return value

    def tensor(self, name: str) -> Value:
        """Return a value that is a tensor.

        Raises:
            TypeError: If it is a sequence or an optional.
        """
        value = self[name]
        if not isinstance(value, Value):
            raise TypeError(f"{name!r} is no tensor")
        return value
