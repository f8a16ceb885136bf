"""Boundary of the main graph: dimensions, inputs and outputs."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from shlex import quote

from xdlc import ir
from xdlc.converter.session.context import REPORT, ImportContext
from xdlc.converter.session.diagnostics import COPY
from xdlc.converter.session.node import CONTRADICTION, GraphInput, Labels
from xdlc.converter.values import Value, channel_last, identity, open_tensor
from xdlc.errors import ModelError, UnsupportedOp, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph
from xdlc.options import spell

UNNAMED = "?"
"""Label of a dynamic dimension without a symbol."""


def input_shapes(
    inputs: Sequence[GraphInput],
    where: str,
    *,
    input_dims: Mapping[str, Sequence[int]],
    symbols: Mapping[str, int],
    batch: int | None,
    fixed: Collection[str] = (),
) -> dict[str, tuple[int | None, ...]]:
    """Return the shape of each input; None is a dimension that stays dynamic.

    Args:
        inputs: The inputs of the model that are no constants.
        where: Name of the model, for errors.
        input_dims: Whole shapes by input name; they win over everything else, but not all over ``batch``.
        symbols: Values of symbolic dimensions by name.
        batch: Value of every input's first dimension.
        fixed: Names of inputs with a value, which may do without a shape.

    Raises:
        UsageError: For each other input tensor without a declared shape, each name that matches nothing, and
            a batch that is that of no input.
    """
    problems: list[XdlcError] = []
    names = [entry.name for entry in inputs]
    for name in input_dims:
        if name not in names:
            problems.append(
                UsageError(
                    f"{spell('input_dims')} names {name!r}, but the model's inputs are {', '.join(names)}",
                    where=where,
                    fix=nearest_names(name, names) or "use one of the model's input names",
                )
            )
    used = {
        label for entry in inputs for label in entry.dims or () if isinstance(label, str) and label != UNNAMED
    }
    shapes: dict[str, tuple[int | None, ...]] = {}
    for name, _, labels in inputs:
        dims = input_dims.get(name)
        if dims is not None and labels is not None and len(dims) != len(labels):
            problems.append(
                UsageError(
                    f"{spell('input_dims')} has {len(dims)} dimensions for input {name!r}, "
                    f"the model has {len(labels)}: {_text(labels)}",
                    where=where,
                    fix="give every dimension, the batch included",
                )
            )
            continue
        if dims is None and labels is None:
            if name in fixed:
                continue
            problems.append(
                UsageError(
                    f"input {name!r} has no declared shape",
                    where=where,
                    fix=f"give its shape: {spell('input_dims')} {quote(name)} N,N,... (a number for each N, "
                    "-1 if dynamic)",
                )
            )
            continue
        shape = [symbols.get(label, -1) if isinstance(label, str) else label for label in labels or ()]
        if batch is not None and shape:
            shape[0] = batch
        if dims is not None:
            shape = [int(size) for size in dims]
        if name in shapes or not name:
            text = f"two inputs are named {name!r}" if name else "an input has no name"
            problems.append(ModelError(text, where=where, fix="export the model again"))
        shapes[name] = tuple(size if size >= 0 else None for size in shape)
    if (
        batch is not None
        and shapes
        and all(tuple(input_dims.get(name, (batch,)))[:1] != (batch,) for name in shapes)
    ):
        fix = f"state the batch in {spell('input_dims')}, and omit {spell('batch')}"
        problem = f"{spell('batch', batch)} contradicts {spell('input_dims')}"
        problems.append(UsageError(problem, where=where, fix=fix))
    for symbol in symbols:
        if symbol not in used:
            problems.append(
                UsageError(
                    f"{spell('define_symbol')} names {symbol!r}, "
                    f"but the model's symbols are {', '.join(sorted(used)) or 'none'}",
                    where=where,
                    fix=nearest_names(symbol, used) or "omit the flag",
                )
            )
    raise_all(problems, where=where)
    return shapes


def with_batch_of_one(inputs: Sequence[GraphInput], notices: list[str]) -> list[GraphInput]:
    """Return inputs whose open first dimension is 1, if nothing else is open.

    Args:
        inputs: The inputs as a framework declares them that leaves the batch of every network open.
        notices: Gets a line if there are such.
    """
    opened = [entry for entry in inputs if any(isinstance(label, str) for label in entry.dims or ())]
    if not opened or any(isinstance(label, str) for entry in opened for label in (entry.dims or ())[1:]):
        return list(inputs)
    names = ", ".join(repr(entry.name) for entry in opened)
    kept = ",".join(["-1", *map(str, (opened[0].dims or ())[1:])])
    notices.append(
        f"the batch of {names} is open: 1 is taken; {spell('batch')} N sets another, "
        f"{spell('input_dims')} {quote(opened[0].name)} {kept} keeps it open"
    )
    return [
        entry._replace(dims=(1, *(entry.dims or ())[1:])) if entry in opened else entry for entry in inputs
    ]


def open_symbols(stated: Mapping[str, Labels], converted: Graph) -> dict[str, list[str | None]]:
    """Return the symbols of the axes of dynamic inputs and outputs.

    Args:
        stated: Dimensions of the inputs and outputs by name, as the model states them.
        converted: The converted graph.
    """
    symbols_of: dict[str, list[str | None]] = {}
    for tensor in (*converted.inputs, *converted.outputs):
        labels = stated.get(tensor.name, ())
        if tensor.dynamic_axes and len(labels) == tensor.rank:
            symbols = [
                label if axis in tensor.dynamic_axes and isinstance(label, str) and label != UNNAMED else None
                for axis, label in enumerate(labels)
            ]
            symbols_of |= {tensor.name: symbols} if any(symbols) else {}
    return symbols_of


def blame_bindings(
    problems: Sequence[XdlcError], inputs: Sequence[GraphInput], input_dims: Mapping[str, Sequence[int]]
) -> list[XdlcError]:
    """Return problems, contradictions attributed to shapes in the options.

    Args:
        problems: The problems.
        inputs: The inputs of the model.
        input_dims: Shapes of the options, by input name.
    """
    blamed: list[XdlcError] = []
    changed = list(_changed(inputs, input_dims))
    statements = "; ".join(
        f"{spell('input_dims')} states {name!r} as {_text(dims)}, the model states {_text(labels)}"
        for name, labels, dims in changed
    )
    own = [(name, _with_open(labels, dims)) for name, labels, dims in changed]
    contradicts = any(shape != tuple(dims) for (_, shape), (_, _, dims) in zip(own, changed, strict=True))
    fix = f"check the dimensions that the options (like {spell('batch')}) give, then the model"
    if contradicts:
        shapes = " and ".join(f"{name!r} the shape {','.join(map(str, shape))}" for name, shape in own)
        fix = f"give {shapes} with {spell('input_dims')}, as the model states, or omit it"
    elif changed:
        fix = f"give sizes that the network supports, often multiples of 32, with {spell('input_dims')}"
    for problem in problems:
        if isinstance(problem, ModelError) and problem.node is not None:
            is_vague = problem.fix in (None, CONTRADICTION) or str(problem.fix).endswith(REPORT)
            parts = [statements, problem.problem] if is_vague else [problem.problem, statements]
            problem = (UsageError if contradicts else ModelError)(
                (": " if is_vague else "; ").join(filter(None, parts)),
                where=problem.where,
                fix=fix if is_vague else f"{problem.fix}; or {fix}",
                node=problem.node,
                op=problem.op,
                line=problem.line,
            )
        blamed.append(problem)
    return blamed


def _changed(
    inputs: Sequence[GraphInput], input_dims: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, Labels, Sequence[int]]]:
    """Yield inputs with other dimensions than stated: name, labels, dimensions."""
    for name, _, labels in inputs:
        dims = input_dims.get(name, ())
        if labels and len(labels) == len(dims) and any(map(operator.ne, labels, dims)):
            yield name, labels, dims


def _with_open(labels: Labels, dims: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions that a model states, where it states symbols those given."""
    return tuple(size if isinstance(label, str) else label for label, size in zip(labels, dims, strict=True))


