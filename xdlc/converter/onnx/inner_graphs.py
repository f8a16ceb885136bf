"""Imports the graphs inside of nodes, on behalf of the importers of the operators that run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from xdlc.converter.onnx.nodes import domain_of
from xdlc.converter.operators.registry import Node
from xdlc.converter.session.context import State
from xdlc.converter.session.layouts import wants_channel_last
from xdlc.converter.session.ordering import ordered
from xdlc.converter.session.scope import Scope, Unsettled
from xdlc.converter.values import AnyValue, Value
from xdlc.errors import XdlcError
from xdlc.runtime.host_kernels import HOST_OPSET

if TYPE_CHECKING:
    from xdlc import ir
    from xdlc.converter.builder import Builder
    from xdlc.converter.onnx.expansion import Expansion
    from xdlc.converter.operators.control_flow.sub_graph import SubGraph
    from xdlc.converter.operators.control_flow.while_loop import Assumed


class InnerGraphs:
    """The import as importers of control flow and of sequences see it (``control_flow.Importer``).

    Args:
        state: The import.
        import_node: Imports a ``NodeProto``.
        expansion: Knows what graphs come to.
        unroll_loops: Most iterations of a loop that are put one after the other.
    """

    def __init__(
        self, state: State, import_node: Callable[[Any], None], expansion: Expansion, unroll_loops: int
    ) -> None:
        self.unroll_loops = unroll_loops
        self.assumptions: dict[tuple[str, ...], Assumed] = {}
        self._state = state
        self._import_node = import_node
        self._expansion = expansion
        self._applied = 0

    # ------------------------------------------------------------------ where it stands

    @property
    def builder(self) -> Builder:
        """Adds to the graph under construction."""
        return self._state.builder

    @property
    def values(self) -> Scope:
        """What names stand for."""
        return self._state.values

    @property
    def graphs(self) -> dict[str, ir.Graph]:
        """The graphs of the model so far, the main one first."""
        return self._state.graphs

    @property
    def problems(self) -> list[XdlcError]:
        """Everything that keeps the model from being converted, so far."""
        return self._state.problems

    @property
    def opening(self) -> bool:
        """Whether new graphs take the extents of what they capture as open."""
        return self._state.opening

    @opening.setter
    def opening(self, value: bool) -> None:
        self._state.opening = value

    def path(self, node: Node) -> tuple[str, ...]:
        """Return where a node stands among the graphs and functions around it."""
        return (*self._state.around, *self._state.callers, node.name)

    def attempt(self) -> Callable[[], list[XdlcError]]:
        """Return a function that forgets the problems and graphs since now, and returns the problems."""
        return self._state.attempt()

    # ------------------------------------------------------------------ what it may use up

    def size_of(self, graph: Any) -> int:
        """Return the number of nodes that a ``GraphProto`` comes to, its functions expanded."""
        return self._expansion.size(graph)

    def spend(self, nodes: int) -> bool:
        """Return whether that many nodes may be added by unrolling, and count them if so."""
        return self._state.budget.unrolled_nodes.take(nodes)

    def list_elements(self, count: int) -> bool:
        """Return whether sequences may list that many elements more, and count them if so."""
        return self._state.budget.sequence_elements.take(count)

    # ------------------------------------------------------------------ graphs

    def sub_graph(self, name: str) -> AbstractContextManager[SubGraph]:
        """Import into a new graph while the context is open; what it reads from outside is captured."""
        return self._state.sub_graph(name)

    def constants(self, graph: Any) -> Scope:
        """Return a scope inside the current one with the initializers and constants of a ``GraphProto``."""
        state = self._state
        values, node = state.values, state.builder.node
        made = state.values = Scope(values)
        try:
            state.add_initializers(graph)
            for proto in graph.node:
                if _is_constant(proto):
                    self._import_node(proto)
            return made
        finally:
            state.values = values
            if state.builder.node != node:
                state.builder.node = node

    def inline(
        self,
        graph: Any,
        given: Mapping[str, AnyValue],
        shared: Scope | None = None,
        *,
        is_source: bool = True,
    ) -> list[AnyValue]:
        """Import the nodes of a ``GraphProto`` and return its outputs.

        Args:
            graph: The graph.
            given: Values of its inputs.
            shared: What ``constants`` gave for the graph, if it is imported more than once.
            is_source: Whether the source has the graph; else its nodes stand for the current one.

        Raises:
            Unsettled: If an output cannot be had; the problem has been reported.
        """
        state = self._state
        names = [output.name for output in graph.output]
        with nullcontext() if is_source else state.standing_in():
            values = Scope(self.constants(graph) if shared is None else shared)
            values.update(given)
            with state.scope(values):
                nodes = ordered(graph, names, str(state.file.path))
                state.wanted |= wants_channel_last(nodes, state.file.opsets, state.is_udo)
                for proto in nodes:
                    if not _is_constant(proto):
                        self._import_node(proto)
                for name in names:
                    self._check_result(name)
                return [state.values[name] for name in names]

    def _check_result(self, name: str) -> None:
        """Report an output of the graph at hand that nothing produces."""
        state = self._state
        if name in state.values and name not in state.poisoned:
            return
        if name not in state.poisoned:
            state.problems.append(state.missing(name, f"{state.file.path}: {state.around[-1]}"))
        raise Unsettled

    # ------------------------------------------------------------------ nodes that the source does not have

    def apply(self, type: str, inputs: Sequence[Value], **attributes: Any) -> Value:
        """Import a node of one output that the source does not have, on behalf of the current one.

        Raises:
            Unsettled: If it cannot be imported; the problem has been reported.
        """
        return self.apply_many(type, inputs, 1, **attributes)[0]

    def apply_many(self, type: str, inputs: Sequence[Value], count: int, **attributes: Any) -> list[Value]:
        """Import a node of ``count`` outputs that the source does not have, as ``apply`` does."""
        from onnx import helper

        state = self._state
        self._applied += 1
        name = f"{state.builder.node}_{type.lower()}_{self._applied}"
        names = [f"{name}~{index}" for index in range(len(inputs))]
        results = [name] if count == 1 else [f"{name}_{index}" for index in range(count)]
        proto = helper.make_node(type, names, results, name=name, **attributes)
        state.values.update(zip(names, inputs, strict=True))
        with state.standing_in({"": HOST_OPSET}):
            self._import_node(proto)
        if not state.poisoned.isdisjoint(results):
            raise Unsettled
        return [state.values.tensor(result) for result in results]


def _is_constant(proto: Any) -> bool:
    return proto.op_type == "Constant" and not domain_of(proto)
