"""Lstm and Gru in one direction, over a sequence or a single step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import ArrayData, Op, Tensor, TensorData, Transform
from xdlc.ir.quantization import float_data
from xdlc.opdefs import args, loader
from xdlc.opdefs.cells import OPERATIONS, ORDERS
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

_NORMS = (12, 13, 14, 15)
_PROJECTION = (22, 23)
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


def _part(tensor: Tensor | None, b: Builder, shape: tuple[int, ...]) -> Part:
    """Return a gate's weights; zeros if omitted."""
    if tensor is None:
        return ArrayData(numpy.zeros(shape, FLOAT))
    return float_data(tensor) if tensor.is_static else b.read(tensor, dtype=FLOAT)


def _gates(op: Op, positions: Mapping[str, int], cell: str, b: Builder, shape: tuple[int, ...]) -> list[Part]:
    """Return a kind of weights by gate, in ONNX's order.

    Without weights of its own the input gate is one minus the forget gate, which is a sigmoid of the
    negated argument: the negated weights of the forget gate.

    Raises:
        ModelError: If mandatory weights are missing.
    """
    definition = loader.find(op.type)
    assert definition is not None  # of a native op
    parts = {}
    for gate, at in positions.items():
        read = args.operand if definition.inputs[at].mandatory else args.optional
        parts[gate] = _part(read(op, at), b, shape)
    if cell == "LSTM" and args.optional(op, OPERATIONS[cell].inputs["w"]["i"]) is None:
        forget = parts["f"]
        parts["i"] = b.node("Neg", [forget]) if isinstance(forget, str) else forget.transform(numpy.negative)
    return [parts[gate] for gate in ORDERS[cell]["ONNX"] if gate in parts]


def _refuse(op: Op, b: Builder) -> None:
    for positions, what in ((_NORMS, "layer normalization"), (_PROJECTION, "a projection")):
        if any(args.optional(op, index) is not None for index in positions):
            raise b.unsupported(
                f"the host does not support {what} inside the cell", "write the cell as single operators"
            )
    if float(op.param("cell_clip_threshold", 0.0)) > 0:
        raise b.unsupported("clipping of the cell state has no host implementation", "omit the threshold")


@lowering("Lstm")
def lstm(op: Op, b: Builder) -> None:
    """Lower to LSTM.

    Inputs and outputs of rank 3 are [time, batch, ...] with ``time_major`` and [batch, time, ...]
    without; of rank 2 they are [batch, ...], one step.
    """
    _refuse(op, b)
    _lower(op, b, "LSTM", (2, 3))


@lowering("Gru")
def gru(op: Op, b: Builder) -> None:
    """Lower to GRU of [time, batch, ...] (``time_major``) or [batch, time, ...]."""
    _lower(op, b, "GRU", (3,), linear_before_reset=int(op.param("linear_before_reset", 0)))


def _lower(op: Op, b: Builder, cell: str, ranks: Sequence[int], **attributes: Any) -> None:
    operation, source = OPERATIONS[cell], args.operand(op, 0)
    if args.optional(op, operation.reset) is not None:
        raise b.unsupported("the reset input has no host implementation", "omit the input")
    if source.rank not in ranks:
        stated = " or ".join(map(str, ranks))
        raise ModelError(f"the op needs an input of rank {stated}, but has shape {list(source.shape)}")
    swapped = source.rank == 3 and operation.time_axis(op) == 1
    value = b.read(source, (1, 0, 2) if swapped else None, dtype=FLOAT)
    if source.rank == 2:
        value = b.node("Unsqueeze", [value, b.ints(0)])
    units, width = args.operand(op, operation.inputs["w"][ORDERS[cell]["ONNX"][-1]]).shape
    shapes = {"w": (units, width), "r": (units, units)}
    parts = {
        kind: _gates(op, positions, cell, b, shapes.get(kind, (units,)))
        for kind, positions in operation.inputs.items()
    }
    rows = len(parts["w"]) * units
    zeros: list[Part] = [ArrayData(numpy.zeros(rows, FLOAT))]
    inputs = [
        value,
        _stacked(b, f"{op.name}~w", parts["w"], (1, rows, width)),
        _stacked(b, f"{op.name}~r", parts["r"], (1, rows, units)),
        _stacked(b, f"{op.name}~b", [*parts["b"], *parts.get("rb", zeros)], (1, 2 * rows)),
        "",
    ]
    batch = source.shape[0] if swapped or source.rank == 2 else source.shape[1]
    for state in operation.states:
        tensor = args.optional(op, state.input)
        shape = (1, batch, units)
        inputs.append("" if tensor is None else b.reshape(b.read(tensor, dtype=FLOAT), shape))
    peepholes = operation.inputs.get("p", {})
    if any(args.optional(op, at) is not None for at in peepholes.values()):
        inputs.append(_stacked(b, f"{op.name}~p", parts["p"], (1, len(peepholes) * units)))
    direction = "reverse" if int(op.param("direction", 0)) == 1 else "forward"
    count = 1 + len(operation.states)
    every, *lasts = b.nodes_out(cell, inputs, count, hidden_size=units, direction=direction, **attributes)
    if len(op.outputs) > count:
        raise b.unsupported(f"output {count} (a gate) has no host implementation", "omit the output")
    value, result = b.node("Squeeze", [every, b.ints(1)]), op.outputs[0]
    if result.rank == 2:
        value = b.node("Squeeze", [value, b.ints(0)])
    b.write(result, value, (1, 0, 2) if swapped else None, dtype=FLOAT)
    for state, last in zip(operation.states, lasts, strict=True):
        if state.output < len(op.outputs):
            tensor = op.outputs[state.output]
            b.write(tensor, b.reshape(last, tensor.shape), dtype=FLOAT)
