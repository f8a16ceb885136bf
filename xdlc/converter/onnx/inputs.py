"""Makes the inputs of the source inputs of the main graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.session.context import State
from xdlc.converter.session.layouts import note_layout
from xdlc.converter.values import Value, channel_last, identity, open_tensor
from xdlc.errors import UnsupportedOp


def add_inputs(state: State, input_shapes: Mapping[str, Sequence[int | None]]) -> None:
    """Add the inputs of the model to the main graph; those that have data already are none.

    Args:
        state: The import; problems are reported to it.
        input_shapes: Shape of every input, None for open extents.
    """
    for entry in state.file.proto.graph.input:
        if entry.name in state.values or entry.name in state.poisoned:
            continue  # an initializer with a declared type
        try:
            dtype = _dtype(entry)
        except UnsupportedOp as problem:
            problem.where = str(state.file.path)
            state.poisoned.add(entry.name)
            state.problems.append(problem)
            continue
        tensor = state.builder.graph.add_input(open_tensor(entry.name, input_shapes[entry.name], dtype))
        if not tensor.rank:
            state.builder.node = tensor.name
        value = state.builder.value_of(tensor)
        if entry.name in state.wanted and tensor.rank >= 3 and not value.is_dynamic:
            value = _lying_channel_last(state.builder, tensor, value)
            note_layout(state.findings, entry.name, value)
        state.values[entry.name] = value


def _dtype(entry: Any) -> ir.DType:
    """Return the data type of a ``ValueInfoProto``."""
    elem = entry.type.tensor_type.elem_type
    try:
        if not entry.type.HasField("tensor_type"):
            kind = str(entry.type.WhichOneof("value")).removesuffix("_type").replace("_", " ")
            raise TypeError(f"it is of type {kind}, but a DLC holds tensors only")
        return ir.dtype.from_numpy(protobuf.numpy_dtype(elem))
    except (TypeError, KeyError) as error:
        raise UnsupportedOp(
            f"input {entry.name!r} cannot be a DLC input: {error or f'data type {elem}'}",
            fix="export the model with tensor inputs of plain numbers",
        ) from error


def _lying_channel_last(builder: Builder, tensor: ir.Tensor, value: Value) -> Value:
    """Return an input turned round once, in front of all that reads it."""
    builder.node = tensor.name
    order = channel_last(tensor.rank)
    why = f"input {tensor.name!r} is channel-first, the graph works channel-last"
    return Value(builder.physical(value, order, why=why), order, {identity(tensor.rank): tensor})
