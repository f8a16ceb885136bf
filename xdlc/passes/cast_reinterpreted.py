"""Lowering of Reinterpret to the Cast that HTP has for it."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.ir.dtype import UFIXED8, UINT8
from xdlc.passes.base import graph_pass


@graph_pass(stage="htp", after=("dequantize_weights",))
@dataclass(frozen=True, slots=True)
class CastReinterpreted:
    """Turn Reinterpret between 8-bit unsigned fixed point and uint8 into Cast.

    HTP's Cast keeps the stored bytes there, whatever the encoding (emulation of SDK 2.51, SM8650).  Of
    other widths and signed types it has no such Cast, so they stay ops of the host.
    """

    name: str = "cast_reinterpreted"

    def apply(self, graph: Graph) -> bool:
        reinterprets = [
            op
            for op in graph.ops
            if op.package == ir.HOST_PACKAGE and op.type == "Reinterpret" and _is_byte(op)
        ]
        for op in reinterprets:
            cast = Op("Cast", op.inputs, op.outputs, name=op.name, origin=op.origin)
            graph.replace_op(op, cast)
        return bool(reinterprets)


def _is_byte(op: Op) -> bool:
    source = op.inputs[0]
    return source is not None and {source.dtype, op.outputs[0].dtype} == {UFIXED8, UINT8}
