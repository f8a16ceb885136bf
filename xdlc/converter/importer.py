"""Import of a source graph of any framework, whose handlers apply canonical operators to its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from xdlc import ir
from xdlc.converter.operators.applying import Operators, unmapped
from xdlc.converter.operators.handlers import Handlers
from xdlc.converter.pipeline import Imported, Options, Step, finish
from xdlc.converter.session.boundary import (
    DeclaredInput,
    Labels,
    add_input,
    add_outputs,
    check_outputs,
    input_shapes,
    with_batch_of_one,
)
from xdlc.converter.session.context import ImportContext, Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.session.node import Body, Node
from xdlc.converter.session.ordering import SOURCE, ordered, wants_channel_last
from xdlc.converter.session.ordering import Step as Link
from xdlc.converter.session.set_inputs import fixed_inputs, in_words
from xdlc.converter.udo.nodes import Declarations, UdoNodes, Undeclared
from xdlc.errors import UnsupportedOp, XdlcError, nearest_names

_MOST_NEAR = 64
"""Most operators without a mapping whose nearest names are looked for, which takes a millisecond each."""


class GraphInput(NamedTuple):
    """An input of a source graph.

    Attributes:
        name: Its name.
        dtype: Its data type.
        dims: Its dimensions, symbols for dynamic ones; None if the source states none.
    """

    name: str
    dtype: ir.DType
    dims: Labels | None = None


class GraphState(NamedTuple):
    """A variable of a source graph, which becomes an input and an output of the model.

    Attributes:
        name: Its name.
        read: Name of the input that holds its value before a run.
        written: Name of the value that it has after a run.
        initial: Its value before the first run: a number, or nested lists.
    """

    name: str
    read: str
    written: str
    initial: Any = 0


@dataclass(slots=True)
class SourceGraph:
    """A graph as the reader of a framework returns it.

    Attributes:
        inputs: Its inputs, those of states among them.
        outputs: Names of its outputs.
        nodes: Its nodes in any order; attributes that are graphs are ``SourceGraph``.
        constants: Stored tensors by name, lazy.
        states: Its variables.
        problems: Errors by the name that has no value for it.
        aliases: Names of values by further names that the source has for them.
    """

    inputs: Sequence[GraphInput]
    outputs: Sequence[str]
    nodes: Sequence[Node]
    constants: Mapping[str, ir.TensorData] = field(default_factory=dict)
    states: Sequence[GraphState] = ()
    problems: Mapping[str, XdlcError] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def all_nodes(self) -> Iterator[Node]:
        """Iterate over the nodes, and over those of the graphs inside them."""
        for node in self.nodes:
            yield node
            for graph in _graphs(node):
                yield from graph.all_nodes()

    def reads(self) -> set[str]:
        """Return the names that the graph reads of the graphs around it."""
        made = {entry.name for entry in self.inputs} | set(self.constants)
        made.update(name for node in self.nodes for name in node.outputs)
        read = {name for node in self.nodes for name in _reads(node)} | set(self.outputs)
        return read - made - {""}


def convert_graph(
    graph: SourceGraph,
    source: Source,
    handlers: Handlers,
    tool: str,
    options: Mapping[str, Any],
    *,
    nbytes: int = 0,
    declared: Declarations | None = None,
    notices: Sequence[str] = (),
    encoded_io: bool = False,
    batch_of_one: bool = False,
    arguments: Mapping[str, str] | None = None,
    diagnostics: Diagnostics | None = None,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
) -> ir.Model:
    """Return the model of a source graph.

    Args:
        graph: The graph.
        source: The file that it was read from.
        handlers: Handlers of the framework.
        tool: Name of the tool that the history records.
        options: Options of every conversion (``pipeline.Options``), and ``set_inputs``.
        nbytes: Size of the source, in proportion to which constants are folded.
        declared: Types that the source states of its values, for UDOs.
        notices: What the user should know of the reading.
        encoded_io: Whether the inputs and outputs that become fixed point are those that are integers with
            an encoding.
        batch_of_one: Whether an open first dimension is 1 unless options state shapes.
        arguments: Options of the framework alone, for the history.
        diagnostics: Collects the problems, which are then not raised.
        notify: Called with each notice; default: the log.
        step: Progress callback.

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    given = {name: value for name, value in options.items() if value is not None}
    values = given.pop("set_inputs", {})
    chosen, found = Options(**given), diagnostics or Diagnostics()
    chosen.check()
    found.notices += notices
    inputs = [DeclaredInput(entry.name, entry.dims) for entry in graph.inputs]
    if batch_of_one and chosen.batch is None and not chosen.input_dims:
        inputs = with_batch_of_one(inputs, found.notices)
    shapes = input_shapes(
        inputs,
        source.path,
        input_dims=chosen.input_dims,
        symbols=chosen.define_symbol,
        batch=chosen.batch,
        fixed=values,
    )
    dtypes = {entry.name: entry.dtype.numpy for entry in graph.inputs}
    fixed = fixed_inputs(dtypes, shapes, values, source.path)
    for name, array in fixed.items():
        found.notices.append(f"input {name!r} is fixed to {in_words(array)}: it is no input of the result")
    importing = _GraphImport(graph, source, handlers, chosen, found, nbytes, declared)
    importing.constants.update((name, ir.ArrayData(array)) for name, array in fixed.items())
    model = importing.run(shapes, step)
    own = {f"set_input {name}": in_words(array) for name, array in fixed.items()} | dict(arguments or {})
    imported = Imported(
        model,
        source.path,
        tool,
        inputs,
        arguments=own,
        encoded_io=encoded_io,
        channels=source.channels,
    )
    return finish(imported, found, chosen, collects=diagnostics is not None, notify=notify, step=step)


