"""``If`` and ``While``: what they run, and how a loop's values fall into groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdlc.ir import HOST_PACKAGE, Graph, Model, Op, Tensor

IF, WHILE = "If", "While"
GRAPH_PARAMS = {IF: ("then_graph", "else_graph"), WHILE: ("cond_graph", "body_graph")}

Graphs = Mapping[str, Graph]


def is_control_flow(op: Op) -> bool:
    """Return whether an op runs other graphs."""
    return op.package == HOST_PACKAGE and op.type in GRAPH_PARAMS


def has_control_flow(graph: Graph) -> bool:
    """Return whether an op of the graph runs other graphs."""
    return any(is_control_flow(op) for op in graph.ops)


def called(op: Op) -> tuple[str, ...]:
    """Return the names of the graphs that an op runs, in the order of its parameters; none for other ops."""
    if not is_control_flow(op):
        return ()
    return tuple(name for key in GRAPH_PARAMS[op.type] if isinstance(name := op.param(key), str))


def reachable(graph: Graph, graphs: Graphs) -> list[Graph]:
    """Return a graph and all that it runs, directly or not, each once; unknown names are passed over."""
    found = {graph.name: graph}
    pending = [graph]
    while pending:
        for op in pending.pop().ops:
            for name in called(op):
                if name in graphs and name not in found:
                    found[name] = graphs[name]
                    pending.append(graphs[name])
    return list(found.values())


def outer_graphs(model: Model) -> list[Graph]:
    """Return the graphs of a model that no op runs: those that callers run."""
    inner = {name for graph in model.graphs.values() for op in graph.ops for name in called(op)}
    return [graph for name, graph in model.graphs.items() if name not in inner]


def remove_uncalled(model: Model) -> None:
    """Drop the graphs that the main one does not run, directly or not."""
    kept = {graph.name for graph in reachable(model.main, model.graphs)}
    model.graphs = {name: graph for name, graph in model.graphs.items() if name in kept}


@dataclass(frozen=True, slots=True)
class Loop:
    """How the operands of a ``While`` divide.

    Attributes:
        outputs: m, the values that go in and come out.
        states: k, the values that live in the loop only.
        constants: n, the values that each iteration reads unchanged.
    """

    outputs: int
    states: int
    constants: int

    @classmethod
    def of(cls, op: Op, body: Graph) -> Loop:
        """Return the counts for an op that keeps the rules."""
        m, carried = len(op.outputs), len(body.outputs)
        return cls(m, carried - m, len(op.inputs) - carried)

    @property
    def carried(self) -> int:
        """Number of the values that an iteration hands to the next, m + k."""
        return self.outputs + self.states


def has_open_rank(tensor: Tensor) -> bool:
    """Return whether even the number of axes may be known only when the graph runs: one open axis."""
    return tensor.shape == (1,) and tensor.dynamic_axes == (0,)
