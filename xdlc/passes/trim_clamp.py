"""Removal of bounds of clamps that the encoding of their result implies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Role, ScaleOffset, Tensor
from xdlc.opdefs.elementwise_enums import MAXIMUM, MINIMUM, RELU, RELU_MIN_MAX
from xdlc.passes._match import is_native, replace_by, replace_by_neuron
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fold_quantize_dequantize",), op_types=("ElementWiseNeuron",))
@dataclass(frozen=True, slots=True)
class TrimClamp:
    """Turn a fixed-point ReluMinMax into Relu, Maximum or Minimum.

    HTP computes it as one with the convolution before it, and loses both bounds if one of them is the end
    of the range or beyond it (emulation of SDK 2.51, SM8650).
    """

    name: str = "trim_clamp"

    def apply(self, graph: Graph) -> bool:
        results = [_trim(graph, op) for op in graph.ops if is_native(op, "ElementWiseNeuron", RELU_MIN_MAX)]
        return any(results)


def _trim(graph: Graph, op: Op) -> bool:
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
        replace_by(
            graph,
            op,
            "ElementWiseBinary",
            [source, bound],
            {"operation": ir.u32(operation)},
            name=f"{op.name}_clamp",
        )
    return True


def _bound(graph: Graph, like: Tensor, place: int) -> Tensor:
    """Return one static quantized value of the encoding of a tensor."""
    data = ir.ArrayData(numpy.full(1, place, like.dtype.numpy))
    name = graph.unique_name(f"{like.name}_bound")
    return Tensor(name, (1,), like.dtype, like.encoding, data, Role.STATIC)
