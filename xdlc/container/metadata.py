"""Metadata and records of a DLC: JSON, and the text entry of format 3.

``Model.metadata`` has it, and the content of xdlc's own records, as plain values under the keys ``version``
``history`` ``cacheList`` ``relations``, ``layouts`` (input or output name -> note on its axes, like
``NCHW``), ``preprocessing`` (input name -> what the graph does with what callers have), ``symbols`` (input or
output name -> symbol of each axis, or None), ``nodes`` (of the source model: name, operator, and the reason
why it has no op, or None), ``modules`` (node -> path of its module, where the name does not tell the
path), ``tensors`` (graph -> tensor -> its names in the source, where those are not just
its own; under the empty name those of no tensor), ``layers`` (op -> id of the layer that it was translated
from) and, of format 3, ``properties``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from xdlc.errors import ContainerError, UsageError
from xdlc.ir import AxisScaleOffset, Graph, Model, Origin, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.model import NOTE, malformed
from xdlc.json_fields import MAX_VALUES, fits, json_value
from xdlc.version import VERSION

MAIN = "dlc.metadata2.3.0"
HISTORY = "dlc.metadata.history.2.3.0"
TEXT = "dlc.metadata"  # of format 3: lines key=value, among them the commands that made the file
MAX_TEXT = 1 << 28
_SHORTEST, _MOST = 3, 1 << 24
"""Texts of very many ops have a value in so many bytes, and at most so many values are read."""
MAX_LINES = 1 << 22  # bytes of the text of format 3
AGAIN = "get the file again"
"""Fix of errors about damaged records."""
NO_CLOCK = "1980-01-01 00:00:00"
"""Earliest time of a zip file: that of files without clock times, and without SOURCE_DATE_EPOCH."""
DEFAULT_COMMAND = "converterCommand"
TEXT_COMMANDS = ("converter-command", "quantizer-command")
TEXT_VERSION = "converter-version"
TEXT_NOTHING = "N/A"


def read_json(data: memoryview, form: Any, where: str) -> Any:
    """Return the JSON value of an entry.

    Args:
        form: The form that the value should have, for ``xdlc.json_fields.fits``.

    Raises:
        ContainerError: If it is not UTF-8, no JSON, of another form, or too large or too deeply nested to be
            read.
    """
    if len(data) > MAX_TEXT:
        raise ContainerError(f"has {len(data)} bytes; xdlc reads at most {MAX_TEXT}", where=where, fix=AGAIN)
    try:
        value = json_value(str(data, "utf-8"), max(MAX_VALUES, min(len(data) // _SHORTEST, _MOST)))
    except ValueError as error:
        raise ContainerError(f"is not readable JSON: {error}", where=where, fix=AGAIN) from error
    if not fits(value, form):
        raise ContainerError("contains unexpected JSON values", where=where, fix=AGAIN)
    return value


def formed(metadata: dict[str, Any], where: str) -> dict[str, Any]:
    """Return values of ``Model.metadata`` from a file, in their proper forms.

    Raises:
        ContainerError: If one has not.
    """
    key = malformed(metadata)
    if key is not None:
        raise ContainerError(f"has malformed {key!r}", where=where, fix=AGAIN)
    return metadata


def compact(content: Mapping[str, Any]) -> bytes:
    """Return an object as JSON text without blanks."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def is_main(name: str) -> bool:
    """Return whether an entry is the JSON metadata of any schema version."""
    return name.startswith("dlc.metadata") and name != TEXT and not is_history(name)


def is_history(name: str) -> bool:
    """Return whether an entry is the JSON history of any schema version."""
    return name.startswith("dlc.metadata.history")


def timestamp() -> str:
    """Return the time to write: SOURCE_DATE_EPOCH if set, else the zip epoch.

    Raises:
        UsageError: If SOURCE_DATE_EPOCH is not a number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return f"{NO_CLOCK} UTC"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(int(epoch)))
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {epoch!r}, not a number of seconds",
            fix="unset SOURCE_DATE_EPOCH, or set whole seconds like 1700000000",
        ) from error


def read_main(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put the lists of the JSON metadata into ``metadata``.

    Raises:
        ContainerError: If it is not JSON, or a list holds something else than objects or names of records.
    """
    found = read_json(data, {}, where)
    metadata |= formed({key: found[key] for key in ("cacheList", "relations") if key in found}, where)


