"""Conversion of a TFLite file to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from xdlc import ir
from xdlc.converter.importer import convert_graph
from xdlc.converter.pipeline import Step
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.tflite.declared import DeclaredTensors
from xdlc.converter.tflite.file import TfliteFile
from xdlc.converter.tflite.frontend import FRONTEND
from xdlc.converter.tflite.graphs import Graphs, TfliteSource
from xdlc.converter.tflite.registry import handler
from xdlc.converter.tflite.variables import with_states


def convert(
    path: str | os.PathLike[str],
    *,
    diagnostics: Diagnostics | None = None,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
    **options: Any,
) -> ir.Model:
    """Return the model of a TFLite file; weights stay in the file until they are written or used.

    Args:
        path: The ``.tflite`` file.
        diagnostics: Collects the problems of nodes and ops, which are then not raised.
        notify: Called with each notice; default: the log.
        step: Progress callback.
        **options: Options of every conversion (``pipeline.Options``), and ``set_inputs``.

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    file = TfliteFile(path)
    found = diagnostics or Diagnostics()
    return convert_graph(
        with_states(Graphs(file).graph(0), str(path)),
        TfliteSource("tflite", str(path), unit="operator"),
        handler,
        FRONTEND.tool,
        options,
        nbytes=file.nbytes,
        declared=DeclaredTensors(file, is_outdated=bool(options.get("input_dims") or options.get("batch"))),
        encoded_io=True,
        diagnostics=found if diagnostics is not None else None,
        notify=notify,
        step=step,
    )
