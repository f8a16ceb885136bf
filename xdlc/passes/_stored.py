"""Static reals as fixed-point tensors, where that is exact."""

from __future__ import annotations

import math
from typing import TypeAlias

from xdlc import ir
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, Encoding, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32, DType

Form: TypeAlias = tuple[DType, Encoding]
_LARGEST_CONSTANT = 1 << 10  # elements of a constant that is looked at


def stored_weight(tensor: Tensor, axis: int | None) -> Tensor | None:
    """Return static reals that the source stores as integers as a new fixed-point tensor, or None.

    Args:
        tensor: Any tensor.
        axis: The axis that may have a scale for each index; None: one scale only.
    """
    data = tensor.data
    if not isinstance(data, ir.Dequantized):
        return None
    if isinstance(data.encoding, BlockScaleOffset):
        return None
    if isinstance(data.encoding, AxisScaleOffset) and data.encoding.axis != axis:
        return None
    return Tensor(tensor.name, tensor.shape, data.fixed, data.encoding, data.stored, Role.STATIC)


def stored_constant(tensor: Tensor, like: DType) -> Tensor | None:
    """Return a static operand as a new fixed-point tensor of a type, or None if none holds it exactly.

    Reals that the source stores as integers of that width keep them.  Of others, one number for all
    elements has a form too: a step of its own size.

    Args:
        tensor: Any tensor.
        like: Type of the operands beside it.
    """
    stored = stored_weight(tensor, None)
    if stored is not None:
        return _retyped(stored, like)
    data = tensor.data
    if data is None or tensor.dtype is not FLOAT32 or not 0 < tensor.size <= _LARGEST_CONSTANT:
        return None
    array = data.numpy()
    number = float(array.reshape(-1)[0])
    if not math.isfinite(number) or not (array == number).all():
        return None
    return _constant(tensor, number, like)


def _retyped(stored: Tensor, dtype: DType) -> Tensor | None:
    """Return static integers of one scale in a type of the same width but maybe another sign."""
    import numpy

    encoding, data = stored.encoding, stored.data
    if stored.dtype is dtype:
        return stored
    if stored.dtype.bits != dtype.bits or not isinstance(encoding, ScaleOffset) or data is None:
        return None
    if encoding.bits is not None or dtype.bits > 16:
        return None
    shift = dtype.limits[0] - stored.dtype.limits[0]
    moved = data.transform(
        lambda array: (array.astype(numpy.int32) + shift).astype(dtype.numpy), dtype=dtype.numpy
    )
    return Tensor(
        stored.name,
        stored.shape,
        dtype,
        ScaleOffset(encoding.scale, encoding.offset - shift),
        moved,
        Role.STATIC,
    )


def _constant(tensor: Tensor, number: float, dtype: DType) -> Tensor | None:
    import numpy

    scale, step = (abs(number), int(math.copysign(1, number))) if number else (1.0, 0)
    if scale < float(numpy.finfo(numpy.float32).tiny) or dtype.bits > 16:
        return None
    offset = -1 if step < 0 and not dtype.is_signed else 0
    stored = numpy.full(tensor.shape, step - offset, dtype.numpy)
    return Tensor(
        tensor.name, tensor.shape, dtype, ScaleOffset(scale, offset), ir.ArrayData(stored), Role.STATIC
    )
