"""The product of two 16-bit activations as HTP computes it; the formula is that of ``u16``."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.ir import ScaleOffset, Tensor
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic.products import clipped
from xdlc.runtime.htp_arithmetic.u16 import bytes_of

_MIDDLE = 32768
_LARGEST = 0x7F7F
"""The largest number whose two signed bytes hold it."""


def is_centred(tensor: Tensor) -> bool:
    """Return whether a 16-bit activation has the zero in the middle, as HTP wants the second factor."""
    return (
        isinstance(tensor.encoding, ScaleOffset) and tensor.encoding.offset == -_MIDDLE and tensor.rank >= 2
    )


def write_wide(
    b: Builder, first: Tensor, second: Tensor, target: Tensor, orders: Sequence[tuple[int, ...]]
) -> None:
    """Write the product of two activations.

    Args:
        b: The builder.
        first: The first factor.
        second: The second factor, the zero in the middle.
        target: The product.
        orders: Axis orders in which the factors are multiplied.
    """
    import numpy as np

    entry, other, result = first.encoding, second.encoding, target.encoding
    if not (
        isinstance(entry, ScaleOffset) and isinstance(other, ScaleOffset) and isinstance(result, ScaleOffset)
    ):
        raise ValueError(f"{target.name!r} has no encoding")
    high, low = bytes_of(b, b.cast(b.read_stored_as(first, orders[0]), np.int32))
    stored = b.cast(b.read_stored_as(second, orders[1]), np.int32)
    whole = b.node("Sub", [stored, b.constant(_MIDDLE, np.int32)])
    whole = b.node("Min", [whole, b.constant(_LARGEST, np.int32)])
    # Signed bytes: the high one is that of the number plus 128.
    raised = b.node("Add", [whole, b.constant(_MIDDLE + 128, np.int32)])
    upper = b.node("Sub", [b.node("Div", [raised, b.constant(256, np.int32)]), b.constant(128, np.int32)])
    lower = b.node("Sub", [whole, b.node("Mul", [upper, b.constant(256, np.int32)])])
    upper, lower = b.cast(upper, np.int8), b.cast(lower, np.int8)

    def product(left: str, right: str) -> str:
        return b.cast(b.node("MatMulInteger", [left, right]), np.float64)

    # In float64 all of this is exact.
    crossed = b.node("Add", [product(high, lower), product(low, upper)])
    part = b.node("Add", [_times(b, crossed, 1 / 256), _times(b, product(low, lower), 1 / 65536)])
    total = b.node("Add", [product(high, upper), b.node("Floor", [part])])
    if entry.offset:
        axes = b.ints(-2)
        sums = b.node("ReduceSum", [b.cast(whole, np.float64), axes], keepdims=1)
        shift = b.node("Sub", [_times(b, sums, entry.offset / 65536), b.constant(np.float64(0.5))])
        total = b.node("Add", [total, b.node("Ceil", [shift])])
    steps = _times(b, total, 65536.0 * entry.scale * other.scale / result.scale)
    placed = b.node("Add", [b.node("Round", [steps]), b.constant(np.float64(-result.offset))])
    b.write_stored(target, clipped(b, placed, np.float64, np.uint16), tuple(range(target.rank)))


def _times(b: Builder, value: str, factor: float) -> str:
    import numpy as np

    return b.node("Mul", [value, b.constant(np.float64(factor))])
