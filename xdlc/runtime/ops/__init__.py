"""Lowerings, one family of operations a module; each registers itself.

Unsigned integers of 64 bits are held as signed ones with the same bits, for onnxruntime has few kernels for
them.  Sums and products are the same bits either way; what depends on the order or the size is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdlc.ir import NATIVE_PACKAGE, Op, Tensor
from xdlc.registry import Registry

if TYPE_CHECKING:
    from xdlc.runtime.builder import Builder

Lowering = Callable[[Op, "Builder"], None]

_LOWERINGS: Registry[tuple[str, str], Lowering] = Registry("xdlc.runtime.ops", "lowering")
_INT64_MIN = -(1 << 63)


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


def is_uint64(*tensors: Tensor) -> bool:
    """Return whether all tensors are 64-bit unsigned integers."""
    return all(tensor.dtype.name == "uint64" for tensor in tensors)


def flip_sign_bit(b: Builder, value: str) -> str:
    """Return numbers with the order of unsigned ``value``; its own inverse."""
    return b.node("Add", [value, b.constant(_INT64_MIN, "int64")])


def divide_uint64(b: Builder, type: str, x: str, y: str) -> str:
    """Return an unsigned quotient (``Div``) or remainder (``Mod``)."""
    return b.cast(b.node(type, [b.cast(x, "uint64"), b.cast(y, "uint64")]), "int64")
