"""Boundary of a TFLite model: signature, tensor names, cuts, open dimensions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdlc.converter.session.node import GraphInput, SourceGraph, upstream
from xdlc.converter.tflite.file import TfliteFile
from xdlc.converter.tflite.tensors import TensorInfo
from xdlc.errors import UsageError, nearest_names
from xdlc.options import spell

DEFAULT = "serving_default"


@dataclass(frozen=True, slots=True)
class Entry:
    """The sub-graph that is converted.

    Attributes:
        names: Names of tensors by the names that the signature has for them.
        notices: What the user should know of the choice.
    """

    graph: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    notices: Sequence[str] = ()

    def tensor(self, name: str) -> str:
        """Return the tensor that an option names, by the signature or by its own name."""
        return self.names.get(name, name)


def entry(file: TfliteFile, key: str | None) -> Entry:
    """Return the sub-graph of a signature.

    Without a key it is that of the only signature, or of ``serving_default``; else the first sub-graph.

    Raises:
        UsageError: If there is no such signature.
        ModelError: If the signature names what the file lacks.
    """
    signatures = {str(item.signature_key or ""): item for item in file.model.signature_defs or ()}
    others = ", ".join(map(repr, signatures)) or "none"
    if key is not None and key not in signatures:
        raise UsageError(
            f"the model has no signature {key!r}; its signatures are {others}",
            where=str(file.path),
            fix=nearest_names(key, signatures) or f"omit {spell('signature_name')}",
        )
    first = next((name for name, item in signatures.items() if item.subgraph_index == 0), None)
    chosen_name = key or (
        DEFAULT if DEFAULT in signatures else next(iter(signatures)) if len(signatures) == 1 else first
    )
    if chosen_name is None:
        return Entry()
    signature = signatures[chosen_name]
    index = file.index(signature.subgraph_index, "sub-graph", file.tensors)
    tensors = file.tensors[index]
    stated = {tensor.name for tensor in tensors}
    names = {
        item.name: tensors[file.index(item.tensor_index, "tensor", tensors)].name
        for item in (*(signature.outputs or ()), *(signature.inputs or ()))
        if item.name and item.name not in stated
    }
    chosen = len(signatures) > 1 and key is None
    notice = f"xdlc converts signature {chosen_name!r} of {others}: {spell('signature_name')} chooses another"
    return Entry(index, names, [notice] if chosen else [])


def cut(
    graph: SourceGraph,
    tensors: Sequence[TensorInfo],
    names: Collection[str],
    where: str,
    ends: Sequence[str] = (),
) -> SourceGraph:
    """Return a graph that begins at tensors, without nodes that only they needed.

    Args:
        tensors: Its tensors.
        names: Names of the tensors that become inputs.
        where: Name of the model, for errors.
        ends: Names of the tensors at which it ends; default: its outputs.

    Raises:
        UsageError: If there is no such tensor that an operator computes.
        UnsupportedOp: If a DLC has no such type.
    """
    computed = {name for node in graph.nodes for name in node.outputs}
    by_name = {tensor.name: tensor for tensor in tensors}
    input_names = [entry.name for entry in graph.inputs]
    for name in (*names, *ends):
        if name not in computed and name not in input_names:
            some = ", ".join(list(dict.fromkeys(name for node in graph.nodes for name in node.outputs))[-3:])
            raise UsageError(
                f"no operator writes a tensor {name!r}",
                where=where,
                fix=nearest_names(name, sorted(computed)) or f"name a computed tensor, like {some}",
            )
    nodes = [
        replace(node, outputs=["" if name in names else name for name in node.outputs])
        for node in graph.nodes
        if not node.outputs or not set(node.outputs) <= set(names)
    ]
    new_inputs = [
        GraphInput(name, by_name[name].qnn_dtype, by_name[name].shape)
        for name in dict.fromkeys(names)
        if name not in input_names
    ]
    producers = {name: node for node in nodes for name in node.outputs if name}
    needed = set(upstream(ends or graph.outputs, producers.get))
    nodes = [node for node in nodes if not node.outputs or node in needed]
    read = {*names, *(ends or graph.outputs), *(name for node in needed for name in node.names)}
    kept = [entry for entry in graph.inputs if entry.name in read]
    return replace(graph, inputs=[*kept, *new_inputs], nodes=nodes)


def open_dimensions(
    inputs: Sequence[GraphInput], tensors: Sequence[TensorInfo], dims: Mapping[str, Any], batch: int | None
) -> list[str]:
    """Return a notice for each input whose open dimensions become 1."""
    by_name, notices = {tensor.name: tensor for tensor in tensors}, []
    for entry in inputs:
        signature = by_name[entry.name].signature
        if entry.name not in dims and -1 in signature[0 if batch is None else 1 :]:
            notices.append(
                f"input {entry.name!r} is {list(signature)} in the file, but xdlc uses "
                f"{list(entry.dims or ())}: {spell('input_dims')} or {spell('batch')} sets other dimensions"
            )
    return notices
