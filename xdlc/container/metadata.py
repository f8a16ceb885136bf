"""What a DLC says about itself: JSON entries of format 4, and our own records.

``Model.metadata`` keeps it as plain values under the keys ``version`` ``history`` ``cacheList``
``relations`` ``layouts`` (input or output name -> note on its axes, like ``NCHW``) ``nodes`` (of the source
model: name, operator, and why no op stands for it, or None), ``tensors`` (graph -> tensor -> its names in
the source, where those are not just its own; under the empty name those that no tensor holds), ``layers``
(op -> id of the layer that it was translated from) and, of format 3, ``properties`` and ``snpe``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from xdlc.container.raw_files import recipes
from xdlc.errors import ContainerError, UsageError
from xdlc.ir import (
    AxisScaleOffset,
    Model,
    Origin,
    Role,
    ScaleOffset,
    Tensor,
)
from xdlc.version import VERSION

MAIN = "dlc.metadata2.3.0"
HISTORY = "dlc.metadata.history.2.3.0"
TEXT = "dlc.metadata"  # of format 3, see xdlc.container.text3
TRACE = "xdlc.trace"
IO = "xdlc.io"
# The epoch of zip files; stands for "no time" when SOURCE_DATE_EPOCH does not give one.
NO_TIME = "1980-01-01 00:00:00 UTC"
MAX_LAYER = 0x7FFFFFFF
TRACED = ("nodes", "tensors", "layers")
DEFAULT_COMMAND = "converterCommand"


def is_main(name: str) -> bool:
    """Return whether an entry is the JSON metadata of any schema version."""
    return name.startswith("dlc.metadata") and name != TEXT and not is_history(name)


def is_history(name: str) -> bool:
    """Return whether an entry is the JSON history of any schema version."""
    return name.startswith("dlc.metadata.history")


def timestamp() -> str:
    """Return the time to write: SOURCE_DATE_EPOCH if it is set, else the zip epoch.

    Raises:
        UsageError: If SOURCE_DATE_EPOCH is not a number of seconds.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if not given:
        return NO_TIME
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(int(given)))
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"SOURCE_DATE_EPOCH should be a number of seconds, is {given!r}", fix="unset or correct it"
        ) from error


