"""QAttention: Attention of a quantized input with quantized weights."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops import _quantized
from xdlc.converter.operators.ops.microsoft.attention import self_attention
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value


@importer("QAttention", domain=MICROSOFT)
def q_attention(node: Node, b: Builder) -> list[Value]:
    """Write as Attention of the floats that input and weights denote."""
    if node.flag("do_rotary") or node.flag("past_present_share_buffer"):
        raise node.problem("rotary embeddings and shared past and present buffers are not supported")
    x, weights = node.required(0), node.required(1)
    real = _quantized.real(node, b, x, _quantized.encoding(node, 3, 6))
    columns = _quantized.real(node, b, weights, _quantized.encoding(node, 4, 7, weights, axis=1))
    return self_attention(node, b, real, columns, node.input(2), node.input(5), node.input(8), None)
