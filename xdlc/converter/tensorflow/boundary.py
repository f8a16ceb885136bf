"""Boundary of a TensorFlow model: which values are inputs and outputs, and how they are named.

An input is named as its node, ``x``; an output as its tensor, ``Identity:0``.  Those of a signature are named
by its keys.  Options take ``x`` and ``x:0`` alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdlc import ir
from xdlc.converter.importer import GraphInput, SourceGraph
from xdlc.converter.session.boundary import UNNAMED, Labels
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.graphs import NODES, Content, Flat, ir_dtype
from xdlc.converter.tensorflow.nodes import data_inputs, port, text
from xdlc.errors import ModelError, UsageError, nearest_names

PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
SCALAR_SINCE = 24
"""Version of graphs since which a placeholder of an empty shape is a scalar, and not of any shape."""
_IDLE = ("Const", "NoOp", "Assert", "Print", "PrintV2", "Restore", "RestoreV2", "SaveV2", "Placeholder")
_TRAINING = ("Summary", "Assign", "Apply", "Variable", "VarHandleOp", "VarIsInitialized", "Queue", "Save")
_SHOWN = 8


@dataclass(slots=True)
class Boundary:
    """Values of a model at its boundary.

    Attributes:
        inputs: Name of the value by name of the input, those of a signature; of the others, placeholders.
        outputs: Name of the value by name of the output.
        shapes: Dimensions of inputs that a signature states, by name.
        dtypes: Their data types as TensorFlow names them.
        version: Version of the graph.
    """

    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, Labels | None] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    version: int = 0


def source_graph(
    content: Content,
    boundary: Boundary,
    *,
    out_names: Sequence[str] = (),
    input_names: Sequence[str] = (),
    variable: Callable[[str], ir.TensorData | str],
    notices: list[str],
) -> SourceGraph:
    """Return the graph between the boundary's values.

    Args:
        content: The file.
        boundary: Inputs and outputs that the file states.
        out_names: Values at which the graph ends instead.
        input_names: Values at which it begins also.
        variable: Returns the elements of a variable, or the name of its initial value.
        notices: Gets what the user should know.

    Raises:
        UsageError: If there is no such value.
        ModelError: If the graph contradicts itself.
    """
    outputs = dict(boundary.outputs) or terminal_outputs(content, notices)
    wanted = {name: outputs.get(name) or outputs.get(f"{name}:0") or str(port(name)) for name in out_names}
    cut = dict(boundary.inputs)
    cut |= {str(port(name)): str(port(name)) for name in input_names if str(port(name)) not in cut}
    flat = Flat(content, [NODES], variable=variable)
    main = [value for value in wanted.values() if port(value).node in content.nodes]
    flat.add_main([*outputs.values(), *main], cut.values())
    if wanted:
        outputs = {_output_name(name, value, boundary): value for name, value in wanted.items()}
    values = {name for node in flat.nodes for name in node.outputs}
    for name, value in (*outputs.items(), *cut.items()):
        if flat.final(value) not in values and flat.final(value) not in flat.constants:
            near = nearest_names(name, [*content.nodes, *values])
            raise UsageError(f"there is no value {name!r}", where=content.path, fix=near or "name a node")
    graph = flat.finish(cut.values(), list(outputs.values()))
    _add_inputs(graph, content, boundary, cut)
    _name_boundary(graph, cut, list(outputs))
    return graph


def terminal_outputs(content: Content, notices: list[str]) -> dict[str, str]:
    """Return the values that nothing reads, which a graph ends at that states no outputs.

    Raises:
        ModelError: If there are none.
    """
    read = {port(name).node for node in content.nodes.values() for name in data_inputs(node)}
    ends = [
        name
        for name, node in content.nodes.items()
        if name not in read
        and (op := text(node.op)) not in _IDLE
        and not any(word in op for word in _TRAINING)
        and any(data_inputs(node))
    ]
    if not ends:
        fix = "name the nodes to end at: --out_node"
        raise ModelError("its graph has no node that nothing reads", where=content.path, fix=fix)
    if len(ends) > 1:
        shown = ", ".join(ends[:_SHOWN]) + (f" and {len(ends) - _SHOWN} more" if len(ends) > _SHOWN else "")
        notices.append(
            f"the graph states no outputs: it ends at the nodes that nothing reads, {shown}; "
            "--out_node chooses"
        )
    return {f"{name}:0": name for name in ends}


def _output_name(name: str, value: str, boundary: Boundary) -> str:
    if name in boundary.outputs:
        return name
    held = port(value)
    return f"{held.node}:{held.number}"


def _add_inputs(graph: SourceGraph, content: Content, boundary: Boundary, cut: Mapping[str, str]) -> None:
    """Make inputs of the values that are cut, and of the placeholders that remain."""
    inputs = []
    producers = {name: node for node in graph.nodes for name in node.outputs}
    given = {value: name for name, value in cut.items()}
    for value, name in given.items():
        node = producers.get(value)
        stated, dims = _declared(node, boundary) if node is not None else ("float32", None)
        dtype = ir_dtype(boundary.dtypes.get(name, stated), f"{content.path}: input {name!r}")
        inputs.append(GraphInput(value, dtype, boundary.shapes.get(name, dims)))
    kept = []
    for node in graph.nodes:
        if node.outputs[0] in given and len(node.outputs) == 1:
            continue
        if node.type in PLACEHOLDERS[:2]:
            stated, dims = _declared(node, boundary)
            inputs.append(
                GraphInput(
                    node.outputs[0], ir_dtype(stated, f"{content.path}: input {node.own_name!r}"), dims
                )
            )
        else:
            kept.append(node)
    for node in kept:
        node.outputs = [f"{name} of the model" if name in given else name for name in node.outputs]
    graph.inputs, graph.nodes = inputs, kept


def _declared(node: Node, boundary: Boundary) -> tuple[str, Labels | None]:
    """Return data type and dimensions of a value that becomes an input."""
    dtype = next(
        (
            node.attributes[name]
            for name in ("DstT", "output_type", "out_type", "dtype", "T")
            if isinstance(node.attributes.get(name), str)
        ),
        "float32",
    )
    shape = node.attributes.get("shape") if node.type in PLACEHOLDERS else None
    if shape == () and boundary.version < SCALAR_SINCE:
        shape = None
    dims = None if shape is None else [UNNAMED if size is None else size for size in shape]
    return dtype, dims


def _name_boundary(graph: SourceGraph, cut: Mapping[str, str], outputs: Sequence[str]) -> None:
    """Give inputs and outputs their names; other values of these names get another."""
    public = {value: name for name, value in cut.items() if name != value}
    ends = list(graph.outputs)
    taken = {*public.values(), *(name for name, value in zip(outputs, ends, strict=True) if name != value)}
    renamed = dict(public)
    used = {name for node in graph.nodes for name in node.outputs} | set(graph.constants) | taken
    for name in sorted(used & taken):
        if name not in public:
            other = name
            while other in used:
                other += "_"
            used.add(other)
            renamed[name] = other
    for node in graph.nodes:
        node.names = [renamed.get(name, name) for name in node.names]
        node.outputs = [renamed.get(name, name) for name in node.outputs]
    graph.inputs = [entry._replace(name=renamed.get(entry.name, entry.name)) for entry in graph.inputs]
    graph.constants = {renamed.get(name, name): data for name, data in graph.constants.items()}
    nodes = list(graph.nodes)
    for name, value in zip(outputs, ends, strict=True):
        value = renamed.get(value, value) if value not in taken or value in public else renamed[value]
        if name != value:
            nodes.append(Node("Identity", [value], [name], {}, name))
    graph.nodes, graph.outputs = nodes, list(outputs)
