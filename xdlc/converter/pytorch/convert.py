"""Conversion of programs of PyTorch to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter import formats
from xdlc.converter.formats import recognize
from xdlc.converter.importer import convert_graph
from xdlc.converter.pipeline import Step
from xdlc.converter.pytorch.bindings import Bindings
from xdlc.converter.pytorch.calls import Meta
from xdlc.converter.pytorch.exported import Program, read_program, understood
from xdlc.converter.pytorch.frontend import FRONTEND
from xdlc.converter.pytorch.graph import source_graph
from xdlc.converter.pytorch.registry import aten
from xdlc.converter.pytorch.symbols import Unknown, evaluate, symbols_of
from xdlc.converter.session.boundary import DeclaredInput, input_shapes
from xdlc.converter.session.context import Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.errors import ModelError, UsageError


def convert(
    path: str | os.PathLike[str],
    *,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    define_symbol: Mapping[str, int] | None = None,
    batch: int | None = None,
    set_inputs: Mapping[str, Any] | None = None,
    state: str | None = None,
    diagnostics: Diagnostics | None = None,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
    **options: Any,
) -> ir.Model:
    """Return the model of a program of torch.export; weights stay in the file until they are written or used.

    Args:
        path: The ``.pt2`` file.
        input_dims: Shapes by input name, for dynamic dimensions; -1 keeps one open.
        define_symbol: Values of symbolic dimensions by name.
        batch: First dimension of every input.
        set_inputs: Values by name of inputs that become constants.
        state: What becomes of buffers and inputs that the network changes: inputs and outputs (``io``, the
            default), or constants (``frozen``).
        diagnostics: Collects the problems, which are then not raised.
        notify: Called with each notice; default: the log.
        step: Progress callback.
        **options: Options of every conversion (``pipeline.Options``).

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    if state not in (None, "io", "frozen"):
        raise UsageError(f"no form of state {state!r}", fix="give io or frozen")
    program = _read(path, input_dims or {}, batch, set_inputs or {})
    fixed = {name: value for name, value in (set_inputs or {}).items() if name not in program.fixed}
    with understood(str(path)):
        symbols = dict(define_symbol or {})
        numbers = _numbers(program, symbols)
        given = _given_shapes(program, input_dims or {}, symbols, batch, fixed)
        bindings = _bound(program, given, _open(program, input_dims or {}), numbers)
        graph, shapes = source_graph(program, bindings, frozen=state == "frozen")
    return convert_graph(
        graph,
        Source("pytorch", str(path), unit="call"),
        aten,
        FRONTEND.tool,
        {**options, "input_dims": input_dims, "batch": batch, "set_inputs": fixed},
        nbytes=os.path.getsize(path),
        declared=shapes,
        notices=program.notices,
        arguments={"state": state} if state == "frozen" else {},
        diagnostics=diagnostics,
        notify=notify,
        step=step,
    )


def _read(
    path: str | os.PathLike[str],
    input_dims: Mapping[str, Sequence[int]],
    batch: int | None,
    values: Mapping[str, Any],
) -> Program:
    """Return the program of a file of either kind.

    Raises:
        ModelError: If it is of another kind, or damaged.
    """
    found = recognize(Path(path))
    if found not in (formats.TORCH_EXPORT, formats.TORCH_SCRIPT, formats.ZIP, None):
        raise ModelError(f"is {found.name}", where=str(path), fix=found.fix_for(Path(path)))
    if found is not formats.TORCH_SCRIPT:
        return read_program(path)
    from xdlc.converter.pytorch.script.program import read_script

    return read_script(path, input_dims, batch, values)


def _numbers(program: Program, symbols: dict[str, int]) -> dict[str, int]:
    """Return the values of symbols that are arguments of the network; remove those from the options."""
    found: dict[str, int] = {}
    for name, expression in program.numbers.items():
        given = symbols.pop(name, None)
        for symbol in symbols_of(expression):
            number = program.examples.get(symbol) if given is None else given
            if number is None:
                raise UsageError(
                    f"argument {name!r} of the network has no value",
                    where=program.path,
                    fix=f"give it one: --define_symbol {name} NUMBER",
                )
            if given is None:
                program.notices.append(
                    f"argument {name!r} of the network is {number}, as in the example of the export: "
                    f"--define_symbol {name} sets another"
                )
            found[symbol] = number
    return found


