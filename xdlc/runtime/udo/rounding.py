"""Reals as integers of fixed point, for kernels whose definitions take static data as nothing else.

Before a model is quantized its static data are floats; a library that was built for integers runs all the
same, on what one scale for the tensor makes of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.ir import ArrayData, ScaleOffset, Tensor, packed
from xdlc.ir.dtype import PLAIN, SFIXED4, SFIXED8, SFIXED16, UFIXED4, UFIXED8, UFIXED16, DType
from xdlc.ir.quantization import float_data

_TYPES = (SFIXED16, UFIXED16, SFIXED8, UFIXED8, SFIXED4, UFIXED4)
"""The most exact first."""


def rounded(tensor: Tensor, allowed: Sequence[DType]) -> Tensor | None:
    """Return static reals as integers under one scale, or None if a place takes floats, or no such integers.

    Args:
        tensor: Floats, or integers whose form the place does not take.
        allowed: Types that the place takes.
    """
    import numpy

    dtype = next((one for one in _TYPES if {one, PLAIN.get(one)} & set(allowed)), None)
    if dtype is None or any(one.is_float for one in allowed):
        return None
    reals = float_data(tensor).numpy().reshape(tensor.shape).astype(numpy.float64)
    low, high = (float(numpy.append(reals, 0.0).min()), float(numpy.append(reals, 0.0).max()))
    if not (numpy.isfinite(low) and numpy.isfinite(high)):
        return None
    least, most = dtype.limits
    width = max(-low, high) / most if dtype.is_signed else (high - low) / most
    scale = float(numpy.float32(width)) or 1.0
    offset = 0 if dtype.is_signed else round(low / scale)
    steps = numpy.clip(numpy.rint(reals / scale) - offset, least, most)
    element = numpy.dtype(f"{'i' if dtype.is_signed else 'u'}{max(dtype.bits, 8) // 8}")
    held = ArrayData(steps.astype(element))
    data = packed(held) if dtype.bits == 4 else held
    return Tensor(tensor.name, tensor.shape, dtype, ScaleOffset(scale, offset), data, tensor.role)
