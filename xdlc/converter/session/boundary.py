"""Makes the values at which the model ends outputs of the main graph, under the source's names."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc import ir
from xdlc.converter.session.context import State
from xdlc.converter.session.diagnostics import COPY
from xdlc.converter.session.layouts import note_layout
from xdlc.converter.values import Value, identity
from xdlc.errors import ModelError, UnsupportedOp, UsageError, nearest_names


def check_outputs(state: State, out_names: Sequence[str]) -> None:
    """Report outputs that cannot be given.

    Args:
        state: The import, after the last node.
        out_names: Names of the outputs.
    """
    where = str(state.file.path)
    if not out_names:
        advice = "name the values to end at with --out_name, or export the model again"
        state.problems.append(ModelError("the graph has no outputs", where=where, fix=advice))
    for name in out_names:
        if name in state.absent:
            state.problems.append(state.missing(name, where))
        elif name in state.values and not isinstance(state.values[name], Value):
            state.problems.append(
                UnsupportedOp(
                    f"output {name!r} is a sequence or an optional, but a DLC holds tensors only",
                    where=where,
                    fix="give the model an output for each tensor, or end it earlier by --out_name",
                )
            )
            state.poisoned.add(name)
        elif name not in state.values and name not in state.poisoned:
            known = [output for node in state.file.proto.graph.node for output in node.output if output]
            near = nearest_names(name, known) or f"name a value that a node writes: {', '.join(known[-3:])}"
            state.problems.append(UsageError(f"there is no value {name!r}", where=where, fix=near))


def add_outputs(state: State, out_names: Sequence[str]) -> None:
    """Add the outputs that can be given to the main graph.

    Raises:
        ModelError: If one has the name of an input.
    """
    for name in out_names:
        if name in state.values and name not in state.poisoned:
            _add_output(state, name)


def _add_output(state: State, name: str) -> None:
    builder, graph = state.builder, state.builder.graph
    value = state.values.tensor(name)
    builder.node = name
    note_layout(state.findings, name, value)
    tensor = builder.known_scalar(value) or builder.physical(
        value, identity(value.rank), why=f"output {name!r} keeps the source's axis order"
    )
    shared = tensor.producer is None or graph.is_output(tensor) or tensor.rank != value.rank
    if shared or not graph.inputs:
        tensor = _copied(state, name, tensor, value)
    if tensor.name != name:
        holder = graph.tensors.get(name)
        if holder is not None:
            if holder.role is ir.Role.INPUT:
                raise ModelError(f"{name!r} names an input and an output", where=str(state.file.path))
            graph.rename(holder, graph.unique_name(f"{name}_inner"))
        graph.rename(tensor, name)
    graph.add_output(tensor)


def _copied(state: State, name: str, tensor: ir.Tensor, value: Value) -> ir.Tensor:
    """Return a tensor of its own for an output that shares one with something else."""
    builder = state.builder
    builder.node = name + COPY
    why = f"output {name!r} is a scalar, an input, a constant or another output"
    if value.is_dynamic or not builder.graph.inputs:  # the vendor's library composes no graph without inputs
        lying = Value(tensor, identity(tensor.rank), ranked=value.ranked)
        copy = builder.unary("Identity", lying, package=ir.HOST_PACKAGE).tensor
        if copy.producer is not None:
            copy.producer.origin = ir.Origin(copy.producer.origin.nodes, why)
        return copy
    return builder.emit("Reshape", [tensor], value.shape, tensor.dtype, encoding=tensor.encoding, why=why)
