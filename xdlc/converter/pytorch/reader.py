"""Reader of programs of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from xdlc.converter import formats
from xdlc.converter.formats import recognize
from xdlc.converter.importer import SourceModel
from xdlc.converter.pipeline import Options
from xdlc.converter.pytorch.dimensions import bound
from xdlc.converter.pytorch.exported import Program, read_program, understood
from xdlc.converter.pytorch.graph import source_graph
from xdlc.converter.pytorch.registry import aten
from xdlc.converter.session.context import Source
from xdlc.errors import ModelError, UsageError


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
        raise UsageError(f"no form of state {state!r}", fix="give io or frozen")
    program = _read(path, options.input_dims, options.batch, options.set_inputs)
    fixed = {name: value for name, value in options.set_inputs.items() if name not in program.fixed}
    with understood(str(path)):
        bindings = bound(program, options.input_dims, options.define_symbol, options.batch, fixed)
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
    found = recognize(Path(path))
    if found not in (formats.TORCH_EXPORT, formats.TORCH_SCRIPT, formats.ZIP, None):
        raise ModelError(f"is {found.name}", where=str(path), fix=found.fix_for(Path(path)))
    if found is not formats.TORCH_SCRIPT:
        return read_program(path)
    from xdlc.converter.pytorch.script.program import read_script

    return read_script(path, input_dims, batch, values)
