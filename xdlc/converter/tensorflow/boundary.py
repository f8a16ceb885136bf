"""Boundary of a TensorFlow model: which values are inputs and outputs, and names.

An input is named as its node, ``x``; an output as its tensor, ``Identity:0``.  Those of a signature are named
by its keys, with ``:0`` for an output whose key is an input's too.  Options take ``x`` and ``x:0`` alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from xdlc import ir
from xdlc.converter.session.boundary import UNNAMED
from xdlc.converter.session.node import GraphInput, Labels, Node, SourceGraph
from xdlc.converter.tensorflow.content import Content, needed_nodes
from xdlc.converter.tensorflow.graphs import Flat
from xdlc.converter.tensorflow.nodes import data_inputs, port, text
from xdlc.converter.tensorflow.tensors import ir_dtype
from xdlc.errors import ModelError, UsageError, nearest_names
from xdlc.options import spell

PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
DEFAULTED = "PlaceholderWithDefault"
SCALAR_SINCE = 24
"""Version of graphs since which a placeholder of an empty shape is a scalar, and not of any shape."""
_IDLE = ("Const", "NoOp", "Assert", "Print", "PrintV2")
_TRAINING = (
    "Summary",
    "Assign",
    "Apply",
    "Variable",
    "VarHandleOp",
    "VarIsInitialized",
    "Queue",
    "Save",
    "Restore",
)
_TYPES = ("DstT", "output_type", "out_type", "dtype", "T")
"""Attributes that state the type of an operator's results, the first that it has."""
_LISTS = ("Tdense", "output_types", "component_types")
"""Attributes that state those of an operator's last results, one by one."""
_TRUTHS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
_SHOWN = 8


