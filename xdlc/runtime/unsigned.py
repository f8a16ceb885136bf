"""Unsigned integers of 64 bits, whose bits are held as signed ones: onnxruntime has few kernels for them.

Sums and products are the same bits either way; what depends on the order or the size is not.
"""

from __future__ import annotations

from xdlc.ir import Tensor
from xdlc.runtime.builder import Builder

_LEAST = -(1 << 63)


def is_wide(*tensors: Tensor) -> bool:
    """Return whether all tensors hold unsigned integers of 64 bits."""
    return all(tensor.dtype.name == "uint64" for tensor in tensors)


def turned(b: Builder, value: str) -> str:
    """Return numbers whose signed order is the unsigned order of ``value``; twice turned is back."""
    return b.node("Add", [value, b.constant(_LEAST, "int64")])


def divided(b: Builder, type: str, x: str, y: str) -> str:
    """Return an unsigned quotient (``Div``) or remainder (``Mod``)."""
    return b.cast(b.node(type, [b.cast(x, "uint64"), b.cast(y, "uint64")]), "int64")
