"""Fusion of float operations between borders into fixed point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xdlc import ir
from xdlc.ir import Graph
from xdlc.opdefs.model import OpDef
from xdlc.passes._fixed_point_plan import BORDERS, Plan
from xdlc.passes._fixed_point_rewriting import Rewriting
from xdlc.passes.base import graph_pass


@graph_pass(
    stage="converter",
    after=("fold_transpose_into_fully_connected", "shift_signed"),
    needs=(*BORDERS, "Reinterpret", ir.Dequantized),
)
def fold_quantize_dequantize(
    graph: Graph,
    *,
    io: bool = True,
    udos: Mapping[tuple[str, str], Sequence[OpDef]] = MappingProxyType({}),
) -> bool:
    """Set the encodings that Quantize, Dequantize and Reinterpret state.

    An operation becomes one on fixed point if every float operand is dequantized, static data that are
    stored as integers, or the result of such an operation, if every float result is quantized or has its
    operand's values, and if HTP takes the operation in fixed point at least as well as on floats.
    Operations that move values, and those that cut them off, take over the encoding of their result or
    of their operand.  What every reader rounds in the same way is rounded by its producer, up to the
    inputs of the graph.  Results stay what they were to the last bit: whatever reads the unrounded values
    still gets them, and between regions of different kinds Quantize, Dequantize and Convert remain.

    Args:
        io: Whether inputs and outputs of the graph may become fixed point; not so for a graph that
            another one runs, whose values must be of the same types on both sides.
        udos: Definitions of UDOs by package and type, one for each backend, which state what of them is
            fixed point; others stay float.
    """
    plan = Plan(graph, io, udos)
    plan.decide()
    return Rewriting(graph, plan).run()
