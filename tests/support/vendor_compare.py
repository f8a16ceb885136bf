"""Compares the IR with what the vendor's own reader makes of the same file."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Graph,
    Op,
    Role,
    Scalar,
    ScaleOffset,
    Tensor,
)

ROLES = {
    Role.INPUT: "input",
    Role.OUTPUT: "output",
    Role.INPUT_OUTPUT: "input_output",
    Role.NATIVE: "native",
    Role.STATIC: "static",
}


def vendor_name(name: str) -> str:
    """Return a name as the vendor's reader returns it: an identifier of C."""
    clean = re.sub(rb"[^A-Za-z0-9_]", b"_", name.encode()).decode()
    return f"_{clean}" if clean[:1].isdigit() else clean


def vendor_names(graph: Graph) -> dict[Tensor, str]:
    """Return the vendor's names of a graph's tensors; the first keeps a shared one."""
    names: dict[Tensor, str] = {}
    taken: set[str] = set()
    for tensor in graph.tensors.values():
        clean = vendor_name(tensor.name)
        others = (f"{clean}_{number}" for number in itertools.count())
        names[tensor] = clean if clean not in taken else next(name for name in others if name not in taken)
        taken.add(names[tensor])
    return names


def differences(graph: Graph, vendor_graph: dict[str, Any]) -> list[str]:
    """Return the differences between a graph and the vendor's JSON of it.

    Compares ops in order (name, package, type, operands, parameters), tensors (type, dtype, shape, dynamic
    axes, encoding, sha256 of the data) and the order of inputs and outputs.  Ids and the order of tensors
    do not count.
    """
    problems: list[str] = []
    names = vendor_names(graph)
    _expect(problems, "graph name", vendor_name(graph.name), vendor_name(vendor_graph["name"]))
    for side in ("inputs", "outputs"):
        _expect(problems, side, [names[tensor] for tensor in getattr(graph, side)], vendor_graph[side])
    vendor_tensors = {tensor["name"]: tensor for tensor in vendor_graph["tensors"]}
    used = {tensor for op in graph.ops for tensor in (*op.inputs, *op.outputs) if tensor is not None}
    for tensor in used:
        theirs = vendor_tensors.get(names[tensor])
        if theirs is None:
            problems.append(f"tensor {tensor.name!r} is missing in the vendor's graph")
        else:
            _tensor(problems, f"tensor {tensor.name!r}", tensor, theirs)
    ops, vendor_ops = list(graph.ops), vendor_graph["ops"]
    _expect(problems, "number of ops", len(ops), len(vendor_ops))
    for op, theirs in zip(ops, vendor_ops, strict=False):
        _op(problems, op, theirs, names)
    return problems


def _expect(found: list[str], what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        found.append(f"{what}: {ours!r} here, {theirs!r} there")


def _op(problems: list[str], op: Op, theirs: dict[str, Any], names: dict[Tensor, str]) -> None:
    where = f"op {op.name!r}"
    _expect(problems, f"{where} name", vendor_name(op.name), vendor_name(theirs["name"]))
    _expect(problems, f"{where} type", (op.package, op.type), (theirs["package"], theirs["type"]))
    inputs = ["" if tensor is None else names[tensor] for tensor in op.inputs]
    for index, (ours, name) in enumerate(zip(inputs, theirs["inputs"], strict=False)):
        if ours:  # an absent operand appears as a null tensor of any name
            _expect(problems, f"{where} input {index}", ours, name)
    _expect(problems, f"{where} number of inputs", len(inputs), len(theirs["inputs"]))
    _expect(problems, f"{where} outputs", [names[tensor] for tensor in op.outputs], theirs["outputs"])
    params = {param["name"]: param for param in theirs["params"]}
    _expect(problems, f"{where} parameters", sorted(op.params), sorted(params))
    for name in op.params.keys() & params.keys():
        ours, vendor_param = op.params[name], params[name]
        at = f"{where} parameter {name!r}"
        if isinstance(ours, Tensor) and "tensor" in vendor_param:
            _tensor(problems, at, ours, vendor_param["tensor"], role="static")
        elif isinstance(ours, Scalar) and "tensor" not in vendor_param:
            _expect(problems, f"{at} type", ours.dtype.name, vendor_param["dtype"])
            _expect(problems, at, ours.value, vendor_param["value"])
        else:
            problems.append(f"{at}: a scalar on one side, a tensor on the other")


def _tensor(
    problems: list[str], where: str, tensor: Tensor, theirs: dict[str, Any], role: str | None = None
) -> None:
    ours = role or ("static" if tensor.is_static else ROLES[tensor.role])
    _expect(problems, f"{where} type", ours, theirs["type"])
    _expect(problems, f"{where} dtype", tensor.dtype.name, theirs["dtype"])
    _expect(problems, f"{where} shape", list(tensor.shape), theirs["dims"])
    _expect(problems, f"{where} dynamic axes", list(tensor.dynamic_axes), theirs.get("dynamic_dims", []))
    if tensor.data is not None:
        digest = hashlib.sha256(tensor.data.numpy().tobytes()).hexdigest()
        _expect(problems, f"{where} data", digest, theirs.get("data_sha256"))
    _encoding(problems, f"{where} encoding", tensor.encoding, theirs.get("encoding"))


def _encoding(problems: list[str], where: str, ours: Encoding | None, theirs: dict[str, Any] | None) -> None:
    if ours is None or theirs is None:
        _expect(problems, where, ours, theirs)
        return
    fields = _fields(ours)
    if isinstance(ours, BlockScaleOffset):
        # The reader takes the number of blocks from the shape, not from the file, and reads past its end.
        theirs = {**theirs, **{key: theirs[key][: len(ours.scales)] for key in ("scales", "offsets")}}
    for key, value in fields.items():
        if not _same(value, theirs.get(key)):
            problems.append(f"{where} {key}: {value!r} here, {theirs.get(key)!r} there")


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, list):
        return (
            isinstance(theirs, Sequence)
            and len(ours) == len(theirs)
            and all(_same(left, right) for left, right in zip(ours, theirs, strict=True))
        )
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours):
        return math.isnan(theirs)
    return ours == theirs


def _fields(encoding: Encoding) -> dict[str, Any]:
    match encoding:
        case ScaleOffset(scale, offset, bits):
            kind = "per_tensor" if bits is None else "per_tensor_bits"
            return {"kind": kind, "scale": scale, "offset": offset} | ({} if bits is None else {"bits": bits})
        case AxisScaleOffset(axis, scales, offsets, bits):
            kind = "per_axis" if bits is None else "per_axis_bits"
            fields = {"kind": kind, "axis": axis, "scales": list(scales), "offsets": list(offsets)}
            return fields | ({} if bits is None else {"bits": bits})
        case BlockScaleOffset(shape, scales, offsets, _):
            return {
                "kind": "block",
                "block_shape": list(shape),
                "scales": list(scales),
                "offsets": list(offsets),
            }
        case BlockwiseExpansion():
            return {
                "kind": "blockwise_expansion",
                "axis": encoding.axis,
                "scales": list(encoding.scales),
                "offsets": list(encoding.offsets),
                "blocks_per_axis": encoding.blocks_per_axis,
                "block_scale_bits": encoding.block_scale_bits,
                "block_scales": list(encoding.block_scales),
            }
    return {"kind": "unread_kind_6"}
