"""Fusion of HardSwish written out with a clamp."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc.ir import Graph, Op
from xdlc.opdefs.elementwise_enums import ADD, HARD_SIGMOID, HARD_SWISH, RELU_MIN_MAX
from xdlc.passes._match import is_binary, is_constant, is_native, product_chain, replace_by_neuron
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fuse_gelu",), op_types=("ElementWiseNeuron",))
@dataclass(frozen=True, slots=True)
class FuseHardSwish:
    """Turn ``x * clamp(x + 3, 0, 6) / 6`` or ``x * hard_sigmoid(x)`` with slope 1/6 into HardSwish."""

    name: str = "fuse_hard_swish"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in graph.ops if op.type == "ElementWiseNeuron"]
        return any(results)


def _fuse(graph: Graph, op: Op) -> bool:
    inner = op.inputs[0]
    if inner is None or not inner.dtype.is_float:
        return False
    if is_native(op, "ElementWiseNeuron", RELU_MIN_MAX):
        if (op.param("min_value"), op.param("max_value")) != (0.0, 6.0) or not is_binary(inner.producer, ADD):
            return False
        plus = inner.producer
        if plus is None or graph.sole_consumer(inner) is not op:
            return False
        source = next((a for a, b in (plus.inputs, plus.inputs[::-1]) if is_constant(b, 3.0)), None)
        factor = 1.0 / 6.0
    elif is_native(op, "ElementWiseNeuron", HARD_SIGMOID):
        slope, middle = op.param("alpha", 0.2), op.param("beta", 0.5)
        if not math.isclose(slope, 1.0 / 6.0, rel_tol=1e-5) or not math.isclose(middle, 0.5, rel_tol=1e-5):
            return False
        source, factor = inner, 1.0
    else:
        return False
    last = product_chain(graph, op.outputs[0], source, factor) if source is not None else None
    if last is None or source is None:
        return False
    replace_by_neuron(graph, last, source, HARD_SWISH, f"{op.name}_hard_swish")
    return True
