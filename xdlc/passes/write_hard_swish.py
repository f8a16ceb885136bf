"""HardSwish of floats by its definition, more precise on HTP."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, HARD_SWISH, MULTIPLY, RELU_MIN_MAX
from xdlc.passes._match import is_native
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass


@graph_pass(stage="htp", op_types=("ElementWiseNeuron",))
@dataclass(frozen=True, slots=True)
class WriteHardSwish:
    """Turn HardSwish of float32 into ``x * clamp(x + 3, 0, 6) / 6``.

    In half precision the relative L2 error of the op is 7.8e-4 on normal numbers, that of the definition
    3.7e-4, as much as rounding its steps costs (emulation of SDK 2.51, SM8650).  Dividing first would be as
    precise, but round otherwise than the networks that have the op written so; products above 2^17 saturate.
    """

    name: str = "write_hard_swish"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        found = [op for op in graph.ops if is_native(op, "ElementWiseNeuron", HARD_SWISH)]
        changed = [_write(graph, op) for op in found]
        return any(changed)


def _write(graph: Graph, op: Op) -> bool:
    x = op.inputs[0]
    if x is None or x.dtype is not FLOAT32 or op.outputs[0].dtype is not FLOAT32 or x.dynamic_axes:
        return False
    writer = Writer(graph, op, "HTP's HardSwish is less precise than its definition")
    raised = writer.binary(ADD, x, writer.number(3))
    bounds = {"operation": ir.u32(RELU_MIN_MAX), "min_value": ir.f32(0), "max_value": ir.f32(6)}
    gate = writer.emit("ElementWiseNeuron", [raised], x.shape, bounds)
    writer.finish(writer.binary(DIVIDE, writer.binary(MULTIPLY, x, gate), writer.number(6)))
    return True
