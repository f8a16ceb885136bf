"""Windows of pools and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.passes._writing import Writer

LONGEST = 8
"""The longest kernel that HTP does not divide."""


def pool_max(
    w: Writer, x: Tensor, shape: Sequence[int], kernel: Array, stride: Array, pads: Array, rounding: int = 0
) -> Tensor:
    """Insert a PoolMax2d with the encoding of its input."""
    windows = {"filter_size": kernel, "stride": stride, "pad_amount": pads}
    params: dict[str, ir.Param] = {name: ir.u32s(numbers) for name, numbers in windows.items()}
    params["rounding_mode"] = ir.u32(rounding)
    return w.emit("PoolMax2d", [x], shape, params, x.dtype, x.encoding)


def wide(x: Tensor) -> ir.ScaleOffset | None:
    """Return an encoding of unsigned 16 bits with 256 steps for each of 8 bits; None if there are several."""
    if not isinstance(x.encoding, ir.ScaleOffset):
        return None
    least = x.dtype.limits[0]
    return ir.ScaleOffset(x.encoding.scale / 256, (x.encoding.offset + least) * 256)


def covered(op: Op) -> Array:
    """Return the part of each window of a pool that covers no padding."""
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    assert op.inputs[0] is not None
    parts = []
    for axis, before in enumerate(_pads(op)[:, 0]):
        start = numpy.arange(op.outputs[0].shape[axis + 1]) * stride[axis] - before
        stop = numpy.minimum(start + kernel[axis], op.inputs[0].shape[axis + 1])
        parts.append((stop - numpy.maximum(start, 0)) / kernel[axis])
    return reduce(numpy.multiply.outer, parts)[None, ..., None]


def reached_pads(op: Op) -> Array:
    """Return the padding of a pool that its windows reach; below 0 where they leave an end out."""
    pads = _pads(op)
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    assert op.inputs[0] is not None
    spans = (numpy.array(op.outputs[0].shape[1:-1]) - 1) * stride + kernel
    pads[:, 1] = spans - op.inputs[0].shape[1:-1] - pads[:, 0]
    return pads


def _pads(op: Op) -> Array:
    axes = len(op.param("filter_size"))
    return op.param("pad_amount", numpy.zeros((axes, 2))).astype(int)
