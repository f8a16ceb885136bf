"""Handlers of the softmax family."""

from __future__ import annotations

import math

from xdlc.converter.nhwc.normalization import softmax
from xdlc.converter.nhwc.shapes import axis_of, cast, number, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import operand
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

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
    return g("Mul", [softmax(g, finite, axis=axis), alive(g, x, axis)])


def alive(g: Operators, scores: Value, axis: int) -> Value:
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
