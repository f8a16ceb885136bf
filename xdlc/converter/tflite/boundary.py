"""Boundary of a TFLite model: its signature, other names of tensors, cuts, open dimensions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdlc.converter.session.node import GraphInput, Node, SourceGraph
from xdlc.converter.tflite.file import TfliteFile
from xdlc.converter.tflite.tensors import TensorInfo
from xdlc.errors import UsageError, nearest_names

DEFAULT = "serving_default"


@dataclass(frozen=True, slots=True)
class Entry:
    """The sub-graph that is converted.

    Attributes:
        graph: Its number.
        names: Names of tensors by the names that the signature has for them.
        notices: What the user should know of the choice.
    """

    graph: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    notices: Sequence[str] = ()

    def tensor(self, name: str) -> str:
        """Return the name of the tensor that an option names, in the words of the signature or its own."""
        return self.names.get(name, name)


def entry(file: TfliteFile, key: str | None) -> Entry:
    """Return the sub-graph of a signature.

    Without a key it is that of the only signature, or of ``serving_default``; else the first sub-graph.

    Raises:
        UsageError: If there is no such signature.
        ModelError: If the signature names what the file lacks.
    """
    held = {str(each.signature_key or ""): each for each in file.model.signature_defs or ()}
    others = ", ".join(map(repr, held)) or "none"
    if key is not None and key not in held:
        raise UsageError(
            f"there is no signature {key!r}; the signatures are {others}",
            where=str(file.path),
            fix=nearest_names(key, held) or "omit --signature_name",
        )
    first = next((name for name, each in held.items() if each.subgraph_index == 0), None)
    wanted = key or (DEFAULT if DEFAULT in held else next(iter(held)) if len(held) == 1 else first)
    if wanted is None:
        return Entry()
    found = held[wanted]
    index = file.index(found.subgraph_index, "sub-graph", file.tensors)
    tensors = file.tensors[index]
    stated = {tensor.name for tensor in tensors}
    names = {
        each.name: tensors[file.index(each.tensor_index, "tensor", tensors)].name
        for each in (*(found.outputs or ()), *(found.inputs or ()))
        if each.name and each.name not in stated
    }
    chosen = len(held) > 1 and key is None
    notice = f"signature {wanted!r} is converted, of {others}: --signature_name chooses another"
    return Entry(index, names, [notice] if chosen else [])


def cut(
    graph: SourceGraph,
    tensors: Sequence[TensorInfo],
    names: Collection[str],
    where: str,
    ends: Sequence[str] = (),
) -> SourceGraph:
    """Return a graph that begins at tensors, without what only they needed.

    Args:
        tensors: Its tensors.
        names: Names of the tensors that become inputs.
        where: Name of the model, for errors.
        ends: Names of the tensors at which it ends; default: its outputs.

    Raises:
        UsageError: If there is no such tensor that an operator computes.
        UnsupportedOp: If its type is none of a DLC.
    """
    computed = {name for node in graph.nodes for name in node.outputs}
    known = {tensor.name: tensor for tensor in tensors}
    given = [entry.name for entry in graph.inputs]
    for name in (*names, *ends):
        if name not in computed and name not in given:
            some = ", ".join(list(dict.fromkeys(name for node in graph.nodes for name in node.outputs))[-3:])
            raise UsageError(
                f"no operator computes a tensor {name!r}",
                where=where,
                fix=nearest_names(name, sorted(computed)) or f"name a computed tensor, like {some}",
            )
    nodes = [
        replace(node, outputs=["" if name in names else name for name in node.outputs])
        for node in graph.nodes
        if not node.outputs or not set(node.outputs) <= set(names)
    ]
    made = [
        GraphInput(name, known[name].qnn_dtype, known[name].shape)
        for name in dict.fromkeys(names)
        if name not in given
    ]
    needed = _needed(nodes, ends or graph.outputs)
    nodes = [node for node in nodes if not node.outputs or not needed.isdisjoint(node.outputs)]
    kept = [entry for entry in graph.inputs if entry.name in needed or entry.name in names]
    return replace(graph, inputs=[*kept, *made], nodes=nodes)


def _needed(nodes: Sequence[Node], ends: Sequence[str]) -> set[str]:
    """Return the names of the values that outputs depend on."""
    makers = {name: node for node in nodes for name in node.outputs if name}
    needed: set[str] = set()
    pending = list(ends)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += makers[name].names if name in makers else ()
    return needed


def open_dimensions(
    inputs: Sequence[GraphInput], tensors: Sequence[TensorInfo], dims: Mapping[str, Any], batch: int | None
) -> list[str]:
    """Return a notice for each input whose open dimensions are taken as 1."""
    known, found = {tensor.name: tensor for tensor in tensors}, []
    for each in inputs:
        signature = known[each.name].signature
        if each.name not in dims and -1 in signature[0 if batch is None else 1 :]:
            found.append(
                f"input {each.name!r} is {list(signature)} in the file and taken as {list(each.dims or ())}: "
                "--input_dim or --batch sets other dimensions"
            )
    return found
