"""Boundary of the main graph: dimensions, inputs, fixed inputs and outputs."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from xdlc import ir
from xdlc.converter.session.context import REPORT, ImportContext
from xdlc.converter.session.diagnostics import COPY
from xdlc.converter.session.node import CONTRADICTION, GraphInput, Labels
from xdlc.converter.values import Value, channel_last, identity, open_tensor
from xdlc.errors import ModelError, UnsupportedOp, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph
from xdlc.options import spell

Array = Any  # numpy.ndarray
_SHOWN = 16  # elements of a value in notices and in the history
_FIX = "pass a number, a list like [1,2,3], or the path of an .npy file"


def fixed_inputs(
    inputs: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int | None]],
    values: Mapping[str, Any],
    where: str,
) -> dict[str, Array]:
    """Return the values of the fixed inputs, as arrays of their types and shapes.

    Args:
        inputs: numpy dtype of each input by name; None for one that is not a tensor of numbers.
        shapes: Shapes of the inputs, None for dynamic dimensions; an input without takes any shape.
        values: Values by input name: numbers, lists, arrays, paths of ``.npy`` files, or texts of these as
            JSON.  One number fills a shape whose dimensions are all known.
        where: Name of the model, for errors.

    Raises:
        UsageError: If there is no such input, or a value does not fit its data type or shape; several
            problems make a ProblemList.
        StorageError: If an ``.npy`` file cannot be read.
    """
    problems: list[XdlcError] = []
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        try:
            if name not in inputs:
                raise UsageError(
                    f"the model has no input {name!r}; the inputs are {', '.join(inputs) or 'none'}",
                    fix=nearest_names(name, inputs) or "use one of the names of the inputs",
                )
            arrays[name] = _fitting(value, inputs[name], shapes.get(name))
        except XdlcError as problem:
            option = f"{spell('set_inputs')} {quote(name)}"
            problem.where = ": ".join([where, option, *filter(None, [problem.where])])
            problems.append(problem)
    raise_all(problems, where=where)
    return arrays


def _fitting(value: Any, dtype: Any, shape: Sequence[int | None] | None) -> Array:
    """Return a value as an array of an input's data type and shape.

    Raises:
        UsageError: If it does not fit.
        StorageError: If its file cannot be read.
    """
    import numpy as np

    if dtype is None:
        raise UsageError("the input is not a numeric tensor", fix="omit the flag for this input")
    stated = _array(value)
    if stated.ndim and shape is not None:
        _check_shape(stated.shape, shape)  # before values are read from a file
    with np.errstate(all="ignore"):
        array = stated.astype(dtype)
        is_whole = dtype.kind in "biu"
        held = array == stated if is_whole else np.isinf(array.astype(np.float64)) == np.isinf(stated)
    if not held.all():
        raise UsageError(
            f"{in_words(stated)} does not fit the input's data type {dtype}",
            fix=f"pass values that {dtype} can hold",
        )
    if shape is not None and not array.ndim and None not in shape:
        return np.full(shape, array)
    if shape is not None:
        _check_shape(array.shape, shape)
    return array


def _check_shape(sizes: Sequence[int], shape: Sequence[int | None]) -> None:
    """Check that a value has the shape of an input; None is a dynamic dimension."""
    if len(sizes) == len(shape) and all(
        dim in (None, found) for dim, found in zip(shape, sizes, strict=True)
    ):
        return
    wanted = ["N" if dim is None else dim for dim in shape]
    raise UsageError(
        f"the value has shape {list(sizes)}, but the input needs {wanted}".replace("'", ""),
        fix="pass a value of that shape, or bind the dimensions of the input and pass one number",
    )


def _array(value: Any) -> Array:
    import numpy as np

    if isinstance(value, str | os.PathLike) and os.fspath(value).endswith(".npy"):
        from xdlc.runtime import array_files

        array = array_files.load(Path(value))
    else:
        try:
            array = np.asarray(json.loads(value) if isinstance(value, str) else value)
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(f"{str(value)[:80]!r} is not numeric", fix=_FIX) from error
    if array.dtype.kind not in "biuf":
        raise UsageError(f"{str(value)[:80]!r} is not numeric", fix=_FIX)
    return array


def in_words(array: Array) -> str:
    """Return a value as text; a large array as its type and shape."""
    if array.size <= _SHOWN:
        return json.dumps(array.tolist())
    return f"{array.dtype} {list(array.shape)}"


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
    """Return the shape of each input; None marks a dimension that stays dynamic.

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
                    code="XD211",
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
                    f"{spell('input_dims')} has {len(dims)} dimensions for input {name!r}, but the model "
                    f"has {len(labels)}: {_text(labels)}",
                    where=where,
                    fix="write every dimension, the batch included",
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
                    fix=f"set the shape: {spell('input_dims')} {quote(name)} N,N,... (a number for each N, "
                    "-1 if dynamic)",
                    code="XD213",
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
        fix = f"write the batch in {spell('input_dims')}, and omit {spell('batch')}"
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
    """Return inputs with 1 for open first dimensions, if no other dimension is open.

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
        f"the batch of {names} is dynamic: xdlc uses 1; {spell('batch')} N sets another batch, "
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
        input_dims: Shapes of the options, by input name.
    """
    blamed: list[XdlcError] = []
    changed = list(_changed(inputs, input_dims))
    statements = "; ".join(
        f"{spell('input_dims')} states {name!r} as {_text(dims)}, but the model states {_text(labels)}"
        for name, labels, dims in changed
    )
    own = [(name, _with_open(labels, dims)) for name, labels, dims in changed]
    contradicts = any(shape != tuple(dims) for (_, shape), (_, _, dims) in zip(own, changed, strict=True))
    fix = f"check the dimensions that the options (like {spell('batch')}) set, then the model"
    if contradicts:
        shapes = " and ".join(f"{name!r} the shape {','.join(map(str, shape))}" for name, shape in own)
        fix = f"set {shapes} with {spell('input_dims')}, as in the model, or omit the option"
    elif changed:
        fix = f"set sizes that the network supports, often multiples of 32, with {spell('input_dims')}"
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
    """Yield inputs with changed dimensions: name, labels, dimensions."""
    for name, _, labels in inputs:
        dims = input_dims.get(name, ())
        if labels and len(labels) == len(dims) and any(map(operator.ne, labels, dims)):
            yield name, labels, dims


