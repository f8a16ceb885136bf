"""Handlers of random draws, which become inputs of the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdlc.converter.functions.shapes import dims, reshape
from xdlc.converter.functions.terms import Number, Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.random_inputs import draw_outside
from xdlc.converter.pytorch.ops._terms import operator, term
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, FLOAT32

_FLOAT = 1  # of TensorProto.DataType


def drawn(node: AtenNode, g: Operators, shape: Sequence[int], *, normal: bool = False, **of: Any) -> Term:
    """Return random numbers of float32.

    Args:
        normal: Whether they are distributed normally instead of evenly from 0 to 1.
        **of: Attributes of the distribution: ``mean`` and ``scale``, or ``low`` and ``high``.

    Raises:
        UnsupportedOp: If random numbers are not inputs of this conversion.
    """
    if not g.random_inputs:
        raise node.problem("the result is random", draw_outside())
    type = "RandomNormal" if normal else "RandomUniform"
    numbers = g(type, [], shape=list(shape) or [1], dtype=_FLOAT, **of)
    return Term(g, numbers if shape else reshape(g, numbers, ()))


@aten("rand", "rand_like", ignores=("dtype",))
def _rand(
    node: AtenNode, g: Operators, size: Sequence[int] | None = None, self: Value | None = None
) -> Value:
    return drawn(node, g, _shape(size, self)).value


@aten("randn", "randn_like", ignores=("dtype",))
def _randn(
    node: AtenNode, g: Operators, size: Sequence[int] | None = None, self: Value | None = None
) -> Value:
    return drawn(node, g, _shape(size, self), normal=True).value


def _shape(size: Sequence[int] | None, like: Value | None) -> Sequence[int]:
    return dims(like) if size is None and like is not None else size or ()


@aten("randint", "randint_like", ignores=("dtype",))
def _randint(
    node: AtenNode,
    g: Operators,
    high: int,
    low: int = 0,
    size: Sequence[int] | None = None,
    self: Value | None = None,
) -> Value:
    """Round evenly distributed numbers down."""
    numbers = drawn(node, g, _shape(size, self), low=float(low), high=float(high))
    return numbers("Floor").least(high - 1).value


@aten("randperm", ignores=("dtype",))
def _randperm(node: AtenNode, g: Operators, n: int) -> Value:
    """Return a permutation: the order of uniform random numbers."""
    numbers = drawn(node, g, [n]).value
    return g.apply("TopK", [numbers, [n]], {"axis": 0, "largest": 0, "sorted": 1}, 2)[1]


@aten("uniform", names={"from": "low", "to": "high"})
def _uniform(node: AtenNode, g: Operators, self: Value, low: float = 0.0, high: float = 1.0) -> Value:
    return drawn(node, g, dims(self), low=float(low), high=float(high)).value


@aten("normal_functional")
def _normal(node: AtenNode, g: Operators, self: Value, mean: float = 0.0, std: float = 1.0) -> Value:
    return drawn(node, g, dims(self), normal=True, mean=float(mean), scale=float(std)).value


@aten("normal", ignores=("dtype",))
def _normal_of(
    node: AtenNode, g: Operators, mean: Number, std: Number = 1.0, size: Sequence[int] | None = None
) -> Value:
    """Return mean + std * x for normally distributed x."""
    shape = next((dims(each) for each in (mean, std) if isinstance(each, Value)), tuple(size or ()))
    if isinstance(mean, Value) and isinstance(std, Value):
        shape = dims(g("Add", [mean, std]))
    numbers = drawn(node, g, shape, normal=True)
    return (numbers * _float(node, g, std) + _float(node, g, mean)).value


def _float(node: AtenNode, g: Operators, number: Number) -> Term:
    return term(node, g, number).to(FLOAT32)


@aten("exponential")
def _exponential(node: AtenNode, g: Operators, self: Value, lambd: float = 1.0) -> Value:
    """Return -log(1 - x) / lambd for evenly distributed x."""
    return (-(1.0 - drawn(node, g, dims(self)))("Log") / lambd).value


@aten("bernoulli")
def _bernoulli(node: AtenNode, g: Operators, self: Value, p: Number | None = None) -> Value:
    """Return 1 where an evenly distributed number is below the probability, else 0."""
    chance = _float(node, g, self if p is None else p)
    return (drawn(node, g, dims(self)) < chance).to(node.dtype).value


@aten("multinomial")
def _multinomial(node: AtenNode, g: Operators, self: Value, num_samples: int, replacement: bool) -> Value:
    """Draw classes by their weights, one or with replacement."""
    if not g.random_inputs:
        raise node.problem("the result is random", draw_outside())
    if num_samples != 1 and not replacement:
        raise node.problem(
            "xdlc does not support draws without replacement", "draw the classes outside the network"
        )
    weights = Term(g, self)("Log") if self.rank == 2 else Term(g, reshape(g, self, (1, *dims(self))))("Log")
    classes = weights("Multinomial", sample_size=num_samples, dtype=6).value
    return classes if self.rank == 2 else reshape(g, classes, (num_samples,))


_EVAL = "call model.eval() before the export"
_DROPPED = ("dropout", "feature_dropout", "native_dropout")


@aten("alpha_dropout", "feature_alpha_dropout", *_DROPPED, layout=ANY)
def _dropout(node: AtenNode, g: Operators, input: Value, p: float, train: bool | None) -> list[Value]:
    """Return the input and, in the native form, an all-true mask; refuse training.

    An element is kept where an evenly distributed number is below 1 - p, and divided by 1 - p.
    """
    x, type = Term(g, input), operator(node)
    if not (train and p):
        return [x("Identity").value, *(x.same(x).value for _ in node.outputs[1:])]
    if type not in _DROPPED or not g.random_inputs:
        raise node.problem(
            "dropout in training mode is random",
            f"{_EVAL}, or {draw_outside()}" if type in _DROPPED else _EVAL,
        )
    shape = dims(input)
    if type == "feature_dropout":
        shape = (*shape[:2], *[1] * (len(shape) - 2))
    kept = drawn(node, g, shape) < 1.0 - p
    factor = 0.0 if math.isclose(p, 1.0) else 1.0 / (1.0 - p)
    return [
        (x * (kept.to(input.dtype) * factor)).value,
        *([kept.to(BOOL8).value] if node.outputs[1:] else []),
    ]
