"""Record ``xdlc.io``: contract of graph inputs and outputs with their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from xdlc.container.metadata import AGAIN, compact, formed, read_json
from xdlc.errors import ContainerError
from xdlc.ir import AxisScaleOffset, Graph, Model, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32

IO = "xdlc.io"
_NOTES = {"layout": "layouts", "symbols": "symbols", "state": "states", "preprocessing": "preprocessing"}
"""Keys of ``Model.metadata`` that hold notes by the name of an input or output, by those of the record."""


def io_contract(model: Model) -> dict[str, Any]:
    """Return the contract of the graph inputs and outputs, as JSON-like values.

    Per graph and per input and output: name, shape, dynamic axes, dtype, encoding, bytes of the raw file
    (little-endian, row-major) and how to make or read one, and, where known, the meaning of the axes, the
    symbol of each dynamic one, what the graph does with what callers have, and of an input that holds a
    variable the output with its next value and the value before the first run.
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


def read_io(data: memoryview, model: Model, where: str, *, outputs: bool = False) -> None:
    """Apply an ``xdlc.io`` record: notes on axes, and the order of graphs.

    Args:
        data: The record.
        model: The model; its graphs are sorted by name in the file.
        where: Place for errors.
        outputs: Whether the record lists the outputs too, as in format 3, which has no list of them.

    Raises:
        ContainerError: If the record does not have the form that ``io_text`` writes, or names an output that
            no op writes.
    """
    side = [{"name": str}]
    form = {"graphs": [{"name": str, "inputs": side, "outputs": side}]}
    listed = read_json(data, form, where).get("graphs", ())
    notes: dict[str, dict[str, Any]] = {kind: {} for kind in _NOTES.values()}
    for graph in listed:
        for entry in (*graph.get("inputs", ()), *graph.get("outputs", ())):
            for key in _NOTES.keys() & entry.keys():
                notes[_NOTES[key]][entry.get("name", "")] = entry[key]
    model.metadata |= formed({key: found for key, found in notes.items() if found}, where)
    names = [graph.get("name") for graph in listed]
    present = [name for name in names if name in model.graphs]
    model.graphs = {name: model.graphs[name] for name in dict.fromkeys((*present, *model.graphs))}
    for graph in listed if outputs else ():
        target = model.graphs.get(str(graph.get("name")))
        if target is not None:
            _set_outputs(target, [entry.get("name") for entry in graph.get("outputs", [])], where)


def _set_outputs(graph: Graph, names: list[Any], where: str) -> None:
    for tensor in graph.outputs:
        tensor.role = Role.NATIVE
    graph.outputs.clear()
    for name in dict.fromkeys(map(str, names)):
        output = graph.tensors.get(name)
        if output is None or output.producer is None:
            raise ContainerError(f"lists the output {name!r}, which no op writes", where=where, fix=AGAIN)
        graph.add_output(output)


def recipes(tensor: Tensor, *, reads: bool = False) -> dict[str, str]:
    """Return a numpy expression for each form of a tensor's raw file.

    Files are little-endian, row-major and headerless.  Under the key ``float32`` is the form that the tools
    read and write by default whatever the tensor's own type is, under ``native`` that of
    ``--use_native_input_files`` and, for integers and bools, of inputs without it.  The default comes first.

    Args:
        tensor: An input or output of a graph.
        reads: Whether the file is to be read instead of written.

    Example:
        >>> recipes(Tensor("x", (1, 3), FLOAT32))
        {'float32': 'array.astype("<f4").tofile("x.raw")'}
        >>> recipes(Tensor("x", (1, 3), FLOAT32), reads=True)
        {'float32': 'numpy.fromfile("x.raw", "<f4").reshape((1, 3))'}
    """
    forms = {"float32": _read(tensor, "<f4", ".raw") if reads else _write(tensor, "array", "<f4")}
    scale = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    known = scale is not None or not (tensor.dtype.is_fixed or tensor.encoding)
    if tensor.dtype is FLOAT32 or not known or tensor.dtype.bits < 8 or tensor.dtype.name == "bfloat16":
        return forms
    code = tensor.dtype.numpy.str.replace("|", "")
    if reads:
        stored = _read(tensor, code, "_native.raw")
        forms["native"] = f"({stored}.astype(float) + {scale.offset}) * {scale.scale!r}" if scale else stored
    else:
        forms["native"] = _write(tensor, _stored(tensor, scale) if scale else "array", code)
        if tensor.dtype.is_integer or tensor.dtype.kind == "bool":
            return {"native": forms["native"], **forms}
    return forms


def _write(tensor: Tensor, values: str, code: str) -> str:
    return f'{values}.astype("{code}").tofile({_quoted(tensor.name + ".raw")})'


def _read(tensor: Tensor, code: str, ending: str) -> str:
    values = f'numpy.fromfile({_quoted(tensor.name + ending)}, "{code}")'
    if len(tensor.dynamic_axes) > 1:
        return values
    shape = tuple(-1 if axis in tensor.dynamic_axes else dim for axis, dim in enumerate(tensor.shape))
    return f"{values}.reshape({shape})"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _stored(tensor: Tensor, encoding: ScaleOffset) -> str:
    bits = encoding.bits or tensor.dtype.bits
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if tensor.dtype.is_signed else (0, (1 << bits) - 1)
    )
    return f"numpy.clip(numpy.rint(array / {encoding.scale!r}) - ({encoding.offset}), {low}, {high})"
