"""Why HTP does not get an op that only the host has, branches and loops above all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from xdlc.errors import ConstraintError
from xdlc.ir import HOST_PACKAGE, Graph, Model, Op
from xdlc.ir.graph import is_custom
from xdlc.opdefs.control_flow import blockers, is_control_flow
from xdlc.runtime.dynamic_dims import keeps_on_host, open_problem

MOST_BLOCKERS = 8


def is_host_only(op: Op) -> bool:
    """Return whether only the host has an op."""
    return op.package == HOST_PACKAGE or is_custom(op)


def why_host(op: Op) -> str:
    """Return why only the host has an op that HTP does not get."""
    if is_control_flow(op):
        return "HTP has no op that runs other graphs"
    if is_custom(op):
        return f"it is of a user's package, {op.package}, of which the compiler has no library for HTP"
    return op.origin.reason or "no QNN operation carries it"


def fix_of(op: Op) -> str:
    """Return what to do about an op that only the host has."""
    if is_custom(op):
        return "prepare with xdlc-graph-prepare --partition, which caches the parts around it"
    return "rewrite it with operators that QNN has, or cut the model there and run this part on the host"


def host_problems(
    looked_at: Iterable[Graph], model: Model, refused: Collection[tuple[str, str]]
) -> Iterator[ConstraintError]:
    """Yield a problem for each op that only the host has; those that open inputs keep there have one.

    HTP has no op that runs other graphs; of one, the ops inside are named that HTP would not take either.

    Args:
        looked_at: The graphs whose ops are meant.
        model: The model that they are of.
        refused: Graph and name of each native op that HTP refuses.
    """

    def refusal(graph: Graph, op: Op) -> str | None:
        if is_host_only(op):
            return "runs on the host only"
        return "refused" if (graph.name, op.name) in refused else None

    unbound = open_problem(model)
    if unbound is not None:
        yield unbound
    for graph in looked_at:
        inside: dict[Op, list[str]] = {}
        for blocker in blockers(graph, model.graphs, refusal):
            inside.setdefault(blocker.caller, []).append(f"{blocker.op.name!r} ({blocker.op.type})")
        for op in graph.ops:
            if is_host_only(op) and not (unbound is not None and keeps_on_host(op)):
                yield _problem(graph, op, inside.get(op, ()))


def _problem(graph: Graph, op: Op, inside: Sequence[str]) -> ConstraintError:
    why = why_host(op)
    if inside:
        more = f" and {len(inside) - MOST_BLOCKERS} more" if len(inside) > MOST_BLOCKERS else ""
        why += f"; it would not take these ops inside either: {', '.join(inside[:MOST_BLOCKERS])}{more}"
    return ConstraintError(
        f"runs on the host only: {why}",
        where=f"graph {graph.name!r}: op {op.name!r} ({op.type})",
        fix=fix_of(op),
        node=op.name,
        op=op.type,
    )
