"""Handlers of losses."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.nhwc import elementwise
from xdlc.converter.nhwc.shapes import dims, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, operator, term
from xdlc.converter.pytorch.ops.distances import cosine, distance
from xdlc.converter.pytorch.ops.reductions import count_of, over
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.ir.dtype import INT64

NONE, MEAN, SUM = range(3)
"""Numbers of reductions."""


def _result(loss: Term, reduction: int) -> Value:
    """Return losses of elements as they are, or their mean or sum."""
    return loss.value if reduction == NONE else _total(loss, "Mean" if reduction == MEAN else "Sum").value


def _total(loss: Term, type: str) -> Term:
    return over(loss, type, range(loss.value.rank), False)


def _pair(node: AtenNode, g: Operators, first: Value, second: Value) -> tuple[Term, Term]:
    return term(node, g, first), term(node, g, second)


# ---------------------------------------------------------------------------------- of two tensors


@aten("l1_loss", "mse_loss", "soft_margin_loss", layout=ANY)
def _simple(node: AtenNode, g: Operators, self: Value, target: Value, reduction: int) -> Value:
    x, y = _pair(node, g, self, target)
    if operator(node) == "soft_margin_loss":
        return _result((-(x * y))("Softplus"), reduction)
    gap = x - y
    return _result(abs(gap) if operator(node) == "l1_loss" else gap * gap, reduction)


@aten("huber_loss", "smooth_l1_loss", layout=ANY)
def _smooth(
    node: AtenNode,
    g: Operators,
    self: Value,
    target: Value,
    reduction: int,
    delta: float | None = None,
    beta: float = 1.0,
) -> Value:
    """Map the square of small differences, a line beyond; ``smooth_l1`` is ``huber`` by its limit."""
    x, y = _pair(node, g, self, target)
    size, limit = abs(x - y), beta if delta is None else delta
    if not limit:
        return _result(size if delta is None else size * 0, reduction)
    loss = (size < limit).where(size * size * 0.5, (size - 0.5 * limit) * limit)
    return _result(loss if delta is not None else loss / limit, reduction)


@aten("kl_div", layout=ANY)
def _kl_div(
    node: AtenNode, g: Operators, self: Value, target: Value, reduction: int, log_target: bool
) -> Value:
    x, y = _pair(node, g, self, target)
    if log_target:
        return _result(y("Exp") * (y - x), reduction)
    return _result(y.via(elementwise.x_log_y, y) - y * x, reduction)


@aten("binary_cross_entropy", layout=ANY)
def _binary_cross_entropy(
    node: AtenNode, g: Operators, self: Value, target: Value, weight: Value | None, reduction: int
) -> Value:
    """Map logarithms not below -100, as PyTorch limits them."""
    x, y = _pair(node, g, self, target)
    loss = (y - 1) * (-x).log1p().most(-100.0) - y * x("Log").most(-100.0)
    return _result(loss if weight is None else loss * weight, reduction)


@aten("binary_cross_entropy_with_logits", layout=ANY)
def _with_logits(
    node: AtenNode,
    g: Operators,
    self: Value,
    target: Value,
    weight: Value | None,
    pos_weight: Value | None,
    reduction: int,
) -> Value:
    x, y = _pair(node, g, self, target)
    rest = (-x)("Softplus")  # -log(sigmoid(x))
    if pos_weight is not None:
        rest = rest * ((Term(g, pos_weight) - 1) * y + 1)
    loss = (1 - y) * x + rest
    return _result(loss if weight is None else loss * weight, reduction)


@aten("poisson_nll_loss", layout=ANY)
def _poisson(
    node: AtenNode,
    g: Operators,
    input: Value,
    target: Value,
    log_input: bool,
    full: bool,
    eps: float,
    reduction: int,
) -> Value:
    """Map the likelihood of counts; ``full`` adds Stirling's approximation of log(target!)."""
    x, y = _pair(node, g, input, target)
    loss = x("Exp") - y * x if log_input else x - y * (x + eps)("Log")
    if full:
        safe = y.most(1)
        stirling = safe * safe("Log") - safe + (safe * (2 * math.pi))("Log") * 0.5
        loss = loss + (y > 1).where(stirling, 0)
    return _result(loss, reduction)


@aten("hinge_embedding_loss", layout=ANY)
def _hinge(node: AtenNode, g: Operators, self: Value, target: Value, margin: float, reduction: int) -> Value:
    x, y = _pair(node, g, self, target)
    above = y.same(1).where(0, (margin - x).most(0))
    return _result(above + y.same(-1).where(0, x), reduction)


@aten("margin_ranking_loss", layout=ANY)
def _margin_ranking(
    node: AtenNode,
    g: Operators,
    input1: Value,
    input2: Value,
    target: Value,
    margin: float,
    reduction: int,
) -> Value:
    x, y = _pair(node, g, input1, input2)
    return _result((-term(node, g, target) * (x - y) + margin).most(0), reduction)


@aten("cosine_embedding_loss")
def _cosine_embedding(
    node: AtenNode,
    g: Operators,
    input1: Value,
    input2: Value,
    target: Value,
    margin: float,
    reduction: int,
) -> Value:
    x, y = _pair(node, g, input1, input2)
    angle = cosine(x, y, x.value.rank - 1, _EPSILON, embedding=True)
    sign = Term(g, target)
    near = sign.same(1).where(1 - angle, 0)
    return _result(near + sign.same(-1).where((angle - margin).most(0), 0), reduction)


