"""Static reals as fixed-point tensors, where that is exact."""

from __future__ import annotations

import math
from typing import TypeAlias

from xdlc import ir
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, Encoding, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32, DType
from xdlc.passes._expansion import expansion

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
    encoding: Encoding | None = data.encoding
    if isinstance(encoding, BlockScaleOffset):
        encoding = _in_blocks(tensor, encoding, axis)
    if encoding is None or (isinstance(encoding, AxisScaleOffset) and encoding.axis != axis):
        return None
    return Tensor(tensor.name, tensor.shape, data.fixed, encoding, data.stored, Role.STATIC)


def _in_blocks(tensor: Tensor, encoding: BlockScaleOffset, axis: int | None) -> Encoding | None:
    """Return how HTP has 4-bit weights with scales per block along the channels in.

    Up to architecture v79 it takes blockwise expansion only (emulation of SDK 2.51).
    """
    if axis not in (0, 3) or tensor.rank != (4 if axis else 2) or encoding.bits != 4:
        return None
    return expansion(encoding, tensor.shape, axis, 2 if axis else 1)


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
