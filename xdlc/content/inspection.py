"""Content of a DLC as plain JSON-like values, as ``xdlc-info --json`` prints it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from xdlc.container.aip_record import is_aip
from xdlc.container.caches import is_context_binary
from xdlc.container.metadata import recipes
from xdlc.container.udo import is_about_udo
from xdlc.content.aip_records import aip_records
from xdlc.content.cache_records import cache_records
from xdlc.content.udo_packages import packages
from xdlc.ir import (
    HOST_PACKAGE,
    AxisScaleOffset,
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
from xdlc.opdefs import loader
from xdlc.opdefs.traits import macs
from xdlc.opdefs.verify import accepts
from xdlc.runtime.section_record import layer_ids

RUNTIMES = {"A": "hta", "D": "htp", "G": "gpu", "C": "cpu"}
"""Letter of a runtime: AIP, DSP, GPU, CPU; and the supplement of the OpDefs that lists its support."""


def runtimes(op: Op) -> str:
    """Return the letters of the runtimes that support an op in its present form.

    Ops of package ``xdlc`` run on the host alone, and those of users where their package has a kernel.
    """
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
    """Return everything that ``xdlc-info`` shows of a model read from ``path``."""
    udo_packages = packages(model)
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
        "source_nodes": source_nodes(model),
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
    return {
        name: data
        for name, data in model.records.items()
        if not name.startswith(_CACHE) and not is_aip(name) and not is_about_udo(name)
    }


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
    ids = layer_ids(model) if graph is model.main else {op: index for index, op in enumerate(graph.ops)}
    ops = [_op(ids.get(op), op, definitions) for op in graph.ops]
    return {**graph_facts(graph, model), "ops": ops}


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


def graph_io(tensor: Tensor, metadata: Mapping[str, Any], *, reads: bool = False) -> dict[str, Any]:
    """Describe an input of a graph, or, with ``reads``, an output, for its callers.

    Args:
        metadata: That of the model, which has notes on layouts and symbols of dynamic dimensions.
    """
    record = _tensor(tensor) | {
        "raw_bytes": tensor.nbytes,
        "float_bytes": 4 * tensor.size,
        "raw": recipes(tensor, reads=reads),
    }
    for key, notes in (("layout", "layouts"), ("symbols", "symbols"), ("preprocessing", "preprocessing")):
        if tensor.name in metadata.get(notes, {}):
            record[key] = metadata[notes][tensor.name]
    return record


def _tensor(tensor: Tensor) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": tensor.name,
        "shape": [None if axis in tensor.dynamic_axes else n for axis, n in enumerate(tensor.shape)],
        "dtype": tensor.dtype.name,
        "role": "STATIC" if tensor.is_static else tensor.role.name,
    }
    if tensor.encoding is not None:
        record["encoding"] = encoding(tensor.encoding)
    return record


def encoding(stored: Encoding) -> dict[str, Any]:
    """Return an encoding as plain values: float = (quantized + offset) * scale."""
    if isinstance(stored, ScaleOffset):
        values: dict[str, Any] = {"kind": "tensor", "scale": _number(stored.scale), "offset": stored.offset}
    else:
        values = {
            "kind": {
                AxisScaleOffset: "axis",
                BlockScaleOffset: "block",
                BlockwiseExpansion: "blockwise_expansion",
                VectorCode: "vector",
            }[type(stored)],
            "scales": [_number(scale) for scale in stored.scales],
            "offsets": list(stored.offsets),
        }
        if not isinstance(stored, BlockScaleOffset):
            values["axis"] = stored.axis
    if isinstance(stored, BlockScaleOffset):
        values["block_shape"] = list(stored.block_shape)
    if isinstance(stored, BlockwiseExpansion):
        values["blocks_per_axis"] = stored.blocks_per_axis
        values["block_scale_bits"] = stored.block_scale_bits
    bits = getattr(stored, "bits", None)
    return values | ({"bits": bits} if bits is not None else {})


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)  # JSON has no NaN


def _numbers(values: Any) -> Any:
    """Return nested lists with numbers that JSON can represent."""
    if isinstance(values, list):
        return [_numbers(value) for value in values]
    return _number(values) if isinstance(values, float) else values


def _op(id: int | None, op: Op, definitions: Definitions) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": id,  # to which HTA sections refer; None for a conversion of callers' data
        "name": op.name,
        "type": op.type,
        "package": op.package,
        "inputs": [None if tensor is None else _tensor(tensor) for tensor in op.inputs],
        "outputs": [_tensor(tensor) for tensor in op.outputs],
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
        return _number(param.value) if isinstance(param.value, float) else param.value
    if param.data is not None and max(param.size, math.prod(param.data.shape)) <= SHOWN_VALUES:
        return _numbers(param.data.tolist())
    return {"dtype": param.dtype.name, "shape": list(param.shape)}
