"""Gives the values and nodes of a lowered graph the names of the tensors and ops they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.ir import Graph, Op

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
        if node.name.endswith("~out") and node.op_type == "Identity" and source not in fixed:
            renamed.setdefault(source, node.output[0])
    taken = fixed | set(renamed.values()) | {entry.name for entry in proto.graph.output}
    for tensor in lowered.graph.tensors.values():
        value = next(iter(lowered.values(tensor)), None)
        if value is None or tensor.is_static or value in fixed or value in renamed or tensor.name in taken:
            continue
        renamed[value] = tensor.name
        taken.add(tensor.name)
    return renamed


def _name_nodes(lowered: Lowered, nodes: list[NodeProto]) -> None:
    """Name the node that computes an op's first output like the op, those around it ``<op>/<type>``."""
    labels = _labels(lowered.graph)
    owners = [lowered.op_of(node.name) for node in nodes]
    main: dict[Op, int] = {}
    results = {op.outputs[0].name: op for op in labels if op.outputs}
    for position, (node, owner) in enumerate(zip(nodes, owners, strict=True)):
        for op in filter(None, (results.get(name) for name in node.output)):
            main[op] = position
        if owner is not None:
            main.setdefault(owner, position)
    named = {position: labels.get(op, op.name) for op, position in main.items()}
    taken = set(named.values())
    for position, (node, owner) in enumerate(zip(nodes, owners, strict=True)):
        name = named.get(position)
        if name is None:
            base = name = f"{owner.name if owner else lowered.graph.name}/{node.op_type}"
            count = 1
            while name in taken:
                count += 1
                name = f"{base}_{count}"
            taken.add(name)
        node.name = name


def _labels(graph: Graph) -> dict[Op, str]:
    """Return what the node of each op is called: like the op, or like the source node it comes from.

    The latter where the importer named an op that it inserted after that node, which left the op
    itself another name: inserted ops need no node of their own, and come back under their names.
    """
    labels: dict[Op, str] = {}
    inserted_for: str | None = None
    for op in graph.ops:
        source = op.origin.nodes[-1] if op.origin.nodes else None
        if op.origin.reason is not None:
            inserted_for = source
            labels[op] = op.name
            continue
        after = source is not None and source == inserted_for and op.name.startswith(f"{source}_")
        labels[op] = source if after and source is not None else op.name
        inserted_for = None
    return labels