_EPSILON = 1e-12
"""What PyTorch adds to the squares of norms in this loss."""


@aten("triplet_margin_loss")
def _triplet(
    node: AtenNode,
    g: Operators,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Value:
    x, near, far = (term(node, g, one) for one in (anchor, positive, negative))
    apart = distance(x, far, p, eps)
    if swap:
        apart = apart.least(distance(near, far, p, eps))
    return _result((distance(x, near, p, eps) - apart + margin).most(0), reduction)


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
    x = term(node, g, self)
    axis = 0 if self.rank == 1 else 1
    scores = x("LogSoftmax", axis=axis)
    count = dims(self, [axis])[0]
    weighed = scores if weight is None else scores * _along(g, weight, axis, self.rank)
    if target.dtype.is_float:
        share = term(node, g, target)
        share = share * (1 - label_smoothing) + label_smoothing / count if label_smoothing else share
        loss = -over(weighed * share, "Sum", [axis], False)
        if reduction != MEAN:
            return _result(loss, reduction)
        return (_total(loss, "Sum") / (count_of(self, range(self.rank)) // count)).value
    losses, weights, kept = _picked(scores, target, weight, axis, ignore_index)
    if label_smoothing:
        even = kept.where(-over(weighed, "Sum", [axis], False), 0)
        losses = losses * (1 - label_smoothing) + even * (label_smoothing / count)
    if reduction != MEAN:
        return _result(losses, reduction)
    return (_total(losses, "Sum") / _total(weights, "Sum")).value


def _along(g: Operators, x: Value, axis: int, rank: int) -> Value:
    """Return numbers of classes as they broadcast against scores of a rank."""
    return reshape(g, x, [x.size if held == axis else 1 for held in range(rank)])


def _picked(
    scores: Term, target: Value, weight: Value | None, axis: int, ignored: int
) -> tuple[Term, Term, Term]:
    """Return the losses at classes, the weights of these, and where there is a class."""
    g = scores.g
    place = Term(g, target).to(INT64)
    kept = place.differs(ignored)
    place = kept.where(place, 0)
    column = Term(g, g("Unsqueeze", [place.value, vector(g, [axis])]))
    found = scores("GatherElements", column, axis=axis)("Squeeze", vector(g, [axis]))
    weights = kept.to(scores.value.dtype)
    if weight is not None:
        weights = weights * Term(g, g("Gather", [weight, place.value], axis=0))
    return kept.where(-found, 0) * weights, weights, kept


_NLL = "nll_loss nll_loss2d nll_loss_nd nll_loss_forward nll_loss2d_forward"


@aten(*_NLL.split())
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
    total = _total(weights, "Sum")
    if reduction == MEAN:
        return [(_total(losses, "Sum") / total).value, total.value][: len(node.outputs)]
    rest = total.value if reduction == SUM else (total * 0).value
    return [_result(losses, reduction), rest][: len(node.outputs)]


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
    x = term(node, g, self)
    axis, count = self.rank - 1, dims(self, [-1])[0]
    row = target if self.rank == target.rank + 1 else reshape(g, target, ())
    column = Term(g, g("Unsqueeze", [g.builder.cast(row, INT64), vector(g, [axis])]))
    own = x("GatherElements", column, axis=axis)
    above = (margin - own + x).most(0) ** p if p != 1 else (margin - own + x).most(0)
    if weight is not None:
        above = above * Term(g, g("Gather", [weight, column.value], axis=0))
    classes = g.builder.const(_places(count))
    loss = over(column.same(classes).where(0, above), "Sum", [axis], False) / count
    return _result(loss, reduction)


def _places(count: int) -> Array:
    return np.arange(count, dtype=np.int64)


@aten("multilabel_margin_loss", "multilabel_margin_loss_forward")
def _multilabel_margin(
    node: AtenNode, g: Operators, self: Value, target: Value, reduction: int
) -> list[Value]:
    """Compare each class that is listed, up to the first -1, with each that is not."""
    x = term(node, g, self)
    if not self.rank:
        x, target = Term(g, reshape(g, x.value, (1,))), reshape(g, target, (1,))
    axis, count = x.value.rank - 1, dims(x.value, [-1])[0]
    g.builder.check_table(*dims(x.value), count)
    place = Term(g, target).to(INT64)
    ends = (place < 0).to(INT64)("CumSum", g.builder.const(_places(axis + 1)[-1]))
    listed = ends.same(0)
    place = listed.where(place, -1)

    def raised(value: Term, at: int) -> Term:
        return Term(g, g("Unsqueeze", [value.value, vector(g, [at])]))

    hits = raised(place, -1).same(g.builder.const(_places(count)))  # [..., list, class]
    is_own = over(hits, "Any", [axis], False)
    own = x("GatherElements", place.most(0), axis=axis)
    above = (1 - raised(own, -1) + raised(x, -2)).most(0)
    counts = raised(listed, -1) & ~raised(is_own, -2)
    loss = over(counts.where(above, 0), "Sum", [axis, axis + 1], False) / count
    return [_result(loss, reduction), is_own.to(node.dtype).value][: len(node.outputs)]