class _GraphImport:
    """Import of one source graph.

    Attributes:
        constants: Constants of the main graph.
    """

    def __init__(
        self,
        graph: SourceGraph,
        source: Source,
        handlers: Handlers,
        options: Options,
        diagnostics: Diagnostics,
        nbytes: int,
        declared: Declarations | None,
    ) -> None:
        self.constants = dict(graph.constants)
        self._graph = graph
        ends = options.out_name or [*graph.outputs, *(state.written for state in graph.states)]
        self._ends = [graph.aliases.get(name, name) for name in ends]
        self._handlers = handlers
        self._near: dict[str, str] = {}
        context = self._context = ImportContext(source, diagnostics)
        types = ((node.domain, node.type) for node in graph.all_nodes())
        self._udos = UdoNodes(
            context,
            options.udos,
            self._is_native,
            lambda: declared or Undeclared(),
            types,
            handlers.is_optional,
        )
        self._operators = Operators(
            context,
            lambda: nbytes,
            unroll_loops=options.unroll_loops,
            random_inputs=options.random is not None,
        )

    def _is_native(self, domain: str, type: str) -> bool:
        return self._handlers.find(domain, type) is not None

    def run(self, shapes: Mapping[str, Sequence[int | None]], step: Step | None) -> ir.Model:
        """Return the IR of the graph, or what could be imported of it."""
        context, graph, ends = self._context, self._graph, self._ends
        nodes = self.ordered(graph, ends)
        context.diagnostics.problems += dict.fromkeys(graph.problems.values())
        context.frame.unresolved.update(graph.problems)
        self.add_constants(self.constants)
        for entry in graph.inputs:
            if entry.name not in self.constants:
                add_input(context, entry.name, shapes[entry.name], entry.dtype)
        for number, node in enumerate(nodes, 1):
            self.import_node(node)
            if step is not None:
                step("importing", number, len(nodes))
        context.diagnostics.notices += self._udos.contradictions()
        for state in graph.states:
            if state.read in self.constants or state.written not in ends:
                continue
            context.diagnostics.states[state.read] = {"output": state.written, "initial": state.initial}
            context.diagnostics.notices.append(
                f"variable {state.name!r}: output {state.written!r} is the next value of input {state.read!r}"
            )
        check_outputs(context, ends, [name for node in graph.nodes for name in node.outputs if name])
        needed, final = set(map(id, nodes)), set(ends)
        for node in graph.nodes:
            inner = [each for held in _graphs(node) for each in held.all_nodes()]
            context.diagnostics.note_node(context.frame, final, node, id(node) in needed, inner)
        add_outputs(context, ends)
        others = {other: context.values.get(name) for other, name in graph.aliases.items()}
        context.diagnostics.note_values({**context.values, **others})
        return ir.Model(context.graphs)

    def ordered(self, graph: SourceGraph, ends: Sequence[str]) -> list[Node]:
        """Return the nodes that values of a graph need, producers first, layouts wanted."""
        links = [Link(node.own_name, list(_reads(node)), node.outputs) for node in graph.nodes]
        nodes = [graph.nodes[index] for index in ordered(links, ends, self._context.source.path)]
        read = {name for link in links for name in link.reads}
        self._operators.read = {*self._operators.read, *ends, *read}
        self._context.wanted |= wants_channel_last(
            (self._layout(node), node.names, node.outputs) for node in nodes
        )
        return nodes

    def _layout(self, node: Node) -> str:
        handler = self._handlers.find(node.domain, node.type)
        return SOURCE if handler is None or self._udos.covers_surely(node) else handler.layout

    def add_constants(self, constants: Mapping[str, ir.TensorData]) -> None:
        """Bind stored tensors."""
        for name, data in constants.items():
            self._context.bind_constant(name, lambda data=data: data)  # type: ignore[misc]

    def import_node(self, node: Node) -> None:
        """Bind the outputs of a node, or report why they have no value."""
        context, where = self._context, self._context.place(node)
        handler = self._handlers.find(node.domain, node.type)
        is_known = handler is not None or self._udos.covers(node)
        if not context.resolve_inputs(node, where):
            if not is_known:
                context.invalidate(node, self._no_mapping(node, where))
            return
        with context.reporting(node, where):
            if not is_known or node.type in context.diagnostics.requested:
                raise self._no_mapping(node, where)
            attributes = {
                name: _GraphBody(self, value) if isinstance(value, SourceGraph) else value
                for name, value in node.attributes.items()
            }
            node = replace(node, attributes=attributes, read=set())  # a loop may import it several times
            context.begin(node)
            with context.entered(owner=node, stands_in=True):
                if self._udos.import_node(node, where):
                    return
                if handler is None:
                    raise self._no_mapping(node, where)
                results = handler.function(node, self._operators)
                optional = filter(self._handlers.is_optional, node.attributes)
                node.check_read(handler.ignores.union(optional))
                context.accept(node, list(results) if isinstance(results, Sequence) else [results], where)
                context.resolve_stated(node)

    def _no_mapping(self, node: Node, where: str) -> UnsupportedOp:
        refusal = unmapped(node, where)
        reason = "" if node.domain else self._handlers.reason(node.type)
        refusal.problem += f": {reason}" if reason else ""
        if node.type not in self._near and len(self._near) < _MOST_NEAR:
            names = [name for _, name in self._handlers.all()]
            self._near[node.type] = nearest_names(node.type, names, most=1, cutoff=0.85)
        near = self._near.get(node.type, "")
        refusal.fix = f"{near}; or {refusal.fix}" if near and not reason else refusal.fix
        other = self._udos.uncovered(node, where)
        refusal.fix = f"{other}; or {refusal.fix}" if other else refusal.fix
        return refusal


