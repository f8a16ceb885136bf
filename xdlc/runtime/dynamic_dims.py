"""Dynamic dimensions of inputs: ops on the host, and flags that bind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdlc.errors import ConstraintError
from xdlc.ir import HOST_PACKAGE, Model, Op, Tensor
from xdlc.options import spell

REASON = "reads values with open dimensions"
"""Reason of an op on the host that QNN would support with fixed dimensions."""
_WORDS = ("dimensions", "extents")  # the latter in files of xdlc 0.1
_BATCH, _IMAGE, _OTHER = 1, (480, 640), 128  # numbers of the example

Symbols = Mapping[str, Sequence[str | None]]
"""Symbol of each axis by the name of an input or output, as ``Model.metadata["symbols"]`` holds them."""


def spelled(tensor: Tensor, symbols: Symbols) -> str:
    """Return a tensor's shape with symbols for dynamic dimensions, or ``?``.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> spelled(Tensor("x", (1, 3, 1), FLOAT32, dynamic_axes=(0, 2)), {"x": ["N", None, None]})
        'N x 3 x ?'
    """
    names = symbols.get(tensor.name, ())
    words = [
        str(n) if axis not in tensor.dynamic_axes else (names[axis : axis + 1] or [None])[0] or "?"
        for axis, n in enumerate(tensor.shape)
    ]
    return " x ".join(words)


def keeps_on_host(op: Op) -> bool:
    """Return whether an op runs on the host only because of dynamic dimensions."""
    return op.package == HOST_PACKAGE and any(f"open {word}" in (op.origin.reason or "") for word in _WORDS)


def notice(model: Model) -> str | None:
    """Return a line on dynamic dimensions of the main inputs; None if fixed."""
    problem = open_problem(model)
    return None if problem is None else f"{problem.problem}; {problem.fix}"


def open_problem(model: Model) -> ConstraintError | None:
    """Return HTP's problem with dynamic dimensions; None if no input has any."""
    inputs = [tensor for tensor in model.main.inputs if tensor.dynamic_axes] if model.graphs else []
    if not inputs:
        return None
    symbols: Symbols = model.metadata.get("symbols", {})
    ops = [op for graph in model.graphs.values() for op in graph.ops]
    kept = sum(map(keeps_on_host, ops))
    shapes = ", ".join(f"{tensor.name}: {spelled(tensor, symbols)}" for tensor in inputs)
    stays = f" keep {kept} of {len(ops)} ops on the host;" if kept else ":"
    return ConstraintError(
        f"dynamic dimensions ({shapes}){stays} HTP supports only fixed dimensions",
        fix=f"set the dimensions when you convert, for example with {_options(inputs, symbols)}",
        node=inputs[0].name,
        op="input",
        code="XD105",
    )


def _options(inputs: Sequence[Tensor], symbols: Symbols) -> str:
    """Return the options of an example, symbols if inputs share them."""
    numbers: dict[str, int] = {}
    shapes = {tensor.name: _example(tensor, symbols.get(tensor.name, ()), numbers) for tensor in inputs}
    named = sum(name is not None for tensor in inputs for name in symbols.get(tensor.name, ()))
    if len(inputs) > 1 and named == sum(len(tensor.dynamic_axes) for tensor in inputs):
        return spell("define_symbol", numbers)
    return spell("input_dims", shapes)


def _example(tensor: Tensor, names: Sequence[str | None], numbers: dict[str, int]) -> list[int]:
    """Return an example shape: batches of 1, images of 480 x 640, else 128.

    Args:
        names: Symbol of each axis.
        numbers: Numbers that symbols are bound to so far; new ones are added.
    """
    inner = [axis for axis in tensor.dynamic_axes if axis]
    image = dict(zip(inner, _IMAGE, strict=True)) if tensor.rank == 4 and len(inner) == len(_IMAGE) else {}
    shape = list(tensor.shape)
    for axis in tensor.dynamic_axes:
        number = image.get(axis, _OTHER) if axis or tensor.rank == 1 else _BATCH
        name = names[axis] if axis < len(names) else None
        shape[axis] = number if name is None else numbers.setdefault(name, number)
    return shape
