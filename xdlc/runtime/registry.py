"""Which function lowers which op; every module of :mod:`xdlc.runtime.ops` registers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdlc.discovery import import_modules
from xdlc.ir import NATIVE_PACKAGE, Op

if TYPE_CHECKING:
    from xdlc.runtime.builder import Builder

Lowering = Callable[[Op, "Builder"], None]

_lowerings: dict[tuple[str, str], Lowering] = {}


def lowering(*types: str, package: str = NATIVE_PACKAGE) -> Callable[[Lowering], Lowering]:
    """Register a function that lowers the named op types of a package.

    The function reads the op's inputs and writes all of its outputs through the builder; it keeps
    no state.

    Raises:
        ValueError: If an op type is registered twice.
    """

    def register(function: Lowering) -> Lowering:
        for name in types:
            if _lowerings.setdefault((package, name), function) is not function:
                raise ValueError(f"{package}.{name} is lowered twice")
        return function

    return register


def _load() -> None:
    import_modules("xdlc.runtime.ops")


def find(op: Op) -> Lowering | None:
    """Return the function that lowers ``op``, or None."""
    _load()
    return _lowerings.get((op.package, op.type))


def known_types() -> tuple[tuple[str, str], ...]:
    """Return the (package, type) pairs that can be lowered, sorted."""
    _load()
    return tuple(sorted(_lowerings))