class _GraphBody(Body):
    """A source graph inside a node, whose nodes another import imports."""

    def __init__(self, importing: _GraphImport, graph: SourceGraph) -> None:
        super().__init__([entry.name for entry in graph.inputs], graph.outputs)
        self._importing = importing
        self._graph = graph
        self._producers: dict[str, Node] | None = None

    @property
    def size(self) -> int:
        """Number of nodes."""
        return sum(1 for _ in self._graph.all_nodes())

    def producer(self, name: str) -> Node | None:
        """Return the node that computes a value."""
        if self._producers is None:
            self._producers = {output: node for node in self._graph.nodes for output in node.outputs}
        return self._producers.get(name)

    def operands(self, name: str) -> Sequence[str] | None:
        """Return the names that a value is computed from, none if it is known; None if not computed here."""
        node = self.producer(name)
        if node is None:
            return () if name in self._graph.constants else None
        return list(_reads(node))

    def add_constants(self, context: ImportContext) -> None:
        """Bind the stored tensors."""
        self._importing.add_constants(self._graph.constants)

    def add_nodes(self, context: ImportContext) -> None:
        """Import the nodes as nodes of the source."""
        with context.entered(owner=None, stands_in=False):
            for node in self._importing.ordered(self._graph, self.outputs):
                self._importing.import_node(node)


def _graphs(node: Node) -> Iterator[SourceGraph]:
    yield from (value for value in node.attributes.values() if isinstance(value, SourceGraph))


def _reads(node: Node) -> Iterator[str]:
    """Iterate over the names that a node and the graphs inside it read."""
    yield from node.names
    for graph in _graphs(node):
        yield from graph.reads()


__all__ = ["GraphInput", "GraphState", "SourceGraph", "convert_graph"]
