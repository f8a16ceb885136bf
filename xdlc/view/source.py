"""Source models as content of the page: the nodes of a file as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.content.inspection import source_nodes
from xdlc.converter.pipeline import SourceModel
from xdlc.converter.session.node import Node, SourceGraph
from xdlc.converter.values import Spec
from xdlc.errors import XdlcError
from xdlc.ir import Model, TensorData
from xdlc.view.content import Side, vanished
from xdlc.view.graphs import REFUSED, short_value
from xdlc.view.overlays import Overlay, Value
from xdlc.view.scopes import path_of, scopes
from xdlc.view.statistics import Record, data_statistics

_NO_SPEC = Spec(None, None)
MOST_VALUES = 16
"""Values of an attribute that the page shows."""


def source_side(
    source: SourceModel,
    model: Model | None,
    *,
    name: str,
    kind: str,
    nbytes: int,
    problems: Sequence[XdlcError] = (),
) -> Side:
    """Return the side of the page of a source model.

    Args:
        source: The file as its reader returns it.
        model: The model that came from it, with the reasons for nodes without ops; None: there is none.
        nbytes: Its size in bytes.
        problems: Why no model came from it.
    """
    specs = source.declared.inferred()
    graphs: list[SourceGraph] = []
    titles: list[str] = []
    bodies: dict[int, list[int]] = {}
    _collect(source.graph, name, graphs, titles, bodies)
    contents = [
        _SourceContent(graph, specs).as_dict(title, bodies)
        for graph, title in zip(graphs, titles, strict=True)
    ]
    places = node_places(contents)
    nodes = source_nodes(model) if model is not None else []
    for error in problems:
        if error.node in places:
            number, place = places[error.node]
            contents[number]["ops"][place][-1] |= REFUSED
    return {
        "file": name,
        "kind": kind,
        "bytes": nbytes,
        "facts": [
            ("nodes", f"{sum(len(graph.nodes) for graph in graphs):,}"),
            ("constants", f"{len(source.graph.constants):,}"),
            *(("input", port) for port in _ports(contents[0], "inputs")),
            *(("output", port) for port in _ports(contents[0], "outputs")),
            *source.arguments.items(),
        ],
        "records": vanished(nodes),
        "problems": [
            [error.problem, *places.get(error.node or "", (None, None))]
            for error in dict.fromkeys((*problems, *source.graph.problems.values()))
        ],
        "graphs": contents,
        "overlays": [_fate_overlay(contents, nodes)] if nodes else [],
    }


def _ports(graph: Record, side: str) -> Iterator[str]:
    """Yield the inputs or outputs of a graph in words: name, data type and shape."""
    for name, dtype, shape, *_ in (graph["tensors"][place] for place in graph[side]):
        dims = "x".join("?" if size is None else str(size) for size in shape or ())
        form = " ".join(filter(None, (dtype, dims)))
        yield f"{name}: {form}" if form else name


def _collect(
    graph: SourceGraph, title: str, graphs: list[SourceGraph], titles: list[str], bodies: dict[int, list[int]]
) -> None:
    """Add a graph and those inside its nodes to the lists."""
    graphs.append(graph)
    titles.append(title)
    for node in graph.nodes:
        for inner in node.graphs():
            bodies.setdefault(id(node), []).append(len(graphs))
            _collect(inner, f"{node.own_name}: body", graphs, titles, bodies)


def node_places(graphs: Sequence[Record]) -> dict[str, tuple[int, int]]:
    """Return the graph and the index of each node by its name."""
    places: dict[str, tuple[int, int]] = {}
    for number, graph in enumerate(graphs):
        for place, op in enumerate(graph["ops"]):
            places.setdefault(op[0], (number, place))
    return places


def links(graphs: Sequence[Record], model: Model) -> Iterator[list[int]]:
    """Yield pairs of a source node and its op: graph and index of each."""
    places = node_places(graphs)
    for number, graph in enumerate(model.graphs.values()):
        for place, op in enumerate(graph.ops):
            for node in op.origin.nodes:
                if node in places:
                    yield [*places[node], number, place]


def _fate_overlay(graphs: Sequence[Record], nodes: Sequence[Mapping[str, Any]]) -> Record:
    """Return the overlay of nodes with and without ops."""
    by_name = {node["name"]: node for node in nodes}
    values: list[list[Value]] = []
    notes: list[dict[int, str]] = []
    for graph in graphs:
        fates = [by_name.get(op[0]) for op in graph["ops"]]
        values.append([None if fate is None else "ops" if fate["ops"] else "no op" for fate in fates])
        notes.append(
            {
                place: ", ".join(fate["ops"][:MOST_VALUES]) or fate.get("reason", "")
                for place, fate in enumerate(fates)
                if fate is not None
            }
        )
    help = "Whether the DLC has ops that came from the node."
    colors = {"ops": "c1", "no op": "c2"}
    return Overlay("fate", "nodes with ops", help, values, colors=colors, notes=notes).as_dict()


class _SourceContent:
    """Content of one graph of a source model."""

    def __init__(self, graph: SourceGraph, specs: Mapping[str, Spec]) -> None:
        self._graph, self._specs = graph, specs
        self._places: dict[str, int] = {}
        self._tensors: list[list[Any]] = []
        self._types: dict[str, int] = {}
        self._stats: list[Record] = []
        self._outputs = set(graph.outputs)

    def as_dict(self, title: str, bodies: Mapping[int, list[int]]) -> Record:
        graph = self._graph
        inputs = [entry for entry in graph.inputs if entry.name not in graph.constants]
        for entry in inputs:
            dtype = "" if entry.dtype is None else entry.dtype.name
            self._add(entry.name, dtype, entry.dims, "input")
        order = scopes([path_of(node.own_name, node.module) for node in graph.nodes])
        ops = []
        for place, node in enumerate(graph.nodes):
            reads = [self._place(name) for name in node.names]
            writes = [
                self._place(name, node.stated[position] if position < len(node.stated) else None)
                for position, name in enumerate(node.outputs)
                if name
            ]
            inner = bodies.get(id(node), 0)
            attributes = {key: attribute_text(value) for key, value in _attributes(node).items()}
            kind = self._types.setdefault(node.full_type, len(self._types))
            ops.append(
                [node.own_name, kind, order.of_ops[place], reads, writes, attributes, [], 0, inner, 0, 0]
            )
        return {
            "name": title,
            "tensors": self._tensors,
            "stats": self._stats,
            "inputs": [self._places[entry.name] for entry in inputs],
            "outputs": [self._place(name) for name in graph.outputs],
            "scopes": order.rows,
            "types": list(self._types),
            "ops": ops,
        }

    def _place(self, name: str, stated: Sequence[int | None] | None = None) -> int:
        """Return the index of a value, which is added when it is new; -1 without a name."""
        if not name:
            return -1
        if name in self._places:
            return self._places[name]
        if name in self._graph.constants:
            return self._constant(name)
        spec = self._specs.get(name, _NO_SPEC)
        shape = spec.shape if stated is None else stated
        role = "output" if name in self._outputs else "native"
        return self._add(name, _dtype_name(spec.dtype), shape, role)

    def _constant(self, name: str) -> int:
        try:
            data = self._graph.constants[name]
        except XdlcError as error:
            return self._add(name, "", None, "static", note=error.problem)
        return self._add(name, _dtype_name(data.dtype), data.shape, "static", record=data_statistics(data))

    def _add(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int | str | None] | None,
        role: str,
        *,
        record: Record | None = None,
        note: str = "",
    ) -> int:
        if record is not None:
            self._stats.append(record)
        dims = (
            None
            if shape is None
            else [size if isinstance(size, int) and size >= 0 else None for size in shape]
        )
        self._places[name] = len(self._tensors)
        self._tensors.append([name, dtype, dims, role, note or 0, len(self._stats) if record else 0])
        return self._places[name]


def _dtype_name(dtype: Any) -> str:
    if dtype is None:
        return ""
    try:
        return ir.dtype.from_numpy(dtype).name
    except TypeError:
        return str(dtype)


def _attributes(node: Node) -> dict[str, Any]:
    """Return the attributes of a node; graphs inside it are not among them."""
    return dict(node.attributes) if node.load is None else {**node.attributes, **node.load(False)}


def attribute_text(value: Any) -> Any:
    """Return an attribute as the page shows it."""
    if isinstance(value, TensorData):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, list | tuple) or hasattr(value, "tolist"):
        values = value if isinstance(value, list | tuple) else value.reshape(-1).tolist()
        shown = [attribute_text(each) for each in values[:MOST_VALUES]]
        more = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
        return f"{short_value(shown)}{more}"
    if isinstance(value, SourceGraph):
        return f"graph of {len(value.nodes)} nodes"
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return short_value(value)
    return type(value).__name__
