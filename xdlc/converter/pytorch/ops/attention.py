"""Handlers of scaled dot-product attention."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.functions.normalization import softmax
from xdlc.converter.functions.products import swapped
from xdlc.converter.functions.shapes import cast, dims, number, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops.normalization import alive
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8

_LOWEST = float(np.finfo(np.float32).min)


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
        raise node.problem(
            "the dropout of the attention is random", "call model.eval() before torch.export.export"
        )
    mask = attn_mask if attn_mask is not None else attn_bias
    factor = 1 / math.sqrt(dims(query, [-1])[0]) if scale is None else scale
    if factor != 1:
        query = g("Mul", [query, factor])
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
    return g("Max", [mask, lowest]), alive(g, mask, mask.rank - 1)


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
