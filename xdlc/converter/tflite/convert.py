"""Conversion of a TFLite file to the IR."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.converter.importer import convert_graph
from xdlc.converter.pipeline import Step
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.tflite.boundary import cut, entry, open_dimensions
from xdlc.converter.tflite.declared import DeclaredTensors
from xdlc.converter.tflite.file import TfliteFile
from xdlc.converter.tflite.frontend import FRONTEND
from xdlc.converter.tflite.graphs import Graphs, TfliteSource
from xdlc.converter.tflite.registry import handler
from xdlc.converter.tflite.variables import with_states


def convert(
    path: str | os.PathLike[str],
    *,
    signature_name: str | None = None,
    partial_graph_input_name: Sequence[str] = (),
    out_name: Sequence[str] | None = None,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    set_inputs: Mapping[str, Any] | None = None,
    batch: int | None = None,
    diagnostics: Diagnostics | None = None,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
    **options: Any,
) -> ir.Model:
    """Return the model of a TFLite file; weights stay in the file until they are written or used.

    Args:
        path: The ``.tflite`` file.
        signature_name: Key of the signature whose sub-graph is converted; default: the only one, or
            ``serving_default``, or that of the first sub-graph.
        partial_graph_input_name: Tensors that become inputs, which cuts the graph before them.
        out_name: Tensors at which the graph ends.
        input_dims: Shapes by input name.
        set_inputs: Values by name of inputs that become constants.
        batch: First dimension of every input.
        diagnostics: Collects the problems of nodes and ops, which are then not raised.
        notify: Called with each notice; default: the log.
        step: Progress callback.
        **options: Options of every conversion (``pipeline.Options``), and ``float``: whether quantized
            tensors become float ones, without encodings.

    Tensors are named as the file names them, or as the signature does.

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    file = TfliteFile(path, is_float=options.pop("float", False))
    found = diagnostics or Diagnostics()
    chosen = entry(file, signature_name)
    ends = [chosen.tensor(name) for name in out_name or ()]
    graph, tensors = Graphs(file).graph(chosen.graph), file.tensors[chosen.graph]
    dims = {chosen.tensor(name): value for name, value in (input_dims or {}).items()}
    starts = [chosen.tensor(name) for name in partial_graph_input_name]
    if starts:
        graph = cut(graph, tensors, starts, str(path), ends)
    own = {
        "input_dims": dims or None,
        "set_inputs": {chosen.tensor(name): value for name, value in (set_inputs or {}).items()} or None,
        "out_name": ends or None,
        "batch": batch,
    }
    arguments = {"signature_name": signature_name, "partial_graph_input_name": ",".join(starts)}
    notices = [*chosen.notices, *open_dimensions(graph.inputs, tensors, dims, batch)]
    return convert_graph(
        with_states(graph, str(path)),
        TfliteSource("tflite", str(path), unit="operator", channels="last"),
        handler,
        FRONTEND.tool,
        {**options, **own},
        nbytes=file.nbytes,
        declared=DeclaredTensors(file, is_outdated=bool(dims or batch)),
        notices=notices,
        arguments={name: value for name, value in arguments.items() if value},
        encoded_io=True,
        diagnostics=found if diagnostics is not None else None,
        notify=notify,
        step=step,
    )
