"""Static float values as fixed-point tensors, where that is exact."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeAlias

import numpy

from xdlc import ir
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Graph,
    Op,
    Role,
    ScaleOffset,
    Tensor,
)
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, SFIXED32, DType

Form: TypeAlias = tuple[DType, Encoding]
_LARGEST_CONSTANT = 1 << 10  # elements of a constant that is looked at


def stored_weight(tensor: Tensor, axis: int | None) -> Tensor | None:
    """Return float weights as the fixed-point tensor stored in the source, or None.

    Args:
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
    return _expansion(encoding, tensor.shape, axis, 2 if axis else 1)


def stored_constant(tensor: Tensor, like: DType) -> Tensor | None:
    """Return a static operand as a new fixed-point tensor, or None.

    Float values that the source stores as integers of that width keep them.  Of others, one number for all
    elements has a form too: a step of its own size.

    Args:
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
    """Return static integers of one scale in a type of the same width."""
    encoding, data = stored.encoding, stored.data
    if stored.dtype is dtype:
        return stored
    if stored.dtype.bits != dtype.bits or not isinstance(encoding, ScaleOffset) or data is None:
        return None
    if encoding.bits is not None or dtype.bits > 16:
        return None
    shift = dtype.limits[0] - stored.dtype.limits[0]
    moved = shifted(data, stored.dtype, dtype)
    return Tensor(
        stored.name,
        stored.shape,
        dtype,
        ScaleOffset(encoding.scale, encoding.offset - shift),
        moved,
        Role.STATIC,
    )


def shifted(data: ir.TensorData, held: DType, dtype: DType) -> ir.TensorData:
    """Return integers of up to 16 bits in the range of a type of the same width."""
    shift = dtype.limits[0] - held.limits[0]
    return data.transform(
        lambda array: (array.astype(numpy.int32) + shift).astype(dtype.numpy), dtype=dtype.numpy
    )


def _constant(tensor: Tensor, number: float, dtype: DType) -> Tensor | None:
    scale, step = (abs(number), int(math.copysign(1, number))) if number else (1.0, 0)
    if scale < float(numpy.finfo(numpy.float32).tiny) or dtype.bits > 16:
        return None
    offset = -1 if step < 0 and not dtype.is_signed else 0
    stored = numpy.full(tensor.shape, step - offset, dtype.numpy)
    return Tensor(
        tensor.name, tensor.shape, dtype, ScaleOffset(scale, offset), ir.ArrayData(stored), Role.STATIC
    )


def rounded_bias(bias: Tensor, source: ScaleOffset, weight: Encoding | None) -> Tensor | None:
    """Return a float bias [O] as 32-bit integers in steps of the products, or None.

    A step is far below what the result is rounded to, so that this is no loss beside that rounding.

    Args:
        weight: Encoding of the weights, with one scale or one for each of the O channels.
    """
    if bias.data is None or bias.dtype is not FLOAT32 or bias.rank != 1:
        return None
    if not isinstance(weight, ScaleOffset | AxisScaleOffset):
        return None
    scales = [weight.scale] if isinstance(weight, ScaleOffset) else list(weight.scales)
    steps = numpy.asarray(scales, numpy.float32) * numpy.float32(source.scale)
    if len(steps) not in (1, bias.size) or steps.min() < numpy.finfo(numpy.float32).tiny:
        return None
    places = numpy.rint(bias.data.numpy() / steps)
    if not numpy.isfinite(places).all() or numpy.abs(places).max(initial=0) >= 1 << 31:
        return None
    encoding: Encoding = ScaleOffset(float(steps[0]), 0)
    if isinstance(weight, AxisScaleOffset):
        encoding = AxisScaleOffset(0, tuple(steps.tolist()), (0,) * len(steps))
    stored = ir.ArrayData(places.astype(numpy.int32))
    return Tensor(bias.name, bias.shape, SFIXED32, encoding, stored, Role.STATIC)


def store(graph: Graph, op: Op, statics: Mapping[int, Tensor], integers_of: dict[Hashable, Tensor]) -> None:
    """Let an op read static integers in place of floats, under the names of these.

    Args:
        statics: The integers by input, not yet in the graph.
        integers_of: Integers that other ops read, by the floats and their form.
    """
    before, inputs = op.inputs, list(op.inputs)
    for index, tensor in statics.items():
        source = before[index]
        assert source is not None
        key = (source, tensor.dtype, tensor.encoding)
        if key not in integers_of:
            tensor.name = graph.unique_name(source.name)
            integers_of[key] = graph.add_tensor(tensor)
        inputs[index] = integers_of[key]
    graph.set_inputs(op, inputs)
    for index in statics:
        source, tensor_read = before[index], inputs[index]
        if source is not None and tensor_read is not None and graph.tensors.get(source.name) is source:
            graph.supersede(source, tensor_read)


_BITS = 4
_LARGEST = 1 << _BITS


def _expansion(
    encoding: BlockScaleOffset, shape: tuple[int, ...], axis: int, along: int
) -> BlockwiseExpansion | None:
    """Return scales per block as QNN's blockwise expansion ("LPBQ"), or None.

    Args:
        encoding: Blocks along one axis.
        axis: Axis of the channels out.
        along: Axis of the blocks, that of the channels in.
    """
    block = encoding.block_shape
    if numpy.any(encoding.offsets) or any(
        dim != 1 for position, dim in enumerate(block) if position != along
    ):
        return None
    if any(dim != 1 for position, dim in enumerate(shape) if position not in (axis, along)):
        return None
    grid = [dim // size for dim, size in zip(shape, block, strict=True)]
    steps = numpy.asarray(encoding.scales, numpy.float32).reshape(grid)
    steps = numpy.moveaxis(steps, (axis, along), (0, 1)).reshape(shape[axis], -1)
    scales: list[float] = []
    integers: list[int] = []
    for row in steps:
        factors = _factored(row)
        if factors is None:  # in most cases the first channel decides
            return None
        scales.append(factors[0])
        integers += map(int, factors[1])
    return BlockwiseExpansion(axis, tuple(scales), (0,) * shape[axis], steps.shape[1], _BITS, tuple(integers))


def _factored(steps: Array) -> tuple[float, Array] | None:
    """Return a float32 number and integers from 1 to 16 whose products are the steps."""
    row = numpy.asarray(steps, numpy.float32)
    for count in range(1, _LARGEST + 1):
        near = row.max() / numpy.float32(count)
        for scale in (near, numpy.nextafter(near, 0), numpy.nextafter(near, numpy.float32("inf"))):
            integers = numpy.rint(row / scale)
            within = integers.min() >= 1 and integers.max() <= _LARGEST
            if within and (integers.astype(numpy.float32) * scale == row).all():
                return float(scale), integers
    return None
