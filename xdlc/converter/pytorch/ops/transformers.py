"""Handlers of whole transformer layers, as PyTorch's fast path calls them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc.converter.functions.products import fully_connected, swapped
from xdlc.converter.functions.shapes import dims, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops.normalization import masked_softmax
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value


@dataclass(frozen=True, slots=True)
class _Heads:
    """Weights of an attention of several heads.

    Attributes:
        qkv: Weights [3 * E, E] and biases of queries, keys and values.
        proj: Weights [E, E] and biases of the results.
        mask: True where a key is hidden, or None.
        kind: Kind of the mask, as of ``masked_softmax``.
    """

    count: int
    qkv: tuple[Value, Value]
    proj: tuple[Value, Value]
    mask: Value | None
    kind: int | None


def _linear(g: Operators, x: Value, weight: Value, bias: Value) -> Value:
    if weight.is_static and bias.is_static:
        return fully_connected(g, x, weight, bias, keep_dims=True)
    return g("Add", [g("MatMul", [x, swapped(g, weight)]), bias])


def _attended(g: Operators, parts: list[Value], heads: _Heads) -> tuple[Value, Value]:
    """Return attention over values [N, L, E], and its weights [N, heads, L, S]."""
    width = dims(parts[0])[2]
    size = width // heads.count
    query, key, value = (
        permuted(g, reshape(g, part, (*dims(part)[:2], heads.count, size)), (0, 2, 1, 3)) for part in parts
    )
    query = g("Mul", [query, 1 / math.sqrt(size)])
    scores = g("MatMul", [query, swapped(g, key)])
    weights = masked_softmax(g, scores, heads.mask, 3, heads.kind)
    made = permuted(g, g("MatMul", [weights, value]), (0, 2, 1, 3))
    return _linear(g, reshape(g, made, (*dims(made)[:2], width)), *heads.proj), weights


def _projected(g: Operators, inputs: list[Value], heads: _Heads) -> list[Value]:
    """Return queries, keys and values; a common input needs only one product."""
    weight, bias = heads.qkv
    width = dims(weight)[1]
    third = vector(g, [width] * 3)
    if inputs[0] is inputs[1] is inputs[2]:
        return g.apply("Split", [_linear(g, inputs[0], weight, bias), third], {"axis": 2}, 3)
    weights, biases = (g.apply("Split", [each, third], {"axis": 0}, 3) for each in heads.qkv)
    return [_linear(g, *each) for each in zip(inputs, weights, biases, strict=True)]


@aten("_native_multi_head_attention", ignores=("embed_dim",))
def _multi_head_attention(
    node: AtenNode,
    g: Operators,
    query: Value,
    key: Value,
    value: Value,
    num_head: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    mask: Value | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> list[Value]:
    heads = _Heads(num_head, (qkv_weight, qkv_bias), (proj_weight, proj_bias), mask, mask_type)
    made, weights = _attended(g, _projected(g, [query, key, value], heads), heads)
    if not need_weights:
        return [made]
    return [made, g("ReduceMean", [weights, [1]], keepdims=0) if average_attn_weights else weights]


@aten("_transformer_encoder_layer_fwd", ignores=("embed_dim",))
def _encoder_layer(
    node: AtenNode,
    g: Operators,
    src: Value,
    num_heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Value,
    norm_bias_1: Value,
    norm_weight_2: Value,
    norm_bias_2: Value,
    ffn_weight_1: Value,
    ffn_bias_1: Value,
    ffn_weight_2: Value,
    ffn_bias_2: Value,
    mask: Value | None,
    mask_type: int | None,
) -> Value:
    heads = _Heads(num_heads, (qkv_weight, qkv_bias), (proj_weight, proj_bias), mask, mask_type)

    def norm(x: Value, weight: Value, bias: Value) -> Value:
        return g("LayerNormalization", [x, weight, bias], axis=-1, epsilon=eps)

    def attention(x: Value) -> Value:
        return _attended(g, _projected(g, [x, x, x], heads), heads)[0]

    def feed_forward(x: Value) -> Value:
        inner = _linear(g, x, ffn_weight_1, ffn_bias_1)
        return _linear(g, g("Gelu" if use_gelu else "Relu", [inner]), ffn_weight_2, ffn_bias_2)

    x = src
    for part, weights in (
        (attention, (norm_weight_1, norm_bias_1)),
        (feed_forward, (norm_weight_2, norm_bias_2)),
    ):
        made = g("Add", [x, part(norm(x, *weights) if norm_first else x)])
        x = made if norm_first else norm(made, *weights)
    return x
