"""Which tensors are quantized symmetrically because users' ops write or read them signed.

Signed integers have offset 0.  Where such a tensor and its unsigned neighbours share a range that lies
symmetrically about zero, a Convert between them changes the type alone and rounds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.ir import Graph, Tensor
from xdlc.quant.placement import Placement


def is_signed(graph: Graph, placement: Placement, members: Sequence[Tensor]) -> bool:
    """Return whether a group has signed tensors, or is read as signed integers of as many bits alone.

    Args:
        graph: The float graph.
        placement: Which of its ops are quantized.
        members: Tensors that share an encoding.
    """
    if not placement.ports:
        return False
    types = [placement.type_of(graph, member) for member in members]
    if any(dtype is not None and dtype.is_signed for dtype in types):
        return True
    inside, signed = set(members), False
    bits = placement.bits_of(graph, members[0])
    for member in members:
        if graph.is_output(member):
            return False
        for dtype, uses in placement.readers(graph, member).items():
            outside = [op for op, _ in uses if inside.isdisjoint(op.outputs)]
            if outside and (dtype is None or not dtype.is_signed or dtype.bits != bits):
                return False
            signed = signed or bool(outside)
    return signed
