"""Gives the values and nodes of a lowered graph the names of the tensors and ops they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.ir import Op, Tensor

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from xdlc.runtime.lower import Lowered


def carry_names(lowered: Lowered) -> tuple[ModelProto, dict[str, tuple[str, ...]]]:
    """Return the ONNX model under the graph's names, and the values that hold each tensor.

    Where a tensor exists in several axis orders, or rounded and not, the value that its op computes
    bears the name.  Values without a tensor keep their names, which no tensor has.
    """
    proto = lowered.proto
    renamed = _value_names(lowered, proto)
    kept = []
    for node in proto.graph.node:
        if node.op_type == "Identity" and renamed.get(node.input[0]) == node.output[0]:
            continue  # the value bears the output's name itself
        _rename_reads(node, renamed)
        node.output[:] = [renamed.get(name, name) for name in node.output]
        kept.append(node)
    _name_nodes(lowered, kept)
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    held = {
        tensor.name: tuple(dict.fromkeys(renamed.get(name, name) for name in values))
        for tensor in lowered.graph.tensors.values()
        if (values := lowered.values(tensor))
    }
    return proto, held


def _rename_reads(node: NodeProto, renamed: dict[str, str]) -> None:
    """Rename what a node and the nodes of its graphs read."""
    node.input[:] = [renamed.get(name, name) for name in node.input]
    for attribute in node.attribute:
        for inner in attribute.g.node:
            _rename_reads(inner, renamed)


def _value_names(lowered: Lowered, proto: ModelProto) -> dict[str, str]:
    """Return new names by old ones."""
    fixed = {entry.name for entry in (*proto.graph.input, *proto.graph.initializer)}
    renamed: dict[str, str] = {}
    for node in proto.graph.node:
        source = node.input[0] if node.input else ""
        if node.name.endswith("~out") and node.op_type == "Identity" and source not in fixed | renamed.keys():
            renamed[source] = node.output[0]
    taken = fixed | set(renamed.values()) | {entry.name for entry in proto.graph.output}
    for tensor in lowered.graph.tensors.values():
        value = next(iter(lowered.values(tensor)), None)
        if value is None or tensor.is_static or value in fixed or value in renamed or tensor.name in taken:
            continue
        renamed[value] = tensor.name
        taken.add(tensor.name)
    return renamed


def _name_nodes(lowered: Lowered, nodes: list) -> None:
    """Name the node that computes an op's first output like the op, those around it ``<op>/<type>``."""
    main: dict[Op, int] = {}
    results = {tensor.name: tensor for tensor in lowered.graph.tensors.values()}
    for position, node in enumerate(nodes):
        op = lowered.op_of(node.name)
        produced: Tensor | None = next((results[name] for name in node.output if name in results), None)
        if op is not None and (op not in main or (produced is not None and produced in op.outputs[:1])):
            main[op] = position
    taken = {op.name for op in main}
    for position, node in enumerate(nodes):
        op = lowered.op_of(node.name)
        if op is not None and main[op] == position:
            node.name = op.name
            continue
        base = f"{op.name if op else lowered.graph.name}/{node.op_type}"
        name, count = base, 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.add(name)
        node.name = name
