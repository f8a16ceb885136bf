"""Handlers of attention, transformer layers and the softmax family."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xdlc.converter.nhwc.reduce import fully_connected, softmax, swapped
from xdlc.converter.nhwc.shapes import axis_of, cast, dims, number, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import operand
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8

_LOWEST = float(np.finfo(np.float32).min)


# ---------------------------------------------------------------------------------------------- softmax


_SOFTMAX = ("softmax", "_softmax", "special_softmax", "log_softmax", "_log_softmax", "special_log_softmax")


@aten(*_SOFTMAX, ignores=("half_to_float", "dtype"))
def _softmax(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    x, log = operand(node, g, self), "log_" in node.type
    if not x.rank:
        return reshape(g, softmax(g, reshape(g, x, (1,)), log=log), ())
    return softmax(g, x, log=log, axis=axis_of(dim, x.rank))


@aten("_safe_softmax", ignores=("dtype",))
def _safe_softmax(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    x = operand(node, g, self)
    if not x.rank:
        return _softmax(node, g, self, dim)
    axis = axis_of(dim, x.rank)
    finite = g("Max", [x, number(g, x, float(x.dtype.float_info.min))])
    return g("Mul", [softmax(g, finite, axis=axis), _alive(g, x, axis)])


def _alive(g: Operators, scores: Value, axis: int) -> Value:
    """Return 0 where all along an axis are -inf, else 1."""
    most = g("ReduceMax", [scores, vector(g, [axis])], keepdims=1)
    return cast(g, g("Greater", [most, number(g, most, -math.inf)]), scores.dtype)


@aten("_masked_softmax")
def _masked(
    node: AtenNode, g: Operators, self: Value, mask: Value, dim: int | None, mask_type: int | None
) -> Value:
    return masked_softmax(g, self, mask, axis_of(-1 if dim is None else dim, self.rank), mask_type)


def masked_softmax(g: Operators, x: Value, mask: Value | None, axis: int, kind: int | None) -> Value:
    """Return a softmax that excludes masked elements.

    Args:
        x: Scores, [N, heads, L, S] where the mask is of kind 0 or 1.
        mask: True for what is hidden; None for no mask.
        axis: Axis of the softmax.
        kind: 0 for a mask [L, S], 1 for [N, S], else it has the shape of the scores.
    """
    if mask is None:
        return softmax(g, x, axis=axis)
    mask = cast(g, mask, BOOL8)
    if kind == 1 and mask.rank == 2:
        mask = g("Unsqueeze", [mask, vector(g, [1, 2])])
    return softmax(g, g("Where", [mask, number(g, x, -math.inf), x]), axis=axis)


# ---------------------------------------------------------------------------------------------- attention


@aten(
    "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_attention_math",
    ignores=("compute_log_sumexp", "return_debug_mask", "dropout_mask"),
)
def _attention(
    node: AtenNode,
    g: Operators,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    attn_mask: Value | None = None,
    attn_bias: Value | None = None,
    enable_gqa: bool = False,
) -> list[Value]:
    if dropout_p:
        raise node.problem("its dropout is random", "call model.eval() before torch.export.export")
    mask = attn_mask if attn_mask is not None else attn_bias
    factor = 1 / math.sqrt(dims(query, [-1])[0]) if scale is None else scale
    if factor != 1:
        query = g("Mul", [query, number(g, query, factor)])
    groups = 1
    if enable_gqa and query.rank > 2:
        heads, shared = dims(query, [-3])[0], dims(key, [-3])[0]
        if not shared or heads % shared or dims(value, [-3])[0] != shared:
            raise node.invalid(f"{heads} query heads are not a multiple of {shared} key heads")
        groups = heads // shared
    scores = _scores(g, query, swapped(g, key), groups)
    added, alive = _mask(node, g, mask, scores, causal=is_causal)
    if added is not None:
        scores = g("Add", [scores, added])
    weights = softmax(g, scores)
    if alive is not None:
        weights = g("Mul", [weights, alive])
    return [_scores(g, weights, value, groups)]


def _scores(g: Operators, x: Value, y: Value, groups: int) -> Value:
    """Return x @ y, where ``groups`` adjacent heads of x (axis -3) share a head of y."""
    if groups == 1:
        return g("MatMul", [x, y])
    shape = dims(x)
    together = reshape(g, x, (*shape[:-3], shape[-3] // groups, groups * shape[-2], shape[-1]))
    made = g("MatMul", [together, y])
    return reshape(g, made, (*made.shape[:-3], *shape[-3:-1], made.shape[-1]))


def _mask(
    node: AtenNode, g: Operators, mask: Value | None, scores: Value, *, causal: bool
) -> tuple[Value | None, Value | None]:
    """Return the summand of scores and the factor of weights; each may be None.

    PyTorch sets the weights of a query that sees no key to 0; a finite lowest number in the place of -inf
    keeps them from being NaN.
    """
    lowest = max(_LOWEST, float(scores.dtype.float_info.min)) / 2
    if causal:
        queries, keys = dims(scores, [-2, -1])
        check_table(queries, keys)
        hidden = np.tri(queries, keys, dtype=np.bool_) == 0
        return g.builder.const(np.where(hidden, lowest, 0).astype(scores.dtype.numpy)), None
    if mask is None:
        return None, None
    if mask.is_static:
        return _known_mask(g, mask, scores, lowest)
    values = g.context.values
    name = node.names[node.arguments.get("attn_mask", node.arguments.get("attn_bias"))]
    held = [f"{name}~{part}~{scores.dtype}" for part in ("added", "alive")]  # layers share their mask
    if held[1] not in values:
        values.update(zip(held, _computed_mask(g, mask, scores, lowest), strict=True))
    return values.tensor(held[0]), values.tensor(held[1])


def _computed_mask(g: Operators, mask: Value, scores: Value, lowest: float) -> tuple[Value, Value]:
    if mask.dtype is BOOL8:
        zero, low = number(g, scores, 0), number(g, scores, lowest)
        axis, seen = vector(g, [mask.rank - 1]), cast(g, mask, scores.dtype)
        return g("Where", [mask, zero, low]), g("ReduceMax", [seen, axis], keepdims=1)
    mask = cast(g, mask, scores.dtype)
    return g("Max", [mask, number(g, mask, lowest)]), _alive(g, mask, mask.rank - 1)


def _known_mask(g: Operators, mask: Value, scores: Value, lowest: float) -> tuple[Value | None, Value | None]:
    array = mask.numpy()
    if array.dtype != np.bool_ and mask.dtype is not BOOL8:
        seen, added = array > -np.inf, np.maximum(array, lowest)
    else:
        seen = array.astype(np.bool_)
        added = np.where(seen, 0, lowest)
    alive = seen.any(-1, keepdims=True)
    if seen.all() and not added.any():
        return None, None
    made = g.builder.const(added.astype(scores.dtype.numpy))
    return made, None if alive.all() else g.builder.const(alive.astype(scores.dtype.numpy))


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
    query = g("Mul", [query, number(g, query, 1 / math.sqrt(size))])
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
    return [made, g("ReduceMean", [weights, vector(g, [1])], keepdims=0) if average_attn_weights else weights]


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
