"""Boundary of the main graph: its inputs and outputs, under the names and in the layouts of the source."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc import ir
from xdlc.converter.session.context import ImportContext
from xdlc.converter.session.diagnostics import COPY
from xdlc.converter.values import Value, channel_last, identity, open_tensor
from xdlc.errors import ModelError, UnsupportedOp, UsageError, nearest_names


def add_input(context: ImportContext, name: str, shape: Sequence[int | None], dtype: ir.DType) -> None:
    """Add an input to the main graph, channel-last from the start if the layout pre-pass wants that.

    Args:
        context: The import.
        name: Its name.
        shape: Its shape, None for dynamic dimensions.
        dtype: Its data type.
    """
    builder = context.builder
    tensor = builder.graph.add_input(open_tensor(name, shape, dtype))
    if not tensor.rank:
        builder.node = tensor.name
    value = builder.value_of(tensor)
    if name in context.wanted and tensor.rank >= 3 and not value.is_dynamic:
        builder.node = tensor.name
        order = channel_last(tensor.rank)
        why = f"input {tensor.name!r} is channel-first, the graph works channel-last"
        value = Value(builder.physical(value, order, why=why), order, {identity(tensor.rank): tensor})
        context.diagnostics.note_layout(name, value)
    context.values[name] = value


def check_outputs(context: ImportContext, out_names: Sequence[str], written: Sequence[str]) -> None:
    """Report outputs that cannot be given.

    Args:
        context: The import, after the last node.
        out_names: Names of the outputs.
        written: Names of the values that nodes write.
    """
    where = context.source.path
    if not out_names:
        advice = "name the values to end at with --out_name, or export the model again"
        context.problems.append(ModelError("the graph has no outputs", where=where, fix=advice))
    for name in out_names:
        if name in context.frame.unoffered:
            context.problems.append(context.missing(name, where))
        elif name in context.values and not isinstance(context.values[name], Value):
            context.problems.append(
                UnsupportedOp(
                    f"output {name!r} is a sequence or an optional, but a DLC holds tensors only",
                    where=where,
                    fix="give the model an output for each tensor, or end it earlier by --out_name",
                )
            )
            context.frame.unresolved.add(name)
        elif name not in context.values and name not in context.frame.unresolved:
            near = nearest_names(name, written) or f"name a value of a node: {', '.join(written[-3:])}"
            context.problems.append(UsageError(f"there is no value {name!r}", where=where, fix=near))


def add_outputs(context: ImportContext, out_names: Sequence[str]) -> None:
    """Add the outputs that can be given to the main graph.

    Raises:
        ModelError: If one has the name of an input.
    """
    for name in out_names:
        if name in context.values and name not in context.frame.unresolved:
            _add_output(context, name)


def _add_output(context: ImportContext, name: str) -> None:
    builder, graph = context.builder, context.builder.graph
    value = context.values.tensor(name)
    builder.node = name
    context.diagnostics.note_layout(name, value)
    tensor = builder.known_scalar(value) or builder.physical(
        value, identity(value.rank), why=f"output {name!r} keeps the source's axis order"
    )
    shared = tensor.producer is None or graph.is_output(tensor) or tensor.rank != value.rank
    if shared or not graph.inputs:
        tensor = _copied(context, name, tensor, value)
    if tensor.name != name:
        holder = graph.tensors.get(name)
        if holder is not None:
            if holder.role is ir.Role.INPUT:
                raise ModelError(f"{name!r} names an input and an output", where=context.source.path)
            graph.rename(holder, graph.unique_name(f"{name}_inner"))
        graph.rename(tensor, name)
    graph.add_output(tensor)


def _copied(context: ImportContext, name: str, tensor: ir.Tensor, value: Value) -> ir.Tensor:
    """Return a tensor of its own for an output that shares one with something else."""
    builder = context.builder
    builder.node = name + COPY
    why = f"output {name!r} is a scalar, an input, a constant or another output"
    if value.is_dynamic or not builder.graph.inputs:  # the vendor's library composes no graph without inputs
        lying = Value(tensor, identity(tensor.rank), ranked=value.ranked)
        copy = builder.unary("Identity", lying, package=ir.HOST_PACKAGE).tensor
        if copy.producer is not None:
            copy.producer.origin = ir.Origin(copy.producer.origin.nodes, why)
        return copy
    return builder.emit("Reshape", [tensor], value.shape, tensor.dtype, encoding=tensor.encoding, why=why)
