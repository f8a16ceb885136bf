"""Prelu with several slopes and 16-bit activations."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import SFIXED8, UFIXED8, UFIXED16
from xdlc.opdefs import args
from xdlc.opdefs.traits import traits
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass, op_pass

_REASON = "HTP computes several 16-bit slopes only after a product"

_ONE = 127
"""Stored number of a weight of 1, the largest: HTP drops eight bits of sums of products with 3x3 taps."""

_SPREAD = 257
"""Steps of 16 bits per step of 8 bits."""

_MOST_OF_A_TAP = 256
"""Most channels of a depthwise convolution of a single tap that HTP fuses with a Prelu."""


@op_pass("Prelu", stage="storage")
def multiply_slopes(graph: Graph, op: Op) -> bool:
    """Insert a depthwise convolution by 1 before Prelu with 16-bit slopes.

    HTP computes several slopes of 16 bits right after a product only.

    HTP has a kernel for such slopes in a product alone (emulation of SDK 2.51, v68 to v79).  A single tap is
    exact; the 3x3 taps of more than 256 channels lose up to two steps.
    """
    if not _has_slopes(op, 16) or not _has_room(op) or _is_fused(graph, op):
        return False
    _multiply(graph, op)
    return True


@graph_pass(stage="htp", after=("cast_reinterpreted",), needs=("Prelu",))
def widen_slopes(graph: Graph) -> bool:
    """Store 8-bit slopes of 16-bit activations in 16 bits.

    From 256 channels on HTP chooses a kernel for slopes of 8 bits that rounds both them and the scale of the
    input over that of the result to 7 bits: values are up to 5 % off.
    """
    narrow = [op for op in graph.ops if _has_slopes(op, 8) and takes_wide_slopes(graph, op)]
    for op in narrow:
        _widen(graph, op)
    multiplied = [multiply_slopes(graph, op) for op in list(graph.ops)]
    return bool(narrow) or any(multiplied)


def takes_wide_slopes(graph: Graph, op: Op) -> bool:
    """Return whether HTP computes a Prelu with 16-bit slopes, maybe after a product."""
    return _has_room(op) or _is_fused(graph, op)


def _has_slopes(op: Op, bits: int) -> bool:
    """Return whether an op is a 16-bit Prelu with several static slopes."""
    if op.type != "Prelu" or op.package != ir.NATIVE_PACKAGE:
        return False
    source, slopes = op.inputs[0], op.inputs[1]
    if source is None or slopes is None or not slopes.is_static or slopes.size == 1:
        return False
    is_encoded = all(isinstance(tensor.encoding, ScaleOffset) for tensor in (source, slopes))
    return is_encoded and source.dtype is UFIXED16 and slopes.dtype is {8: UFIXED8, 16: UFIXED16}[bits]


def _has_room(op: Op) -> bool:
    """Return whether a convolution of several channels fits before an op."""
    source, slopes = op.inputs[0], op.inputs[1]
    if source is None or slopes is None or source.dynamic_axes or source.shape != op.outputs[0].shape:
        return False
    # The convolution has one axis for all leading ones of the source.
    is_broadcast = slopes.rank <= source.rank if source.rank <= 4 else slopes.shape[:-3] in ((), (1,))
    return source.rank > 1 and is_broadcast and source.shape[-1] > 1


def _is_fused(graph: Graph, op: Op) -> bool:
    """Return whether HTP computes an op with the product before it."""
    source = op.inputs[0]
    product = source.producer if source is not None else None
    if source is None or product is None or graph.sole_consumer(source) is not op:
        return False
    own = traits(product)
    if "Prelu" not in own.fuses and own.macs not in ("convolution", "transposed"):
        return False
    weight = product.inputs[1] if product.type == "DepthWiseConv2d" else None
    return weight is None or weight.shape[:2] != (1, 1) or weight.shape[-1] <= _MOST_OF_A_TAP


def _widen(graph: Graph, op: Op) -> None:
    slopes = args.operand(op, 1)
    assert slopes.data is not None
    assert isinstance(slopes.encoding, ScaleOffset)
    data = slopes.data.transform(_wide, dtype=UFIXED16.numpy)
    encoding = ScaleOffset(slopes.encoding.scale / _SPREAD, slopes.encoding.offset * _SPREAD)
    name = graph.unique_name(f"{slopes.name}_16_bits")
    wide = graph.add_tensor(Tensor(name, slopes.shape, UFIXED16, encoding, data, Role.STATIC))
    graph.set_inputs(op, [op.inputs[0], wide])
    graph.supersede(slopes, wide)


def _wide(numbers: ir.data.Array) -> ir.data.Array:
    return numbers.astype(numpy.uint16) * numpy.uint16(_SPREAD)


def _multiply(graph: Graph, op: Op) -> None:
    source, slopes, result = args.operand(op, 0), op.inputs[1], op.outputs[0]
    w = Writer(graph, op, _REASON)
    inner = source.shape[-3:]
    shape = (math.prod(source.shape[:-3]), *(1,) * (3 - len(inner)), *inner)
    pad = int(shape[-1] > _MOST_OF_A_TAP)
    taps = numpy.zeros((1 + 2 * pad, 1 + 2 * pad, 1, shape[-1]), numpy.int8)
    taps[pad, pad] = _ONE
    ones = ir.static(graph.unique_name(f"{op.name}_ones"), taps, SFIXED8, ScaleOffset(1 / _ONE))
    image = source
    if source.shape != shape:
        image = w.emit("Reshape", [source], shape, None, source.dtype, source.encoding)
    params: dict[str, ir.Param] = {"stride": ir.u32s([1, 1]), "pad_amount": ir.u32s([[pad, pad]] * 2)}
    inputs = [image, graph.add_tensor(ones)]
    product = w.emit("DepthWiseConv2d", inputs, shape, params, source.dtype, source.encoding)
    graph.set_inputs(op, [product, slopes])
    if source.shape != shape:
        flat = Tensor(graph.unique_name(f"{result.name}_4d"), shape, result.dtype, result.encoding)
        graph.set_output(op, 0, flat)
        origin = ir.Origin(op.origin.nodes, _REASON)
        back = ir.make_op(graph, "Reshape", [flat], [result], name=f"{op.name}_back", origin=origin)
        graph.insert_after(op, back)
