"""Which data type an operand takes on, where a definition does not allow the one that it has."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.ir import DType
from xdlc.ir.data import Array
from xdlc.ir.dtype import (
    BFLOAT16,
    BOOL8,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)

# A type of the source, and the narrower one that stands for it in a DLC.
_NARROWER = {
    INT64: (INT32,),
    UINT64: (UINT32,),
    FLOAT64: (FLOAT32, FLOAT16),
    FLOAT32: (FLOAT16,),
    BFLOAT16: (FLOAT32, FLOAT16),
}


def stands_for_reals(allowed: Sequence[DType]) -> bool:
    """Return whether types can only mean reals that a quantizer is going to store in fixed point.

    SNPE's configurations write UINT_8 and UINT_16 for quantized activations.
    """
    return bool(allowed) and all(dtype.is_fixed or dtype in (UINT8, UINT16) for dtype in allowed)


def is_allowed(dtype: DType, allowed: Sequence[DType]) -> bool:
    """Return whether a definition takes a type as it is."""
    return not allowed or dtype in allowed or (dtype is FLOAT32 and stands_for_reals(allowed))


def converted(dtype: DType, allowed: Sequence[DType], array: Array | None = None) -> DType | None:
    """Return the type among those allowed into which a type is converted, or None if none suits.

    One that holds all its values comes first; then the usual narrower one.  Known integers go into any
    integer type that holds them.

    Args:
        dtype: Type of the operand, which is not allowed.
        allowed: Types of the definition.
        array: The elements, if they are known.

    Example:
        >>> converted(INT64, [FLOAT32, INT32]), converted(BOOL8, [UINT8]), converted(FLOAT32, [INT32])
        (int32, uint8, None)
    """
    found = next((wider for wider in allowed if _widens(dtype, wider)), None)
    if found is not None:
        return found
    if array is not None and dtype.is_integer:
        return next((to for to in allowed if to.is_integer and _holds(to, array)), None)
    return next((to for to in _NARROWER.get(dtype, ()) if to in allowed), None)


def _widens(dtype: DType, wider: DType) -> bool:
    if dtype.is_float:
        return wider.is_float and wider.bits > dtype.bits
    if not wider.is_integer or not (dtype.is_integer or dtype is BOOL8):
        return False
    (low, high), (least, most) = (0, 1) if dtype is BOOL8 else dtype.limits, wider.limits
    return least <= low and high <= most


def _holds(dtype: DType, array: Array) -> bool:
    low, high = dtype.limits
    return not array.size or (low <= int(array.min()) and int(array.max()) <= high)