def _with_open(labels: Labels, dims: Sequence[int]) -> tuple[int, ...]:
    """Return stated dimensions, with symbols replaced by the sizes in ``dims``."""
    return tuple(size if isinstance(label, str) else label for label, size in zip(labels, dims, strict=True))


def _text(labels: Labels) -> str:
    return f"[{', '.join(map(str, labels))}]"


def add_input(context: ImportContext, name: str, shape: Sequence[int | None], dtype: ir.DType) -> None:
    """Add an input to the main graph, channel-last if the layout pre-pass wants it.

    Args:
        shape: Its shape, None for dynamic dimensions.
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
                    fix=f"give the model an output for each tensor, or end it with {spell('out_name')}",
                )
            )
            context.frame.unresolved.add(name)
        elif name not in context.values and name not in context.frame.unresolved:
            near = nearest_names(name, written) or f"name a value of a node: {', '.join(written[-3:])}"
            context.problems.append(UsageError(f"the model has no value {name!r}", where=where, fix=near))


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
                    f"{name!r} is an input and an output: xdlc names the output {own!r}"
                )
                name = own
            else:
                graph.rename(holder, graph.unique_name(f"{name}_inner"))
        graph.rename(tensor, name)
    graph.add_output(tensor)


def _copied(context: ImportContext, name: str, tensor: ir.Tensor, value: Value) -> ir.Tensor:
    """Return a separate tensor for an output that shares its tensor."""
    builder = context.builder
    builder.node = name + COPY
    why = f"output {name!r} is a scalar, an input, a constant or a second output"
    if value.is_dynamic or not builder.graph.inputs:  # the vendor's library composes no graph without inputs
        lying = Value(tensor, identity(tensor.rank), ranked=value.ranked)
        copy = builder.unary("Identity", lying, package=ir.HOST_PACKAGE).tensor
        if copy.producer is not None:
            copy.producer.origin = ir.Origin(copy.producer.origin.nodes, why)
        return copy
    return builder.emit("Reshape", [tensor], value.shape, tensor.dtype, encoding=tensor.encoding, why=why)
