"""Which function lowers which op; every module of :mod:`xdlc.runtime.ops` registers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdlc.ir import NATIVE_PACKAGE, Op
from xdlc.registry import Registry

if TYPE_CHECKING:
    from xdlc.runtime.builder import Builder

Lowering = Callable[[Op, "Builder"], None]

_LOWERINGS: Registry[tuple[str, str], Lowering] = Registry("xdlc.runtime.ops", "lowering")


def lowering(*types: str, package: str = NATIVE_PACKAGE) -> Callable[[Lowering], Lowering]:
    """Register a function that lowers the named op types of a package.

    The function reads the op's inputs and writes all of its outputs through the builder; it keeps
    no state.

    Raises:
        ValueError: If an op type is registered twice.
    """
    return _LOWERINGS.register(*((package, name) for name in types))


def find(op: Op) -> Lowering | None:
    """Return the function that lowers ``op``, or None."""
    return _LOWERINGS.find((op.package, op.type))


def known_types() -> tuple[tuple[str, str], ...]:
    """Return the (package, type) pairs that can be lowered, sorted."""
    return tuple(sorted(_LOWERINGS.all()))
