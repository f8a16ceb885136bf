"""Lstm and Gru in one direction, over a sequence or a single step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import ArrayData, Op, Tensor, TensorData, Transform
from xdlc.ir.quantization import float_data
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

# Input positions: OpDef of Lstm.
FORGET, CELL, OUTPUT = range(3)
INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = 1, 4, 7
INITIAL_OUTPUT, INITIAL_CELL = 10, 11
LAYER_NORM = (12, 13, 14, 15)
INPUT_GATE_WEIGHTS, INPUT_GATE_RECURRENT, INPUT_GATE_BIAS = 16, 17, 21
PEEPHOLES = (18, 20, 19)  # input, output, forget: the order ONNX wants
PROJECTION = (22, 23)
GRU_STATE, GRU_RESET = 13, 14
Part = TensorData | str
FLOAT = numpy.dtype(numpy.float32)


def _stacked(b: Builder, hint: str, parts: Sequence[Part], shape: tuple[int, ...]) -> str:
    """Return the parts joined in a shape: one initializer if all are static."""
    data = [part for part in parts if isinstance(part, TensorData)]
    if len(data) == len(parts):
        whole = Transform(data, lambda *arrays: _joined(arrays).reshape(shape), shape, FLOAT)
        return b.initializer(hint, whole)
    values = [b.initializer(hint, part) if isinstance(part, TensorData) else part for part in parts]
    return b.reshape(b.node("Concat", [b.reshape(value, (-1,)) for value in values], axis=0), shape)


def _joined(arrays: Sequence[Any]) -> Any:
    return numpy.concatenate([array.reshape(-1) for array in arrays])


def _part(tensor: Tensor, b: Builder) -> Part:
    return float_data(tensor) if tensor.is_static else b.read(tensor, dtype=FLOAT)


def _gates(op: Op, first: int, input_gate: int, b: Builder) -> list[Part]:
    """Return weights or biases in ONNX's order: input, output, forget, cell.

    Without weights of its own the input gate is one minus the forget gate, which is a sigmoid of the
    negated argument: the negated weights of the forget gate.
    """
    forget = _part(args.operand(op, first + FORGET), b)
    input_part = args.optional(op, input_gate)
    own: Part
    if args.optional(op, INPUT_GATE_WEIGHTS) is None:
        own = forget.transform(numpy.negative) if isinstance(forget, TensorData) else b.node("Neg", [forget])
    elif input_part is None:
        own = ArrayData(numpy.zeros(args.operand(op, first + FORGET).shape, FLOAT))
    else:
        own = _part(input_part, b)
    return [own, _part(args.operand(op, first + OUTPUT), b), forget, _part(args.operand(op, first + CELL), b)]


def _state(op: Op, index: int, b: Builder, batch: int) -> str:
    tensor = args.optional(op, index)
    if tensor is None:
        return ""
    return b.reshape(b.read(tensor, dtype=FLOAT), (1, batch, tensor.shape[-1]))


def _refuse(op: Op, b: Builder) -> None:
    for positions, what in ((LAYER_NORM, "layer normalization"), (PROJECTION, "a projection")):
        if any(args.optional(op, index) is not None for index in positions):
            raise b.unsupported(
                f"the host does not support {what} inside the cell", "write the cell as single operators"
            )
    if args.optional(op, 24) is not None:
        raise b.unsupported("the reset input has no host implementation", "omit the input")
    if float(op.param("cell_clip_threshold", 0.0)) > 0:
        raise b.unsupported("clipping of the cell state has no host implementation", "omit the threshold")


@lowering("Lstm")
def lstm(op: Op, b: Builder) -> None:
    """Lower to LSTM.

    Inputs and outputs of rank 3 are [time, batch, ...] with ``time_major`` and [batch, time, ...]
    without; of rank 2 they are [batch, ...], one step.
    """
    _refuse(op, b)
    source = args.operand(op, 0)
    if source.rank not in (2, 3):
        raise ModelError(f"the op needs an input of rank 2 or 3, but has shape {list(source.shape)}")
    units, width = args.operand(op, INPUT_WEIGHTS).shape
    swapped = source.rank == 3 and not op.param("time_major", False)
    value = b.read(source, (1, 0, 2) if swapped else None, dtype=FLOAT)
    if source.rank == 2:
        value = b.node("Unsqueeze", [value, b.ints(0)])
    batch = source.shape[0] if swapped or source.rank == 2 else source.shape[1]
    weights = _gates(op, INPUT_WEIGHTS, INPUT_GATE_WEIGHTS, b)
    recurrent = _gates(op, RECURRENT_WEIGHTS, INPUT_GATE_RECURRENT, b)
    biases = _gates(op, BIASES, INPUT_GATE_BIAS, b)
    zeros = ArrayData(numpy.zeros(4 * units, FLOAT))
    inputs = [
        value,
        _stacked(b, f"{op.name}~w", weights, (1, 4 * units, width)),
        _stacked(b, f"{op.name}~r", recurrent, (1, 4 * units, units)),
        _stacked(b, f"{op.name}~b", [*biases, zeros], (1, 8 * units)),
        "",
        _state(op, INITIAL_OUTPUT, b, batch),
        _state(op, INITIAL_CELL, b, batch),
        _peepholes(op, b, units),
    ]
    reverse = int(op.param("direction", 0)) == 1
    outputs = b.nodes_out("LSTM", inputs, 3, hidden_size=units, direction="reverse" if reverse else "forward")
    _write(op, b, outputs, swapped)


def _peepholes(op: Op, b: Builder, units: int) -> str:
    given = [args.optional(op, index) for index in PEEPHOLES]
    if not any(given):
        return ""
    nothing = ArrayData(numpy.zeros(units, FLOAT))
    parts = [nothing if tensor is None else _part(tensor, b) for tensor in given]
    return _stacked(b, f"{op.name}~p", parts, (1, 3 * units))


def _write(op: Op, b: Builder, outputs: tuple[str, ...], swapped: bool) -> None:
    every, last_hidden, last_cell = outputs
    for index, tensor in enumerate(op.outputs):
        if index == 0:
            value = b.node("Squeeze", [every, b.ints(1)])
            if tensor.rank == 2:
                value = b.node("Squeeze", [value, b.ints(0)])
            b.write(tensor, value, (1, 0, 2) if swapped else None, dtype=FLOAT)
        elif index in (1, 2):
            value = last_cell if index == 1 else last_hidden
            b.write(tensor, b.reshape(value, tensor.shape), dtype=FLOAT)
        else:
            raise b.unsupported(f"output {index} (a gate) has no host implementation", "omit the output")


@lowering("Gru")
def gru(op: Op, b: Builder) -> None:
    """Lower to GRU of [time, batch, ...] (``time_major``) or [batch, time, ...]."""
    if args.optional(op, GRU_RESET) is not None:
        raise b.unsupported("the reset input has no host implementation", "omit the input")
    source = args.operand(op, 0)
    if source.rank != 3:
        raise ModelError(f"the op needs an input of rank 3, but has shape {list(source.shape)}")
    units, width = args.operand(op, INPUT_WEIGHTS).shape
    swapped = not op.param("time_major", True)
    nothing = ArrayData(numpy.zeros(units, FLOAT))

    def gates(first: int) -> list[Part]:
        given = [args.optional(op, first + gate) for gate in range(3)]
        return [nothing if tensor is None else _part(tensor, b) for tensor in given]

    inputs = [
        b.read(source, (1, 0, 2) if swapped else None, dtype=FLOAT),
        _stacked(b, f"{op.name}~w", gates(INPUT_WEIGHTS), (1, 3 * units, width)),
        _stacked(b, f"{op.name}~r", gates(RECURRENT_WEIGHTS), (1, 3 * units, units)),
        _stacked(b, f"{op.name}~b", [*gates(BIASES), *gates(BIASES + 3)], (1, 6 * units)),
        "",
        _state(op, GRU_STATE, b, source.shape[0 if swapped else 1]),
    ]
    every, last = b.nodes_out(
        "GRU",
        inputs,
        2,
        hidden_size=units,
        direction="reverse" if int(op.param("direction", 0)) == 1 else "forward",
        linear_before_reset=int(op.param("linear_before_reset", 0)),
    )
    squeezed = b.node("Squeeze", [every, b.ints(1)])
    b.write(op.outputs[0], squeezed, (1, 0, 2) if swapped else None, dtype=FLOAT)
    b.write(op.outputs[1], b.reshape(last, op.outputs[1].shape), dtype=FLOAT)
