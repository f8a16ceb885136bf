"""TensorFlow graphs as source graphs: needed nodes, calls inlined, names flat.

A call of a function becomes the nodes of its body, named ``call/node``.  A function that a node holds as an
attribute, as those of If and While, becomes a graph of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.converter.session.node import GraphInput, Node, SourceGraph
from xdlc.converter.tensorflow.content import (
    DEPTH,
    Content,
    body_port,
    broken,
    needed_nodes,
    output_count,
    output_names,
    waits_for,
)
from xdlc.converter.tensorflow.nodes import (
    SHAPES,
    Port,
    attribute_messages,
    attributes,
    data_inputs,
    port,
    text,
)
from xdlc.converter.tensorflow.v1_control_flow import rebuilt
from xdlc.converter.tensorflow.variables import VARIABLES
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.names import FreeNames

NODES = 1 << 16
"""Nodes of functions at most, each counted as often as it is called."""
GRAPH = 16
"""Nodes that a graph of its own counts as, beside its nodes."""
OUTPUTS = 1 << 19
"""Outputs of all nodes at most."""
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_CONSTANT = "Const"


class Flat:
    """A graph in the making: its nodes and constants under names of their own.

    Args:
        variable: Returns the elements of a variable, or the name of its initial value, by its node's name;
            None inside of functions, which have none of their own.
        around: The graph that holds this one, with which it shares what functions may expand to.

    Attributes:
        constants: Stored tensors by name.
        assigned: Names of the variables that functions assign to.
    """

    def __init__(
        self,
        content: Content,
        variable: Callable[[str], ir.TensorData | str] | None = None,
        around: Flat | None = None,
    ) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, ir.TensorData] = {}
        self.assigned: set[str] = set() if around is None else around.assigned
        self._content = content
        self._variable = variable
        self._left: dict[str, int] = {"nodes": NODES, "outputs": OUTPUTS} if around is None else around._left
        self._initial: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._used: set[str] = set()
        self._free_name = FreeNames(self._used)
        self._makers: dict[str, Node] = {}

    def add_main(self, values: Sequence[str], inputs: Iterable[str]) -> None:
        """Add the nodes of the main graph that values need.

        Args:
            inputs: Names of the values that come from outside, with the nodes that compute them not needed.
        """
        content, input_names = self._content, set(inputs)
        self._used.update(content.nodes)
        for name in needed_nodes(content.nodes, values, input_names, self._reads):
            self._add_node(content.nodes[name], name, lambda value: value, ())

    def add_body(
        self, name: str, arguments: Sequence[str], prefix: str, within: tuple[str, ...]
    ) -> list[str]:
        """Add the nodes of a function and return the names of its results.

        Args:
            arguments: Names of the values that it gets.
            prefix: Name of the call, which those of its nodes begin with; empty for none.
            within: Names of the functions around it.

        Raises:
            ModelError: If there is no such function, it does not fit the call, or functions nest too deep.
        """
        content, where = self._content, f"{self._content.path}: function {name!r}"
        function = content.functions.get(name)
        if function is None:
            raise broken("a node calls this function, but the file does not have it", where)
        if len(within) >= DEPTH:
            fix = "remove recursion: xdlc does not support functions that call themselves"
            raise ModelError(f"functions nest more than {DEPTH} levels deep", where=where, fix=fix)
        names = [text(arg.name) for arg in function.signature.input_arg]
        if len(names) > len(arguments):
            text_of = f"the function has {len(names)} arguments, but is called with {len(arguments)}"
            raise broken(text_of, where)
        bound = dict(zip(names, arguments, strict=False))
        nodes = {text(node.name): node for node in function.node_def}
        unique = {local: self._unique(f"{prefix}{local}") for local in nodes}
        ops = {local: text(node.op) for local, node in nodes.items()}

        def resolve(value: str) -> str:
            local = body_port(value, ops, content, where)
            if local.node in bound:
                return bound[local.node]
            if local.node not in unique:
                raise broken(f"the function reads {value!r}, which no node of the function computes", where)
            return str(Port(unique[local.node], local.number))

        returned = {text(entry.key): text(entry.value) for entry in function.ret}
        ends = []
        for arg in function.signature.output_arg:
            if text(arg.name) not in returned:
                raise broken(f"the function does not return {text(arg.name)!r}", where)
            ends.append(returned[text(arg.name)])
        inside = (*within, name)
        needed = needed_nodes(
            nodes, [str(body_port(end, ops, content, where)) for end in ends], set(bound), in_body=True
        )
        self._take("nodes", len(function.node_def))
        for node in function.node_def:
            if text(node.op).startswith("Assign") and (target := next(data_inputs(node), "")):
                self.assigned.add(self.final(resolve(target)))
        for local in needed:
            self._add_node(nodes[local], unique[local], resolve, inside)
        return [resolve(end) for end in ends]

    def finish(self, inputs: Iterable[str], outputs: Sequence[str]) -> SourceGraph:
        """Return the graph of all that was added and the outputs need, without inputs.

        Args:
            inputs: Names of values from which on nothing is needed but their own nodes.
        """
        ends_at = {self.final(name) for name in inputs}
        ends = [self.final(name) for name in outputs]
        for node in self.nodes:
            node.names = [self.final(name) for name in node.names]
        self._name_outputs(ends)
        producers = {name: node for node in self.nodes for name in node.outputs}
        kept: set[str] = set()
        reached: set[str] = set()
        pending = list(ends)
        while pending:
            name = pending.pop()
            if name in reached:
                continue
            reached.add(name)
            maker = producers.get(name)
            if maker is not None:
                kept.add(maker.own_name)
                pending += () if name in ends_at else maker.names
                if maker.type == "Merge":
                    anchors = (self._anchor(value) for value in maker.names)
                    pending += [anchor[0] for anchor in anchors if anchor is not None]
        nodes = [node for node in self.nodes if node.own_name in kept]
        ordered = {name: data for name, data in self.constants.items() if name in reached}
        graph = SourceGraph([], ends, nodes, ordered)
        graph.nodes, graph.outputs = rebuilt(graph, self._anchor, self._content.path)
        return graph

    def _anchor(self, name: str) -> tuple[str, int] | None:
        """Return predicate and side of the Switch that a node only waits for."""
        found = waits_for(self._content.nodes, name)
        return None if found is None else (self.final(found.node), found.number)

    # ------------------------------------------------------------------ nodes

    def _add_node(self, message: Any, name: str, resolve: Any, within: tuple[str, ...]) -> None:
        content, op = self._content, text(message.op)
        if name in self.constants:
            return
        if name in self._initial:
            self._aliases[name] = self._initial[name]
            return
        if op == _CONSTANT and self._add_constant(message, name):
            return
        values = attribute_messages(message)
        inputs = [str(port(resolve(value))) for value in data_inputs(message)]
        called = self._called(op, values)
        if called is not None:
            results = self.add_body(called, inputs, f"{name}/", within)
            self._aliases.update((str(Port(name, index)), value) for index, value in enumerate(results))
            return
        where = f"{content.path}: node {name!r}"
        attrs = attributes(
            {} if op == _CONSTANT else values,
            lambda tensor: content.data(tensor, where),
            lambda function: self._graph(text(function.name), within),
            where,
        )
        count = output_count(op, output_names(op, content.definitions), values)
        self._take("outputs", count)
        outputs = [str(Port(name, index)) for index in range(count)]
        stated = attrs.pop(SHAPES, [])
        shapes = [each if each is None else list(each) for each in stated if not isinstance(each, str)]
        self.nodes.append(Node(op, inputs, outputs, attrs, name, stated=shapes))

    def _reads(self, message: Any) -> Iterator[str]:
        """Iterate over the inputs of a main graph's node; set the value of a variable."""
        if text(message.op) in VARIABLES and self._variable is not None:
            name, initial = text(message.name), self._variable(text(message.name))
            if isinstance(initial, str):
                self._initial[name] = str(port(initial))
                yield initial
            else:
                self.constants[name] = initial
        yield from data_inputs(message)

    def _add_constant(self, message: Any, name: str) -> bool:
        """Add a constant; return whether that was possible (not for strings)."""
        try:
            self.constants[name] = self._content.constant(message)
        except UnsupportedOp:
            return False  # which is refused where a node reads it
        return True

    def _called(self, op: str, values: Mapping[str, Any]) -> str | None:
        """Return the name of the function that a node calls; None if it calls none."""
        if op in CALLS and "f" in values and values["f"].WhichOneof("kind") == "func":
            return text(values["f"].func.name)
        return op if op in self._content.functions else None

    def _graph(self, name: str, within: tuple[str, ...]) -> SourceGraph | str:
        """Return the graph of a function that a node calls."""
        function = self._content.functions.get(name)
        if function is None:
            return name
        self._take("nodes", GRAPH)
        inner = Flat(self._content, around=self)
        names = [inner._unique(text(each.name)) for each in function.signature.input_arg]
        graph = inner.finish((), inner.add_body(name, names, "", within))
        graph.inputs = [GraphInput(each, ir.dtype.FLOAT32) for each in names]  # a body takes any type
        return graph

    # ------------------------------------------------------------------ names

    def _unique(self, name: str) -> str:
        free = self._free_name(name)
        self._used.add(free)
        return free

    def final(self, name: str) -> str:
        """Return the name of a value; a call's result has its name in the function.

        Raises:
            ModelError: If it depends on itself.
        """
        passed = []
        end = name
        while end in self._aliases:
            passed.append(end)
            end = self._aliases[end]
            if end == name or len(passed) > len(self._aliases):
                raise broken(f"value {name!r} depends on itself", self._content.path)
        self._aliases.update(dict.fromkeys(passed, end))
        return end

    def has(self, value: str) -> bool:
        """Return whether a value exists, as far as operators state their outputs."""
        end = self.final(value)
        if not self._makers:
            self._makers.update({name: node for node in self.nodes for name in node.outputs})
        return end in self._makers or end in self.constants

    def _name_outputs(self, ends: Sequence[str]) -> None:
        """Add outputs to nodes with more outputs in use than their operators state."""
        producers = {node.own_name: node for node in self.nodes}
        for name in [*ends, *(name for node in self.nodes for name in node.names)]:
            source = port(name)
            node = producers.get(source.node)
            more = 0 if node is None else source.number + 1 - len(node.outputs)
            if node is not None and more > 0:
                self._take("outputs", more)
                node.outputs = [str(Port(source.node, index)) for index in range(source.number + 1)]

    def _take(self, what: str, count: int) -> None:
        """Count the nodes that functions expand to.

        Raises:
            ModelError: If it is too much.
        """
        self._left[what] -= count
        if self._left[what] < 0:
            raise ModelError(
                f"the functions of the model expand to too many {what}",
                where=self._content.path,
                fix="split the model into smaller models",
            )