def _given_shapes(
    program: Program,
    input_dims: Mapping[str, Sequence[int]],
    symbols: Mapping[str, int],
    batch: int | None,
    fixed: Mapping[str, Any],
) -> dict[str, tuple[int | None, ...]]:
    """Return the shapes of inputs as options state them, by value; None for dimensions that they do not."""
    metas = {value: program.graph.values[value] for value in program.inputs}
    declared = [
        DeclaredInput(program.inputs[value], [_label(size) for size in meta.sizes])
        for value, meta in metas.items()
    ]
    shapes = input_shapes(
        declared, program.path, input_dims=input_dims, symbols=symbols, batch=batch, fixed=fixed
    )
    return {value: shapes[name] for value, name in program.inputs.items()}


def _label(size: int | str) -> int | str:
    """Return a dimension as a number or the symbol that names it."""
    if isinstance(size, str):
        names = symbols_of(size)
        return names.pop() if len(names) == 1 else size
    return size


def _open(program: Program, input_dims: Mapping[str, Sequence[int]]) -> set[str]:
    """Return the symbols of dimensions that options keep open."""
    found: set[str] = set()
    for value, name in program.inputs.items():
        for size, number in zip(program.graph.values[value].sizes, input_dims.get(name, ()), strict=False):
            found |= symbols_of(size) if number == -1 else set()
    return found


def _bound(
    program: Program,
    given: Mapping[str, tuple[int | None, ...]],
    opened: set[str],
    numbers: Mapping[str, int],
) -> Bindings:
    """Return the values of symbols that fit the shapes of inputs; the others are those of the example.

    Raises:
        UsageError: If shapes do not fit the program.
    """
    values = dict(numbers)
    for value, shape in given.items():
        for size, number in zip(program.graph.values[value].sizes, shape, strict=True):
            if isinstance(size, str) and number is not None and len(names := symbols_of(size)) == 1:
                (name,) = names
                values.setdefault(name, _solved(size, name, number))
    for value, name in program.inputs.items():
        for axis, size in enumerate(program.graph.values[value].sizes):
            for symbol in symbols_of(size) - values.keys() - opened:
                if symbol in program.examples:
                    values[symbol] = program.examples[symbol]
                    number = evaluate(size, values)
                    program.notices.append(
                        f"dimension {axis} of input {name!r} is {number}, as in the example of the export: "
                        f"--input_dim binds it to another number, or keeps it open with -1"
                    )
    for value, shape in given.items():
        _check(program, value, program.graph.values[value], shape, values)
    return Bindings(values)


def _solved(expression: str, symbol: str, number: int) -> int:
    """Return the value of a symbol with which an expression has a value: it is linear in it."""
    low, high = (evaluate(expression, {symbol: at}) for at in (0, 1))
    step = high - low
    return round((number - low) / step) if step else number


def _check(
    program: Program, value: str, meta: Meta, shape: Sequence[int | None], values: Mapping[str, int]
) -> None:
    """Refuse shapes that contradict the program."""
    for axis, (size, number) in enumerate(zip(meta.sizes, shape, strict=True)):
        if number is None:
            continue
        try:
            wanted = evaluate(size, values)
        except Unknown:
            continue
        place = f"dimension {axis} of input {program.inputs[value]!r}"
        if wanted != number:
            raise UsageError(
                f"{place} is {number}, but the program has {wanted}",
                where=program.path,
                fix="export the program with this dimension as a torch.export.Dim",
            )
        for name in symbols_of(size):
            least, most = program.ranges.get(name, (None, None))
            if not (least or 0) <= values[name] <= (most if most is not None else values[name]):
                raise UsageError(
                    f"{place} makes {name} {values[name]}, which the program takes from {least} to {most}",
                    where=program.path,
                    fix="give a dimension in that range",
                )
