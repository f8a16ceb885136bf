"""LSTMs of floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.args import optional
from xdlc.opdefs.cells import OPERATIONS, lstm_step
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, SIGMOID, SUBTRACT, TANH
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import form
from xdlc.passes.htp_forms.activations import apart

_LSTM = OPERATIONS["LSTM"]
_ORDER = "foic"
"""Gates in the order of the stacked weights, those with a sigmoid first."""
_LONGEST = 256
"""Most steps: 500 cells take HTP 1.8 times the time of an Lstm to compile (SDK 2.51)."""
_OTHERS = (*_LSTM.others, *_LSTM.inputs["p"].values())


@dataclass(frozen=True, slots=True)
class _Number:
    """A tensor with Python operators."""

    w: Writer
    tensor: Tensor

    def __add__(self, other: _Number) -> _Number:
        return _Number(self.w, self.w.binary(ADD, self.tensor, other.tensor))

    def __mul__(self, other: _Number) -> _Number:
        return _Number(self.w, self.w.binary(MULTIPLY, self.tensor, other.tensor))

    def __rsub__(self, other: float) -> _Number:
        return _Number(self.w, self.w.binary(SUBTRACT, self.w.number(other), self.tensor))

    def activated(self, operation: int) -> _Number:
        """Return an activation of HTP's precision."""
        return _Number(self.w, self.w.neuron(operation, apart(self.w, self.tensor)))


@form("Lstm")
def _cells(w: Writer, op: Op, source: Tensor) -> bool:
    """Write each cell of up to 256 steps as products and sums.

    HTP's Lstm rounds gates to 9 bits.
    """
    if not source.dtype.is_float or len(op.outputs) != 3 or any(optional(op, index) for index in _OTHERS):
        return False
    if any(op.param(name, 0.0) > 0 for name in ("cell_clip_threshold", "output_clip_threshold")):
        return False
    stacked = {kind: _stacked(op, kind) for kind in "wrb"}
    weights = {kind: w.constant(array) for kind, array in stacked.items() if array is not None}
    x, axis = source, _LSTM.time_axis(op)
    if source.rank == 3 and axis == 1:
        x = w.transposed(source, (1, 0, 2))
    batch, width = x.shape[-2:]
    steps, units = x.shape[0] if x.rank == 3 else 1, op.outputs[1].shape[-1]
    if len(weights) < len(stacked) or steps > _LONGEST:
        return False
    shares = _product(w, w.reshape(x, (steps * batch, width)), weights["w"], weights["b"])
    hidden, cell = (optional(op, state.input) for state in _LSTM.states)
    zeros = numpy.zeros((batch, units), numpy.float32)
    memory = _Number(w, w.constant(zeros) if cell is None else w.reshape(cell, zeros.shape))
    rows: dict[int, Tensor] = {}
    order = range(steps - 1, -1, -1) if op.param("direction", 0) else range(steps)
    for step in order:
        total = w.sliced(shares, 0, step * batch, (step + 1) * batch)
        if hidden is not None:
            state = w.reshape(hidden, (batch, units))
            total = w.binary(ADD, total, _product(w, state, weights["r"]))
        output, memory = _step(w, total, memory)
        hidden = rows[step] = output.tensor
    every = op.outputs[0]
    hiddens = w.joined([w.reshape(rows[step], (1, batch, units)) for step in range(steps)], 0)
    if every.rank == 3 and axis == 1:
        hiddens = w.transposed(hiddens, (1, 0, 2))
    results = zip((hiddens, memory.tensor, hidden), op.outputs, strict=True)
    w.finish(*(w.emit("Reshape", [result], output.shape, None, output.dtype) for result, output in results))
    return True


def _step(w: Writer, total: Tensor, cell: _Number) -> tuple[_Number, _Number]:
    """Return the hidden state and the cell after a step, from the sums of the gates."""
    units = cell.tensor.shape[-1]
    sigmoids = _Number(w, w.sliced(total, 1, 0, 3 * units)).activated(SIGMOID).tensor
    bounds = {gate: (at * units, (at + 1) * units) for at, gate in enumerate(_ORDER[:3])}
    gates = {gate: _Number(w, w.sliced(sigmoids, 1, *span)) for gate, span in bounds.items()}
    gates["c"] = _Number(w, w.sliced(total, 1, 3 * units, 4 * units)).activated(TANH)

    def gate(name: str, _: _Number) -> _Number:
        return gates[name]

    return lstm_step(gate, cell, lambda memory: memory.activated(TANH))


def _stacked(op: Op, kind: str) -> Array | None:
    """Return the stacked arrays of all gates, or None.

    Without weights of its own the input gate is one minus the forget gate.
    """
    positions = _LSTM.inputs[kind]
    tensors = {gate: optional(op, position) for gate, position in positions.items()}
    is_missing = tensors["i"] is None
    if is_missing:
        tensors["i"] = tensors["f"]
    arrays = {}
    for gate, tensor in tensors.items():
        if tensor is None or tensor.data is None or not tensor.dtype.is_float:
            return None
        arrays[gate] = tensor.numpy()
    if is_missing:
        has_weights = optional(op, _LSTM.inputs["w"]["i"]) is not None
        arrays["i"] = numpy.zeros_like(arrays["i"]) if has_weights else -arrays["i"]
    return numpy.concatenate([arrays[gate] for gate in _ORDER])


def _product(w: Writer, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    return w.emit("FullyConnected", [x, weight, *bias], (x.shape[0], weight.shape[0]), None, x.dtype)
