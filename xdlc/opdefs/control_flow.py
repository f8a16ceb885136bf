"""``If`` and ``While``: graphs, operands, and ops that backends refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdlc.ir import HOST_PACKAGE, Graph, Model, Op, Tensor
from xdlc.records import record

IF, WHILE = "If", "While"
GRAPH_PARAMS = {IF: ("then_graph", "else_graph"), WHILE: ("cond_graph", "body_graph")}

ROLES = {IF: ("then branch", "else branch"), WHILE: ("condition", "body")}
CONDITION = ROLES[WHILE][0]

Graphs = Mapping[str, Graph]
Role = tuple[str, Op]
"""Role of a graph for the op that runs it (one of ``ROLES``), and the op."""


def is_control_flow(op: Op) -> bool:
    """Return whether an op runs sub-graphs."""
    return op.package == HOST_PACKAGE and op.type in GRAPH_PARAMS


def has_control_flow(graph: Graph) -> bool:
    """Return whether an op of the graph runs sub-graphs."""
    return any(is_control_flow(op) for op in graph.ops)


def called(op: Op) -> tuple[str, ...]:
    """Return the names of the graphs that an op runs, in order of its parameters."""
    if not is_control_flow(op):
        return ()
    return tuple(name for key in GRAPH_PARAMS[op.type] if isinstance(name := op.param(key), str))


def roles(graphs: Graphs) -> dict[str, Role]:
    """Return the first role of each graph that an op runs, by its name."""
    first_roles: dict[str, Role] = {}
    for graph in graphs.values():
        for op in graph.ops:
            for role, name in zip(ROLES.get(op.type, ()), called(op), strict=False):
                first_roles.setdefault(name, (role, op))
    return first_roles


def reachable(graph: Graph, graphs: Graphs) -> list[Graph]:
    """Return a graph and all its sub-graphs, without repeats and unknown names."""
    by_name = {graph.name: graph}
    pending = [graph]
    while pending:
        for op in pending.pop().ops:
            for name in called(op):
                if name in graphs and name not in by_name:
                    by_name[name] = graphs[name]
                    pending.append(graphs[name])
    return list(by_name.values())


def outer_graphs(model: Model) -> list[Graph]:
    """Return the graphs of a model that callers run and no op runs."""
    inner = {name for graph in model.graphs.values() for op in graph.ops for name in called(op)}
    return [graph for name, graph in model.graphs.items() if name not in inner]


def remove_uncalled(model: Model) -> None:
    """Drop the graphs that the main graph does not run, directly or indirectly."""
    kept = {graph.name for graph in reachable(model.main, model.graphs)}
    model.graphs = {name: graph for name, graph in model.graphs.items() if name in kept}


@record(frozen=True)
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
        """Return the counts for a valid op."""
        m, carried = len(op.outputs), len(body.outputs)
        return cls(m, carried - m, len(op.inputs) - carried)

    @property
    def carried(self) -> int:
        """Number of the values that an iteration hands to the next, m + k."""
        return self.outputs + self.states


def has_open_rank(tensor: Tensor) -> bool:
    """Return whether an open axis may denote any number of axes."""
    return tensor.shape == (1,) and tensor.dynamic_axes == (0,)


@record(frozen=True)
class Blocker:
    """An op that prevents a branch or a loop from running on a backend.

    Attributes:
        caller: The ``If`` or ``While``.
        graph: The graph that has the op; run by the caller, directly or not.
        op: The op that the backend does not have.
    """

    caller: Op
    graph: Graph
    op: Op
    reason: str

    def __str__(self) -> str:
        return f"graph {self.graph.name!r} has op {self.op.name!r} ({self.op.type}): {self.reason}"


def blockers(graph: Graph, graphs: Graphs, refusal: Callable[[Graph, Op], str | None]) -> list[Blocker]:
    """Return the ops that prevent branches and loops from running on a backend.

    A backend gets an ``If`` or ``While`` only if it has every op of all graphs that one runs.

    Args:
        graph: The graph whose ``If`` and ``While`` ops are looked at.
        refusal: Why the backend does not have an op of a graph; None if it does.
    """
    reasons: dict[str, list[tuple[Graph, Op, str]]] = {}
    blocked = []
    for op in graph.ops:
        if not is_control_flow(op):
            continue
        for name in called(op):
            for inner in reachable(graphs[name], graphs) if name in graphs else ():
                if inner.name not in reasons:
                    reasons[inner.name] = [
                        (inner, held, reason)
                        for held in inner.ops
                        if (reason := refusal(inner, held)) is not None
                    ]
                blocked += [Blocker(op, *entry) for entry in reasons[inner.name]]
    return blocked