def read_json(data: memoryview, where: str) -> Any:
    """Return the JSON value of an entry.

    Raises:
        ContainerError: If it is not UTF-8, not JSON, or nested too deeply.
    """
    try:
        return json.loads(bytes(data).decode("utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise ContainerError(f"is no JSON text: {error}", where=where, fix="get the file again") from error
    except RecursionError as error:
        raise ContainerError("nests JSON values too deeply", where=where, fix="get the file again") from error


def read_main(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put the lists of the JSON metadata into ``metadata``.

    Raises:
        ContainerError: If it is no JSON, or a list holds something else than objects or names of records.
    """
    found = _object(read_json(data, where), where)
    for key in ("cacheList", "relations"):
        if key in found:
            metadata[key] = _objects(found[key], key, where)
    for item in metadata.get("relations", ()):
        children = item.get("childRecordNames", [])
        if not isinstance(children, list) or not all(isinstance(name, str) for name in children):
            raise ContainerError("has a relation whose 'childRecordNames' is no list of names", where=where)
        if not isinstance(item.get("parentRecordName", ""), str):
            raise ContainerError("has a relation whose 'parentRecordName' is no name", where=where)


def read_history(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put the commands that made the file into ``metadata["history"]``, oldest first."""
    found = _object(read_json(data, where), where)
    steps: list[dict[str, Any]] = []
    for item in _objects(found.get("dlcGenerationInfo", []), "dlcGenerationInfo", where):
        for command, step in item.items():
            named = {} if command == DEFAULT_COMMAND else {"command": command}
            steps.append(named | (_object(step, where)))
    if steps:
        metadata["history"] = steps


def add_step(model: Model, tool: str, args: Mapping[str, Any]) -> None:
    """Add to the history of a model what a tool of xdlc did with it.

    Args:
        model: The model.
        tool: Name of the tool.
        args: Options that were given, as JSON takes them.
    """
    step = {"tool": tool, "converterVersion": VERSION, "args": dict(args)}
    model.metadata.setdefault("history", []).append(step)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ContainerError(f"should hold a JSON object, holds {type(value).__name__}", where=where)
    return value


def _objects(value: Any, key: str, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise ContainerError(f"should hold a list at {key!r}, holds {type(value).__name__}", where=where)
    return [_object(item, where) for item in value]


def _header(artifact: str, time: str) -> dict[str, Any]:
    return {
        "artifact_type": artifact,
        "header_version": {"major": 0, "minor": 1, "patch": 0},
        "version": {"major": 2, "minor": 3, "patch": 0},
        "timestamp": time,
    }


def main_text(model: Model) -> bytes:
    """Return the JSON metadata of a model; lists of caches and relations only where it has some."""
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


def _compact(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def trace_text(model: Model) -> bytes | None:
    """Return the record of the ops' origins, and of what became of each node and tensor of the source.

    Per graph and op, the source nodes: a step is ``[reason or null, node, node, ...]``; ops without an
    origin are left out.  Per node: name, operator, and the reason why no op stands for it, or null.  Per
    graph and tensor, where they are not just its own name: the names that the source has for it.  Per op of a
    model translated from format 3: the id of its layer.  Returns None if none of these is known.
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
    return _compact({"version": 1, "graphs": graphs} | known)


def read_trace(data: memoryview, model: Model, where: str) -> None:
    """Give ``model`` what an ``xdlc.trace`` record holds: origins of its ops, nodes and names of the source.

    Raises:
        ContainerError: If the record does not have the form that ``trace_text`` writes.
    """
    found = _object(read_json(data, where), where)
    if found.get("version") != 1:
        raise ContainerError(
            f"has version {found.get('version')!r}, only 1 is known", where=where, fix="upgrade xdlc"
        )
    for name, steps in _object(found.get("graphs"), where).items():
        steps = _object(steps, where)
        graph = model.graphs.get(name)
        for op in graph.ops if graph else ():
            step = steps.get(op.name)
            if step is None:
                continue
            if (
                not isinstance(step, list)
                or not step
                or not all(isinstance(part, str) for part in step[1:])
                or not (step[0] is None or isinstance(step[0], str))
            ):
                raise ContainerError(f"has a malformed origin of op {op.name!r}", where=where)
            op.origin = Origin(tuple(step[1:]), step[0])
    nodes = found.get("nodes", [])
    if not isinstance(nodes, list) or not all(map(_is_node, nodes)):
        raise ContainerError("has a malformed list of source nodes", where=where)
    if nodes:
        model.metadata["nodes"] = nodes
    tensors = _object(found.get("tensors", {}), where)
    for names in tensors.values():
        if not all(_is_names(held) for held in _object(names, where).values()):
            raise ContainerError("has a malformed list of tensor names", where=where)
    if tensors:
        model.metadata["tensors"] = tensors
    layers = _object(found.get("layers", {}), where)
    if not all(type(id) is int and 0 <= id <= MAX_LAYER for id in layers.values()):
        raise ContainerError(f"has a layer id that is no number from 0 to {MAX_LAYER}", where=where)
    if layers:
        model.metadata["layers"] = layers


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_node(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and isinstance(value[1], str)
        and (value[2] is None or isinstance(value[2], str))
    )


def io_contract(model: Model) -> dict[str, Any]:
    """Return what callers must feed and get, as JSON-like values.

    Per graph and per input and output: name, shape, dynamic axes, dtype, encoding, bytes of the raw file
    (little-endian, row-major) and how to make or read one, and, where known, the meaning of the axes.
    """
    layouts = model.metadata.get("layouts", {})
    return {
        "version": 1,
        "graphs": [
            {
                "name": graph.name,
                "inputs": [_port(tensor, layouts, recipes(tensor)) for tensor in graph.inputs],
                "outputs": [_port(tensor, layouts, recipes(tensor, reads=True)) for tensor in graph.outputs],
            }
            for graph in model.graphs.values()
        ],
    }


def _port(tensor: Tensor, layouts: Mapping[str, str], raw: Mapping[str, str]) -> dict[str, Any]:
    port: dict[str, Any] = {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype.name,
        "bytes": tensor.nbytes,
        "raw": dict(raw),
    }
    if tensor.dynamic_axes:
        port["dynamicAxes"] = list(tensor.dynamic_axes)
    if tensor.name in layouts:
        port["layout"] = layouts[tensor.name]
    encoding = tensor.encoding
    if isinstance(encoding, ScaleOffset):
        port["encoding"] = {"scale": encoding.scale, "offset": encoding.offset}
        if encoding.bits is not None:
            port["encoding"]["bits"] = encoding.bits
    elif isinstance(encoding, AxisScaleOffset):
        port["encoding"] = {
            "axis": encoding.axis,
            "scales": list(encoding.scales),
            "offsets": list(encoding.offsets),
        }
    return port


def io_text(model: Model) -> bytes:
    """Return the record of the input and output contract."""
    return _compact(io_contract(model))


def read_io(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put the layout notes of an ``xdlc.io`` record into ``metadata["layouts"]``.

    Raises:
        ContainerError: If the record does not have the form that ``io_text`` writes.
    """
    found = _object(read_json(data, where), where)
    layouts: dict[str, str] = {}
    for graph in _objects(found.get("graphs"), "graphs", where):
        for side in ("inputs", "outputs"):
            for port in _objects(graph.get(side, []), side, where):
                name, note = port.get("name"), port.get("layout")
                if isinstance(name, str) and isinstance(note, str):
                    layouts[name] = note
    if layouts:
        metadata["layouts"] = layouts


def read_graph_order(data: memoryview, model: Model, where: str) -> None:
    """Put the graphs of ``model`` in the order of an ``xdlc.io`` record: the main one comes first.

    In the file they stand in the order of their names.

    Raises:
        ContainerError: If the record does not have the form that ``io_text`` writes.
    """
    found = _object(read_json(data, where), where)
    listed = [graph.get("name") for graph in _objects(found.get("graphs"), "graphs", where)]
    known = [name for name in listed if isinstance(name, str) and name in model.graphs]
    model.graphs = {name: model.graphs[name] for name in dict.fromkeys((*known, *model.graphs))}


def read_outputs(data: memoryview, model: Model, where: str) -> None:
    """Make what an ``xdlc.io`` record lists the outputs of a model of format 3, which has no list of its own.

    Raises:
        ContainerError: If the record does not have the form that ``io_text`` writes, or names an output that
            no op gives.
    """
    listed = _objects(_object(read_json(data, where), where).get("graphs"), "graphs", where)
    for entry in listed:
        graph = model.graphs.get(str(entry.get("name")))
        if graph is None:
            continue
        names = [port.get("name") for port in _objects(entry.get("outputs", []), "outputs", where)]
        for tensor in graph.outputs:
            tensor.role = Role.NATIVE
        graph.outputs.clear()
        for name in dict.fromkeys(map(str, names)):
            held = graph.tensors.get(name)
            if held is None or held.producer is None:
                raise ContainerError(f"lists the output {name!r}, which no op gives", where=where)
            graph.add_output(held)
