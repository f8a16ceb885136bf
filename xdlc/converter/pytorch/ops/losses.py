"""Handlers of losses, and of the distances and similarities of vectors."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.nhwc import elementwise
from xdlc.converter.nhwc.shapes import axis_of, dims, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, formula, term
from xdlc.converter.pytorch.ops.reductions import norm, over
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array
from xdlc.ir.dtype import INT64

NONE, MEAN, SUM = range(3)
"""Numbers of reductions."""


def _result(loss: Term, reduction: int) -> Term:
    """Return losses of elements as they are, or their mean or sum."""
    return loss if reduction == NONE else over(loss, "Mean" if reduction == MEAN else "Sum")


# ---------------------------------------------------------------------------------- distances


def _distance(x: Term, y: Term, order: float, epsilon: float = 0.0, keep: bool = False) -> Term:
    """Return the norm of the difference of vectors along the last axis, ``epsilon`` added to each element."""
    return norm(x - y + epsilon if epsilon else x - y, order, -1, keep)


@formula("cosine_similarity", layout=SOURCE)
def _cosine_similarity(x1: Term, x2: Term, dim: int, eps: float) -> Term:
    rank = max(x1.value.rank, x2.value.rank)
    if not rank:
        return (x1 / abs(x1).most(eps)) * (x2 / abs(x2).most(eps))
    axis = axis_of(dim, rank) - rank
    x, y = (one / norm(one, 2, axis, keep=True).most(eps) for one in (_spread(x1, rank), _spread(x2, rank)))
    return over(x * y, "Sum", axis)


def _spread(x: Term, rank: int) -> Term:
    """Return a term with axes of size 1 in front until it has a rank."""
    missing = rank - x.value.rank
    return x("Unsqueeze", vector(x.g, range(missing))) if missing else x


@formula("pairwise_distance", layout=SOURCE)
def _pairwise(x1: Term, x2: Term, p: float, eps: float, keepdim: bool) -> Term:
    return _distance(x1, x2, p, eps, keepdim)


@formula("cdist", "_cdist_forward", "_euclidean_dist", layout=SOURCE, ignores=("compute_mode",))
def _cdist(x1: Term, x2: Term, p: float = 2.0) -> Term:
    """Subtract every row of one matrix from every row of the other."""
    return _distance(x1.raised(-2), x2.raised(-3), p)


@formula("pdist", "_pdist_forward", layout=SOURCE)
def _pdist(self: Term, p: float) -> Term:
    """Compare each row with those after it."""
    count = dims(self.value, [0])[0]
    check_table(count, count)
    first, second = (self("Gather", vector(self.g, places), axis=0) for places in np.triu_indices(count, 1))
    return _distance(first, second, p)


# ---------------------------------------------------------------------------------- of two tensors


@formula("l1_loss")
def _l1(self: Term, target: Term, reduction: int) -> Term:
    return _result(abs(self - target), reduction)


@formula("mse_loss")
def _mse(self: Term, target: Term, reduction: int) -> Term:
    gap = self - target
    return _result(gap * gap, reduction)


@formula("soft_margin_loss")
def _soft_margin(self: Term, target: Term, reduction: int) -> Term:
    return _result((-(self * target))("Softplus"), reduction)


@formula("huber_loss")
def _huber(self: Term, target: Term, reduction: int, delta: float) -> Term:
    """Map the square of small differences, a line beyond."""
    size = abs(self - target)
    return _result((size < delta).where(size * size * 0.5, (size - 0.5 * delta) * delta), reduction)


@formula("smooth_l1_loss")
def _smooth_l1(self: Term, target: Term, reduction: int, beta: float) -> Term:
    """Map ``huber_loss`` by its limit."""
    return _result(_huber(self, target, NONE, beta) / beta if beta else abs(self - target), reduction)


@formula("kl_div")
def _kl_div(self: Term, target: Term, reduction: int, log_target: bool) -> Term:
    if log_target:
        return _result(target("Exp") * (target - self), reduction)
    return _result(target.via(elementwise.x_log_y, target) - target * self, reduction)


@formula("binary_cross_entropy")
def _binary_cross_entropy(self: Term, target: Term, weight: Term | None, reduction: int) -> Term:
    """Map logarithms not below -100, as PyTorch limits them."""
    loss = (target - 1) * (-self).log1p().most(-100.0) - target * self("Log").most(-100.0)
    return _result(loss if weight is None else loss * weight, reduction)


@formula("binary_cross_entropy_with_logits")
def _with_logits(
    self: Term, target: Term, weight: Term | None, pos_weight: Term | None, reduction: int
) -> Term:
    rest = (-self)("Softplus")  # -log(sigmoid(x))
    if pos_weight is not None:
        rest = rest * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * self + rest
    return _result(loss if weight is None else loss * weight, reduction)


@formula("poisson_nll_loss")
def _poisson(input: Term, target: Term, log_input: bool, full: bool, eps: float, reduction: int) -> Term:
    """Map the likelihood of counts; ``full`` adds Stirling's approximation of log(target!)."""
    loss = input("Exp") - target * input if log_input else input - target * (input + eps)("Log")
    if full:
        safe = target.most(1)
        stirling = safe * safe("Log") - safe + (safe * (2 * math.pi))("Log") * 0.5
        loss = loss + (target > 1).where(stirling, 0)
    return _result(loss, reduction)


@formula("hinge_embedding_loss")
def _hinge(self: Term, target: Term, margin: float, reduction: int) -> Term:
    near, far = target.same(-1).where(0, self), target.same(1).where(0, (margin - self).most(0))
    return _result(near + far, reduction)


@formula("margin_ranking_loss")
def _margin_ranking(input1: Term, input2: Term, target: Term, margin: float, reduction: int) -> Term:
    return _result((-target * (input1 - input2) + margin).most(0), reduction)


