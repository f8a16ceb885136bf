"""LSTMs of floats."""

from __future__ import annotations

import numpy

from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.args import optional
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, SIGMOID, TANH
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import form
from xdlc.passes.htp_forms.activations import apart
from xdlc.passes.step_recurrences import STATES, time_axis

_FORGET = {"weight": 1, "recurrence": 4, "bias": 7}
"""Inputs of the forget gate; those of cell and output gate follow (OpDef of Lstm)."""
_INPUT = {"weight": 16, "recurrence": 17, "bias": 21}
_LONGEST = 256
"""Most steps: 500 cells take HTP 1.8 times the time of an Lstm to compile (SDK 2.51)."""
_OTHERS = (12, 13, 14, 15, 18, 19, 20, 22, 23, 24)
"""Inputs of norms, peepholes, projection and reset."""


@form("Lstm")
def _cells(w: Writer, op: Op, source: Tensor) -> bool:
    """Write each cell of up to 256 steps as products and sums.

    HTP's Lstm rounds gates to 9 bits.
    """
    if not source.dtype.is_float or len(op.outputs) != 3 or any(optional(op, index) for index in _OTHERS):
        return False
    if any(op.param(name, 0.0) > 0 for name in ("cell_clip_threshold", "output_clip_threshold")):
        return False
    stacked = {name: _stacked(op, name) for name in _FORGET}
    weights = {name: w.constant(array) for name, array in stacked.items() if array is not None}
    x, axis = source, time_axis(op)
    if source.rank == 3 and axis == 1:
        x = w.transposed(source, (1, 0, 2))
    batch, width = x.shape[-2:]
    steps, units = x.shape[0] if x.rank == 3 else 1, op.outputs[1].shape[-1]
    if len(weights) < len(stacked) or steps > _LONGEST:
        return False
    shares = _product(w, w.reshape(x, (steps * batch, width)), weights["weight"], weights["bias"])
    cell, hidden = (optional(op, place) for place in STATES["Lstm"].values())
    rows, order = {}, range(steps - 1, -1, -1) if op.param("direction", 0) else range(steps)
    for step in order:
        total = w.sliced(shares, 0, step * batch, (step + 1) * batch)
        if hidden is not None:
            state = w.reshape(hidden, (batch, units))
            total = w.binary(ADD, total, _product(w, state, weights["recurrence"]))
        gates = w.neuron(SIGMOID, apart(w, w.sliced(total, 1, 0, 3 * units)))
        forget, exposure, entry = (w.sliced(gates, 1, at * units, (at + 1) * units) for at in range(3))
        added = w.neuron(TANH, apart(w, w.sliced(total, 1, 3 * units, 4 * units)))
        new = w.binary(MULTIPLY, entry, added)
        if cell is not None:
            new = w.binary(ADD, w.binary(MULTIPLY, forget, w.reshape(cell, (batch, units))), new)
        cell = new
        hidden = rows[step] = w.binary(MULTIPLY, exposure, w.neuron(TANH, apart(w, cell)))
    every = op.outputs[0]
    hiddens = w.joined([w.reshape(rows[step], (1, batch, units)) for step in range(steps)], 0)
    if every.rank == 3 and axis == 1:
        hiddens = w.transposed(hiddens, (1, 0, 2))
    results = zip((hiddens, cell, hidden), op.outputs, strict=True)
    w.finish(*(w.emit("Reshape", [result], output.shape, None, output.dtype) for result, output in results))
    return True


def _stacked(op: Op, name: str) -> Array | None:
    """Return the stacked arrays of forget, output, input and cell gate, or None.

    Without weights of its own the input gate is one minus the forget gate.
    """
    forget, cell, output = (optional(op, _FORGET[name] + place) for place in range(3))
    own = optional(op, _INPUT[name])
    parts = []
    for tensor in (forget, output, own or forget, cell):
        if tensor is None or tensor.data is None or not tensor.dtype.is_float:
            return None
        parts.append(tensor.numpy())
    if own is None:
        parts[2] = -parts[2] if optional(op, _INPUT["weight"]) is None else numpy.zeros_like(parts[2])
    return numpy.concatenate(parts)


def _product(w: Writer, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    return w.emit("FullyConnected", [x, weight, *bias], (x.shape[0], weight.shape[0]), None, x.dtype)
