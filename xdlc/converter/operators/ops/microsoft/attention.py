"""Attention: projections of one input, then attention of all heads."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import joined, part
from xdlc.converter.operators.ops._formulas import linear
from xdlc.converter.operators.ops.microsoft import _attention as core
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value


@importer("Attention", domain=MICROSOFT)
def attention(node: Node, b: Builder) -> list[Value]:
    """Write projections as matrix products, and attention between their heads."""
    if node.flag("do_rotary") or node.flag("past_present_share_buffer") or node.input(6):
        raise node.problem("rotary embeddings and shared past and present buffers are not supported")
    if node.attr("rotary_embedding_dim", 0):
        raise node.problem("rotary embeddings are not supported")
    return self_attention(
        node,
        b,
        node.required(0),
        node.required(1),
        node.input(2),
        node.input(3),
        node.input(4),
        node.input(5),
    )


def self_attention(
    node: Node,
    b: Builder,
    x: Value,
    weights: Value,
    bias: Value | None,
    mask: Value | None,
    past: Value | None,
    extra: Value | None,
) -> list[Value]:
    """Append self-attention with merged projections; return output and present state.

    Args:
        node: The node, for its attributes.
        x: Input [batch, length, width].
        weights: Weights of queries, keys and values side by side.
        bias: Their biases, or None.
        mask: Mask of the keys, or None.
        past: Keys and values of the past [2, batch, heads, length, size], or None.
        extra: Added to the scores, or None.
    """
    count = int(node.attr("num_heads", 0))
    if x.rank != 3 or count < 1:
        raise node.problem(f"input of rank {x.rank}, {count} heads")
    widths = [int(width) for width in node.attr("qkv_hidden_sizes") or [weights.shape[1] // 3] * 3]
    if len(widths) != 3 or sum(widths) != weights.shape[1] or any(width % count for width in widths):
        raise node.problem(f"widths {widths} do not fit {weights.shape[1]} columns and {count} heads")
    projected, start = [], 0
    for width in widths:
        columns = part(b, weights, 1, start, start + width)
        shift = None if bias is None else part(b, bias, 0, start, start + width)
        projected.append(core.heads(b, linear(node, b, x, columns, shift), count))
        start += width
    query, key, value = projected
    if past is not None:
        key, value = (
            core.with_past(b, _state(b, past, index), state) for index, state in ((0, key), (1, value))
        )
    sizes = core.Sizes(x.shape[0], x.shape[1], key.shape[2], key.shape[2] - x.shape[1])
    mask = core.key_mask(node, b, mask, x, sizes)
    if node.flag("unidirectional"):
        mask = core.causal_mask(node, b, mask, x, sizes, extra)
    attended = core.attend(node, b, query, key, value, mask, extra)
    if not any(node.outputs[1:]):
        return [attended]
    present = [b.reshape(state, (1, *state.shape)) for state in (key, value)]
    return [attended, joined(b, present, 0)]


def _state(b: Builder, past: Value, index: int) -> Value:
    return b.reshape(part(b, past, 0, index, index + 1), past.shape[1:])
