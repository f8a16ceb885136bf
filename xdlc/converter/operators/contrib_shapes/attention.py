"""Output shapes of attention, keys and values of the past included."""

from __future__ import annotations

from typing import Any

from xdlc.converter.operators.contrib_shapes.rules import (
    Output,
    Rule,
    at,
    float32,
    over,
    plus,
    times,
)


def attention(past: int) -> Rule:
    """Return the shape rule of attention with past keys and values in input ``past``."""

    def rule(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
        batch, length, _ = shapes[0]
        count = attributes["num_heads"]
        widths = attributes.get("qkv_hidden_sizes") or [over(shapes[1][1], 3)] * 3
        earlier = at(shapes, past)
        if attributes.get("past_present_share_buffer") and earlier is not None:
            total = earlier[3]
        else:
            total = length if earlier is None else plus(length, earlier[3])
        real = float32() if past == 8 else dtypes[0]
        return [
            ((batch, length, widths[2]), real),
            ((2, batch, count, total, over(widths[1], count)), real),
        ]

    return rule


def multi_head_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return shapes of MultiHeadAttention: output, present keys and values, scores."""
    count, dtype = attributes["num_heads"], dtypes[0]
    query, key, value = shapes[0], at(shapes, 1), at(shapes, 2)
    if len(query) == 5:
        batch, length, keys, width = query[0], query[1], query[1], times(query[4], count)
    elif len(key) == 5:
        batch, length, keys, width = query[0], query[1], key[1], query[2]
    elif len(key) == 4:
        batch, length, keys, width = query[0], query[1], key[2], times(value[3], count)
    else:
        batch, length, keys, width = query[0], query[1], key[1], value[2]
    past = at(shapes, 6)
    total = keys if past is None else plus(past[2], keys)
    if past is not None and at(dtypes, 8) is not None:
        total = past[2]
    size = query[4] if len(query) == 5 else over(query[2], count)
    return [
        ((batch, length, width), dtype),
        ((batch, count, total, size), dtype),
        ((batch, count, total, over(width, count)), dtype),
        ((batch, count, length, total), dtype),
    ]


def decoder_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """DecoderMaskedMultiHeadAttention: one query after a past."""
    count, dtype = attributes["num_heads"], dtypes[0]
    query, key, value, past = shapes[0], at(shapes, 1), at(shapes, 2), at(shapes, 5)
    if key is not None and len(key) == 4:
        total, width = key[2], times(value[3], count)
    else:
        width = over(query[2], 3) if key is None else value[2]
        total = 1 if past is None else plus(past[2], 1)
        if past is not None and attributes.get("past_present_share_buffer"):
            total = past[2]
    size = over(width, count)
    return [
        ((query[0], query[1], width), dtype),
        ((query[0], count, total, size), dtype),
        ((query[0], count, total, size), dtype),
        ((query[0], count, 1, total), dtype),
    ]


def group_query_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return shapes of GroupQueryAttention; past and input 6 state the length of keys."""
    query, past = shapes[0], at(shapes, 3)
    count, groups = attributes["num_heads"], attributes["kv_num_heads"]
    packed = at(dtypes, 1) is None
    width = times(over(query[2], count + 2 * groups), count) if packed else query[2]
    size = over(width, count)
    total = at(values, 6)
    stated = None if total is None else int(total.reshape(-1)[0])
    keys: int | None = None
    if past is not None and past[2] is not None and stated is not None:
        keys = max(past[2], stated)
    elif past is None:
        keys = stated
    state = (query[0], groups, keys, size)
    stored = at(dtypes, 3) or dtypes[0]
    return [
        ((query[0], query[1], width), dtypes[0]),
        ((*past[:2], keys, past[3]) if past is not None else state, stored),
        ((*past[:2], keys, past[3]) if past is not None else state, stored),
        ((query[0], count, query[1], stated), dtypes[0]),
    ]
