"""Attention layers."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.functions.normalization import softmax as softmax_last
from xdlc.converter.functions.products import swapped
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import dims, permuted, reshape, vector
from xdlc.converter.keras.registry import (
    Operand,
    argument,
    as_float,
    batched,
    handler,
    inputs,
    number_of,
    only_input,
    required_weight,
    weight,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir.dtype import BOOL8

_EXCLUDED = -1e9


def _projected(node: Node, g: Operators, x: Value, part: str) -> Value:
    """Return [N, T, heads, size] of [N, T, C]."""
    kernel, bias = required_weight(node, f"{part}/kernel", 3), weight(node, f"{part}/bias")
    channels, heads, size = kernel.shape
    if x.shape[-1] != channels:
        raise node.invalid(
            f"an input of {x.shape[-1]} features does not fit weights {list(kernel.shape)} of {part}"
        )
    made = g("MatMul", [x, reshape(g, kernel, (channels, heads * size))])
    if bias is not None:
        made = g("Add", [made, reshape(g, bias, (heads * size,))])
    return batched(g, made, [*dims(x, [1]), heads, size])


def _merged(node: Node, g: Operators, x: Value) -> Value:
    """Return the output [N, T, O] of [N, T, heads, size]."""
    kernel, bias = required_weight(node, "output_dense/kernel"), weight(node, "output_dense/bias")
    heads, size, *rest = kernel.shape
    steps = dims(x, [1])
    x = batched(g, x, [*steps, heads * size])
    made = g("MatMul", [x, reshape(g, kernel, (heads * size, math.prod(rest)))])
    if bias is not None:
        made = g("Add", [made, reshape(g, bias, (math.prod(rest),))])
    return made if len(rest) == 1 else batched(g, made, [*steps, *rest])


@handler(
    "MultiHeadAttention",
    "GroupQueryAttention",
    ignores=("num_heads", "key_dim", "value_dim", "head_dim", "num_query_heads", "num_key_value_heads"),
)
def multi_head(node: Node, g: Operators) -> list[Value]:
    """Apply attention of several heads to projections of queries, keys and values."""
    query = as_float(g, only_input(node))
    value = as_float(g, argument(node, "value") or query)
    key = as_float(g, argument(node, "key") or value)
    node.attr("use_bias"), node.attr("output_shape")
    rank, axes = query.rank, node.attr("attention_axes")
    axes = list(range(1, rank - 1)) if axes is None else [axes] if isinstance(axes, int) else axes
    if [axis % rank for axis in axes] != list(range(1, rank - 1)):
        raise node.problem(f"attention_axes {axes} must be all axes of rank {rank} but batch and features")
    shape, steps = (dims(x, range(1, rank - 1)) for x in (query, key))
    if rank > 3:
        query, value, key = (batched(g, x, [-1, x.shape[-1]]) for x in (query, value, key))
    heads = {
        part: permuted(g, _projected(node, g, x, f"{part}_dense"), (0, 2, 1, 3))
        for part, x in (("query", query), ("key", key), ("value", value))
    }
    count, size = heads["query"].shape[1], heads["query"].shape[-1]
    for part in ("key", "value"):
        heads[part] = _repeated(g, heads[part], count)
    scaled = g("Mul", [heads["query"], 1 / math.sqrt(size)])
    scores = g("MatMul", [scaled, swapped(g, heads["key"])])
    mask = _mask(node, g, query, key)
    if mask is not None:
        scores = g("Where", [mask, scores, _EXCLUDED])
    shares = softmax_last(g, scores)
    mixed = permuted(g, g("MatMul", [shares, heads["value"]]), (0, 2, 1, 3))
    if node.attr("use_gate", False):
        mixed = g("Mul", [mixed, g("Sigmoid", [_projected(node, g, query, "gate_dense")])])
    attended = _merged(node, g, mixed)
    attended = batched(g, attended, [*shape, *attended.shape[2:]]) if rank > 3 else attended
    if not node.attr("return_attention_scores", False):
        return [attended]
    if rank > 3:
        shares = batched(g, shares, [count, *shape, *steps])
    return [attended, shares]


def _repeated(g: Operators, x: Value, count: int) -> Value:
    """Return [N, heads, T, size] with each head repeated, ``count`` heads in all."""
    heads = x.shape[1]
    if heads == count:
        return x
    if count % heads:
        raise ModelError(
            f"{count} query heads are not a multiple of {heads} key heads",
            fix="make the number of query heads a multiple of the key heads",
        )
    return g("Gather", [x, vector(g, np.repeat(np.arange(heads), count // heads))], axis=1)


def _mask(node: Node, g: Operators, query: Value, key: Value) -> Value | None:
    """Return which scores [N, 1, T, S] count; None for all."""
    parts = []
    given = argument(node, "attention_mask")
    if given is not None:
        given = given if given.dtype is BOOL8 else g("Not", [g("Equal", [given, 0])])
        parts.append(given if given.rank == 4 else g("Unsqueeze", [given, [1]]))
    for name, axis in (("query_mask", 2), ("value_mask", 1), ("key_mask", 1)):
        mask = argument(node, name)
        if mask is not None:
            parts.append(g("Unsqueeze", [mask, vector(g, [1, 3] if axis == 2 else [1, 2])]))
    window = node.attr("sliding_window")
    if node.attr("use_causal_mask", False) or window is not None:
        counts = (*dims(query, [1]), *dims(key, [1]))
        check_table(*counts)
        places = [np.arange(each) for each in counts]
        distance = places[0][:, None] - places[1]
        allowed = distance >= 0 if node.attr("use_causal_mask", False) else np.ones(distance.shape, bool)
        if window is not None:
            allowed &= np.abs(distance) < number_of(node, "sliding_window")
        parts.append(g.builder.const(allowed))
    found = None
    for part in parts:
        found = part if found is None else g("And", [found, part])
    return found


@handler("Attention", "AdditiveAttention")
def attention(node: Node, g: Operators) -> list[Value]:
    """Apply attention to queries, values and keys without projections."""
    query, value, *rest = (as_float(g, each) for each in inputs(node))
    key = rest[0] if rest else value
    scale = weight(node, "scale")
    node.attr("use_scale")
    mode = "additive" if node.type == "AdditiveAttention" else node.attr("score_mode", "dot")
    if mode == "dot":
        scores = g("MatMul", [query, swapped(g, key)])
        scores = scores if scale is None else g("Mul", [scores, scale])
    else:
        both = g("Add", [g("Unsqueeze", [query, [-2]]), g("Unsqueeze", [key, [-3]])])
        if mode == "concat":
            both = both if scale is None else g("Mul", [both, scale])
            total = reduced(g, "Sum", g("Tanh", [both]), [both.rank - 1], keep=False)
            scores = g("Mul", [total, required_weight(node, "concat_score_weight")])
        else:
            both = g("Tanh", [both])
            both = both if scale is None else g("Mul", [both, scale])
            scores = reduced(g, "Sum", both, [both.rank - 1], keep=False)
    queries, values = _masks(node)
    if node.attr("use_causal_mask", False) or node.attr("causal", False):
        count = dims(scores, [-2, -1])
        check_table(*count)
        allowed = g.builder.const(np.tril(np.ones(count, bool)))
        values = None if values is None else g("Unsqueeze", [values, [-2]])
        values = allowed if values is None else g("And", [values, allowed])
    elif values is not None:
        values = g("Unsqueeze", [values, [-2]])
    if values is not None:
        scores = g("Where", [values, scores, g("Sub", [scores, 1e9])])
    shares = softmax_last(g, scores)
    made = g("MatMul", [shares, value])
    if queries is not None:
        made = g("Where", [g("Unsqueeze", [queries, [-1]]), made, 0])
    return [made, shares] if node.attr("return_attention_scores", False) else [made]


def _masks(node: Node) -> tuple[Value | None, Value | None]:
    """Return the masks of queries and values."""
    given = node.attr("mask")
    given = given if type(given) is list else [given]
    found = [node.required(each.place) if isinstance(each, Operand) else None for each in given]
    found += [None, None]
    return found[0], found[1]
