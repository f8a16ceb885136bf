"""Reader of programs of PyTorch: the file, and values of its symbolic dimensions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from xdlc.converter import formats
from xdlc.converter.formats import recognize
from xdlc.converter.pipeline import Options, SourceModel
from xdlc.converter.pytorch.exported import Program, read_program, understood
from xdlc.converter.pytorch.graph import source_graph
from xdlc.converter.pytorch.registry import aten
from xdlc.converter.pytorch.symbols import Bindings, Unknown, evaluate, shown, symbols_of
from xdlc.converter.session.boundary import input_shapes
from xdlc.converter.session.context import Source
from xdlc.converter.session.node import GraphInput
from xdlc.errors import ModelError, UsageError
from xdlc.options import spell


def read(
    path: str | os.PathLike[str], options: Options, *, state: str | None = None, source_lines: bool = False
) -> SourceModel:
    """Return the graph of a program of torch.export, or of a script.

    Args:
        path: The ``.pt2`` or ``.pt`` file.
        state: What becomes of buffers and inputs that the network changes: inputs and outputs (``io``, the
            default), or constants (``frozen``).
        source_lines: Whether the trace has the line of the network's source that makes each call.

    Raises:
        XdlcError: If it is damaged, or cannot be stored in a DLC.
    """
    if state not in (None, "io", "frozen"):
        raise UsageError(f"unknown value of states: {state!r}", fix="use io or frozen")
    program = _read(path, options.input_dims, options.batch, options.set_inputs)
    fixed = {name: value for name, value in options.set_inputs.items() if name not in program.fixed}
    with understood(str(path)):
        bindings = _bound(program, options.input_dims, options.define_symbol, options.batch, fixed)
        graph, shapes = source_graph(program, bindings, frozen=state == "frozen", source_lines=source_lines)
    return SourceModel(
        Source("pytorch", str(path), unit="call"),
        graph,
        aten,
        replace(options, set_inputs=fixed, define_symbol={}),  # the program has numbers for symbols now
        nbytes=partial(os.path.getsize, path),
        declared=shapes,
        notices=program.notices,
        arguments={"state": state} if state == "frozen" else {},
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
    form = recognize(Path(path))
    if form not in (formats.TORCH_EXPORT, formats.TORCH_SCRIPT, formats.ZIP, None):
        raise ModelError(
            f"the file is {form.name}, not a PyTorch program", where=str(path), fix=form.fix_for(Path(path))
        )
    if form is not formats.TORCH_SCRIPT:
        return read_program(path)
    from xdlc.converter.pytorch.script.program import read_script

    return read_script(path, input_dims, batch, values)


def _bound(
    program: Program,
    input_dims: Mapping[str, Sequence[int]],
    define_symbol: Mapping[str, int],
    batch: int | None,
    fixed: Mapping[str, Any],
) -> Bindings:
    """Return values of symbols by the options, else by the example, with a notice.

    Args:
        input_dims: Shapes by input name; -1 keeps a dimension open.
        define_symbol: Values by symbol, or by name of an argument of the network.
        batch: First dimension of every input.
        fixed: Names of inputs that become constants.

    Raises:
        UsageError: If they do not fit the program.
    """
    symbols = dict(define_symbol)
    values = _numbers(program, symbols)
    shapes = _given_shapes(program, input_dims, symbols, batch, fixed)
    opened = _open(program, input_dims)
    for value, shape in shapes.items():
        for size, number in zip(program.graph.values[value].sizes, shape, strict=True):
            if isinstance(size, str) and number is not None and len(names := symbols_of(size)) == 1:
                (name,) = names
                values.setdefault(name, _solved(size, name, number))
    examples = []
    for value, name in program.inputs.items():
        for axis, size in enumerate(program.graph.values[value].sizes):
            for symbol in symbols_of(size) - values.keys() - opened:
                if symbol in program.examples:
                    values[symbol] = program.examples[symbol]
                    examples.append((name, axis, size))
    bindings = Bindings(values)
    for name, axis, size in examples:
        program.notices.append(
            f"dimension {axis} of input {name!r} is {bindings.number(size)}, as in the export's example: "
            f"{spell('input_dims')} binds it to another number, or keeps it open with -1"
        )
    for value, shape in shapes.items():
        _check(program, value, shape, values)
    return bindings


def _numbers(program: Program, symbols: dict[str, int]) -> dict[str, int]:
    """Return values of symbols that are network arguments; drop them from the options."""
    numbers: dict[str, int] = {}
    for name, expression in program.numbers.items():
        stated = symbols.pop(name, None)
        for symbol in symbols_of(expression):
            number = program.examples.get(symbol) if stated is None else stated
            if number is None:
                raise UsageError(
                    f"argument {name!r} of the network has no value",
                    where=program.path,
                    fix=f"pass {spell('define_symbol')} {quote(name)} NUMBER",
                )
            if stated is None:
                program.notices.append(
                    f"argument {name!r} of the network is {number}, as in the export's example: "
                    f"{spell('define_symbol')} {quote(name)} sets another number"
                )
            numbers[symbol] = number
    return numbers


def _given_shapes(
    program: Program,
    input_dims: Mapping[str, Sequence[int]],
    symbols: Mapping[str, int],
    batch: int | None,
    fixed: Mapping[str, Any],
) -> dict[str, tuple[int | None, ...]]:
    """Return the shapes that options state for inputs, by value.

    None denotes a dimension that no option states.
    """
    bindings = Bindings(symbols)
    sizes = {name: program.graph.values[value].sizes for value, name in program.inputs.items()}
    used = {symbol for dims in sizes.values() for size in dims for symbol in symbols_of(size)}
    plain = {shown(size) for dims in sizes.values() for size in dims}
    declared = [
        GraphInput(
            name,
            None,
            [
                shown(size)
                if bindings.number(size) is None or shown(size) in symbols
                else bindings.number(size)
                for size in dims
            ],
        )
        for name, dims in sizes.items()
    ]
    stated = {symbol: number for symbol, number in symbols.items() if symbol in plain or symbol not in used}
    shapes = input_shapes(
        declared, program.path, input_dims=input_dims, symbols=stated, batch=batch, fixed=fixed
    )
    return {value: shapes[name] for value, name in program.inputs.items()}


def _open(program: Program, input_dims: Mapping[str, Sequence[int]]) -> set[str]:
    """Return the symbols of dimensions that options keep open.

    Raises:
        UsageError: If such a dimension is a number.
    """
    opened: set[str] = set()
    for value, name in program.inputs.items():
        sizes = program.graph.values[value].sizes
        for axis, (size, number) in enumerate(zip(sizes, input_dims.get(name, ()), strict=False)):
            if number == -1 and not symbols_of(size):
                raise UsageError(
                    f"dimension {axis} of input {name!r} cannot stay open: the program fixes it to {size}",
                    where=program.path,
                    fix="export the program with this dimension as a torch.export.Dim",
                )
            opened |= symbols_of(size) if number == -1 else set()
    return opened


def _solved(expression: str, symbol: str, number: int) -> int:
    """Return the symbol's value that solves a linear expression for a given result."""
    low, high = (evaluate(expression, {symbol: at}) for at in (0, 1))
    step = high - low
    return round((number - low) / step) if step else number


def _check(program: Program, value: str, shape: Sequence[int | None], values: Mapping[str, int]) -> None:
    """Refuse shapes that contradict the program."""
    for axis, (size, number) in enumerate(zip(program.graph.values[value].sizes, shape, strict=True)):
        if number is None:
            continue
        try:
            wanted = evaluate(size, values)
        except Unknown:
            continue
        place = f"dimension {axis} of input {program.inputs[value]!r}"
        if wanted != number:
            symbols = symbols_of(size)
            raise UsageError(
                f"{place} is {number}, but the program requires {shown(size)}"
                + (
                    f", with {', '.join(f'{name} {values[name]}' for name in sorted(symbols))}"
                    if symbols
                    else ""
                ),
                where=program.path,
                fix="pass a dimension of that form, or export the program with another torch.export.Dim",
            )
        for name in symbols_of(size):
            least, most = program.ranges.get(name, (None, None))
            if not (least or 0) <= values[name] <= (most if most is not None else values[name]):
                raise UsageError(
                    f"{place} sets {name} to {values[name]}; the program supports {least} to {most}",
                    where=program.path,
                    fix=f"pass a dimension that makes {name} a number in that range",
                )
