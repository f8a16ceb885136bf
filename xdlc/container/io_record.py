"""Record ``xdlc.io``: contract of the graph inputs and outputs for callers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.container.metadata import AGAIN, compact, object_of, objects_of, read_json
from xdlc.container.raw_files import recipes
from xdlc.errors import ContainerError
from xdlc.ir import AxisScaleOffset, Model, Role, ScaleOffset, Tensor

IO = "xdlc.io"
_NOTES = {"layout": "layouts", "symbols": "symbols"}
"""Keys of ``Model.metadata`` that hold notes by the name of an input or output, by those of the record."""


def io_contract(model: Model) -> dict[str, Any]:
    """Return the contract of the graph inputs and outputs, as JSON-like values.

    Per graph and per input and output: name, shape, dynamic axes, dtype, encoding, bytes of the raw file
    (little-endian, row-major) and how to make or read one, and, where known, the meaning of the axes and
    the symbol of each dynamic one.
    """
    notes = model.metadata
    return {
        "version": 1,
        "graphs": [
            {
                "name": graph.name,
                "inputs": [_entry(tensor, notes, recipes(tensor)) for tensor in graph.inputs],
                "outputs": [_entry(tensor, notes, recipes(tensor, reads=True)) for tensor in graph.outputs],
            }
            for graph in model.graphs.values()
        ],
    }


def _entry(tensor: Tensor, notes: Mapping[str, Any], raw: Mapping[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype.name,
        "bytes": tensor.nbytes,
        "raw": dict(raw),
    }
    if tensor.dynamic_axes:
        entry["dynamicAxes"] = list(tensor.dynamic_axes)
    for key, held in _NOTES.items():
        if tensor.name in notes.get(held, {}):
            entry[key] = notes[held][tensor.name]
    encoding = tensor.encoding
    if isinstance(encoding, ScaleOffset):
        entry["encoding"] = {"scale": encoding.scale, "offset": encoding.offset}
        if encoding.bits is not None:
            entry["encoding"]["bits"] = encoding.bits
    elif isinstance(encoding, AxisScaleOffset):
        entry["encoding"] = {
            "axis": encoding.axis,
            "scales": list(encoding.scales),
            "offsets": list(encoding.offsets),
        }
    return entry


def io_text(model: Model) -> bytes:
    """Return the record of the input and output contract."""
    return compact(io_contract(model))


def read_io(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put the notes of an ``xdlc.io`` record into ``metadata["layouts"]`` and ``metadata["symbols"]``.

    Raises:
        ContainerError: If the record does not have the form that ``io_text`` writes.
    """
    found = object_of(read_json(data, where), where)
    layouts: dict[str, str] = {}
    symbols: dict[str, list[str | None]] = {}
    for graph in objects_of(found.get("graphs"), "graphs", where):
        for side in ("inputs", "outputs"):
            for entry in objects_of(graph.get(side, []), side, where):
                name, note = entry.get("name"), entry.get("layout")
                if isinstance(name, str) and isinstance(note, str):
                    layouts[name] = note
                named = entry.get("symbols")
                if isinstance(name, str) and isinstance(named, list):
                    symbols[name] = [word if isinstance(word, str) else None for word in named]
    if layouts:
        metadata["layouts"] = layouts
    if symbols:
        metadata["symbols"] = symbols


def read_graph_order(data: memoryview, model: Model, where: str) -> None:
    """Put the graphs of ``model`` in the order of an ``xdlc.io`` record: the main one comes first.

    In the file they are sorted by name.

    Raises:
        ContainerError: If the record does not have the form that ``io_text`` writes.
    """
    found = object_of(read_json(data, where), where)
    listed = [graph.get("name") for graph in objects_of(found.get("graphs"), "graphs", where)]
    known = [name for name in listed if isinstance(name, str) and name in model.graphs]
    model.graphs = {name: model.graphs[name] for name in dict.fromkeys((*known, *model.graphs))}


def read_outputs(data: memoryview, model: Model, where: str) -> None:
    """Set the outputs of a model of format 3, which has no list of them, from an ``xdlc.io`` record.

    Raises:
        ContainerError: If the record does not have the form that ``io_text`` writes, or names an output that
            no op writes.
    """
    listed = objects_of(object_of(read_json(data, where), where).get("graphs"), "graphs", where)
    for entry in listed:
        graph = model.graphs.get(str(entry.get("name")))
        if graph is None:
            continue
        names = [output.get("name") for output in objects_of(entry.get("outputs", []), "outputs", where)]
        for tensor in graph.outputs:
            tensor.role = Role.NATIVE
        graph.outputs.clear()
        for name in dict.fromkeys(map(str, names)):
            held = graph.tensors.get(name)
            if held is None or held.producer is None:
                raise ContainerError(f"lists the output {name!r}, which no op writes", where=where, fix=AGAIN)
            graph.add_output(held)
