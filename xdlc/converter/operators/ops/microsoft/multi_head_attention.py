"""MultiHeadAttention: attention between projected queries, keys and values."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import part
from xdlc.converter.operators.ops._formulas import plus
from xdlc.converter.operators.ops.microsoft import _attention as core
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value


@importer("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node, b: Builder) -> list[Value]:
    """Write the heads as attention between matrices."""
    count = int(node.attr("num_heads", 0))
    if node.input(8) or node.input(9):
        raise node.problem("shared past and present buffers, and beams, are not supported")
    if any(node.outputs[3:]):
        raise node.problem("its output of scores is not supported")
    query, key, value = _projected(node, b, count)
    past = node.input(6)
    key = core.with_past(b, past, key)
    value = core.with_past(b, node.input(7), value)
    sizes = core.Sizes(query.shape[0], query.shape[2], key.shape[2], past.shape[2] if past else 0)
    extra = node.input(5)
    mask = core.key_mask(node, b, node.input(4), query, sizes)
    if node.flag("unidirectional"):
        mask = core.causal_mask(node, b, mask, query, sizes, extra)
    return [core.attend(node, b, query, key, value, mask, extra), key, value]


def _projected(node: Node, b: Builder, count: int) -> tuple[Value, Value, Value]:
    """Return queries, keys and values as [batch, heads, length, size], biases added."""
    query, key, value, bias = (node.input(index) for index in range(4))
    if query is None or count < 1:
        raise node.problem(f"no queries, or {count} heads")
    if query.rank == 5:
        if bias is not None:
            raise node.problem("biases for packed queries, keys and values are not supported")
        return (_packed(b, query, 0), _packed(b, query, 1), _packed(b, query, 2))
    if query.rank != 3 or query.shape[2] % count or key is None:
        raise node.problem(f"queries of shape {list(query.shape)} for {count} heads")
    width = query.shape[2]
    query = core.heads(b, plus(b, query, _bias(b, bias, 0, width)), count)
    if key.rank == 5:
        if bias is not None:
            raise node.problem("biases for packed keys and values are not supported")
        return query, _packed(b, key, 0), _packed(b, key, 1)
    if value is None:
        raise node.problem("keys without values")
    if key.rank == 4:
        return query, key, value
    key = core.heads(b, plus(b, key, _bias(b, bias, width, 2 * width)), count)
    value = plus(b, value, _bias(b, bias, 2 * width, 2 * width + value.shape[2]))
    return query, key, core.heads(b, value, count)


def _bias(b: Builder, bias: Value | None, start: int, stop: int) -> Value | None:
    return None if bias is None else part(b, bias, 0, start, stop)


def _packed(b: Builder, x: Value, index: int) -> Value:
    """Return one of the values packed as [batch, length, heads, values, size]."""
    batch, length, count, _, size = x.shape
    chosen = b.reshape(part(b, x, 3, index, index + 1), (batch, length, count, size))
    return b.transpose(chosen, (0, 2, 1, 3))
