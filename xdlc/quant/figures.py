"""SQNR and top-1 agreement of a quantized network's outputs on samples that its ranges have not seen."""

from __future__ import annotations

from xdlc.ir import Graph
from xdlc.quant.choice import judged
from xdlc.quant.rules import is_real

MOST_HELD_OUT = 8
"""Samples that are measured."""


def measured_outputs(graph: Graph) -> list[str]:
    """Return the names of the tensors by which outputs are measured: ``judged`` ones, and integer outputs."""
    others = [tensor.name for tensor in graph.outputs if not is_real(tensor) and tensor.size]
    return list(dict.fromkeys((*judged(graph), *others)))
