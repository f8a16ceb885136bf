"""Handlers of distances and losses."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.functions import elementwise
from xdlc.converter.functions.shapes import axis_of, dims, reshape, vector
from xdlc.converter.functions.terms import Term
from xdlc.converter.pytorch.ops._terms import formula, formulas
from xdlc.converter.pytorch.ops.reductions import norm, over
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir.dtype import INT64

NONE, MEAN, SUM = range(3)
"""Numbers of reductions."""


def _result(loss: Term, reduction: int) -> Term:
    """Return losses by element, or their mean or sum."""
    kind = {MEAN: "Mean", SUM: "Sum"}.get(reduction)
    return loss if kind is None else over(loss, kind)


def _square(x: Term) -> Term:
    return x * x


def _huber(size: Term, delta: float) -> Term:
    """Return the square of small differences, a line beyond."""
    return (size < delta).where(size * size * 0.5, (size - 0.5 * delta) * delta)


def _smooth(size: Term, beta: float) -> Term:
    return _huber(size, beta) / beta if beta else size


def _divergence(x: Term, y: Term, log_target: bool) -> Term:
    return y("Exp") * (y - x) if log_target else y.via(elementwise.x_log_y, y) - y * x


def _hinge(x: Term, y: Term, margin: float) -> Term:
    return y.same(1).where(0, (margin - x).most(0)) + y.same(-1).where(0, x)


def _poisson(x: Term, y: Term, log_input: bool, full: bool, eps: float) -> Term:
    """Return the Poisson loss; ``full`` adds Stirling's approximation of log(target!)."""
    loss = x("Exp") - y * x if log_input else x - y * (x + eps)("Log")
    if not full:
        return loss
    large = (y <= 1).where(1, y)
    rest = large * large("Log") - large + (large * (2 * math.pi))("Log") * 0.5
    return loss + (y <= 1).where(0, rest)


formulas({
    "hinge_embedding_loss": lambda self, target, margin, reduction: (
        _result(_hinge(self, target, margin), reduction)
    ),
    "huber_loss": lambda self, target, reduction, delta: (
        _result(_huber(abs(self - target), delta), reduction)
    ),
    "kl_div": lambda self, target, reduction, log_target: (
        _result(_divergence(self, target, log_target), reduction)
    ),
    "l1_loss": lambda self, target, reduction: _result(abs(self - target), reduction),
    "margin_ranking_loss": lambda input1, input2, target, margin, reduction: (
        _result((-target * (input1 - input2) + margin).most(0), reduction)
    ),
    "mse_loss": lambda self, target, reduction: _result(_square(self - target), reduction),
    "poisson_nll_loss": lambda input, target, log_input, full, eps, reduction: (
        _result(_poisson(input, target, log_input, full, eps), reduction)
    ),
    "smooth_l1_loss": lambda self, target, reduction, beta: (
        _result(_smooth(abs(self - target), beta), reduction)
    ),
    "soft_margin_loss": lambda self, target, reduction: (
        _result((-(self * target))("Softplus"), reduction)
    ),
})  # fmt: skip


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


@formula("cosine_embedding_loss", layout=SOURCE)
def _cosine_embedding(input1: Term, input2: Term, target: Term, margin: float, reduction: int) -> Term:
    """Map the cosine of two rows; the offset of the squares is PyTorch's."""
    squares = [over(one * one, "Sum", -1) + 1e-12 for one in (input1, input2)]
    cosine = over(input1 * input2, "Sum", -1) / (squares[0] * squares[1])("Sqrt")
    near = target.same(1).where(1 - cosine, 0)
    return _result(near + target.same(-1).where((cosine - margin).most(0), 0), reduction)


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
    apart = distance(anchor, negative, p, eps)
    apart = apart.least(distance(positive, negative, p, eps)) if swap else apart
    return _result((distance(anchor, positive, p, eps) - apart + margin).most(0), reduction)


@formula("cross_entropy_loss", layout=SOURCE)
def _cross_entropy(
    self: Term, target: Value, weight: Value | None, reduction: int, ignore_index: int, label_smoothing: float
) -> Term:
    """Map the negative log-softmax, at classes or weighted by probabilities.

    A smoothing below 0 has no effect.
    """
    if label_smoothing > 1:
        raise ModelError(f"label_smoothing {label_smoothing} is not from 0 to 1", fix=CONTRADICTION)
    rank = self.value.rank
    axis = 0 if rank == 1 else 1
    scores, count = self("LogSoftmax", axis=axis), dims(self.value, [axis])[0]
    weighed = scores
    if weight is not None:
        weighed = scores * reshape(self.g, weight, [count if held == axis else 1 for held in range(rank)])
    if target.dtype.is_float:
        share = Term(self.g, target).to(self.value.dtype)
        share = share * (1 - label_smoothing) + label_smoothing / count if label_smoothing > 0 else share
        return _result(-over(weighed * share, "Sum", axis), reduction)
    losses, weights, kept = _picked(scores, target, weight, axis, ignore_index)
    if label_smoothing > 0:
        even = kept.where(-over(weighed, "Sum", axis), 0)
        losses = losses * (1 - label_smoothing) + even * (label_smoothing / count)
    return _shared(losses, weights, reduction)


def _shared(losses: Term, weights: Term, reduction: int) -> Term:
    """Return losses, or their sum, or that divided by the sum of weights."""
    return over(losses, "Sum") / over(weights, "Sum") if reduction == MEAN else _result(losses, reduction)


