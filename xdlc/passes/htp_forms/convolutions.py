"""Convolutions, transposed convolutions, and FullyConnected."""

from __future__ import annotations

from dataclasses import replace

import numpy

from xdlc import ir
from xdlc.ir import AxisScaleOffset, Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, UFIXED8, UFIXED16
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.passes._match import turn_into
from xdlc.passes._writing import Writer, widened
from xdlc.passes.avoid_faults import MISSING, form

_LONGEST = 8
"""The longest kernel that HTP does not divide."""
_WRONG_STRIDES = [1, 2], [3, 3]
_BLOCK = 32
"""Channels that HTP computes at a time."""
_FEW = 4


@form("Conv2d")
def _large_kernel(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve with the halves of a kernel longer than 8 where strides are 2."""
    weight, result = op.inputs[1], op.outputs[0]
    if weight is None or {result.dtype, weight.dtype} != {FLOAT32} or list(op.param("stride")) != [2, 2]:
        return False
    if numpy.any(op.param("dilation", 1) != 1):
        return False
    axis = int(numpy.argmax(weight.shape[:2]))
    size = weight.shape[axis]
    if size <= _LONGEST:
        return False
    own = op.param("pad_amount").astype(int)
    around = numpy.zeros_like(own)
    around[axis], own[axis], total = own[axis], 0, None
    source = w.padded(source, around)
    for first, last in ((0, size // 2), (size // 2, size)):
        part = w.sliced(source, 1 + axis, first, last + 2 * (result.shape[1 + axis] - 1))
        inputs = [part, w.sliced(weight, axis, first, last), *(op.inputs[2:] if first else ())]
        half = w.emit("Conv2d", inputs, result.shape, {**op.params, "pad_amount": ir.u32s(own)})
        total = half if total is None else w.binary(ADD, total, half)
    w.finish(total)
    return True


@form("DepthWiseConv2d")
def _one_channel(w: Writer, op: Op, source: Tensor) -> bool:
    """Replace a depthwise convolution of one channel by a convolution."""
    if source.shape[-1] != 1 or not source.dtype.is_float:
        return False
    turn_into(w.graph, op, "Conv2d", params={**op.params, "group": ir.u32(1)})
    return True


@form("DepthWiseConv2d")
def _bias_apart(w: Writer, op: Op, source: Tensor) -> bool:
    """Add the bias of floats after a dilated kernel of more than 8 rows or columns."""
    weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    if weight is None or bias is None or not source.dtype.is_float:
        return False
    dilation = op.param("dilation", numpy.ones(2)).astype(int)
    if max(weight.shape[:2]) <= _LONGEST or dilation.max() == 1:
        return False
    w.finish(w.binary(ADD, w.again([source, weight]), bias))
    return True


@form("DepthWiseConv2d")
def _channel_multiplier(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve groups of one channel where each has several results.

    It has those of fixed point, and those of floats with strides of 3, or of 1 and 2.
    """
    if op.outputs[0].shape[-1] == source.shape[-1]:
        return False
    if not source.dtype.is_fixed and sorted(op.param("stride").tolist()) not in _WRONG_STRIDES:
        return False
    turn_into(w.graph, op, "Conv2d", params={**op.params, "group": ir.u32(source.shape[-1])})
    return True


@form("DepthWiseConv2d", "TransposeConv3d", reason=MISSING)
def _dilated_kernel(w: Writer, op: Op, source: Tensor) -> bool:
    """Write the zeros between the weights out."""
    weight, dilation = op.inputs[1], op.param("dilation", numpy.ones(1)).astype(int)
    strides = op.param("stride", numpy.ones(1))
    if weight is None or weight.data is None or (dilation == 1).all():
        return False
    if op.type == "DepthWiseConv2d" and (strides == 1).all():
        return False
    axes = len(dilation)
    array = weight.numpy()
    zero = w.zero_of(weight)
    if zero is None:
        return False
    shape = ((numpy.array(array.shape[:axes]) - 1) * dilation + 1).tolist()
    spread = numpy.full((*shape, *array.shape[axes:]), zero, array.dtype)
    spread[tuple(slice(None, None, int(step)) for step in dilation)] = array
    op.params["dilation"] = ir.u32s([1] * axes)
    w.graph.set_inputs(op, [source, w.like(weight, spread), *op.inputs[2:]])
    return True


@form("Conv2d", "Conv3d", "DepthWiseConv2d")
def _wide_padding(w: Writer, op: Op, source: Tensor) -> bool:
    """Use a separate Pad if the padding at the start is as wide as the kernel.

    A convolution by a kernel of one tap pads.

    Fixed point is wrong along the first axis of two only.
    """
    weight, axes, is_fixed = op.inputs[1], source.rank - 2, source.dtype.is_fixed
    if weight is None or not ((is_fixed and axes == 2) or (source.dtype.is_float and weight.dtype.is_float)):
        return False
    kernel = numpy.array(weight.shape[:axes])
    pads = op.param("pad_amount", numpy.zeros((axes, 2))).astype(int)
    spans = (kernel - 1) * op.param("dilation", numpy.ones(axes)).astype(int) + 1
    leading = pads[:, 0] + _leading_pads(source)
    if (kernel == 1).all() or not (leading >= spans)[: 1 if is_fixed else axes].any():
        return False
    shape = (source.shape[0], *(source.shape[1:-1] + pads.sum(1)), source.shape[-1])
    channels, ones = source.shape[-1], [1] * axes
    params: dict[str, ir.Param] = {"stride": ir.u32s(ones), "pad_amount": ir.u32s(pads)}
    if axes == 2:
        taps = numpy.ones((*ones, 1, channels))
        kind = "DepthWiseConv2d" if channels > 1 else "Conv2d"
    else:
        taps, kind = numpy.eye(channels).reshape(*ones, channels, channels), op.type
    numbers = w.constant(taps.astype(UFIXED8.numpy if is_fixed else weight.dtype.numpy))
    if is_fixed:
        numbers.dtype, numbers.encoding = UFIXED8, ir.ScaleOffset(1.0, 0)
    x, encoding = source, widened(source) if is_fixed and source.dtype.bits == 8 else None
    if encoding is not None:  # in 8 bits, rows alone are padded wrongly
        x = w.convert(source, UFIXED16, encoding)
    padded = w.emit(kind, [x, numbers], shape, params, x.dtype, x.encoding)
    if encoding is not None:
        padded = w.convert(padded, source.dtype, source.encoding)
    w.finish(w.again([padded, *op.inputs[1:]], pad_amount=ir.u32s(numpy.zeros((axes, 2)))))
    return True


def _leading_pads(source: Tensor) -> Array:
    """Return by how many zeros an op before pads the start of each axis of an image."""
    before = source.producer
    if before is None or before.type != "Pad" or before.package != ir.NATIVE_PACKAGE:
        return numpy.zeros(source.rank - 2, int)
    amounts: Array = before.param("pad_amount")[1:-1, 0]
    return amounts.astype(int)


@form("DepthWiseConv2d")
def _strided_taps(w: Writer, op: Op, source: Tensor) -> bool:
    """Append taps of zero to the kernel.

    Single taps of floats get one along the axis that has a stride of 2, the other of 1, for more than 32
    channels; 2x2 taps of 8 bits with strides of 2 get one along each axis, for 1 to 4 channels beyond a
    multiple of 32.
    """
    weight, strides, channels = op.inputs[1], op.param("stride").astype(int), source.shape[-1]
    if weight is None or weight.data is None:
        return False
    kernel = weight.shape[:2]
    if source.dtype.is_float and weight.dtype.is_float:
        is_wrong = channels > _BLOCK and kernel == (1, 1) and sorted(strides) == [1, 2]
    else:
        is_few = channels > 1 and 0 < channels % _BLOCK <= _FEW
        is_wrong = source.dtype.bits == 8 and is_few and kernel == (2, 2) and (strides == 2).all()
    zero = w.zero_of(weight)
    if not is_wrong or zero is None:
        return False
    more, pads = strides - 1, op.param("pad_amount").astype(int)
    pads[:, 1] += more
    around = [(0, more[0]), (0, more[1]), (0, 0), (0, 0)]
    taps = w.like(weight, numpy.pad(weight.numpy(), around, constant_values=zero))
    w.finish(w.again([source, taps, *op.inputs[2:]], pad_amount=ir.u32s(pads)))
    return True


@form("Conv2d")
def _dilated_whole_window(w: Writer, op: Op, source: Tensor) -> bool:
    """Write a dilated float kernel as large as the plane without dilation.

    HTP forgets its dilation.
    """
    weight, result = op.inputs[1], op.outputs[0]
    _, rows, columns, channels = source.shape
    if weight is None or weight.data is None or not weight.dtype.is_float or not source.dtype.is_float:
        return False
    dilation = op.param("dilation", numpy.ones(2)).astype(int)
    if result.shape[1:3] != (1, 1) or weight.shape[:2] != (rows, columns) or (dilation == 1).all():
        return False
    taps = _whole_kernel(op, weight.numpy(), (rows, columns, channels, result.shape[-1]), dilation)
    params: dict[str, ir.Param] = {"stride": ir.u32s([1, 1]), "pad_amount": ir.u32s([[0, 0], [0, 0]])}
    inputs = [source, w.like(weight, taps), *op.inputs[2:]]
    w.finish(w.emit(op.type, inputs, result.shape, params, result.dtype))
    return True


@form("Reshape")
def _channels_first(w: Writer, op: Op, source: Tensor) -> bool:
    """Transpose the result of a single window to channels first.

    HTP is wrong where the plane has as many rows or columns as channels result.
    """
    before, result, channels = source.producer, op.outputs[0], source.shape[-1:]
    if before is None or before.type != "Conv2d" or before.inputs[0] is None or not source.dtype.is_float:
        return False
    if source.shape[1:-1] != (1, 1) or result.shape[1:] != (*channels, 1, 1):
        return False
    if max(before.inputs[0].shape[1:3]) not in channels:
        return False
    w.finish(w.transposed(source, (0, 3, 1, 2)))
    return True


def _whole_kernel(op: Op, taps: Array, shape: tuple[int, int, int, int], dilation: Array) -> Array:
    """Return a kernel of the plane's size."""
    whole, groups = numpy.zeros(shape, taps.dtype), int(op.param("group", 1))
    start = -op.param("pad_amount").astype(int)[:, 0]
    inputs, outputs = shape[2] // groups, shape[3] // groups
    for place in numpy.ndindex(*taps.shape[:2]):
        row, column = start + dilation * place
        if 0 <= row < shape[0] and 0 <= column < shape[1]:
            for group in range(groups):
                ins, outs = (slice(group * size, (group + 1) * size) for size in (inputs, outputs))
                whole[row, column, ins, outs] = taps[(*place, slice(None), outs)]
    return whole


@form("FullyConnected")
def _single_number(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve a single fixed-point number by 1x1.

    HTP compiles its FullyConnected without end.
    """
    weight, result = op.inputs[1], op.outputs[0]
    if source.size != 1 or not source.dtype.is_fixed or weight is None or weight.data is None:
        return False
    kernel = w.reshape(weight, (1, 1, 1, weight.size))
    if isinstance(kernel.encoding, AxisScaleOffset):
        kernel.encoding = replace(kernel.encoding, axis=3)
    params: dict[str, ir.Param] = {"stride": ir.u32s([1, 1]), "pad_amount": ir.u32s([[0, 0], [0, 0]])}
    inputs = [w.reshape(source, (1, 1, 1, 1)), kernel, *op.inputs[2:]]
    product = w.emit("Conv2d", inputs, kernel.shape, params, result.dtype, result.encoding)
    w.finish(w.reshape(product, result.shape))
    return True


_MANY = 8
"""HTP computes some kernels of fewer channels wrongly, each of which is a group."""


@form("TransposeConv2d", "TransposeConv3d")
def _output_padding(w: Writer, op: Op, source: Tensor) -> bool:
    """Subtract output padding from the padding, and append taps of 0.

    HTP computes some output padding wrongly.

    It leaves results of which no tap reaches an input to whatever the memory holds.
    """
    weight, channels, axes = op.inputs[1], source.shape[-1], source.rank - 2
    extra = op.param("output_padding", numpy.zeros(axes)).astype(int)
    pads, dilation = op.param("pad_amount").astype(int), op.param("dilation", numpy.ones(axes)).astype(int)
    taps = -(-numpy.maximum(extra - pads[:, 1], 0) // dilation)
    if weight is None or w.zero_of(weight) is None:
        return False
    is_depthwise = 1 < channels == op.param("group", 1) and weight.shape[-1] == 1
    if not taps.any() and not (is_depthwise and extra.any()):
        return False
    pads[:, 1] += taps * dilation - extra
    longer = w.padded(weight, numpy.stack([numpy.zeros(axes, int), taps], 1), 0)
    none = ir.u32s([0] * axes)
    w.finish(w.again([source, longer, *op.inputs[2:]], pad_amount=ir.u32s(pads), output_padding=none))
    return True


@form("TransposeConv3d")
def _uneven_padding(w: Writer, op: Op, source: Tensor) -> bool:
    """Omit padding that differs between axes, and slice the result.

    HTP computes other numbers.
    """
    result, pads = op.outputs[0], op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    if (pads == pads[0, 0]).all():
        return False
    shape = (result.shape[0], *numpy.add(result.shape[1:4], pads.sum(1)).tolist(), result.shape[4])
    x = w.again(op.inputs, shape, pad_amount=ir.u32s(numpy.zeros((3, 2), int)))
    for axis, before in enumerate(pads[:, 0].tolist(), 1):
        x = w.sliced(x, axis, before, before + result.shape[axis])
    w.finish(x)
    return True


@form("TransposeConv2d", "TransposeConv3d")
def _groups(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve all channels, with weights of 0 between groups.

    HTP computes some groups wrongly.
    """
    weight, groups = op.inputs[1], int(op.param("group", 1))
    if weight is None or weight.data is None or groups == 1:
        return False
    if op.type == "TransposeConv2d" and not _is_wrong(source, weight, groups):
        return False
    taps, encoding = weight.numpy(), weight.encoding
    *kernel, inputs, outputs = taps.shape
    zero = w.zero_of(weight)
    if zero is None:
        return False
    dense = numpy.full((*kernel, inputs, groups * outputs), zero, taps.dtype)
    for group, own in enumerate(numpy.split(taps, groups, axis=-2)):
        rows = slice(group * inputs // groups, (group + 1) * inputs // groups)
        dense[..., rows, group * outputs : (group + 1) * outputs] = own
    whole = w.like(weight, dense)
    if isinstance(encoding, ir.AxisScaleOffset):
        scales = encoding.scales * (groups if len(encoding.scales) == outputs else 1)
        whole.encoding = ir.AxisScaleOffset(dense.ndim - 1, scales, (0,) * len(scales))
    w.finish(w.again([source, whole, *op.inputs[2:]], group=ir.u32(1)))
    return True


def _is_wrong(source: Tensor, weight: Tensor, groups: int) -> bool:
    """Return whether HTP computes a grouped plane wrongly.

    These are few single channels, and four groups with odd sizes.
    """
    _, rows, columns, channels = source.shape
    is_uneven = groups == 4 and rows % 8 == columns % 8 == 1 < rows * columns
    return is_uneven or (groups == channels < _MANY and weight.shape[-1] == 1)
