"""Attention, with its projections, rotary embeddings and quantized form."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.ops import quantization
from xdlc.converter.ops._compose import joined, part, picked
from xdlc.converter.ops._formulas import linear, plus
from xdlc.converter.ops.microsoft import _attention as core
from xdlc.converter.values import Value, check_table, identity
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, SUBTRACT


@importer("Attention", domain=MICROSOFT)
def attention(node: Node, b: Builder) -> list[Value]:
    """Write projections as matrix products, and attention between their heads."""
    if node.flag("do_rotary") or node.flag("past_present_share_buffer") or node.input(6):
        raise node.problem("xdlc does not support rotary embeddings and shared past and present buffers")
    if node.attr("rotary_embedding_dim", 0):
        raise node.problem("xdlc does not support rotary embeddings")
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
        raise node.problem(f"xdlc does not support an input of rank {x.rank} with {count} heads")
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


@importer("RotaryEmbedding", domain=MICROSOFT, ignores=("scale",))
def rotary_embedding(node: Node, b: Builder) -> Value:
    """Write the rotation as products and sums of halves.

    onnxruntime's kernels leave ``scale`` unread.
    """
    x, positions, cosines, sines = (node.required(index) for index in range(4))
    if node.flag("is_packed_batching"):
        raise node.problem("xdlc does not support packed batches")
    count, turned = int(node.attr("num_heads", 0)), int(node.attr("rotary_embedding_dim", 0))
    if x.rank not in (3, 4):
        raise node.problem(f"xdlc does not support an input of rank {x.rank}")
    if x.rank == 4:
        apart = b.transpose(x, (0, 2, 1, 3))
    else:
        size = x.shape[2] // count if turned and count else 2 * cosines.shape[1]
        apart = b.reshape(x, (*x.shape[:2], x.shape[2] // size, size))
    batch, length = apart.shape[:2]
    rows = placed(b, positions, batch, length)
    turned_x = rotated(
        b,
        apart,
        angles(b, cosines, rows),
        angles(b, sines, rows),
        interleaved=node.flag("interleaved"),
    )
    return b.transpose(turned_x, (0, 2, 1, 3)) if x.rank == 4 else b.reshape(turned_x, x.shape)


def placed(b: Builder, positions: Value, batch: int, length: int) -> Value:
    """Return positions [batch, length] as int32; a scalar is the first position."""
    check_table(length)
    steps = np.arange(length, dtype=np.int32).reshape(1, length)
    if positions.is_static:
        known = positions.numpy().astype(np.int32)
        return b.const(known if known.size != 1 or length * batch == 1 else known.reshape(1, 1) + steps)
    held = b.cast(positions, INT32)
    if positions.size == 1 and positions.rank < 2:
        return b.binary(ADD, b.reshape(held, (1, 1)), b.const(steps))
    return held


def angles(b: Builder, table: Value, rows: Value) -> Value:
    """Return rows of a table of cosines or sines as [batch or 1, length, 1, angles]."""
    if table.is_static and rows.is_static:
        return b.const(table.numpy()[rows.numpy()][:, :, None, :], table.tensor.name)
    shape = (*rows.shape, table.shape[1])
    found = b.emit(
        "Gather", [b.source_order(table), b.source_order(rows)], shape, table.dtype, {"axis": ir.i32(0)}
    )
    return b.reshape(Value(found, identity(3)), (*rows.shape, 1, table.shape[1]))


def rotated(b: Builder, x: Value, cosine: Value, sine: Value, *, interleaved: bool) -> Value:
    """Return [batch, length, heads, size] with its first elements rotated.

    Args:
        cosine: Cosines [batch or 1, length, 1, angles].
        interleaved: Whether elements 0 and 1 are a pair, else those of the first and the second half.
    """
    count = cosine.shape[3]
    head, tail = part(b, x, 3, 0, 2 * count), None
    if 2 * count < x.shape[3]:
        tail = part(b, x, 3, 2 * count, x.shape[3])
    lead = x.shape[:3]
    if interleaved:
        pairs = b.reshape(head, (*lead, count, 2))
        left, right = (b.reshape(part(b, pairs, 4, at, at + 1), (*lead, count)) for at in (0, 1))
    else:
        left, right = part(b, head, 3, 0, count), part(b, head, 3, count, 2 * count)
    first = b.binary(SUBTRACT, b.binary(MULTIPLY, left, cosine), b.binary(MULTIPLY, right, sine))
    second = b.binary(ADD, b.binary(MULTIPLY, right, cosine), b.binary(MULTIPLY, left, sine))
    if interleaved:
        pairs = joined(b, [b.reshape(half, (*lead, count, 1)) for half in (first, second)], 4)
        made = [b.reshape(pairs, (*lead, 2 * count))]
    else:
        made = [first, second]
    parts = made if tail is None else [*made, tail]
    return parts[0] if len(parts) == 1 else joined(b, parts, 3)


@importer("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node, b: Builder) -> list[Value]:
    """Write the heads as attention between matrices."""
    count = int(node.attr("num_heads", 0))
    if node.input(8) or node.input(9):
        raise node.problem("xdlc does not support beams, or shared past and present buffers")
    if any(node.outputs[3:]):
        raise node.problem("xdlc does not support the output of attention scores")
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
        raise node.problem(f"attention without queries, or with {count} heads, is not supported")
    if query.rank == 5:
        if bias is not None:
            raise node.problem("xdlc does not support biases for packed queries, keys and values")
        return (_packed(b, query, 0), _packed(b, query, 1), _packed(b, query, 2))
    if query.rank != 3 or query.shape[2] % count or key is None:
        raise node.problem(f"queries of shape {list(query.shape)} do not fit {count} heads")
    width = query.shape[2]
    query = core.heads(b, plus(b, query, _bias(b, bias, 0, width)), count)
    if key.rank == 5:
        if bias is not None:
            raise node.problem("xdlc does not support biases for packed keys and values")
        return query, _packed(b, key, 0), _packed(b, key, 1)
    if value is None:
        raise node.problem("xdlc does not support keys without values")
    if key.rank == 4:
        return query, key, value
    key = core.heads(b, plus(b, key, _bias(b, bias, width, 2 * width)), count)
    value = plus(b, value, _bias(b, bias, 2 * width, 2 * width + value.shape[2]))
    return query, key, core.heads(b, value, count)


def _bias(b: Builder, bias: Value | None, start: int, stop: int) -> Value | None:
    return None if bias is None else part(b, bias, 0, start, stop)


def _packed(b: Builder, x: Value, index: int) -> Value:
    """Return the packed values at ``index`` of [batch, length, heads, values, size]."""
    batch, length, count, _, size = x.shape
    chosen = b.reshape(part(b, x, 3, index, index + 1), (batch, length, count, size))
    return b.transpose(chosen, (0, 2, 1, 3))


_KEY, _VALUE, _PAST_KEY, _PAST_VALUE, _LENGTHS, _TOTAL, _COSINES, _SINES = range(1, 9)
_BIAS = 10
_REFUSED = {
    9: "given positions",
    11: "sinks",
    12: "a quantized cache",
    13: "a quantized cache",
    14: "normalized queries",
    15: "normalized keys",
}
_OPTIONS = ("softcap", "smooth_softmax", "qk_output", "sliding_window_cache")


@importer(
    "GroupQueryAttention",
    domain=MICROSOFT,
    ignores=("kv_cache_bit_width", "k_quant_type", "v_quant_type", "qk_norm_epsilon"),
)
def group_query_attention(node: Node, b: Builder) -> list[Value]:
    """Write attention between matrices, keys and values repeated for their group.

    How much of the past counts must be known, the same for the whole batch, and all of the past.
    """
    count, groups = _heads(node)
    query, key, value = _apart(node, b, count, groups)
    batch, length = query.shape[:2]
    past_key, past_value = node.input(_PAST_KEY), node.input(_PAST_VALUE)
    past = past_key.shape[2] if past_key is not None else 0
    _check_lengths(node, past + length)
    if node.flag("do_rotary"):
        query, key = _turned(node, b, query, past), _turned(node, b, key, past)
    query, key, value = (b.transpose(state, (0, 2, 1, 3)) for state in (query, key, value))
    key = core.with_past(b, past_key, key)
    value = core.with_past(b, past_value, value)
    sizes = core.Sizes(batch, length, past + length, past)
    window, extra, mask = int(node.attr("local_window_size", -1)), node.input(_BIAS), None
    if node.flag("causal", 1):
        mask = core.causal_mask(node, b, None, query, sizes, extra, max(window, 0))
    keys, values = (_repeated(b, state, count // groups) for state in (key, value))
    return [core.attend(node, b, query, keys, values, mask, extra), key, value]


def _heads(node: Node) -> tuple[int, int]:
    """Return the numbers of query and key heads; refuse unsupported forms."""
    for index, what in _REFUSED.items():
        if node.input(index) is not None:
            raise node.problem(f"xdlc does not support input {index} ({what})")
    for name in _OPTIONS:
        if (node.attr(name) or 0) > 0:
            raise node.problem(f"xdlc does not support {name} = {node.attr(name)}")
    count, groups = int(node.attr("num_heads", 0)), int(node.attr("kv_num_heads", 0))
    if count < 1 or groups < 1 or count % groups or any(node.outputs[3:]):
        raise node.problem(
            f"{count} heads, {groups} groups and {len(node.outputs)} outputs are not supported"
        )
    return count, groups


def _apart(node: Node, b: Builder, count: int, groups: int) -> tuple[Value, Value, Value]:
    """Return queries, keys and values as [batch, length, heads, size]."""
    query, key, value = node.required(0), node.input(_KEY), node.input(_VALUE)
    batch, length, width = query.shape
    if key is None or value is None:
        size = width // (count + 2 * groups)
        heads = b.reshape(query, (batch, length, count + 2 * groups, size))
        return (
            part(b, heads, 2, 0, count),
            part(b, heads, 2, count, count + groups),
            part(b, heads, 2, count + groups, count + 2 * groups),
        )
    size = width // count
    if key.shape != (batch, length, groups * size) or value.shape != key.shape:
        raise node.problem(f"keys {list(key.shape)} do not fit queries {list(query.shape)}")
    apart = (batch, length, groups, size)
    return b.reshape(query, (batch, length, count, size)), b.reshape(key, apart), b.reshape(value, apart)


def _check_lengths(node: Node, total: int) -> None:
    lengths = node.static(_LENGTHS, "the lengths of keys")
    whole = node.static(_TOTAL, "the total length")
    if lengths is None or whole is None:
        raise node.problem("the lengths of the keys are missing")
    if not np.all(lengths == total - 1) or int(whole.reshape(-1)[0]) != total:
        raise node.problem(f"lengths {lengths.reshape(-1).tolist()} do not fit {total} keys")


def _turned(node: Node, b: Builder, x: Value, past: int) -> Value:
    """Return queries or keys with their elements turned by their positions."""
    check_table(x.shape[1])
    rows = b.const(np.arange(past, past + x.shape[1], dtype=np.int32).reshape(1, -1))
    cosines, sines = (angles(b, node.required(index), rows) for index in (_COSINES, _SINES))
    return rotated(b, x, cosines, sines, interleaved=node.flag("rotary_interleaved"))


def _repeated(b: Builder, x: Value, times: int) -> Value:
    """Return [batch, groups, length, size] with each group repeated ``times``."""
    if times == 1:
        return x
    check_table(x.shape[1], times)
    return picked(b, x, 1, np.repeat(np.arange(x.shape[1]), times))


@importer("QAttention", domain=MICROSOFT)
def q_attention(node: Node, b: Builder, x: Value, weights: Value) -> list[Value]:
    """Write as Attention of the floats that input and weights denote."""
    if node.flag("do_rotary") or node.flag("past_present_share_buffer"):
        raise node.problem("xdlc does not support rotary embeddings and shared past and present buffers")
    real = quantization.real(node, b, x, quantization.encoding(node, 3, 6))
    columns = quantization.real(node, b, weights, quantization.encoding(node, 4, 7, weights, axis=1))
    return self_attention(node, b, real, columns, node.input(2), node.input(5), node.input(8), None)
