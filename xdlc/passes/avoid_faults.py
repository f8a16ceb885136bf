"""Ops that HTP's library computes wrongly, in equal forms that it computes right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32
from xdlc.opdefs.elementwise_enums import ADD, LESS, MAXIMUM, MULTIPLY, SIGMOID, SOFTPLUS, SUBTRACT, TANH
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass

_LONGEST = 8


_Form = Callable[[Writer, Op, Tensor], bool]
_FORMS: dict[str, _Form] = {}


def _form(*types: str) -> Callable[[_Form], _Form]:
    """Register a function as what rewrites ops of some types."""

    def register(function: _Form) -> _Form:
        _FORMS.update(dict.fromkeys(types, function))
        return function

    return register


@graph_pass(stage="htp", after=("cast_reinterpreted",))
@dataclass(frozen=True, slots=True)
class AvoidFaults:
    """Rewrite ops that the emulation of SDK 2.51 computes wrongly; docs/htp-faults.md lists them.

    Attributes:
        name: Name of the pass.
    """

    name: str = "avoid_faults"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        changed = [
            _FORMS[op.type](Writer(graph, op, f"HTP computes this {op.type} wrongly"), op, source)
            for op in list(graph.ops)
            if op.type in _FORMS and (source := _plain_source(op)) is not None
        ]
        return any(changed)


def _plain_source(op: Op) -> Tensor | None:
    """Return input 0 of an op of known shapes."""
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if op.package != ir.NATIVE_PACKAGE or any(tensor.dynamic_axes for tensor in tensors):
        return None
    return op.inputs[0]


@_form("PoolAvg2d")
def _average(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve where padding is counted, uneven or wider than half the window, or padded is one channel.

    What the last window covers beyond the end, where a size is rounded up, is padding as well.
    """
    result, kernel, stride = (
        op.outputs[0],
        op.param("filter_size").astype(int),
        op.param("stride").astype(int),
    )
    pads = op.param("pad_amount", numpy.zeros((2, 2))).astype(int)
    counted = bool(op.param("count_pad_for_edges", False))
    before, channels = source.producer, source.shape[-1]
    if not result.dtype.is_float:
        return False
    is_padded = before is not None and before.type == "Pad" and before.package == ir.NATIVE_PACKAGE
    if before is not None and is_padded and channels == 1 and not pads.any():
        amounts = before.param("pad_amount").astype(int)
        fill = before.params.get("pad_constant_value", ir.f32(0.0))
        if before.param("scheme") or not isinstance(fill, ir.Scalar) or fill.value or amounts[[0, 3]].any():
            return False
        assert before.inputs[0] is not None
        source, pads, counted = before.inputs[0], amounts[1:3], True
    ends = (numpy.array(result.shape[1:3]) - 1) * stride + kernel - source.shape[1:3] - pads[:, 0]
    is_even = (ends <= pads[:, 1]).all() and (pads[:, 0] == pads[:, 1]).all()
    pads[:, 1] = numpy.maximum(pads[:, 1], ends)
    if not pads.any() or (is_even and not counted and (2 * pads[:, 0] < kernel).all()):
        return False
    if (pads >= kernel[:, None]).any():
        return False
    weight = w.constant(numpy.full((*kernel, 1, channels), 1 / kernel.prod(), result.dtype.numpy))
    params: dict[str, ir.Param] = {"stride": ir.u32s(stride), "pad_amount": ir.u32s(pads)}
    mean = w.emit("DepthWiseConv2d", [source, weight], result.shape, params, result.dtype)
    if not counted:
        share = 1 / _covered(source.shape[1:3], result.shape[1:3], kernel, stride, pads)
        mean = w.binary(MULTIPLY, mean, w.constant(share[None, ..., None].astype(result.dtype.numpy)))
    w.finish(mean)
    return True


def _covered(
    sizes: Sequence[int], results: Sequence[int], kernel: Array, stride: Array, pads: Array
) -> Array:
    """Return the part of each window of a pool that covers no padding."""
    parts = []
    for axis, size in enumerate(sizes):
        start = numpy.arange(results[axis]) * stride[axis] - pads[axis, 0]
        stop = numpy.minimum(start + kernel[axis], size)
        parts.append((stop - numpy.maximum(start, 0)) / kernel[axis])
    return reduce(numpy.multiply.outer, parts)


