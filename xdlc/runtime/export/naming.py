"""Names of values and nodes of a lowered graph after tensors and ops."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from onnx import GraphProto, ModelProto, NodeProto, helper

from xdlc.ir import Op, Tensor
from xdlc.ir.graph import is_udo
from xdlc.ir.names import FreeNames
from xdlc.opdefs.control_flow import has_open_rank

if TYPE_CHECKING:
    from xdlc.runtime.lower import Lowered


def carry_names(lowered: Lowered) -> tuple[ModelProto, dict[str, tuple[str, ...]]]:
    """Return the ONNX model under the graph's names, and each tensor's values.

    Where a tensor exists in several axis orders, or rounded and not, the value that its op computes
    bears the name.  Values without a tensor keep their names, which no tensor has.
    """
    proto = lowered.proto
    renamed = _value_names(lowered, proto)
    taken = {entry.name for entry in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer)}
    taken.update(renamed.get(name, name) for node in proto.graph.node for name in node.output)
    inner = list(_inner_graphs(lowered, proto.graph.node, renamed, taken))
    kept = []
    for node in proto.graph.node:
        if node.op_type == "Identity" and renamed.get(node.input[0]) == node.output[0]:
            continue  # the value bears the output's name itself
        _rename_reads(node, renamed)
        node.output[:] = [renamed.get(name, name) for name in node.output]
        kept.append(node)
    known = {entry.name for entry in proto.graph.initializer}
    value_names = _holders(lowered, renamed)
    _name_nodes(lowered, kept, value_names, known)
    for each, graph in inner:
        _name_nodes(each, list(graph.node), _holders(each, renamed), known)
        made = [op for op in each.graph.ops if is_udo(op)]  # whose results no inference finds
        _describe(each, graph, renamed, {tensor for op in made for tensor in op.outputs})
    describe(lowered, proto, renamed)
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    return proto, value_names


def _rename_reads(node: NodeProto, renamed: dict[str, str]) -> None:
    """Rename the inputs of a node and of its sub-graphs, and the sub-graphs' results."""
    node.input[:] = [renamed.get(name, name) for name in node.input]
    for attribute in node.attribute:
        for inner in attribute.g.node:
            _rename_reads(inner, renamed)
            inner.output[:] = [renamed.get(name, name) for name in inner.output]
        for entry in attribute.g.output:
            entry.name = renamed.get(entry.name, entry.name)


