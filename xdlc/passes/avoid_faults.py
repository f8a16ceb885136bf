"""Ops that HTP's library computes wrongly, in equal forms that it computes right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32
from xdlc.opdefs.elementwise_enums import ADD, LESS, MAXIMUM, MULTIPLY, SOFTPLUS
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
        shares = []
        for axis in (0, 1):
            start = numpy.arange(result.shape[1 + axis]) * stride[axis] - pads[axis, 0]
            stop = numpy.minimum(start + kernel[axis], source.shape[1 + axis])
            shares.append(kernel[axis] / (stop - numpy.maximum(start, 0)))
        share = numpy.outer(*shares)[None, :, :, None].astype(result.dtype.numpy)
        mean = w.binary(MULTIPLY, mean, w.constant(share))
    w.finish(mean)
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
    """Multiply by ones where a last axis of 1 is repeated: sums and products drop such a Tile.

    Numbers of other types and axes are repeated as before.
    """
    result, count = op.outputs[0], op.outputs[0].shape[-1] if source.rank else 1
    if source.rank < 1 or source.shape[-1] != 1 or count == 1 or not source.dtype.is_float:
        return False
    ones = w.constant(numpy.ones(count, source.dtype.numpy))
    repeated = [*op.param("multiples")[:-1], 1]
    if max(repeated) > 1:
        params: dict[str, ir.Param] = {"multiples": ir.u32s(repeated)}
        source = w.emit("Tile", [source], (*result.shape[:-1], 1), params, source.dtype)
    w.finish(w.binary(MULTIPLY, source, ones))
    return True


@_form("ElementWiseNeuron")
def _softplus(w: Writer, op: Op, source: Tensor) -> bool:
    """Clip inputs of Softplus where it is 0 in float16: HTP outputs anything a little below."""
    beta = op.param("beta", 1.0)
    if op.param("operation") != SOFTPLUS or not source.dtype.is_float or w.made(source) or not beta > 0:
        return False
    lowest = w.number(max(-20.0 / beta, -65504.0), source.dtype)
    w.graph.set_inputs(op, [w.binary(MAXIMUM, source, lowest)])
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
