"""Static reals as fixed-point tensors, where that is exact."""

from __future__ import annotations

import math
from typing import TypeAlias

from xdlc import ir
from xdlc.ir import Encoding, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32, DType

Form: TypeAlias = tuple[DType, Encoding]
_LARGEST_CONSTANT = 1 << 10  # elements of a constant that is looked at


def stored_form(tensor: Tensor, like: DType | None = None) -> Tensor | None:
    """Return a new fixed-point tensor of the same static reals, or None if they have no such form.

    Reals that the source stores as integers keep them.  Of other constants, one number for all elements
    has a form too: a step of its own size.

    Args:
        tensor: Any tensor.
        like: Type for the constant of one number; None: such constants have no form.
    """
    data = tensor.data
    if isinstance(data, ir.Dequantized):
        return Tensor(tensor.name, tensor.shape, data.fixed, data.encoding, data.stored, Role.STATIC)
    if (
        data is None
        or like is None
        or tensor.dtype is not FLOAT32
        or not 0 < tensor.size <= _LARGEST_CONSTANT
    ):
        return None
    array = data.numpy()
    number = float(array.reshape(-1)[0])
    if not math.isfinite(number) or not (array == number).all():
        return None
    return _constant(tensor, number, like)


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