def _holders(lowered: Lowered, renamed: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the names of values by the name of the tensor that they represent."""
    return {
        tensor.name: tuple(dict.fromkeys(renamed.get(name, name) for name in values))
        for tensor in lowered.graph.tensors.values()
        if (values := lowered.values(tensor))
    }


def _inner_graphs(
    lowered: Lowered, nodes: Iterable[NodeProto], renamed: dict[str, str], taken: AbstractSet[str]
) -> Iterator[tuple[Lowered, GraphProto]]:
    """Name the values of the graphs inside of nodes; iterate over these graphs.

    Names inside are not those of values around, but graphs beside one another may share them.
    """
    for node in nodes:
        made = lowered.inner(node.name)
        for attribute in node.attribute:
            if attribute.name not in made:
                continue
            inner, graph = made[attribute.name], attribute.g
            names = taken | {name for each in graph.node for name in each.output}
            inputs = {entry.name for entry in graph.input}  # which keep their names
            names |= inputs | {entry.name for entry in graph.output}
            for tensor in inner.graph.tensors.values():
                value = next(iter(inner.values(tensor)), None)
                if value is None or tensor.producer is None or value in renamed or tensor.name in names:
                    continue
                if value not in taken and value not in inputs:
                    renamed[value] = tensor.name
                    names |= {tensor.name}
            yield inner, graph
            yield from _inner_graphs(inner, graph.node, renamed, names)


def _value_names(lowered: Lowered, proto: ModelProto) -> dict[str, str]:
    """Return new value names by old ones."""
    fixed = {entry.name for entry in (*proto.graph.input, *proto.graph.initializer)}
    renamed: dict[str, str] = {}
    for node in proto.graph.node:
        source = node.input[0] if node.input else ""
        if node.name.endswith("~out") and node.op_type == "Identity" and source not in fixed:
            renamed.setdefault(source, node.output[0])
    taken = fixed | set(renamed.values()) | {entry.name for entry in proto.graph.output}
    named = [tensor for tensor in lowered.graph.tensors.values() if not tensor.is_static]
    named.sort(key=lambda tensor: not _is_dequantized(tensor))  # whose value its operand's readers share
    for tensor in named:
        value = next(iter(lowered.values(tensor)), None)
        if value is None or value in fixed or value in renamed:
            value = lowered.stored(tensor)
        if value is None or value in fixed or value in renamed or tensor.name in taken:
            continue
        renamed[value] = tensor.name
        taken.add(tensor.name)
    return renamed


def _is_dequantized(tensor: Tensor) -> bool:
    return tensor.producer is not None and tensor.producer.type == "Dequantize"


def _name_nodes(
    lowered: Lowered, nodes: list[NodeProto], value_names: dict[str, tuple[str, ...]], names: AbstractSet[str]
) -> None:
    """Name an op's main node like the op, the nodes around it ``<op>/<type>``."""
    owners = [lowered.op_of(node.name) for node in nodes]
    main: dict[Op, int] = {}
    results: dict[str, Op] = {}
    for op in lowered.graph.ops:
        if op.outputs and op.outputs[0].name in value_names:
            results.setdefault(value_names[op.outputs[0].name][0], op)
    for position, (node, owner) in enumerate(zip(nodes, owners, strict=True)):
        for computed in filter(None, (results.get(name) for name in node.output)):
            main[computed] = position
        if owner is not None and owner.graph is lowered.graph:
            main.setdefault(owner, position)
    makers = {name: position for position, node in enumerate(nodes) for name in node.output}
    for op, position in main.items():
        while nodes[position].op_type == "Cast" and op.type != "Cast":  # only brings the result into its type
            before = makers.get(nodes[position].input[0])
            if before is None or owners[before] is not op:
                break
            position = before
        main[op] = position
    for position, (node, owner) in enumerate(zip(nodes, owners, strict=True)):
        if (
            owner not in main
            or owners[main[owner]] is not owner
            or node.op_type.upper() != owner.type.upper()
        ):
            continue
        if nodes[main[owner]].op_type != node.op_type:  # which only brings the result into its shape
            main[owner] = position
    stands_for = {position: op for op, position in main.items()}
    taken = {op.name for op in main}
    free_name = FreeNames(taken, first=2)
    for position, (node, owner) in enumerate(zip(nodes, owners, strict=True)):
        if position in stands_for:
            node.name = stands_for[position].name
            _note(node, stands_for[position], names)
        else:
            node.name = free_name(f"{owner.name if owner else lowered.graph.name}/{node.op_type}")
            taken.add(node.name)


def describe(lowered: Lowered, proto: ModelProto, renamed: dict[str, str]) -> None:
    """State types and shapes of values named after tensors, for shape inference.

    Args:
        renamed: New names of its values by old ones.
    """
    _describe(lowered, proto.graph, renamed, lowered.graph.tensors.values())


def _describe(
    lowered: Lowered, graph: GraphProto, renamed: dict[str, str], tensors: Iterable[Tensor]
) -> None:
    names = {entry.name for entry in (*graph.input, *graph.output, *graph.initializer)}
    unstated = {entry.name: entry for entry in graph.output if not entry.type.tensor_type.HasField("shape")}
    for tensor in tensors:
        value, order = lowered.form(tensor)
        name = renamed.get(value, value)
        if not name or (renamed and name != tensor.name) or (name in names and name not in unstated):
            continue
        elements = helper.np_dtype_to_tensor_dtype(lowered.dtype(tensor))
        shape = None
        if not has_open_rank(tensor):
            shape = [None if axis in tensor.dynamic_axes else tensor.shape[axis] for axis in order]
        info = helper.make_tensor_value_info(name, elements, shape)
        if name in unstated:
            unstated.pop(name).CopyFrom(info)
        elif name not in names:
            graph.value_info.append(info)
        names.add(name)


def _note(node: NodeProto, op: Op, names: AbstractSet[str]) -> None:
    """Note on a node its op, the source of that, and names that only the op has."""
    node.metadata_props.add(key="xdlc.op", value=op.name)
    node.metadata_props.add(key="xdlc.type", value=op.type)
    if op.origin.nodes or op.origin.reason is not None:
        origin = json.dumps([op.origin.reason, *op.origin.nodes], ensure_ascii=False)
        node.metadata_props.add(key="xdlc.origin", value=origin)
    statics = [tensor.name for tensor in op.inputs if tensor is not None and tensor.is_static]
    if not names >= set(statics):
        node.metadata_props.add(key="xdlc.statics", value=json.dumps(statics, ensure_ascii=False))
