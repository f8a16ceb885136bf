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
from xdlc.converter.pytorch.dimensions import bound
from xdlc.converter.pytorch.exported import Program, read_program, understood
from xdlc.converter.pytorch.frontend import FRONTEND
from xdlc.converter.pytorch.graph import source_graph
from xdlc.converter.pytorch.registry import aten
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
    source_lines: bool = False,
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
        source_lines: Whether the trace has the line of the network's source that makes each call.
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
        bindings = bound(program, input_dims or {}, define_symbol or {}, batch, fixed)
        graph, shapes = source_graph(program, bindings, frozen=state == "frozen", source_lines=source_lines)
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
