"""How much of a tensor's range its readers can tell apart.

Sigmoid gives the same stored integer for -20 and -2000; a range that reaches to -2000 only makes the
steps near zero coarse.  Where all readers saturate, the writer may saturate before them.
"""

from __future__ import annotations

import math

from xdlc.ir import Graph, Op, Tensor
from xdlc.quant.op_specs import rule_of, single_name
from xdlc.quant.ranges import Range

EVERYTHING = Range(-math.inf, math.inf)
NEGLIGIBLE = 0.1
"""Error that saturation may cost, in steps of a result that spans one unit."""


def useful_range(graph: Graph, tensor: Tensor, bits: int) -> Range:
    """Return the range outside of which no reader of ``tensor`` gives another result.

    Args:
        graph: The graph.
        tensor: An activation.
        bits: Bits of an activation.
    """
    writer = rule_of(tensor.producer) if tensor.producer is not None else None
    readers = graph.consumers(tensor)
    if writer is None or not writer.clamped_by_range or graph.is_output(tensor) or not readers:
        return EVERYTHING
    gate = _gate(graph, tensor, readers)
    if gate is not None:
        # x * sigmoid(x) falls off like x * exp(x): three more units do what the factor x undoes.
        return Range(-(_tail(bits) + 3.0), math.inf)
    limits = [_limit(op, bits) for op in readers]
    return Range(min(limit.low for limit in limits), max(limit.high for limit in limits))


def _tail(bits: int) -> float:
    """Return the x for which exp(-x) is a negligible part of a step."""
    return math.log((1 << bits) / NEGLIGIBLE)


def _limit(op: Op, bits: int) -> Range:
    kind, tail = single_name(op), _tail(bits)
    if kind == "Sigmoid":
        return Range(-tail, tail)
    if kind == "Tanh":
        return Range(-tail / 2, tail / 2)
    if kind in ("Relu", "Relu6", "Relu1", "ReluMinMax"):
        low = {"Relu1": -1.0}.get(kind, float(op.param("min_value", 0.0)) if kind == "ReluMinMax" else 0.0)
        high = {"Relu6": 6.0, "Relu1": 1.0}.get(kind, math.inf)
        return Range(low, float(op.param("max_value", high)) if kind == "ReluMinMax" else high)
    if kind == "HardSwish":
        return Range(-3.0, math.inf)
    if kind in ("Elu", "Gelu", "ElementWiseSoftplus"):
        return Range(-tail, math.inf)
    return EVERYTHING


def _gate(graph: Graph, tensor: Tensor, readers: tuple[Op, ...]) -> Op | None:
    """Return the Sigmoid of ``x * sigmoid(x)`` (SiLU) if that is all that reads ``tensor``."""
    if len(readers) != 2:
        return None
    gate = next((op for op in readers if single_name(op) == "Sigmoid"), None)
    product = next((op for op in readers if single_name(op) == "ElementWiseMultiply"), None)
    if gate is None or product is None or graph.sole_consumer(gate.outputs[0]) is not product:
        return None
    return gate if set(product.inputs) == {tensor, gate.outputs[0]} else None
