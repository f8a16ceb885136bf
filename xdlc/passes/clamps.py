"""Clamps: fusion of consecutive clamps, and removal of redundant bounds."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import MAXIMUM, MINIMUM, RELU, RELU_MIN_MAX
from xdlc.passes._match import binary, constant_number, is_native, matches, replace_by, replace_by_neuron
from xdlc.passes.base import op_pass

_CLAMPS = (
    ("ElementWiseBinary", MAXIMUM),
    ("ElementWiseBinary", MINIMUM),
    ("ElementWiseNeuron", RELU),
    ("ElementWiseNeuron", RELU_MIN_MAX),
)


@op_pass(*_CLAMPS, stage="converter")
def fuse_clamp(graph: Graph, last: Op) -> bool:
    """Fuse two clamps into a ReluMinMax.

    Clamps are Minimum and Maximum with a number, Relu and ReluMinMax.
    """
    outer = _clamp(graph, last)
    first = outer[0].producer if outer is not None else None
    inner = _clamp(graph, first) if first is not None else None
    if outer is None or first is None or inner is None or graph.sole_consumer(outer[0]) is not last:
        return False
    (_, floor, ceiling), (source, low, high) = outer, inner
    if not floor <= ceiling or not low <= high:
        return False
    low, high = (min(max(bound, floor), ceiling) for bound in (low, high))
    params = {"operation": ir.u32(RELU)}
    if (low, high) != (0.0, math.inf):
        low, high = max(low, -FLOAT32.largest), min(high, FLOAT32.largest)
        params = {"operation": ir.u32(RELU_MIN_MAX), "min_value": ir.f32(low), "max_value": ir.f32(high)}
    replace_by(graph, last, "ElementWiseNeuron", [source], params, name=f"{last.name}_clamp")
    graph.discard(first)  # now: of a long chain, each would hold the origins of all before it
    return True


def _clamp(graph: Graph, op: Op) -> tuple[Tensor, float, float] | None:
    """Return the input of a float clamp, and its limits."""
    source, result = op.inputs[0] if op.inputs else None, op.outputs[0]
    if source is None or not result.dtype.is_float or result.dtype.bits > 32 or result.encoding is not None:
        return None
    if is_native(op, "ElementWiseNeuron", RELU):
        return source, 0.0, math.inf
    if is_native(op, "ElementWiseNeuron", RELU_MIN_MAX):
        return source, op.param("min_value"), op.param("max_value")
    for operation, low, high in ((MAXIMUM, None, math.inf), (MINIMUM, -math.inf, None)):
        for named in matches(graph, binary(operation, "x", "bound"), result):
            number = constant_number(named["bound"])
            if number is not None and named["x"].shape == result.shape:
                return named["x"], number if low is None else low, number if high is None else high
    return None


@op_pass(("ElementWiseNeuron", RELU_MIN_MAX), stage="converter", after=("fold_quantize_dequantize",))
def trim_clamp(graph: Graph, op: Op) -> bool:
    """Turn a fixed-point ReluMinMax into Relu, Maximum or Minimum.

    HTP computes it as one with the convolution before it, and loses both bounds if one of them is the end
    of the range or beyond it (emulation of SDK 2.51, SM8650).
    """
    source, result = op.inputs[0], op.outputs[0]
    encoding, (least, most) = result.encoding, result.dtype.limits if result.dtype.is_fixed else (0, 0)
    if source is None or not isinstance(encoding, ScaleOffset) or least == most:
        return False
    if source.dtype is not result.dtype or encoding.bits is not None:
        return False
    low, high = (
        round(min(max(op.param(name) / encoding.scale - encoding.offset, least - 1), most + 1))
        for name in ("min_value", "max_value")
    )
    if least < low and high < most:
        return False
    if least < low and op.param("min_value") == 0:
        replace_by_neuron(graph, op, source, RELU, f"{op.name}_clamp")
    elif source.encoding != encoding:
        return False
    elif low <= least and most <= high:
        if graph.is_output(result):
            return False
        graph.replace(result, source)
        graph.remove(op)
    else:
        operation, place = (MAXIMUM, low) if most <= high else (MINIMUM, high)
        bound = _bound(graph, result, min(max(place, least), most))
        params = {"operation": ir.u32(operation)}
        replace_by(graph, op, "ElementWiseBinary", [source, bound], params, name=f"{op.name}_clamp")
    return True


def _bound(graph: Graph, like: Tensor, place: int) -> Tensor:
    """Return one static quantized value of the encoding of a tensor."""
    data = ir.ArrayData(numpy.full(1, place, like.dtype.numpy))
    name = graph.unique_name(f"{like.name}_bound")
    return Tensor(name, (1,), like.dtype, like.encoding, data, Role.STATIC)