@dataclass(slots=True)
class Boundary:
    """Values of a model at its boundary.

    Attributes:
        inputs: Name of the value by name of the input, those of a signature; of the others, placeholders.
        outputs: Name of the value by name of the output.
        shapes: Dimensions of inputs that a signature states, by name.
        dtypes: Their data types as TensorFlow names them.
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
    lists_unused: bool = False,
) -> SourceGraph:
    """Return the graph between the boundary's values.

    Args:
        boundary: Inputs and outputs that the file states.
        out_names: Values at which the graph ends instead.
        input_names: Values at which it begins also.
        variable: Returns the elements of a variable, or the name of its initial value.
        notices: Gets what the user should know.
        lists_unused: Whether that includes the nodes that no output needs.

    Raises:
        UsageError: If there is no such value.
        ModelError: If the graph contradicts itself.
    """
    outputs = dict(boundary.outputs)
    if not outputs and not out_names:
        outputs = terminal_outputs(content, boundary, notices)
    requested = {name: outputs.get(name) or outputs.get(f"{name}:0") or str(port(name)) for name in out_names}
    for name in sorted(boundary.inputs.keys() & outputs.keys()):
        outputs = {f"{key}:0" if key == name else key: value for key, value in outputs.items()}
        notices.append(f"xdlc names output {name!r} '{name}:0': an input has its name")
    cut = dict(boundary.inputs)
    cut |= {str(port(name)): str(port(name)) for name in input_names if str(port(name)) not in cut}
    flat = Flat(content, variable)
    starts = [value for value in (*requested.values(), *cut.values()) if port(value).node in content.nodes]
    flat.add_main([*outputs.values(), *starts], cut.values())
    ends = requested or outputs
    for name, value in (*ends.items(), *cut.items()):
        if not flat.has(value) and value in (boundary.outputs.get(name), boundary.inputs.get(name)):
            problem = (
                f"the signature names value {value!r} as {name!r}, but the graph does not have this value"
            )
            raise ModelError(problem, where=content.path, fix="save the model again")
        if not flat.has(value):
            near = nearest_names(name, [*content.nodes, *(node.own_name for node in flat.nodes)])
            raise UsageError(
                f"the model has no value {name!r}", where=content.path, fix=near or "name a node of the graph"
            )
    if requested:
        outputs = {_output_name(name, value, boundary): value for name, value in requested.items()}
    graph = flat.finish(cut.values(), list(outputs.values()))
    if lists_unused:
        unused = _unused(content, list(outputs.values()), set(cut.values()))
        notices.append(f"no output needs {len(unused)} nodes: {', '.join(unused) or 'none'}")
    cut = {name: flat.final(value) for name, value in cut.items()}
    _add_inputs(graph, content.path, boundary, cut, {node.own_name: node for node in flat.nodes})
    _name_boundary(graph, cut, list(outputs))
    for node in graph.nodes:
        if node.type == DEFAULTED:
            name = node.own_name
            option = f"{spell('set_inputs')} {quote(name)} VALUE"
            own = f", {spell('input_dims')} {quote(name)} DIMS makes it an input"
            more = "" if node.attributes.get("shape") == () else own
            notices.append(f"xdlc uses the default value of input {name!r}: {option} sets another{more}")
    if flat.assigned:
        names = ", ".join(sorted(flat.assigned)[:_SHOWN])
        notices.append(
            f"the model assigns to {len(flat.assigned)} of its variables at run time, {names}: the DLC "
            "keeps their values from the file"
        )
    return graph


def _unused(content: Content, outputs: Sequence[str], cut: set[str]) -> list[str]:
    """Return the names of the nodes of the main graph that no output needs."""
    starts = []
    for value in outputs:  # one inside of a function has the name of the call before its own
        parts = port(value).node.split("/")
        heads = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        starts += [head for head in heads if head in content.nodes][:1]
    used = set(needed_nodes(content.nodes, starts, cut))
    return [name for name in content.nodes if name not in used]


def terminal_outputs(content: Content, boundary: Boundary, notices: list[str]) -> dict[str, str]:
    """Return the end values of a graph that states no outputs.

    They are computed from inputs and read by nothing.

    Nodes of training and logging count neither as ends nor as readers.

    Raises:
        ModelError: If there are none.
    """
    computing = {
        name: node
        for name, node in content.nodes.items()
        if (op := text(node.op)) not in _IDLE and not any(word in op for word in _TRAINING)
    }
    read = {port(value).node for node in computing.values() for value in data_inputs(node)}
    readers: dict[str, list[str]] = {}
    for name, node in computing.items():
        for value in data_inputs(node):
            readers.setdefault(port(value).node, []).append(name)
    pending = [name for name, node in computing.items() if text(node.op) in PLACEHOLDERS]
    reached = set(pending) if pending else set(computing)
    while pending:
        new = [name for name in readers.get(pending.pop(), ()) if name not in reached]
        reached.update(new)
        pending += new
    ends = [
        name
        for name, node in computing.items()
        if name in reached and name not in read and any(data_inputs(node)) and not _is_pivot(node, content)
    ]
    if not ends:  # nothing is computed of the inputs, which stay
        boundary.inputs |= {name: name for name in computing if text(computing[name].op) in PLACEHOLDERS}
        ends = [name for name, node in computing.items() if name not in read and any(data_inputs(node))]
    if not ends:
        fix = f"name the nodes to end at: {spell('out_node')}"
        raise ModelError(
            "the graph has no last node: other nodes read each node", where=content.path, fix=fix
        )
    if len(ends) > 1:
        shown = ", ".join(ends[:_SHOWN]) + (f" and {len(ends) - _SHOWN} more" if len(ends) > _SHOWN else "")
        notices.append(
            f"the graph states no outputs: xdlc outputs the nodes that nothing reads, {shown}; "
            f"{spell('out_node')} chooses others"
        )
    return {f"{name}:0": name for name in ends}


def _is_pivot(node: Any, content: Content) -> bool:
    """Return whether a node only marks a side of a conditional."""
    source = content.nodes.get(port(next(data_inputs(node))).node)
    return text(node.op) == "Identity" and source is not None and text(source.op) == "Switch"


def _output_name(name: str, value: str, boundary: Boundary) -> str:
    if name in boundary.outputs:
        return f"{name}:0" if name in boundary.inputs else name
    held = port(value)
    return f"{held.node}:{held.number}"


def _add_inputs(
    graph: SourceGraph, path: str, boundary: Boundary, cut: Mapping[str, str], nodes: Mapping[str, Node]
) -> None:
    """Make inputs of the values that are cut, and of the placeholders that remain."""
    names = {value: name for name, value in cut.items()}
    kept = []
    for node in graph.nodes:
        if node.type in PLACEHOLDERS:
            names.setdefault(node.outputs[0], node.outputs[0])
        elif len(node.outputs) > 1 or node.outputs[0] not in names:
            kept.append(node)
    for value, name in names.items():
        producer = nodes.get(port(value).node)
        stated, dims = (
            _declared(producer, port(value).number, boundary) if producer is not None else ("float32", None)
        )
        dtype = ir_dtype(boundary.dtypes.get(name, stated), f"{path}: input {name!r}")
        graph.inputs = [*graph.inputs, GraphInput(value, dtype, boundary.shapes.get(name, dims))]
    for node in kept:
        node.outputs = [f"{name}/replaced" if name in names else name for name in node.outputs]
    graph.nodes = kept


def _declared(node: Node, number: int, boundary: Boundary) -> tuple[str, Labels | None]:
    """Return the data type and dimensions of a node output that becomes an input."""
    attributes = node.attributes
    lists = (attributes.get(name) for name in _LISTS)
    parsed = next((held for held in lists if isinstance(held, list)), [])
    dense = number - len(node.outputs) + len(parsed)
    if 0 <= dense < len(parsed):
        dtype = parsed[dense]
    elif node.type in _TRUTHS or node.type.startswith("Logical"):
        dtype = "bool"
    else:
        found = (attributes[name] for name in _TYPES if isinstance(attributes.get(name), str))
        dtype = next(found, "float32")
    shape = attributes.get("shape") if node.type in (*PLACEHOLDERS, DEFAULTED) else _stated(node, number)
    if not isinstance(shape, tuple) or (shape == () and boundary.version < SCALAR_SINCE):
        return dtype, None
    return dtype, [UNNAMED if size is None else size for size in shape]


def _stated(node: Node, number: int) -> tuple[int | None, ...] | None:
    """Return the dimensions that the graph states of an output; None if none."""
    found = node.stated[number] if number < len(node.stated) else None
    return None if found is None else tuple(found)


def _name_boundary(graph: SourceGraph, cut: Mapping[str, str], outputs: Sequence[str]) -> None:
    """Name inputs and outputs; rename other values with the same names.

    Args:
        graph: The graph, which is changed.
        cut: Values of inputs by name.
    """
    ends = zip(outputs, graph.outputs, strict=True)
    renamed = {value: name for name, value in cut.items()}
    reserved = {*cut, *(name for name, value in ends if name != value)}
    values = {name for node in graph.nodes for name in node.outputs} | set(graph.constants)
    values.update(entry.name for entry in graph.inputs)
    for name in sorted(values & reserved - set(renamed)):
        other = f"{name}/value"
        while other in values:
            other += "_"
        renamed[name] = other
        values.add(other)
    for node in graph.nodes:
        node.names = [renamed.get(name, name) for name in node.names]
        node.outputs = [renamed.get(name, name) for name in node.outputs]
    graph.inputs = [entry._replace(name=renamed.get(entry.name, entry.name)) for entry in graph.inputs]
    graph.constants = {renamed.get(name, name): data for name, data in graph.constants.items()}
    results = [renamed.get(value, value) for value in graph.outputs]
    graph.nodes = [
        *graph.nodes,
        *(
            Node("Identity", [value], [name], {}, name)
            for name, value in zip(outputs, results, strict=True)
            if name != value
        ),
    ]
    graph.outputs = list(outputs)
