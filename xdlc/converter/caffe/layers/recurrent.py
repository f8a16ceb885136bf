"""Handlers of LSTM and RNN."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.caffe.registry import bottoms, layer, misfit, params, weights
from xdlc.converter.functions.products import dense
from xdlc.converter.functions.recurrence import (
    Lookup,
    front,
    lstm_cell,
    one_way,
    scanned,
    weights_of,
)
from xdlc.converter.functions.scatter import full
from xdlc.converter.functions.shapes import reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32
from xdlc.options import spell


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
        every = g("Expand", [reshape(g, static, (1, batch, width)), (steps, batch, width)])
        x, weight = g("Concat", [x, every], axis=2), g("Concat", [weight, others.pop(0)], axis=1)
    recurrence, *shown_weights = others
    zeros = full(g, (batch, units), 0, FLOAT32)
    states = [reshape(g, state, zeros.shape) for state in states] or [zeros] * count

    if not cont.is_static or np.any(cont.numpy()[1:] != 1):
        every, *last = _steps(node, g, [x, cont, weight, bias, recurrence], states)
    else:
        first = cont.numpy()[0][:, None].astype(np.float32)
        if np.any(first != 1):
            states = [g("Mul", [state, first]) for state in states]
        gates = weights_of(g, node.type, "Caffe", weight, recurrence, bias)
        every, *last = one_way(g, node.type, x, gates, states)
    if shown_weights:
        matrix, summand = shown_weights
        total = g("MatMul", [every, g("Transpose", [matrix], perm=[1, 0])])
        every = g("Tanh", [g("Add", [total, summand])])
    return [every, *(front(g, state) for state in last[:exposed])]


def _steps(node: Node, g: Operators, operands: Sequence[Value], states: Sequence[Value]) -> list[Value]:
    """Return all hidden states and the last states; ``cont`` multiplies the states."""
    x, cont, weight, bias, recurrence = operands
    total = g("Add", [g("MatMul", [x, g("Transpose", [weight], perm=[1, 0])]), bias])
    rows = g("Concat", [total, g("Unsqueeze", [cont, [2]])], axis=2)
    if not cont.is_static and x.shape[0] > g.unroll_loops:
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} reads {node.names[1]!r} at every step, on the host. Set this input with "
            f"{spell('set_inputs')} if each run is one sequence (0 at the first step, else 1), or unroll the "
            f"steps with {spell('unroll_loops')} {x.shape[0]}"
        )

    def step(row: Value, held: Sequence[Value], at: Lookup) -> list[Value]:
        sizes = vector(g, [recurrence.shape[0], 1])
        share, keep = g.apply("Split", [row, sizes], {"axis": 1}, 2)
        kept = [g("Mul", [state, keep]) for state in held]
        weight = at("recurrence")
        assert weight is not None
        total = g("Add", [share, dense(g, kept[0], weight)])
        return lstm_cell(g, total, kept[1], "Caffe") if len(kept) > 1 else [g("Tanh", [total])]

    return scanned(g, rows, states, step, {"recurrence": recurrence})


@layer("LSTMUnit")
def _lstm_unit(node: Node, g: Operators) -> list[Value]:
    """Apply an LSTM unit: cell [1, N, units], gates [1, N, 4 units], cont [1, N]."""
    cell, gates, cont = bottoms(node, 3, rank=3)
    units = cell.shape[-1]
    if cell.shape != (1, *cont.shape[1:], units) or gates.shape != (*cell.shape[:2], 4 * units):
        shapes = [list(each.shape) for each in (cell, gates, cont)]
        raise misfit(f"the layer has bottoms {shapes} instead of [1, N, H], [1, N, 4 H] and [1, N]")
    keep = reshape(g, cont, (*cell.shape[:2], 1))
    return lstm_cell(g, gates, g("Mul", [cell, keep]), "Caffe")[::-1]
