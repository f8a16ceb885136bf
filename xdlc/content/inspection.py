"""Content of a DLC as plain JSON-like values, as ``xdlc-info --json`` prints it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from xdlc.container.caches import is_context_binary
from xdlc.content.ports import graph_io, number, numbers, tensor_facts
from xdlc.ir import (
    HOST_PACKAGE,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Graph,
    Model,
    Op,
    Param,
    ScaleOffset,
    Tensor,
    TensorData,
    VectorCode,
)
from xdlc.ir.graph import is_udo
from xdlc.opdefs.traits import macs
from xdlc.records import record

RUNTIMES = {"A": "hta", "D": "htp", "G": "gpu", "C": "cpu"}
"""Letter of a runtime: AIP, DSP, GPU, CPU; and the supplement of the OpDefs that lists its support."""


def runtimes(op: Op) -> str:
    """Return the letters of the runtimes that support an op in its present form.

    Ops of package ``xdlc`` run on the host alone, and those of users where their package has a kernel.
    """
    from xdlc.opdefs.verify import accepts

    if op.package == HOST_PACKAGE:
        return "host"
    if is_udo(op):
        return "UDO"
    return " ".join(letter for letter, name in RUNTIMES.items() if accepts(name, op)) or "-"


def in_words(encoding: Encoding | None) -> str | None:
    """Return an encoding in a few words; None without one.

    Example:
        >>> in_words(ScaleOffset(0.5, -128))
        'scale 0.5, offset -128'
    """
    if encoding is None:
        return None
    bits = getattr(encoding, "bits", None)
    width = "" if bits is None else f", {bits} bits"
    if isinstance(encoding, ScaleOffset):
        return f"scale {encoding.scale:.6g}, offset {encoding.offset}{width}"
    if isinstance(encoding, BlockScaleOffset):
        form = f"per block of {'x'.join(map(str, encoding.block_shape)) or 'scalar'}"
    elif isinstance(encoding, BlockwiseExpansion):
        form = f"per channel (axis {encoding.axis}) and block, {encoding.blocks_per_axis} blocks a channel"
        width = f", block scales of {encoding.block_scale_bits} bits"
    elif isinstance(encoding, VectorCode):
        form = f"code book (axis {encoding.axis})"
    else:
        form = f"per channel (axis {encoding.axis})"
    offsets = f", offsets {min(encoding.offsets)} to {max(encoding.offsets)}" if any(encoding.offsets) else ""
    return f"{form}: {len(encoding.scales)} scales{_span(encoding.scales)}{offsets}{width}"


def _span(scales: Sequence[float]) -> str:
    return f" {min(scales):.6g} to {max(scales):.6g}" if len(scales) else ""


SHOWN_VALUES = 16
_CACHE = "htp.cache."

Definitions: TypeAlias = Mapping[tuple[str, str], Mapping[str, Sequence[str]]]
"""Enumerations of parameters by package and type."""


def inspect(model: Model, path: Path) -> dict[str, Any]:
    """Return everything that ``xdlc-info`` shows of a model read from ``path``.

    Ops and source nodes are iterables that make each record when it is read.
    """
    udo_packages = _udo_packages(model)
    definitions = enumerations(udo_packages)
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "format": "context binary" if is_context_binary(path) else "DLC",
        "version": model.metadata.get("version", ""),
        "properties": model.metadata.get("properties", {}),
        "history": model.metadata.get("history", []),
        "graphs": [_graph(graph, model, definitions) for graph in model.graphs.values()],
        "packages": udo_packages,
        "source_nodes": Records(lambda: iter(source_nodes(model))),
        **_records(model),
    }


def _udo_packages(model: Model) -> list[dict[str, Any]]:
    if not model.records and not any(is_udo(op) for graph in model.graphs.values() for op in graph.ops):
        return []
    from xdlc.content.udo_packages import packages

    return packages(model)


def _records(model: Model) -> dict[str, list[dict[str, Any]]]:
    """Describe caches, AIP records and other records; most DLCs have none."""
    if not model.records and not model.metadata.get("cacheList"):
        return {"caches": [], "aip": [], "records": []}
    from xdlc.content.aip_records import aip_records
    from xdlc.content.cache_records import cache_records

    return {
        "caches": cache_records(model),
        "aip": aip_records(model),
        "records": [{"name": name, "bytes": data.nbytes} for name, data in other_records(model).items()],
    }


def enumerations(udo_packages: Sequence[Mapping[str, Any]]) -> Definitions:
    """Return the enumerations of parameters that UDO packages define."""
    return {
        (package["name"], op_type["type"]): {
            param["name"]: param.get("enumeration", ()) for param in op_type["params"]
        }
        for package in udo_packages
        for op_type in package["types"]
        if "params" in op_type
    }


def other_records(model: Model) -> dict[str, TensorData]:
    """Return the records that are no caches, AIP records or definitions of UDOs."""
    from xdlc.container.aip_record import is_aip
    from xdlc.container.udo import is_about_udo

    return {
        name: data
        for name, data in model.records.items()
        if not name.startswith(_CACHE) and not is_aip(name) and not is_about_udo(name)
    }


@record(frozen=True)
class Records:
    """Plain values of many ops, each made when it is read, which saves memory."""

    make: Callable[[], Iterator[dict[str, Any]]]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.make()


def source_nodes(model: Model) -> list[dict[str, Any]]:
    """Return for each node of the source model its ops, or the reason for having none."""
    ops: dict[str, list[str]] = {}
    for graph in model.graphs.values():
        for op in graph.ops:
            for node in op.origin.nodes:
                ops.setdefault(node, []).append(f"{op.type} {op.name}")
    nodes = model.metadata.get("nodes") or [(name, "", None) for name in ops]
    return [
        {"name": name, "type": kind, "ops": ops.get(name, [])} | ({"reason": reason} if reason else {})
        for name, kind, reason in nodes
    ]


def _graph(graph: Graph, model: Model, definitions: Definitions) -> dict[str, Any]:
    def ops() -> Iterator[dict[str, Any]]:
        from xdlc.runtime.section_record import layer_ids

        ids = layer_ids(model) if graph is model.main else {op: index for index, op in enumerate(graph.ops)}
        return (_op(ids.get(op), op, definitions) for op in graph.ops)

    return {**graph_facts(graph, model), "ops": Records(ops)}


def graph_facts(graph: Graph, model: Model) -> dict[str, Any]:
    """Describe a graph without its ops: inputs, outputs and totals."""
    static = [tensor for tensor in graph.tensors.values() if tensor.is_static]
    return {
        "name": graph.name,
        "inputs": [graph_io(tensor, model.metadata) for tensor in graph.inputs],
        "outputs": [graph_io(tensor, model.metadata, reads=True) for tensor in graph.outputs],
        "totals": {
            "ops": len(graph.ops),
            "types": dict(sorted(Counter(map(_kind, graph.ops)).items())),
            "parameters": sum(tensor.size for tensor in static),
            "parameter_bytes": sum(tensor.nbytes for tensor in static),
            "macs": sum(map(macs, graph.ops)),
        },
    }


def _kind(op: Op) -> str:
    """Return an op's type; for a UDO with its package, as QNN may have that type."""
    return f"{op.package}::{op.type}" if is_udo(op) else op.type


