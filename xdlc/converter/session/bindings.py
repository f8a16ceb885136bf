"""Concrete input shapes: what the model says, what the user binds, and what is still open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.errors import ModelError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph


def input_shapes(
    graph: Any,
    where: str,
    *,
    input_dims: Mapping[str, Sequence[int]],
    symbols: Mapping[str, int],
    batch: int | None,
) -> dict[str, tuple[int | None, ...]]:
    """Return the shape of each graph input that is no initializer; None is an extent that stays open.

    Args:
        graph: ``GraphProto``.
        where: Name of the model, for errors.
        input_dims: Whole shapes by input name; they win over everything else.
        symbols: Values of symbolic dimensions by name.
        batch: Value of every input's first dimension.

    Raises:
        UsageError: For each input tensor without a declared shape, and each name that matches nothing.
    """
    initializers = {tensor.name for tensor in graph.initializer}
    initializers.update(tensor.values.name for tensor in graph.sparse_initializer)
    inputs = [entry for entry in graph.input if entry.name not in initializers]
    problems: list[XdlcError] = []
    names = [entry.name for entry in inputs]
    for name in input_dims:
        if name not in names:
            problems.append(
                UsageError(
                    f"--input_dim names {name!r}, but the model's inputs are {', '.join(names)}",
                    where=where,
                    fix=nearest_names(name, names) or "use one of the model's input names",
                )
            )
    used: set[str] = set()
    shapes: dict[str, tuple[int | None, ...]] = {}
    for entry in inputs:
        if entry.type.WhichOneof("value") not in (None, "tensor_type"):
            continue  # to be refused as what it is
        declared = entry.type.tensor_type.shape.dim
        labels = [_label(dim) for dim in declared]
        used.update(dim.dim_param for dim in declared if dim.dim_param)
        shape = [
            dim.dim_value if isinstance(label, int) else symbols.get(dim.dim_param, -1)
            for dim, label in zip(declared, labels, strict=True)
        ]
        if batch is not None and shape:
            shape[0] = batch
        if entry.name in input_dims:
            given = [int(extent) for extent in input_dims[entry.name]]
            if entry.type.tensor_type.HasField("shape") and len(given) != len(labels):
                problems.append(
                    UsageError(
                        f"--input_dim gives input {entry.name!r} {len(given)} dimensions, "
                        f"the model has {len(labels)}: {_text(labels)}",
                        where=where,
                        fix="give every dimension, the batch included",
                    )
                )
                continue
            shape = given
        elif not entry.type.HasField("tensor_type"):
            shape = []  # the import refuses it
        elif not entry.type.tensor_type.HasField("shape"):
            problems.append(
                UsageError(
                    f"input {entry.name!r} has no declared shape",
                    where=where,
                    fix=f"give its shape: --input_dim {entry.name} N,N,... (a number for each N, -1 if open)",
                )
            )
            continue
        if entry.name in shapes:
            problems.append(ModelError(f"two inputs are named {entry.name!r}", where=where))
        shapes[entry.name] = tuple(extent if extent >= 0 else None for extent in shape)
    for symbol in symbols:
        if symbol not in used:
            problems.append(
                UsageError(
                    f"--define_symbol names {symbol!r}, "
                    f"but the model's symbols are {', '.join(sorted(used)) or 'none'}",
                    where=where,
                    fix=nearest_names(symbol, used) or "leave the flag out",
                )
            )
    raise_all(problems, where=where)
    return shapes


def open_symbols(graph: Any, converted: Graph) -> dict[str, list[str | None]]:
    """Return the symbol of each axis, None for one without, of inputs and outputs with open dimensions.

    Args:
        graph: ``GraphProto``.
        converted: The graph that it became.
    """
    declared = {entry.name: entry.type.tensor_type.shape.dim for entry in (*graph.input, *graph.output)}
    found: dict[str, list[str | None]] = {}
    for tensor in (*converted.inputs, *converted.outputs):
        dims = declared.get(tensor.name, ())
        if tensor.dynamic_axes and len(dims) == tensor.rank:
            symbols = [
                dim.dim_param if axis in tensor.dynamic_axes and dim.dim_param != "?" else ""
                for axis, dim in enumerate(dims)
            ]
            found |= {tensor.name: [symbol or None for symbol in symbols]} if any(symbols) else {}
    return found


def blame_bindings(
    problems: Sequence[XdlcError],
    graph: Any,
    input_dims: Mapping[str, Sequence[int]],
    *,
    is_bound: bool,
) -> list[XdlcError]:
    """Return problems of a model, its nodes' contradictions put down to the shapes that the user gave.

    Args:
        problems: The problems.
        graph: ``GraphProto``.
        input_dims: Shapes that the user gave, by input name.
        is_bound: Whether the user gave any, or symbols, or a batch.
    """
    found = []
    changed = dict(_changed(graph, input_dims))
    for problem in problems:
        if isinstance(problem, ModelError) and changed:
            given = "; ".join(f"--input_dim gives {name!r} {text}" for name, text in changed.items())
            place = {"where": problem.where, "node": problem.node, "op": problem.op}
            fix = "give every dimension that the model states as it does"
            problem = UsageError(f"{problem.problem}; {given}", fix=fix, **place)
        elif isinstance(problem, ModelError) and is_bound:
            problem.fix = "check what --input_dim, --define_symbol and --batch give, then the model"
        found.append(problem)
    return found


def _changed(graph: Any, input_dims: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, str]]:
    """Yield the inputs whose stated dimensions are given otherwise, with both shapes."""
    for entry in graph.input:
        labels = [_label(dim) for dim in entry.type.tensor_type.shape.dim]
        given = input_dims.get(entry.name, ())
        if len(labels) == len(given) and any(
            isinstance(label, int) and label != extent for label, extent in zip(labels, given, strict=True)
        ):
            yield entry.name, f"{_text(given)}, the model states {_text(labels)}"


def _label(dim: Any) -> int | str:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return dim.dim_param or "?"


def _text(labels: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, labels))}]"