def read_history(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put the commands that made the file into ``metadata["history"]``, oldest first."""
    found = read_json(data, {"dlcGenerationInfo": [{"*": dict}]}, where)
    steps = [
        step if command == DEFAULT_COMMAND else {"command": command} | step
        for item in found.get("dlcGenerationInfo", ())
        for command, step in item.items()
    ]
    if steps:
        metadata |= formed({"history": steps}, where)


def read_text(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Read the text metadata of format 3 into ``metadata`` and the history.

    Raises:
        ContainerError: If the text is not UTF-8.
    """
    try:
        lines = str(data, "utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ContainerError("is not UTF-8", where=where, fix="get the file again") from error
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    metadata["properties"] = pairs
    steps = [
        {
            "tool": pairs[key].split(" ", 1)[0],
            "converterVersion": pairs.get(TEXT_VERSION, ""),
            "args": {"command": pairs[key]},
        }
        for key in TEXT_COMMANDS
        if pairs.get(key, TEXT_NOTHING) != TEXT_NOTHING
    ]
    if steps:
        metadata["history"] = steps


def add_step(model: Model, tool: str, args: Mapping[str, Any]) -> None:
    """Add a step of a tool of xdlc to the history of a model.

    Args:
        args: Options that were given, as JSON takes them.
    """
    step = {"tool": tool, "converterVersion": VERSION, "args": dict(args)}
    model.metadata.setdefault("history", []).append(step)


def _header(artifact: str, time: str) -> dict[str, Any]:
    return {
        "artifact_type": artifact,
        "header_version": {"major": 0, "minor": 1, "patch": 0},
        "version": {"major": 2, "minor": 3, "patch": 0},
        "timestamp": time,
    }


def main_text(model: Model) -> bytes:
    """Return the JSON metadata of a model, with caches and relations if it has any."""
    content: dict[str, Any] = {"header": _header("DLC_METADATA", timestamp())}
    for key in ("cacheList", "relations"):
        if model.metadata.get(key):
            content[key] = model.metadata[key]
    return _pretty(content)


def history_text(model: Model) -> bytes:
    """Return the JSON history of a model.

    Every step gets all fields, the file's time among them: the vendor's reader finds no graph in a
    file with a step that lacks ``converterVersion``.
    """
    now = timestamp()
    steps = []
    for given in model.metadata.get("history", ()):
        step = {"tool": "", "converterVersion": "", "args": {}, "timestamp": now} | given
        step.pop("command", None)
        steps.append({given.get("command", DEFAULT_COMMAND): step})
    return _pretty({"header": _header("DLC_METADATA_HISTORY", now), "dlcGenerationInfo": steps})


def _pretty(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=4, ensure_ascii=False).encode("utf-8")


TRACE = "xdlc.trace"
TRACED = ("nodes", "modules", "tensors", "weight_factors", "layers")
"""Keys of ``Model.metadata`` that the record holds beside the origins of ops."""


def trace_text(model: Model) -> bytes | None:
    """Return the record of op origins, source nodes and tensor names, or None.

    Per graph and op, the source nodes: a step is ``[reason or null, node, node, ...]``; ops without an
    origin are omitted.  Per node: name, operator, and the reason why it has no op, or null.  Per
    graph and tensor, where they are not just its own name: the names that the source has for it; of a weight
    with other values than the source's the factor of each output channel.  Per op of a model translated from
    format 3: the id of its layer.  Per node whose name does not tell it: the path of its module.  Returns
    None if none of these is known.
    """
    graphs: dict[str, dict[str, list[str | None]]] = {}
    for graph in model.graphs.values():
        steps = {
            op.name: [op.origin.reason, *op.origin.nodes]
            for op in graph.ops
            if op.origin.nodes or op.origin.reason is not None
        }
        if steps:
            graphs[graph.name] = steps
    known = {key: model.metadata[key] for key in TRACED if model.metadata.get(key)}
    if not graphs and not known:
        return None
    return compact({"version": 1, "graphs": graphs} | known)


def read_trace(data: memoryview, model: Model, where: str) -> None:
    """Add origins of ops, nodes and names from an ``xdlc.trace`` record to ``model``.

    Raises:
        ContainerError: If the record does not have the form that ``trace_text`` writes.
    """
    content = read_json(data, {"graphs": {"*": dict}}, where)
    if content.get("version") != 1:
        raise ContainerError(
            f"has version {content.get('version')!r}; only 1 is known", where=where, fix="upgrade xdlc"
        )
    _read_origins(content.get("graphs", {}), model, where)
    held = formed({key: content[key] for key in TRACED if key in content}, where)
    model.metadata |= {key: value for key, value in held.items() if value}


def _read_origins(graphs: Mapping[str, Any], model: Model, where: str) -> None:
    for name, steps in graphs.items():
        graph = model.graphs.get(name)
        for op in graph.ops if graph else ():
            step = steps.get(op.name)
            if step is None:
                continue
            if not (fits(step, [NOTE]) and step and None not in step[1:]):
                raise ContainerError(f"has a malformed origin of op {op.name!r}", where=where, fix=AGAIN)
            op.origin = Origin(tuple(step[1:]), step[0])


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
        model: The model; its graphs are sorted by name in the file.
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
            raise ContainerError(
                f"states the graph output {name!r}, which no op writes", where=where, fix=AGAIN
            )
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
    code = tensor.dtype.array_code
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
