"""GroupQueryAttention: causal attention with keys and values shared by heads."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import part, picked
from xdlc.converter.operators.ops.microsoft import _attention as core
from xdlc.converter.operators.ops.microsoft.rotary_embedding import angles, rotated
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value, check_table

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
            raise node.problem(f"{what} (input {index})")
    for name in _OPTIONS:
        if (node.attr(name) or 0) > 0:
            raise node.problem(f"{name} = {node.attr(name)}")
    count, groups = int(node.attr("num_heads", 0)), int(node.attr("kv_num_heads", 0))
    if count < 1 or groups < 1 or count % groups or any(node.outputs[3:]):
        raise node.problem(f"{count} heads in {groups} groups, {len(node.outputs)} outputs")
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
        raise node.problem(f"keys {list(key.shape)} for queries {list(query.shape)}")
    apart = (batch, length, groups, size)
    return b.reshape(query, (batch, length, count, size)), b.reshape(key, apart), b.reshape(value, apart)


def _check_lengths(node: Node, total: int) -> None:
    lengths = node.static(_LENGTHS, "the lengths of keys")
    whole = node.static(_TOTAL, "the total length")
    if lengths is None or whole is None:
        raise node.problem("lengths are missing")
    if not np.all(lengths == total - 1) or int(whole.reshape(-1)[0]) != total:
        raise node.problem(f"lengths {lengths.reshape(-1).tolist()} of {total} keys")


def _turned(node: Node, b: Builder, x: Value, past: int) -> Value:
    """Return queries or keys with their elements turned by their positions."""
    check_table(x.shape[1])
    rows = b.const(np.arange(past, past + x.shape[1], dtype=np.int32).reshape(1, -1))
    cosines, sines = (angles(b, node.required(index), rows) for index in (_COSINES, _SINES))
    return rotated(b, x, cosines, sines, interleaved=node.flag("rotary_interleaved"))


def _repeated(b: Builder, x: Value, times: int) -> Value:
    """Return [batch, groups, length, size] with each group as often as it has heads."""
    if times == 1:
        return x
    check_table(x.shape[1], times)
    return picked(b, x, 1, np.repeat(np.arange(x.shape[1]), times))