def _text(labels: Labels) -> str:
    return f"[{', '.join(map(str, labels))}]"


def add_input(context: ImportContext, name: str, shape: Sequence[int | None], dtype: ir.DType) -> None:
    """Add an input to the main graph, channel-last if the layout pre-pass wants it.

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
        value = Value(builder.to_layout(value, order, why=why), order, {identity(tensor.rank): tensor})
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
        advice = f"name the values to end at with {spell('out_name')}, or export the model again"
        context.problems.append(ModelError("the graph has no outputs", where=where, fix=advice))
    for name in out_names:
        if name in context.frame.unoffered:
            context.problems.append(context.missing(name, where))
        elif name in context.values and not isinstance(context.values[name], Value):
            context.problems.append(
                UnsupportedOp(
                    f"output {name!r} is a sequence or an optional, but a DLC holds tensors only",
                    where=where,
                    fix=f"give the model an output for each tensor, or end it earlier by {spell('out_name')}",
                )
            )
            context.frame.unresolved.add(name)
        elif name not in context.values and name not in context.frame.unresolved:
            near = nearest_names(name, written) or f"name a value of a node: {', '.join(written[-3:])}"
            context.problems.append(UsageError(f"there is no value {name!r}", where=where, fix=near))


def add_outputs(context: ImportContext, out_names: Sequence[str]) -> None:
    """Add the outputs to the main graph, under names of their own."""
    for name in out_names:
        if name in context.values and name not in context.frame.unresolved:
            _add_output(context, name)


def _add_output(context: ImportContext, name: str) -> None:
    builder, graph = context.builder, context.builder.graph
    value = context.values.tensor(name)
    builder.node = name
    context.diagnostics.note_layout(name, value)
    tensor = builder.known_scalar(value) or builder.to_layout(
        value, identity(value.rank), why=f"output {name!r} keeps the source's axis order"
    )
    shared = tensor.producer is None or graph.is_output(tensor) or tensor.rank != value.rank
    if shared or not graph.inputs:
        tensor = _copied(context, name, tensor, value)
    if tensor.name != name:
        holder = graph.tensors.get(name)
        if holder is not None:
            if holder.role is ir.Role.INPUT:
                own = graph.unique_name(f"{name}:0")
                context.diagnostics.notices.append(
                    f"{name!r} is an input and an output: the output is {own!r}"
                )
                name = own
            else:
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
