"""Translation of graphs layer by layer, with all problems collected."""

from __future__ import annotations

from xdlc.container.read3 import PACKAGE
from xdlc.container.udo import is_about_udo
from xdlc.converter.snpe.qnn_layers import is_stored_operation, restore_operation
from xdlc.converter.snpe.registry import Layer, load_all
from xdlc.errors import UnsupportedOp, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Model, Op, Role, Tensor
from xdlc.opdefs.verify import verify_graph

KEPT = (
    "version",
    "history",
    "layouts",
    "preprocessing",
    "symbols",
    "nodes",
    "modules",
    "tensors",
    "weight_factors",
)


def has_layers(model: Model) -> bool:
    """Return whether a model has layers of SNPE 1."""
    return any(op.package == PACKAGE for graph in model.graphs.values() for op in graph.ops)


def translate(model: Model, where: str | None = None) -> Model:
    """Return the model with QNN operations in place of layers; weights are shared.

    Inputs and outputs keep their names, shapes and encodings; positions from ArgMax are exact
    float32 numbers.  Records, which refer to layers, are dropped, but those about UDOs.
    ``metadata["layers"]`` maps the name of each op to the id of its layer.

    Args:
        model: The content of a container of format 3.

    Raises:
        UnsupportedOp: If a layer cannot be translated; several make a ProblemList.
        ConstraintError: If the result breaks an OpDef.
    """
    problems: list[XdlcError] = []
    result = Model(metadata={key: model.metadata[key] for key in KEPT if key in model.metadata})
    layers = result.metadata.setdefault("layers", {})
    result.records = {name: data for name, data in model.records.items() if is_about_udo(name)}
    for graph in model.graphs.values():
        result.add_graph(_graph(graph, problems, layers))
    for problem in problems:
        problem.where = ": ".join(filter(None, (where, problem.where)))
    raise_all(problems, where=where)
    for graph in result.graphs.values():
        graph.verify()
        raise_all(verify_graph(graph), where=where)
    return result


def _graph(source: Graph, problems: list[XdlcError], layers: dict[str, int]) -> Graph:
    graph = Graph(source.name)
    tensors: dict[Tensor, Tensor] = {}
    for tensor in source.inputs:
        tensors[tensor] = graph.add_input(_copy(tensor))
    for op in source.ops:
        last = graph.last
        try:
            _layer(op, graph, tensors)
        except XdlcError as problem:
            problems.append(problem)
        layers.update((made.name, op.param("layer_id", 0)) for made in graph.since(last))
    for tensor in source.outputs if not problems else ():
        graph.add_output(tensors[tensor])
    return graph


def _layer(op: Op, graph: Graph, tensors: dict[Tensor, Tensor]) -> None:
    for output in op.outputs:
        tensors[output] = _copy(output)
    prefix = f"{op.name}."
    weights, inputs = {}, []
    for tensor in op.inputs:
        if tensor is not None and tensor.is_static and tensor.name.startswith(prefix):
            weights[tensor.name.removeprefix(prefix)] = _copy(tensor)
        elif tensor is not None:
            if tensor not in tensors:  # a static tensor of another name than the layer's weights
                tensors[tensor] = _copy(tensor)
            inputs.append(tensors[tensor])
    function = restore_operation if is_stored_operation(op) else load_all().get(op.type)
    if function is None:
        raise UnsupportedOp(
            f"xdlc does not support layers of type {op.type}",
            where=f"layer {op.name!r} ({op.type})",
            fix=nearest_names(op.type, load_all())
            or "convert the source model again, with a newer converter",
        )
    function(Layer(op, graph, inputs, weights, [tensors[output] for output in op.outputs]))


def _copy(tensor: Tensor) -> Tensor:
    role = Role.STATIC if tensor.is_static else Role.NATIVE
    return Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.encoding, tensor.data, role)
