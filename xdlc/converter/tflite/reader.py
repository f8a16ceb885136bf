"""Reader of TFLite files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from xdlc.converter.importer import SourceModel
from xdlc.converter.pipeline import Options
from xdlc.converter.tflite.boundary import cut, entry, open_dimensions
from xdlc.converter.tflite.declared import DeclaredTensors
from xdlc.converter.tflite.file import TfliteFile
from xdlc.converter.tflite.graphs import Graphs, TfliteSource
from xdlc.converter.tflite.registry import handler
from xdlc.converter.tflite.variables import with_states


def read(
    path: str | os.PathLike[str],
    options: Options,
    *,
    signature_name: str | None = None,
    partial_graph_input_name: Sequence[str] = (),
    float: bool = False,
) -> SourceModel:
    """Return the graph of a TFLite file.

    Options name tensors as the file or the signature does.

    Args:
        path: The ``.tflite`` file.
        options: Options of the conversion.
        signature_name: Key of the signature whose sub-graph is converted; default: the only one, or
            ``serving_default``, or that of the first sub-graph.
        partial_graph_input_name: Tensors that become inputs, which cuts the graph before them.
        float: Whether quantized tensors become float ones, without encodings.

    Raises:
        XdlcError: If it is damaged, or has no form in a DLC.
    """
    file = TfliteFile(path, is_float=float)
    chosen = entry(file, signature_name)
    ends = [chosen.tensor(name) for name in options.out_name or ()]
    graph, tensors = Graphs(file).graph(chosen.graph), file.tensors[chosen.graph]
    dims = {chosen.tensor(name): shape for name, shape in options.input_dims.items()}
    values = {chosen.tensor(name): value for name, value in options.set_inputs.items()}
    starts = [chosen.tensor(name) for name in partial_graph_input_name]
    if starts:
        graph = cut(graph, tensors, starts, str(path), ends)
    arguments = {"signature_name": signature_name, "partial_graph_input_name": ",".join(starts)}
    return SourceModel(
        TfliteSource("tflite", str(path), unit="operator", channels="last"),
        with_states(graph, str(path)),
        handler,
        replace(options, input_dims=dims, set_inputs=values, out_name=ends or None),
        nbytes=lambda: file.nbytes,
        declared=DeclaredTensors(file, is_outdated=bool(dims or options.batch)),
        notices=[*chosen.notices, *open_dimensions(graph.inputs, tensors, dims, options.batch)],
        arguments={name: value for name, value in arguments.items() if value},
        encoded_io=True,
    )
