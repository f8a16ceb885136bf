"""Handlers of LSTM and RNN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.caffe.params import bottoms, params, weights
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc import recurrent
from xdlc.converter.nhwc.gathering import split_evenly
from xdlc.converter.nhwc.recurrent import LstmWeights, front, scanned
from xdlc.converter.nhwc.shapes import reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError

_CORRECT = "correct the layer in the net's text"
_GATES = "ifoc"
"""Gates in the order of Caffe's weights (lstm_layer.cpp)."""


class _Recurrent:
    """What LSTM and RNN have in common.

    Args:
        node: The layer.
        g: Applies operators.
        states: Number of its states.

    Attributes:
        units: Size of a state.
        x: Input [T, N, width], the static one among it.
        widths: Width of the input, and of the static one.
        cont: What the states are multiplied with before each step, [T, N].
        states: States before the first step, [N, units] each.
        exposes: Whether bottoms and tops have the states.
    """

    def __init__(self, node: Node, g: Operators, states: int) -> None:
        own = params(node, "recurrent_param")
        self.units, self.exposes = own.integer("num_output", least=1), own.flag("expose_hidden", False)
        own.flag("debug_info", False)
        extra = states if self.exposes else 0
        x, cont, *rest = bottoms(node, 2 + extra, 3 + extra)
        if x.rank < 2 or cont.shape != x.shape[:2]:
            raise ModelError(
                f"has bottoms {list(x.shape)} and {list(cont.shape)} instead of [T, N, ...] and [T, N]",
                fix=_CORRECT,
            )
        self.g, self.cont = g, cont
        self.steps, batch = cont.shape
        check_table(batch, self.units)
        inputs, given = rest[: len(rest) - extra], rest[len(rest) - extra :]
        self.widths = [math.prod(x.shape[2:])]
        self.x = reshape(g, x, (self.steps, batch, self.widths[0]))
        for static in inputs:
            if static.rank < 1 or static.shape[0] != batch:
                raise ModelError(
                    f"has a static bottom {list(static.shape)} for a batch of {batch}", fix=_CORRECT
                )
            self.widths.append(static.size // batch)
            row = reshape(g, static, (1, batch, self.widths[1]))
            every = g("Expand", [row, vector(g, (self.steps, batch, self.widths[1]))])
            self.x = g("Concat", [self.x, every], axis=2)
        for state in given:
            if state.size != batch * self.units:
                raise ModelError(f"has a state {list(state.shape)} of {self.units} units", fix=_CORRECT)
        zeros = g.builder.const(np.zeros((batch, self.units), np.float32))
        self.states = [reshape(g, state, zeros.shape) for state in given] or [zeros] * states

    def weights(self, node: Node, gates: int, *more: Sequence[int]) -> list[Value]:
        """Return the weights of the inputs side by side, the bias, and the others."""
        rows = gates * self.units
        (first, *static) = ((rows, width) for width in self.widths)
        weight, bias, *others = weights(node, self.g, first, (rows,), *static, (rows, self.units), *more)
        for _ in static:
            weight = self.g("Concat", [weight, others.pop(0)], axis=1)
        return [weight, bias, *others]

    def starts_once(self) -> bool:
        """Return whether states are kept at all steps but the first; that one's factor is then applied."""
        if not self.cont.is_static or not np.all(self.cont.numpy()[1:] == 1):
            return False
        first = self.g.builder.const(self.cont.numpy()[0][:, None].astype(np.float32))
        if not np.all(first.numpy() == 1):
            self.states = [self.g("Mul", [state, first]) for state in self.states]
        return True

    def scan(
        self,
        node: Node,
        shares: Sequence[Value],
        recurrence: Value,
        step: Callable[[Value, Sequence[Value]], list[Value]],
    ) -> list[Value]:
        """Return all first states and the last ones; ``step`` gets the sum of the gates and the states."""
        g, (weight, bias) = self.g, shares
        total = g("Add", [g("MatMul", [self.x, g("Transpose", [weight], perm=[1, 0])]), bias])
        rows = g("Concat", [total, g("Unsqueeze", [self.cont, vector(g, [2])])], axis=2)
        if not self.cont.is_static and self.steps > g.unroll_loops:
            g.context.diagnostics.notices.append(
                f"{node.own_name!r} reads {node.names[1]!r} at every step, which is done on the host: "
                "fix it with --set_input where a sequence is one run (0 at the first step, else 1), or write "
                f"the steps out with --unroll_loops {self.steps}"
            )

        def one(row: Value, held: Sequence[Value], at: Callable[[str], Value | None]) -> list[Value]:
            matrix, sizes = at("recurrence"), vector(g, [recurrence.shape[0], 1])
            share, keep = g.apply("Split", [row, sizes], {"axis": 1}, 2)
            kept = [g("Mul", [state, keep]) for state in held]
            product = g("MatMul", [kept[0], g("Transpose", [matrix], perm=[1, 0])])
            return step(g("Add", [share, product]), kept)

        return scanned(g, rows, self.states, one, {"recurrence": recurrence})

    def tops(self, every: Value, last: Sequence[Value]) -> list[Value]:
        """Return the tops: the output of every step, and the last states if they are exposed."""
        return [every, *(front(self.g, state) for state in last)] if self.exposes else [every]


@layer("LSTM")
def _lstm(node: Node, g: Operators) -> list[Value]:
    """Apply one LSTM where ``cont`` keeps the states; else write its steps."""
    given = _Recurrent(node, g, 2)
    weight, bias, recurrence = given.weights(node, 4)
    if given.starts_once():
        inputs, states, biases = (
            dict(zip(_GATES, split_evenly(g, each, 4, 0), strict=True)) for each in (weight, recurrence, bias)
        )
        parts = LstmWeights(inputs, states, biases, {}, {})
        every, *last = recurrent.lstm(g, given.x, parts, given.states)
        return given.tops(every, last)

    every, *last = given.scan(
        node, [weight, bias], recurrence, lambda total, states: _lstm_step(g, total, states[1])
    )
    return given.tops(every, last)


def _lstm_step(g: Operators, total: Value, held: Value) -> list[Value]:
    """Return the output and the cell after a step, from the sum of the gates and the cell before."""
    gate = dict(zip(_GATES, split_evenly(g, total, 4, total.rank - 1), strict=True))
    taken, kept, shown = (g("Sigmoid", [gate[name]]) for name in "ifo")
    new = g("Tanh", [gate["c"]])
    cell = g("Add", [g("Mul", [kept, held]), g("Mul", [taken, new])])
    return [g("Mul", [shown, g("Tanh", [cell])]), cell]


@layer("LSTMUnit")
def _lstm_unit(node: Node, g: Operators) -> list[Value]:
    """Apply the last part of one step: the cell [1, N, units] before, gates [1, N, 4 units], cont [1, N]."""
    cell, gates, cont = bottoms(node, 3)
    units = cell.shape[-1] if cell.rank == 3 else 0
    if cell.shape != (1, *cont.shape[1:], units) or gates.shape != (*cell.shape[:2], 4 * units):
        shapes = [list(each.shape) for each in (cell, gates, cont)]
        raise ModelError(f"has bottoms {shapes} instead of [1, N, H], [1, N, 4 H] and [1, N]", fix=_CORRECT)
    keep = reshape(g, cont, (*cell.shape[:2], 1))
    return _lstm_step(g, gates, g("Mul", [cell, keep]))[::-1]


@layer("RNN")
def _rnn(node: Node, g: Operators) -> list[Value]:
    """Apply h = tanh(W x + b + H (cont h)), of which the output is tanh(O h + c)."""
    given = _Recurrent(node, g, 1)
    units = given.units
    weight, bias, recurrence, shown, summand = given.weights(node, 1, (units, units), (units,))
    if given.starts_once():
        every, *last = recurrent.rnn(g, given.x, [weight, recurrence, bias], given.states[0], "Tanh")
    else:
        every, *last = given.scan(node, [weight, bias], recurrence, lambda total, _: [g("Tanh", [total])])
    total = g("Add", [g("MatMul", [every, g("Transpose", [shown], perm=[1, 0])]), summand])
    return given.tops(g("Tanh", [total]), last)
