"""From QNN operations to layers of SNPE 1, for containers of format 3: the inverse of ``translate``.

What computes the same stored integers becomes a layer as real files have it.  Other operations become layers
that hold them as they are, under names that say so, see ``xdlc.converter.snpe.verbatim``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdlc import opdefs
from xdlc.container.aip_record import OWN_RECORD, is_about_sections
from xdlc.container.text3 import properties
from xdlc.converter.snpe.inverse import Layers, Operation, find, has_place
from xdlc.converter.snpe.sections import renumbered, section_of_ops
from xdlc.converter.snpe.verbatim import is_verbatim, keep
from xdlc.errors import UnsupportedOp, XdlcError, raise_all
from xdlc.ir import Graph, Model, Op, Tensor

KEPT = ("history", "layouts", "symbols", "nodes", "tensors")
AIP = "aip.metadata0"
FIX = "write format 4.1, which has a form for it"


def to_layers(model: Model, *, strict: bool = False) -> Model:
    """Return the model as layers of SNPE 1; what ``translate`` makes of them computes what the model does.

    Names of tensors and ops stay; weights are restated as 8 unsigned bits without rounding.  The record of
    sections for HTA becomes ``aip.metadata0``, in terms of the layers.

    Args:
        model: One graph of QNN operations.
        strict: Take only layers that are known from files of SNPE 1.

    Raises:
        UnsupportedOp: If the container has no form for an input, an operation or a parameter, or, with
            ``strict``, no layer is known; several make a ProblemList.
        ConstraintError: If an operation breaks its OpDef; ``translate`` would refuse it.
        ContainerError: If the record of sections is damaged, or does not fit the model.
    """
    raise_all(list(_obstacles(model)))
    source = model.main
    raise_all(opdefs.verify_graph(source))
    layers = Layers()
    for tensor in source.inputs:
        made = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.encoding)
        layers.tensors[tensor] = layers.graph.add_input(made)
    problems = _translate(source, layers, section_of_ops(model), strict=strict)
    raise_all(problems)
    for tensor in source.outputs:
        layers.graph.add_output(layers.tensors[tensor])
    layers.graph.verify()
    result = Model({layers.graph.name: layers.graph}, _metadata(model, layers.graph.name))
    for name, data in model.records.items():
        if not is_about_sections(name):
            result.records[name] = data
    if OWN_RECORD in model.records:
        result.records[AIP] = renumbered(model, layers)
    return result


def foreign(model: Model) -> list[Op]:
    """Return the layers of a model that SNPE 1 does not know."""
    return [op for graph in model.graphs.values() for op in graph.ops if is_verbatim(op)]


def _obstacles(model: Model) -> Iterator[XdlcError]:
    """Yield what keeps the model as a whole from being written as layers."""
    if len(model.graphs) != 1:
        yield UnsupportedOp(f"the model holds {len(model.graphs)} graphs, format 3 holds one", fix=FIX)
        return
    if any(name.startswith("htp.") for name in model.records):
        yield UnsupportedOp("the model holds HTP caches, which format 3 has no place for", fix=FIX)
    graph = model.main
    for tensor in graph.inputs:
        if not has_place(tensor):
            yield _input_problem(
                f"is {tensor.dtype}; inputs are float32, or quantized to unsigned numbers", tensor
            )
    for tensor in graph.outputs:
        if tensor.producer is None:
            yield _input_problem("is an output that no operation gives", tensor)
    for tensor in graph.tensors.values():
        if tensor.dynamic_axes:
            yield _input_problem(f"has open extents {list(tensor.dynamic_axes)}", tensor)


def _input_problem(problem: str, tensor: Tensor) -> UnsupportedOp:
    return UnsupportedOp(problem, where=f"tensor {tensor.name!r}", fix=FIX)


def _translate(source: Graph, layers: Layers, sections: Mapping[Op, int], *, strict: bool) -> list[XdlcError]:
    def reader(tensor: Tensor) -> Op | None:
        op = source.sole_consumer(tensor)
        producer = tensor.producer
        if op is None or producer is None or sections.get(op) != sections.get(producer):
            return None
        return op

    problems: list[XdlcError] = []
    merged: set[Op] = set()
    for op in source.ops:
        if op in merged:
            continue
        node = Operation(op, layers, reader)
        try:
            _layer(node, strict=strict)
        except UnsupportedOp as problem:
            problems.append(problem)
            for tensor in op.outputs:
                layers.output(tensor)
        merged.update(node.merged)
    return problems


def _layer(node: Operation, *, strict: bool) -> None:
    function = find(node.op)
    reason = node.problem("no layer is known from files of SNPE 1")
    if function is not None:
        try:
            _check_types(node)
            function(node)
            return
        except UnsupportedOp as problem:
            node.merged.clear()
            reason = problem
    if strict:
        raise reason
    keep(node)


def _check_types(node: Operation) -> None:
    """Check that a layer could read and give the tensors of an operation."""
    op = node.op
    results = [] if op.type == "Argmax" else list(op.outputs)  # whose Cast is looked at instead
    dynamic = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_static]
    for tensor in (*dynamic, *results):
        if not has_place(tensor):
            raise node.problem(
                f"has {tensor.name!r} of {tensor.dtype}, which no layer of SNPE 1 reads or gives"
            )
    if len({tensor.dtype.is_fixed for tensor in (*dynamic, *results)}) > 1:
        raise node.problem("reads real numbers and gives quantized ones, or the other way round")


def _metadata(model: Model, name: str) -> dict[str, object]:
    kept = {key: model.metadata[key] for key in KEPT if key in model.metadata}
    named = kept.get("tensors")
    if named:
        kept["tensors"] = {name if key == model.main.name else key: held for key, held in named.items()}
    return {"version": "3.0", **kept, "properties": properties(model.metadata.get("history", ()))}
