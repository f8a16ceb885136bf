"""Binding of dynamic input dimensions: what the model states, what the user gives, what stays dynamic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xdlc.errors import ModelError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph

UNNAMED = "?"
"""Label of a dynamic dimension without a symbol."""
Labels = Sequence[int | str]
"""Dimensions as a model states them: numbers, and the symbols of dynamic ones."""


class DeclaredInput(NamedTuple):
    """An input as a model declares it.

    Attributes:
        name: Its name.
        dims: Its dimensions; None if the model states none.
        is_tensor: Whether it is a tensor; the import refuses others.
    """

    name: str
    dims: Labels | None
    is_tensor: bool = True


def input_shapes(
    inputs: Sequence[DeclaredInput],
    where: str,
    *,
    input_dims: Mapping[str, Sequence[int]],
    symbols: Mapping[str, int],
    batch: int | None,
) -> dict[str, tuple[int | None, ...]]:
    """Return the shape of each input; None is a dimension that stays dynamic.

    Args:
        inputs: The inputs of the model that are no constants.
        where: Name of the model, for errors.
        input_dims: Whole shapes by input name; they win over everything else.
        symbols: Values of symbolic dimensions by name.
        batch: Value of every input's first dimension.

    Raises:
        UsageError: For each input tensor without a declared shape, and each name that matches nothing.
    """
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
    used = {
        label
        for entry in inputs
        for label in entry.dims or ()
        if isinstance(label, str) and label != UNNAMED and entry.is_tensor
    }
    shapes: dict[str, tuple[int | None, ...]] = {}
    for name, labels, is_tensor in inputs:
        if not is_tensor:
            continue
        given = input_dims.get(name)
        if given is not None and labels is not None and len(given) != len(labels):
            problems.append(
                UsageError(
                    f"--input_dim gives input {name!r} {len(given)} dimensions, "
                    f"the model has {len(labels)}: {_text(labels)}",
                    where=where,
                    fix="give every dimension, the batch included",
                )
            )
            continue
        if given is None and labels is None:
            problems.append(
                UsageError(
                    f"input {name!r} has no declared shape",
                    where=where,
                    fix=f"give its shape: --input_dim {name} N,N,... (a number for each N, -1 if dynamic)",
                )
            )
            continue
        shape = [symbols.get(label, -1) if isinstance(label, str) else label for label in labels or ()]
        if batch is not None and shape:
            shape[0] = batch
        if given is not None:
            shape = [int(size) for size in given]
        if name in shapes:
            problems.append(ModelError(f"two inputs are named {name!r}", where=where))
        shapes[name] = tuple(size if size >= 0 else None for size in shape)
    for symbol in symbols:
        if symbol not in used:
            problems.append(
                UsageError(
                    f"--define_symbol names {symbol!r}, "
                    f"but the model's symbols are {', '.join(sorted(used)) or 'none'}",
                    where=where,
                    fix=nearest_names(symbol, used) or "omit the flag",
                )
            )
    raise_all(problems, where=where)
    return shapes


def open_symbols(stated: Mapping[str, Labels], converted: Graph) -> dict[str, list[str | None]]:
    """Return the symbol of each axis, None for one without, of dynamic inputs and outputs.

    Args:
        stated: Dimensions of the inputs and outputs by name, as the model states them.
        converted: The converted graph.
    """
    found: dict[str, list[str | None]] = {}
    for tensor in (*converted.inputs, *converted.outputs):
        labels = stated.get(tensor.name, ())
        if tensor.dynamic_axes and len(labels) == tensor.rank:
            symbols = [
                label if axis in tensor.dynamic_axes and isinstance(label, str) and label != UNNAMED else None
                for axis, label in enumerate(labels)
            ]
            found |= {tensor.name: symbols} if any(symbols) else {}
    return found


def blame_bindings(
    problems: Sequence[XdlcError],
    inputs: Sequence[DeclaredInput],
    input_dims: Mapping[str, Sequence[int]],
    *,
    is_bound: bool,
) -> list[XdlcError]:
    """Return problems of a model, contradictions of its nodes attributed to the shapes that the user gave.

    Args:
        problems: The problems.
        inputs: The inputs of the model.
        input_dims: Shapes that the user gave, by input name.
        is_bound: Whether the user gave any, or symbols, or a batch.
    """
    found = []
    changed = dict(_changed(inputs, input_dims))
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


def _changed(
    inputs: Sequence[DeclaredInput], input_dims: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, str]]:
    """Yield the inputs whose stated dimensions are given otherwise, with both shapes."""
    for name, labels, _ in inputs:
        given = input_dims.get(name, ())
        if (
            labels
            and len(labels) == len(given)
            and any(
                isinstance(label, int) and label != size for label, size in zip(labels, given, strict=True)
            )
        ):
            yield name, f"{_text(given)}, the model states {_text(labels)}"


def _text(labels: Labels) -> str:
    return f"[{', '.join(map(str, labels))}]"