@formula("cosine_embedding_loss", layout=SOURCE)
def _cosine_embedding(input1: Term, input2: Term, target: Term, margin: float, reduction: int) -> Term:
    """Map cosines, to the squares of whose norms PyTorch adds a little."""
    first, second = (over(one * one, "Sum", -1) + 1e-12 for one in (input1, input2))
    angle = over(input1 * input2, "Sum", -1) / (first * second)("Sqrt")
    near = target.same(1).where(1 - angle, 0)
    return _result(near + target.same(-1).where((angle - margin).most(0), 0), reduction)


@formula("triplet_margin_loss", layout=SOURCE)
def _triplet(
    anchor: Term,
    positive: Term,
    negative: Term,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Term:
    apart = _distance(anchor, negative, p, eps)
    if swap:
        apart = apart.least(_distance(positive, negative, p, eps))
    return _result((_distance(anchor, positive, p, eps) - apart + margin).most(0), reduction)


# ---------------------------------------------------------------------------------- of classes


@aten("cross_entropy_loss")
def _cross_entropy(
    node: AtenNode,
    g: Operators,
    self: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Value:
    """Map the negative logarithm of the softmax, at classes or weighed by probabilities."""
    axis = 0 if self.rank == 1 else 1
    scores = term(node, g, self)("LogSoftmax", axis=axis)
    count = dims(self, [axis])[0]
    weighed = scores
    if weight is not None:
        weighed = scores * reshape(g, weight, [count if held == axis else 1 for held in range(self.rank)])
    if target.dtype.is_float:
        share = term(node, g, target)
        share = share * (1 - label_smoothing) + label_smoothing / count if label_smoothing else share
        return _result(-over(weighed * share, "Sum", axis), reduction).value
    losses, weights, kept = _picked(scores, target, weight, axis, ignore_index)
    if label_smoothing:
        even = kept.where(-over(weighed, "Sum", axis), 0)
        losses = losses * (1 - label_smoothing) + even * (label_smoothing / count)
    return _shared(losses, weights, reduction).value


def _shared(losses: Term, weights: Term, reduction: int) -> Term:
    """Return losses, or their sum, or that divided by the sum of weights."""
    return over(losses, "Sum") / over(weights, "Sum") if reduction == MEAN else _result(losses, reduction)


def _picked(
    scores: Term, target: Value, weight: Value | None, axis: int, ignored: int
) -> tuple[Term, Term, Term]:
    """Return the losses at classes, the weights of these, and where there is a class."""
    g, place = scores.g, Term(scores.g, target).to(INT64)
    kept = place.differs(ignored)
    place = kept.where(place, 0)
    found = scores("GatherElements", place.raised(axis), axis=axis)("Squeeze", vector(g, [axis]))
    weights = kept.to(scores.value.dtype)
    if weight is not None:
        weights = weights * Term(g, g("Gather", [weight, place.value], axis=0))
    return kept.where(-found, 0) * weights, weights, kept


@aten("nll_loss", "nll_loss2d", "nll_loss_nd", "nll_loss_forward", "nll_loss2d_forward")
def _nll(
    node: AtenNode,
    g: Operators,
    self: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
) -> list[Value]:
    """Return the loss, and the sum of the weights of all classes that count."""
    axis = 0 if self.rank == 1 else 1
    losses, weights, _ = _picked(term(node, g, self), target, weight, axis, ignore_index)
    total = over(weights, "Sum")
    total = total * 0 if reduction == NONE else total
    return [_shared(losses, weights, reduction).value, total.value][: len(node.outputs)]


@aten("multi_margin_loss")
def _multi_margin(
    node: AtenNode,
    g: Operators,
    self: Value,
    target: Value,
    p: float,
    margin: float,
    weight: Value | None,
    reduction: int,
) -> Value:
    """Map how far the scores of the other classes come above that of the own one, less a margin."""
    x, count = term(node, g, self), dims(self, [-1])[0]
    row = target if self.rank == target.rank + 1 else reshape(g, target, ())
    column = Term(g, row).to(INT64).raised(-1)
    above = (margin - x("GatherElements", column, axis=self.rank - 1) + x).most(0)
    above = above if p == 1 else above**p
    if weight is not None:
        above = above * Term(g, g("Gather", [weight, column.value], axis=0))
    loss = over(column.same(g.builder.const(_places(count))).where(0, above), "Sum", -1) / count
    return _result(loss, reduction).value


def _places(count: int) -> Array:
    return np.arange(count, dtype=np.int64)


@aten("multilabel_margin_loss", "multilabel_margin_loss_forward")
def _multilabel_margin(
    node: AtenNode, g: Operators, self: Value, target: Value, reduction: int
) -> list[Value]:
    """Compare each class that is listed, up to the first -1, with each that is not."""
    x, place = term(node, g, self), Term(g, target).to(INT64)
    x, place = (x, place) if self.rank else (x.flat(), place.flat())
    axis, count = x.value.rank - 1, dims(x.value, [-1])[0]
    g.builder.check_table(*dims(x.value), count)
    listed = (place < 0).to(INT64)("CumSum", g.builder.const(np.asarray(axis))).same(0)
    hits = listed.where(place, -1).raised(-1).same(g.builder.const(_places(count)))  # [..., list, class]
    is_own = over(hits, "Any", axis)
    own = x("GatherElements", listed.where(place, 0), axis=axis)
    above = (1 - own.raised(-1) + x.raised(-2)).most(0)
    counts = listed.raised(-1) & ~is_own.raised(-2)
    loss = over(counts.where(above, 0), "Sum", [-2, -1]) / count
    return [_result(loss, reduction).value, is_own.to(node.dtype).value][: len(node.outputs)]
