"""Common parts of the attention operators of com.microsoft.

Queries, keys and values are [batch, heads, length, head size] here.  Masks are added to the scores:
``mask_filter_value`` where a key is masked, and a smaller number where it is after the query of a causal
attention, as onnxruntime's CPU kernels do it.
"""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node
from xdlc.converter.ops._compose import compare, joined, number, part, select
from xdlc.converter.ops._formulas import plus, times
from xdlc.converter.ops.normalization import along
from xdlc.converter.ops.products import multiply
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import GREATER, GREATER_EQUAL, LESS, MINIMUM, OR
from xdlc.records import record

FILTER = -10000.0


@record(frozen=True)
class Sizes:
    """Dimensions of an attention.

    Attributes:
        keys: Number of keys, those of the past counted.
        past: Number of keys of the past.
    """

    batch: int
    queries: int
    keys: int
    past: int = 0


def heads(b: Builder, x: Value, count: int) -> Value:
    """Return [batch, length, heads * size] as [batch, heads, length, size]."""
    batch, length, width = x.shape
    return b.transpose(b.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


def merged(b: Builder, x: Value) -> Value:
    """Return [batch, heads, length, size] as [batch, length, heads * size]."""
    batch, count, length, size = x.shape
    return b.reshape(b.transpose(x, (0, 2, 1, 3)), (batch, length, count * size))


def with_past(b: Builder, past: Value | None, x: Value) -> Value:
    """Return ``x`` after the past state."""
    return x if past is None else joined(b, [past, x], 2)


def attend(
    node: Node,
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    extra: Value | None,
) -> Value:
    """Return softmax(scale * query * key^T + mask + extra) * value, heads merged.

    Attribute ``scale`` of the node is 1 / sqrt(head size) if it is omitted or 0.
    """
    scale = node.attr("scale", 0.0) or 1.0 / math.sqrt(query.shape[-1])
    scores = multiply(node, b, times(b, query, scale), b.transpose(key, (0, 1, 3, 2)))
    weights = along(b, "Softmax", plus(b, scores, mask, extra), 3)
    return merged(b, multiply(node, b, weights, value))


def key_mask(node: Node, b: Builder, mask: Value | None, like: Value, sizes: Sizes) -> Value | None:
    """Return the summand of the scores for a mask of keys.

    Args:
        node: The node; attribute ``mask_filter_value`` is read.
        mask: Flags [batch, keys] or [batch, queries, keys] with 0 for masked, or positions: of the
            ends [batch], the ends and the starts [2 * batch], or the lengths first [3 * batch + 2].
        like: A value of the type of the scores.
    """
    filler = float(node.attr("mask_filter_value", FILTER))
    if mask is None:
        return None
    batch, queries, keys = sizes.batch, sizes.queries, sizes.keys
    forms = {(batch, keys): (batch, 1, 1, keys), (batch, queries, keys): (batch, 1, queries, keys)}
    if mask.shape not in forms and mask.shape not in ((batch,), (2 * batch,), (3 * batch + 2,)):
        raise node.problem(
            f"xdlc does not support a mask of shape {list(mask.shape)}", "use a mask [batch, keys]"
        )
    if mask.is_static:
        return b.const(_known_mask(mask.numpy(), forms.get(mask.shape), sizes, filler, like))
    flags = b.cast(mask, INT32)
    if mask.shape in forms:
        seen = compare(b, GREATER, b.reshape(flags, forms[mask.shape]), b.const(np.asarray([0], np.int32)))
        return _chosen(b, seen, like, 0.0, filler)
    check_table(keys)
    position = b.const(np.arange(keys, dtype=np.int32).reshape(1, 1, 1, keys))
    ends = b.reshape(part(b, flags, 0, 0, batch), (batch, 1, 1, 1))
    if mask.shape != (2 * batch,):
        return _chosen(b, compare(b, LESS, position, ends), like, 0.0, filler)
    starts = b.reshape(part(b, flags, 0, batch, 2 * batch), (batch, 1, 1, 1))
    early, late = compare(b, LESS, position, starts), compare(b, GREATER_EQUAL, position, ends)
    hidden = compare(b, OR, early, late)
    return _chosen(b, hidden, like, filler, 0.0)


def _known_mask(mask: Array, form: tuple[int, ...] | None, sizes: Sizes, filler: float, like: Value) -> Array:
    """Return the summand of the scores for a static mask of a form."""
    batch = sizes.batch
    if form is not None:
        seen = mask.reshape(form) > 0
    else:
        check_table(batch, sizes.keys)
        position = np.arange(sizes.keys)
        seen = position < mask[:batch].reshape(batch, 1, 1, 1)
        if mask.shape == (2 * batch,):
            seen &= position >= mask[batch:].reshape(batch, 1, 1, 1)
    return np.where(seen, 0.0, filler).astype(like.dtype.numpy)


def _chosen(b: Builder, where: Value, like: Value, yes: float, no: float) -> Value:
    return select(b, where, number(b, like, yes), number(b, like, no))


def causal_mask(
    node: Node,
    b: Builder,
    mask: Value | None,
    like: Value,
    sizes: Sizes,
    extra: Value | None,
    window: int = 0,
) -> Value:
    """Return a mask that also hides the keys after each query.

    It is the smallest number where a greater one might not outweigh what else is added to the scores.

    Args:
        node: The node; attribute ``mask_filter_value`` is read.
        mask: The mask of the keys, or None.
        like: A value of the type of the scores.
        extra: What else is added to the scores, or None.
        window: Number of keys that a query sees at most; 0 for all.

    Raises:
        UnsupportedOp: If there are other keys than those of the past and of the queries.
    """
    if sizes.keys != sizes.past + sizes.queries:
        raise node.problem("xdlc does not support causal attention to keys of another input")
    check_table(sizes.queries, sizes.keys)
    query = sizes.past + np.arange(sizes.queries).reshape(-1, 1)
    key = np.arange(sizes.keys)
    hidden = key > query
    if window:
        hidden |= key <= query - window
    lowest = float(like.dtype.float_info.min)
    filler = min(2.0 * node.attr("mask_filter_value", FILTER), 2.0 * FILTER)
    if extra is not None or filler < lowest:
        filler = lowest
    array = np.where(hidden, filler, 0.0).astype(like.dtype.numpy)
    causal = b.const(array.reshape(1, 1, sizes.queries, sizes.keys))
    return causal if mask is None else b.binary(MINIMUM, mask, causal)
