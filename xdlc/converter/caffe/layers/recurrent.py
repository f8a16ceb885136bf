"""Handlers of LSTM and RNN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.caffe.registry import bottoms, layer, misfit, params, weights
from xdlc.converter.nhwc import recurrent
from xdlc.converter.nhwc.gathering import split_evenly
from xdlc.converter.nhwc.recurrent import LstmWeights, front, scanned
from xdlc.converter.nhwc.scatter import full
from xdlc.converter.nhwc.shapes import reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32
from xdlc.options import spell

_GATES = "ifoc"
"""Gates in the order of Caffe's weights (lstm_layer.cpp)."""


@layer("LSTM", "RNN", ignores=["recurrent_param.debug_info"])
def _recurrent(node: Node, g: Operators) -> list[Value]:
    """Apply one LSTM or RNN if ``cont`` keeps the states; else emit single steps.

    RNN is h = tanh(W x + b + H (cont h)), of which the output is tanh(O h + c).  A static bottom is a part of
    the input of every step.
    """
    p, is_lstm = params(node, "recurrent_param"), node.type == "LSTM"
    units, count = p.integer("num_output", least=1), 2 if is_lstm else 1
    exposed = count if p.flag("expose_hidden", False) else 0
    x, cont, *rest = blobs = bottoms(node, 2 + exposed, 3 + exposed)
    statics, states = rest[: len(rest) - exposed], rest[len(rest) - exposed :]
    steps, batch = x.shape[:2] if x.rank > 1 else (0, 0)
    fits = cont.shape == (steps, batch) and all(state.size == batch * units for state in states)
    if not fits or any(static.shape[:1] != (batch,) for static in statics):
        shapes = [list(blob.shape) for blob in blobs]
        expected = f"[T, N, ...], [T, N], perhaps a static [N, ...], and states [1, N, {units}]"
        raise misfit(f"the layer has bottoms {shapes} instead of {expected}")

    rows, widths = (4 if is_lstm else 1) * units, [math.prod(x.shape[2:])]
    widths += [static.size // batch for static in statics]
    shapes = [[rows, widths[0]], [rows], *([rows, width] for width in widths[1:]), [rows, units]]
    shown = [] if is_lstm else [[units, units], [units]]
    weight, bias, *others = weights(node, g, *shapes, *shown)
    x = reshape(g, x, (steps, batch, widths[0]))
    for static, width in zip(statics, widths[1:], strict=True):
        every = g("Expand", [reshape(g, static, (1, batch, width)), vector(g, (steps, batch, width))])
        x, weight = g("Concat", [x, every], axis=2), g("Concat", [weight, others.pop(0)], axis=1)
    recurrence, *shown_weights = others
    zeros = full(g, (batch, units), 0, FLOAT32)
    states = [reshape(g, state, zeros.shape) for state in states] or [zeros] * count

    if not cont.is_static or np.any(cont.numpy()[1:] != 1):
        every, *last = _steps(node, g, [x, cont, weight, bias, recurrence], states)
    else:
        first = cont.numpy()[0][:, None].astype(np.float32)
        if np.any(first != 1):
            states = [g("Mul", [state, g.builder.const(first)]) for state in states]
        if is_lstm:
            inputs, recurrences, biases = (
                dict(zip(_GATES, split_evenly(g, weight_blob, 4, 0), strict=True))
                for weight_blob in (weight, recurrence, bias)
            )
            every, *last = recurrent.lstm(g, x, LstmWeights(inputs, recurrences, biases, {}, {}), states)
        else:
            every, *last = recurrent.rnn(g, x, [weight, recurrence, bias], states[0], "Tanh")
    if shown_weights:
        matrix, summand = shown_weights
        total = g("MatMul", [every, g("Transpose", [matrix], perm=[1, 0])])
        every = g("Tanh", [g("Add", [total, summand])])
    return [every, *(front(g, state) for state in last[:exposed])]


def _steps(node: Node, g: Operators, operands: Sequence[Value], states: Sequence[Value]) -> list[Value]:
    """Return all hidden states and the last states; ``cont`` multiplies the states."""
    x, cont, weight, bias, recurrence = operands
    total = g("Add", [g("MatMul", [x, g("Transpose", [weight], perm=[1, 0])]), bias])
    rows = g("Concat", [total, g("Unsqueeze", [cont, vector(g, [2])])], axis=2)
    if not cont.is_static and x.shape[0] > g.unroll_loops:
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} reads {node.names[1]!r} at every step, on the host. Set this input with "
            f"{spell('set_inputs')} if each run is one sequence (0 at the first step, else 1), or unroll the "
            f"steps with {spell('unroll_loops')} {x.shape[0]}"
        )

    def step(row: Value, held: Sequence[Value], at: Callable[[str], Value | None]) -> list[Value]:
        sizes = vector(g, [recurrence.shape[0], 1])
        share, keep = g.apply("Split", [row, sizes], {"axis": 1}, 2)
        kept = [g("Mul", [state, keep]) for state in held]
        product = g("MatMul", [kept[0], g("Transpose", [at("recurrence")], perm=[1, 0])])
        total = g("Add", [share, product])
        return _lstm_step(g, total, kept[1]) if len(kept) > 1 else [g("Tanh", [total])]

    return scanned(g, rows, states, step, {"recurrence": recurrence})


def _lstm_step(g: Operators, total: Value, old_cell: Value) -> list[Value]:
    """Return output and cell after a step, from the gates' sum and the old cell."""
    gate = dict(zip(_GATES, split_evenly(g, total, 4, total.rank - 1), strict=True))
    taken, kept, shown = (g("Sigmoid", [gate[name]]) for name in "ifo")
    new = g("Tanh", [gate["c"]])
    cell = g("Add", [g("Mul", [kept, old_cell]), g("Mul", [taken, new])])
    return [g("Mul", [shown, g("Tanh", [cell])]), cell]


@layer("LSTMUnit")
def _lstm_unit(node: Node, g: Operators) -> list[Value]:
    """Apply an LSTM unit: cell [1, N, units], gates [1, N, 4 units], cont [1, N]."""
    cell, gates, cont = bottoms(node, 3, rank=3)
    units = cell.shape[-1]
    if cell.shape != (1, *cont.shape[1:], units) or gates.shape != (*cell.shape[:2], 4 * units):
        shapes = [list(each.shape) for each in (cell, gates, cont)]
        raise misfit(f"the layer has bottoms {shapes} instead of [1, N, H], [1, N, 4 H] and [1, N]")
    keep = reshape(g, cont, (*cell.shape[:2], 1))
    return _lstm_step(g, gates, g("Mul", [cell, keep]))[::-1]