def _picked(
    scores: Term, target: Value, weight: Value | None, axis: int, ignored: int
) -> tuple[Term, Term, Term]:
    """Return losses at classes, their weights, and where a class is not ignored."""
    g, place = scores.g, Term(scores.g, target).to(INT64)
    kept = place.differs(ignored)
    place = kept.where(place, 0)
    found = scores("GatherElements", place.raised(axis), axis=axis)("Squeeze", [axis])
    weights = kept.to(scores.value.dtype)
    if weight is not None:
        weights = weights * Term(g, g("Gather", [weight, place.value], axis=0))
    return kept.where(-found, 0) * weights, weights, kept


@formula("nll_loss", "nll_loss2d", "nll_loss_nd", "nll_loss_forward", "nll_loss2d_forward", layout=SOURCE)
def _nll(self: Term, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> list[Term]:
    """Return the loss, and the sum of the weights of all classes that count."""
    losses, weights, _ = _picked(self, target, weight, 0 if self.value.rank == 1 else 1, ignore_index)
    total = over(weights, "Sum")
    return [_shared(losses, weights, reduction), total * 0 if reduction == NONE else total]


@formula("multi_margin_loss", layout=SOURCE)
def _multi_margin(
    self: Term, target: Value, p: float, margin: float, weight: Value | None, reduction: int
) -> Term:
    """Map by the amounts by which other scores exceed the target's, less a margin."""
    g, x = self.g, self if self.value.rank else self.flat()
    axis, count = x.value.rank - 1, dims(x.value, [-1])[0]
    own = Term(g, reshape(g, target, [*dims(x.value)[:-1], 1])).to(INT64)
    above = margin - x("GatherElements", own, axis=axis) + x
    above = (above > 0).where(above * above if p == 2 else above, 0)
    if weight is not None:
        above = above * Term(g, g("Gather", [weight, own.value], axis=0))
    losses = over(own.same(vector(g, range(count))).where(0, above), "Sum", axis) / count
    return _result(Term(g, reshape(g, losses.value, dims(target))), reduction)


@formula("multilabel_margin_loss", "multilabel_margin_loss_forward", layout=SOURCE)
def _multilabel_margin(self: Term, target: Value, reduction: int) -> list[Term]:
    """Compare each class that is listed, up to the first -1, with each that is not."""
    g, x, place = self.g, self, Term(self.g, target).to(INT64)
    x, place = (x, place) if x.value.rank else (x.flat(), place.flat())
    axis, count = x.value.rank - 1, dims(x.value, [-1])[0]
    g.builder.check_table(*dims(x.value), count)
    listed = (place < 0).to(INT64)("CumSum", np.asarray(axis)).same(0)
    hits = listed.where(place, -1).raised(-1).same(vector(g, range(count)))  # [..., list, class]
    is_own = over(hits, "Any", axis)
    own = x("GatherElements", listed.where(place, 0), axis=axis)
    above = (1 - own.raised(-1) + x.raised(-2)).most(0)
    counts = listed.raised(-1) & ~is_own.raised(-2)
    loss = over(counts.where(above, 0), "Sum", [-2, -1]) / count
    return [_result(loss, reduction), is_own.to(x.value.dtype)]


def distance(x: Term, y: Term, order: float, epsilon: float = 0.0, keep: bool = False) -> Term:
    """Return the norm of x - y + ``epsilon`` along the last axis."""
    return norm(x - y + epsilon if epsilon else x - y, order, -1, keep)


@formula("cosine_similarity", layout=SOURCE)
def _cosine_similarity(x1: Term, x2: Term, dim: int, eps: float) -> Term:
    rank = max(x1.value.rank, x2.value.rank)
    if not rank:
        return (x1 / abs(x1).most(eps)) * (x2 / abs(x2).most(eps))
    axis = axis_of(dim, rank)
    parts = []
    for x, y in ((x1, x2), (x2, x1)):
        for _ in range(rank - x.value.rank):
            x = x.raised(0)
        length = norm(x, 2, axis, keep=True)
        if dims(x.value, [axis]) == (1,) and y.value.rank >= rank - axis:  # repeated along the axis
            length = length * math.sqrt(dims(y.value, [axis - rank])[0])
        parts.append(x / length.most(eps))
    return over(parts[0] * parts[1], "Sum", axis)


@formula("pairwise_distance", layout=SOURCE)
def _pairwise(x1: Term, x2: Term, p: float, eps: float, keepdim: bool) -> Term:
    return distance(x1, x2, p, eps, keepdim)


@formula("cdist", "_cdist_forward", "_euclidean_dist", layout=SOURCE, ignores=("compute_mode",))
def _cdist(x1: Term, x2: Term, p: float = 2.0) -> Term:
    """Subtract every row of one matrix from every row of another."""
    if min(x1.value.rank, x2.value.rank) < 2:
        raise ModelError(
            f"distances need tensors of rank 2 or more, but these have rank {x1.value.rank} and "
            f"{x2.value.rank}",
            fix=CONTRADICTION,
        )
    return distance(x1.raised(-2), x2.raised(-3), p)


@formula("pdist", "_pdist_forward", layout=SOURCE)
def _pdist(self: Term, p: float) -> Term:
    """Return the distances of each row from the rows after it."""
    if self.value.rank != 2:
        raise ModelError(
            f"distances of rows need a tensor of rank 2, but this has rank {self.value.rank}",
            fix=CONTRADICTION,
        )
    count = dims(self.value, [0])[0]
    check_table(count, count)
    first, second = (self("Gather", vector(self.g, places), axis=0) for places in np.triu_indices(count, 1))
    return distance(first, second, p)