def _op(id: int | None, op: Op, definitions: Definitions) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": id,  # to which HTA sections refer; None for a conversion of callers' data
        "name": op.name,
        "type": op.type,
        "package": op.package,
        "inputs": [None if tensor is None else tensor_facts(tensor) for tensor in op.inputs],
        "outputs": [tensor_facts(tensor) for tensor in op.outputs],
        "params": {name: param_value(value) for name, value in op.params.items()},
        "parameters": sum(tensor.size for tensor in op.inputs if tensor is not None and tensor.is_static),
        "macs": macs(op),
    }
    named = enumerators(op, definitions)
    if named:
        record["enumerators"] = named
    if op.origin.nodes:
        record["source"] = list(op.origin.nodes)
    if op.origin.reason is not None:
        record["reason"] = op.origin.reason
    return record


def enumerators(op: Op, definitions: Definitions) -> dict[str, str]:
    """Return names of enumeration values for the parameters of an op."""
    from xdlc.opdefs import loader

    opdef = loader.find(op.type, op.package)
    enumerations: Mapping[str, Sequence[str]] = definitions.get((op.package, op.type), {})
    if opdef is not None:
        enumerations = {name: definition.enumeration for name, definition in opdef.params.items()}
    named = {}
    for name, value in op.params.items():
        names = enumerations.get(name, ())
        if names and not isinstance(value, Tensor):
            number = value.value
            if isinstance(number, int) and 0 <= number < len(names):
                named[name] = names[number]
    return named


def param_value(param: Param) -> Any:
    """Return a parameter as a plain value; a large tensor as its type and shape."""
    if not isinstance(param, Tensor):
        return number(param.value) if isinstance(param.value, float) else param.value
    if param.data is not None and max(param.size, math.prod(param.data.shape)) <= SHOWN_VALUES:
        return numbers(param.data.peek())
    return {"dtype": param.dtype.name, "shape": list(param.shape)}
