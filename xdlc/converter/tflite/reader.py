"""Reader of TFLite files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from xdlc.converter.pipeline import Options, SourceModel
from xdlc.converter.tflite.boundary import cut, entry, open_dimensions
from xdlc.converter.tflite.file import TfliteFile
from xdlc.converter.tflite.graphs import Graphs, TfliteSource
from xdlc.converter.tflite.registry import handler
from xdlc.converter.tflite.tensors import OTHERS, TensorInfo
from xdlc.converter.tflite.variables import with_states
from xdlc.converter.udo.nodes import Declarations
from xdlc.converter.values import Dims
from xdlc.opdefs.source_match import Declared


class DeclaredTensors(Declarations):
    """Tensors of a file by name; a name that sub-graphs share counts as not stated.

    Args:
        is_outdated: Whether inputs have other shapes than the file states.
    """

    def __init__(self, file: TfliteFile, *, is_outdated: bool) -> None:
        self._is_outdated = is_outdated
        self._held: dict[str, TensorInfo | None] = {}
        for tensors in file.tensors:
            for tensor in tensors:
                self._held[tensor.name] = None if tensor.name in self._held else tensor

    def find(self, name: str) -> Declared:
        """Return the declaration of a value.

        Raises:
            UnsupportedOp: If it is nothing that a DLC holds.
        """
        tensor = self._held.get(name)
        if tensor is None:
            return Declared(read=bool(name))
        shape: Dims = tuple(dim if dim >= 0 else None for dim in tensor.signature)
        return Declared(shape, tensor.qnn_dtype, is_outdated=self._is_outdated)

    def oddity(self, name: str) -> str:
        """Return the name of a non-numeric type, like ``string``; "" for numbers."""
        tensor = self._held.get(name)
        return "" if tensor is None else OTHERS.get(tensor.type, "")


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
        signature_name: Key of the signature whose sub-graph is converted; default: the only one, or
            ``serving_default``, or that of the first sub-graph.
        partial_graph_input_name: Tensors that become inputs, which cuts the graph before them.
        float: Whether quantized tensors become float ones, without encodings.

    Raises:
        XdlcError: If it is damaged, or cannot be stored in a DLC.
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