@_form("PoolAvg3d")
def _counted(w: Writer, op: Op, source: Tensor) -> bool:
    """Count no padding, and multiply by the part of each window that covers none."""
    result, pads = op.outputs[0], op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    if not result.dtype.is_float or not op.param("count_pad_for_edges", False) or not pads.any():
        return False
    if op.param("rounding_mode", 0):
        return False
    params = {**op.params, "count_pad_for_edges": ir.b8(False)}
    mean = w.emit("PoolAvg3d", [source], result.shape, params, result.dtype)
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    part = _covered(source.shape[1:4], result.shape[1:4], kernel, stride, pads)
    w.finish(w.binary(MULTIPLY, mean, w.constant(part[None, ..., None].astype(result.dtype.numpy))))
    return True


@_form("Conv2d")
def _convolution(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve with halves of a kernel of more than 8 rows or columns where both strides are 2."""
    weight, result = op.inputs[1], op.outputs[0]
    if weight is None or {result.dtype, weight.dtype} != {FLOAT32} or list(op.param("stride")) != [2, 2]:
        return False
    if numpy.any(op.param("dilation", 1) != 1):
        return False
    axis = int(numpy.argmax(weight.shape[:2]))
    size = weight.shape[axis]
    if size <= _LONGEST:
        return False
    pads, own = (numpy.array(op.param("pad_amount"), numpy.uint32) for _ in range(2))
    own[axis], total = 0, None
    if pads[axis].any():
        around = numpy.zeros((4, 2), numpy.uint32)
        around[1 + axis] = pads[axis]
        shape = numpy.add(source.shape, around.sum(1)).tolist()
        filled: dict[str, ir.Param] = {"scheme": ir.u32(0), "pad_amount": ir.u32s(around)}
        source = w.emit("Pad", [source], shape, {**filled, "pad_constant_value": ir.f32(0.0)})
    for first, last in ((0, size // 2), (size // 2, size)):
        part = _sliced(w, source, 1 + axis, first, last + 2 * (result.shape[1 + axis] - 1))
        inputs = [part, _sliced(w, weight, axis, first, last), *(op.inputs[2:] if first else ())]
        made = w.emit("Conv2d", inputs, result.shape, {**op.params, "pad_amount": ir.u32s(own)})
        total = made if total is None else w.binary(ADD, total, made)
    w.finish(total)
    return True


def _sliced(w: Writer, x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    if x.data is not None:
        return w.constant(x.numpy().take(range(start, stop), axis))
    ranges = [(start, stop, 1) if at == axis else (0, dim, 1) for at, dim in enumerate(x.shape)]
    if (start, stop) == (0, x.shape[axis]):
        return x
    params: dict[str, ir.Param] = {"ranges": ir.static("", numpy.array(ranges, numpy.int32))}
    return w.emit("StridedSlice", [x], [end - begin for begin, end, _ in ranges], params)


@_form("DepthWiseConv2d")
def _one_channel(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve one channel as a whole, which for each is the same."""
    if source.shape[-1] != 1 or not source.dtype.is_float:
        return False
    params = {**op.params, "group": ir.u32(1)}
    w.graph.replace_op(op, Op("Conv2d", op.inputs, op.outputs, params, name=op.name, origin=op.origin))
    return True


@_form("Tile")
def _last_axis(w: Writer, op: Op, source: Tensor) -> bool:
    """Multiply by ones where a last axis of 1 is repeated for a sum or product, which drops such a Tile."""
    result = op.outputs[0]
    if not source.rank or source.shape[-1] != 1 or result.shape[-1] == 1:
        return False
    if not (source.dtype.is_float or source.dtype.is_fixed) or not _is_summed(w.graph, result):
        return False
    ones = w.constant(numpy.ones(result.shape[-1], source.dtype.numpy))
    if source.dtype.is_fixed:
        ones.dtype, ones.encoding = source.dtype, ir.ScaleOffset(1.0, 0)
    params: dict[str, ir.Param] = {"multiples": ir.u32s([*op.param("multiples")[:-1], 1])}
    if max(op.param("multiples")[:-1], default=1) > 1:
        source = w.emit("Tile", [source], (*result.shape[:-1], 1), params, source.dtype, source.encoding)
    params = {"operation": ir.u32(MULTIPLY)}
    inputs = [source, ones]
    w.finish(w.emit("ElementWiseBinary", inputs, result.shape, params, result.dtype, result.encoding))
    return True


def _is_summed(graph: Graph, x: Tensor) -> bool:
    """Return whether a sum, difference or product reads a tensor, by way of Reshapes or not."""
    readers = list(graph.consumers(x))
    for reader in readers:
        if reader.type == "Reshape":
            readers += graph.consumers(reader.outputs[0])
    sums = (ADD, MULTIPLY, SUBTRACT)
    return any(op.type == "ElementWiseBinary" and op.param("operation") in sums for op in readers)


@_form("ElementWiseNeuron")
def _neuron(w: Writer, op: Op, source: Tensor) -> bool:
    if op.param("operation") in (SIGMOID, TANH):
        return _unfused(w, op, source)
    return _softplus(w, op, source)


def _unfused(w: Writer, op: Op, source: Tensor) -> bool:
    """Keep Tanh and Sigmoid out of the product before them, within which HTP rounds them to 9 bits."""
    before = source.producer
    if not source.dtype.is_float or before is None or w.graph.sole_consumer(source) is not op:
        return False
    if before.type not in ("DepthWiseConv2d", "FullyConnected") or source.rank < 2:
        return False
    apart = w.reshape(source, (source.size,))
    params = {"operation": op.params["operation"]}
    result = w.emit("ElementWiseNeuron", [apart], apart.shape, params, source.dtype)
    w.finish(w.reshape(result, source.shape))
    return True


def _softplus(w: Writer, op: Op, source: Tensor) -> bool:
    """Clip inputs of Softplus where it is 0 in float16: HTP outputs anything a little below."""
    beta = op.param("beta", 1.0)
    if op.param("operation") != SOFTPLUS or not source.dtype.is_float or w.made(source) or not beta > 0:
        return False
    lowest = w.number(max(-20.0 / beta, -65504.0), source.dtype)
    w.graph.set_inputs(op, [w.binary(MAXIMUM, source, lowest)])
    return True


@_form("RmsNorm")
def _rows(w: Writer, op: Op, source: Tensor) -> bool:
    """Fold all axes but the last into one where floats are normed along the last."""
    axes, last = [int(axis) for axis in op.param("axes")], source.rank - 1
    if source.rank < 3 or not source.dtype.is_float or axes != [last]:
        return False
    flat = w.reshape(source, (source.size // source.shape[-1], source.shape[-1]))
    params = {**op.params, "axes": ir.u32s([1])}
    rows = w.emit("RmsNorm", [flat, *op.inputs[1:]], flat.shape, params, source.dtype)
    w.finish(w.reshape(rows, source.shape))
    return True


@_form("GatherElements", "ScatterElements", "ScatterNd")
def _indices(w: Writer, op: Op, source: Tensor) -> bool:
    """Count negative indices from the start."""
    index = op.inputs[1]
    if index is None or not index.dtype.is_signed or w.made(index):
        return False
    sizes = numpy.array(source.shape, numpy.int32)
    sizes = sizes[: index.shape[-1]] if op.type == "ScatterNd" else sizes[[int(op.param("axis", 0))]]
    if index.data is not None:
        known = index.numpy()
        if (known >= 0).all():
            return False
        index = w.constant(numpy.where(known < 0, known + sizes, known).astype(numpy.int32))
    else:
        index = w.cast(index, INT32)
        is_negative = w.binary(LESS, index, w.number(0, INT32), BOOL8)
        index = w.select(is_negative, w.binary(ADD, index, w.constant(sizes)), index)
    w.graph.set_inputs(op, [source, index, *op.inputs[2:]])
    return True
