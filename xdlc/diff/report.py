"""Differences of two models as text, as plain values, and for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.content.inspection import source_nodes
from xdlc.content.static_cost import static_cost
from xdlc.diff.change import KINDS, NOT_IN_SOURCE, Change, differing_parts, kinds_of, named, text_pair
from xdlc.diff.graphs import (
    CHANGED,
    MOVED,
    ONLY_AFTER,
    ONLY_BEFORE,
    SAME,
    STATES,
    GraphDiff,
    OpDiff,
    compare_graphs,
)
from xdlc.diff.match import GraphMatch, match_models
from xdlc.diff.metadata import Names, metadata_changes
from xdlc.diff.records import record_changes
from xdlc.ir import Model, Op

_SHOWN = 5
"""Names that a line lists, and their characters."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a source model and its DLC do not share.

    Attributes:
        nodes: Name, operator and reason (or None) of the source nodes without an op in the DLC.
        ops: Graph, name, type and reason (or None) of the ops of the DLC without a source node.
    """

    nodes: Sequence[tuple[str, str, str | None]]
    ops: Sequence[tuple[str, str, str, str | None]]

    def as_dict(self) -> dict[str, Any]:
        """Return the nodes and ops as lists of objects."""
        return {
            "nodes": [dict(zip(("name", "type", "reason"), node, strict=True)) for node in self.nodes],
            "ops": [dict(zip(("graph", "name", "type", "reason"), op, strict=True)) for op in self.ops],
        }

    def lines(self) -> list[str]:
        """Return a line for each reason, with the first nodes or ops that have it."""
        nodes = _by_reason((f"{name} ({kind})", reason) for name, kind, reason in self.nodes)
        ops = _by_reason((f"{name} ({kind})", reason) for _, name, kind, reason in self.ops)
        lines = [f"source nodes without an op: {len(self.nodes)}", *nodes] if nodes else []
        return lines + ([f"ops without a source node: {len(self.ops)}", *ops] if ops else [])


def _by_reason(items: Iterable[tuple[str, str | None]]) -> list[str]:
    names: dict[str, list[str]] = {}
    for name, reason in items:
        names.setdefault(reason or "no reason is known", []).append(name[:_LONGEST])
    return [
        f"  {reason}: {', '.join(listed[:_SHOWN])}"
        + (f", and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
        for reason, listed in names.items()
    ]


def trace(converted: Model, dlc: Model, matches: Sequence[GraphMatch], *, source_first: bool = True) -> Trace:
    """Return the nodes and ops without a counterpart.

    Args:
        matches: Pairs of graphs of the two models.
        source_first: Whether the pairs have the source model first.
    """
    nodes_of: dict[Op, tuple[str, ...]] = {
        op: op.origin.nodes for graph in dlc.graphs.values() for op in graph.ops
    }
    for match in matches:
        for pair in match.ops.items():
            source, op = pair if source_first else pair[::-1]
            nodes_of[op] = nodes_of[op] or source.origin.nodes
    present = {node for nodes in nodes_of.values() for node in nodes}
    reasons = {name: reason for name, _, reason in dlc.metadata.get("nodes") or ()}
    nodes = [
        (node["name"], node["type"], reasons.get(node["name"]) or node.get("reason"))
        for node in source_nodes(converted)
        if node["name"] not in present
    ]
    ops = [
        (graph.name, op.name, op.type, op.origin.reason)
        for graph in dlc.graphs.values()
        for op in graph.ops
        if not nodes_of[op]
    ]
    return Trace(nodes, ops)


SCHEMA = 1
_LONGEST, _TAIL = 120, 50
"""Characters of a name or value in a line, and those of its end that a shorter form keeps."""
_MOST_OPS = 200
"""Ops of a graph whose differences ``lines`` lists."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Differences of two models.

    Attributes:
        graphs: Pairs of graphs with their ops.
        items: Differences of the files as a whole.
        costs: Static costs that differ; they follow from the other differences.
        ignored: Kinds that are omitted.
        trace: Source nodes and ops without a counterpart, if one of the two is a source model.
    """

    before: Model
    after: Model
    graphs: Sequence[GraphDiff]
    items: Sequence[Change]
    costs: Sequence[Change]
    ignored: frozenset[str]
    names: tuple[str, str]
    trace: Trace | None = None

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs except what is ignored."""
        return not self.items and all(graph.is_equal for graph in self.graphs)

    @property
    def counts(self) -> dict[str, int]:
        """Number of ops by state."""
        counter = Counter(pair.state for graph in self.graphs for pair in graph.ops)
        return {state: counter[state] for state in STATES}

    @property
    def summary(self) -> list[str]:
        """The differences in a few sentences, without names of ops."""
        if self.is_equal:
            return [f"{self.names[0]} and {self.names[1]} are equal{self._restriction()}"]
        counts = self.counts
        total = sum(counts.values())
        texts = {
            SAME: "same",
            CHANGED: "changed",
            MOVED: "moved",
            ONLY_BEFORE: f"only in {self.names[0]}",
            ONLY_AFTER: f"only in {self.names[1]}",
        }
        listed = ", ".join(f"{counts[state]} {text}" for state, text in texts.items() if counts[state])
        lines = [f"{total} op{'s' * (total != 1)}: {listed}"] if total else []
        kinds = Counter(change.kind for change in self._all())
        if kinds:
            listed = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            lines.append(f"differences by kind: {listed}")
        return lines

    def _restriction(self) -> str:
        """Return which kinds are compared, or ignored, in words."""
        omitted = self.ignored - (frozenset() if self.trace is None else NOT_IN_SOURCE)
        compared = KINDS.keys() - self.ignored
        if not omitted:
            return ""
        if len(compared) < len(omitted):
            return f" in {named(compared) or 'nothing'}"
        return f", without {named(omitted)}"

    def _all(self) -> Iterator[Change]:
        for graph in self.graphs:
            yield from graph.changes
            for pair in graph.ops:
                yield from pair.changes
        yield from self.items

    def as_dict(self) -> dict[str, Any]:
        """Return the differences as JSON-like values; same ops are only counted."""
        return {
            "schema": SCHEMA,
            "equal": self.is_equal,
            "files": list(self.names),
            "ignored": sorted(self.ignored),
            "summary": self.summary,
            "counts": self.counts,
            "ops": [
                {
                    "graph": graph.match.name,
                    "before": pair.before and pair.before.name,
                    "after": pair.after and pair.after.name,
                    "type": pair.op.type,
                    "state": pair.state,
                    "changes": [change.as_dict() for change in pair.changes],
                }
                for graph in self.graphs
                for pair in graph.ops
                if pair.state != SAME
            ],
            "graphs": [
                {"graph": graph.match.name, **change.as_dict()}
                for graph in self.graphs
                for change in graph.changes
            ],
            "items": [change.as_dict() for change in self.items],
            "cost": [change.as_dict() for change in self.costs],
            "trace": self.trace and self.trace.as_dict(),
        }

    def rows(self) -> Iterator[list[Any]]:
        """Yield a row of titles, and a row for each difference."""
        yield ["graph", "op before", "op after", "kind", "what", "before", "after", "note"]
        for row in self._rows():
            yield ["" if cell is None else cell for cell in row]

    def _rows(self) -> Iterator[list[Any]]:
        for graph in self.graphs:
            for pair in graph.ops:
                ops = [
                    graph.match.name,
                    *(None if op is None else op.name for op in (pair.before, pair.after)),
                ]
                if None in ops:
                    yield [*ops, "ops", pair.state, None, None, pair.op.type]
                for change in pair.changes:
                    yield [*ops, change.kind, change.what, change.before, change.after, change.note]
            for change in graph.changes:
                values = [change.kind, change.what, change.before, change.after, change.note]
                yield [graph.match.name, None, None, *values]
        for change in (*self.items, *self.costs):
            yield [None, None, None, change.kind, change.what, change.before, change.after, change.note]

    def for_page(self) -> dict[str, Any]:
        """Return ``diff`` of the content of a page.

        All pairs of ops are there by index.  Indices count the graphs of each model, and the ops of each
        graph, in their order.
        """
        sides = [_Places(model) for model in (self.before, self.after)]
        items = [
            {**change.as_dict(), "what": f"graph {graph.match.name}: {change.what}"}
            for graph in self.graphs
            for change in graph.changes
        ]
        return {
            "ops": [
                [
                    *sides[0].place(pair.before, graph.match.before),
                    *sides[1].place(pair.after, graph.match.after),
                    pair.state,
                    [change.as_dict() for change in pair.changes],
                ]
                for graph in self.graphs
                for pair in graph.ops
            ],
            "items": items + [change.as_dict() for change in (*self.items, *self.costs)],
            "summary": self.summary,
        }

    def lines(self) -> Iterator[str]:
        """Yield the differences as text: counts first, then by graph and op.

        The text of equal models is one line, and the trace if there is one.
        """
        yield from self.summary
        for graph in self.graphs:
            yield from _graph_lines(graph, self.names)
        for title, changes in (("file", self.items), ("cost", () if self.is_equal else self.costs)):
            if changes:
                yield ""
                yield title
                yield from (f"  {_line(change)}" for change in changes)
        traced = self.trace.lines() if self.trace is not None else []
        yield from ["", *traced] if traced else []


class _Places:
    """Indices of the graphs and ops of a model."""

    def __init__(self, model: Model) -> None:
        self.graphs = {graph.name: number for number, graph in enumerate(model.graphs.values())}
        self.ops = {op: number for graph in model.graphs.values() for number, op in enumerate(graph.ops)}

    def place(self, op: Op | None, graph: Any) -> tuple[int | None, int | None]:
        """Return the indices of a graph and of an op in it."""
        return None if graph is None else self.graphs[graph.name], None if op is None else self.ops[op]


def _graph_lines(graph: GraphDiff, names: tuple[str, str]) -> Iterator[str]:
    if graph.is_equal:
        return
    yield ""
    yield f"graph {_short(graph.match.name)}"
    yield from (f"  {_line(change)}" for change in graph.changes)
    differing = [pair for pair in graph.ops if pair.state != SAME]
    for pair in differing[:_MOST_OPS]:
        yield f"  {_title(pair, names)}"
        yield from (f"    {_line(change)}" for change in pair.changes)
    if len(differing) > _MOST_OPS:
        count = len(differing) - _MOST_OPS
        yield f"  and {count} more op{'s' * (count != 1)}; the JSON form lists all"


def _title(pair: OpDiff, names: tuple[str, str]) -> str:
    single = {ONLY_BEFORE: f"only in {names[0]}", ONLY_AFTER: f"only in {names[1]}"}
    state = single.get(pair.state, pair.state)
    return f"{_short(pair.op.name)} ({_short(pair.op.type)}): {state}"


def _line(change: Change) -> str:
    pair = text_pair((change.before, change.after))
    values = [_short(text) for text in pair]
    if values[0] == values[1]:
        values = [_short(text) for text in differing_parts(*pair)]
    text = _short(change.what)
    if change.before is not None or change.after is not None:
        text += f": {values[0]} -> {values[1]}"
    return (
        f"{text} ({change.note})"
        if change.note and ":" in text
        else ": ".join(filter(None, (text, change.note)))
    )


def _short(text: str) -> str:
    """Return a text of limited length, without its middle if it is longer."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - _TAIL - 3]}...{text[-_TAIL:]}"


_COSTS = {
    "macs": "MACs",
    "parameters": "parameters",
    "weights": "bytes of weights",
    "ports": "bytes of inputs and outputs",
    "peak": "peak bytes of activations",
}


def diff(
    before: Model,
    after: Model,
    *,
    ignore: Collection[str] = (),
    names: tuple[str, str] = ("before", "after"),
    source: int | None = None,
) -> Diff:
    """Return the differences of two models.

    xdlc pairs ops by name, then by source node, then by structure.  It reads weights in chunks.

    Args:
        ignore: Kinds of differences to omit, or groups of kinds; see ``xdlc.diff.KINDS``.
        source: Which of the two is a converted source model: 0, 1, or None.

    Raises:
        UsageError: If there is no such kind.
        ContainerError: If the bytes of a file do not have their CRC-32.
        StorageError: If a file became shorter.
    """
    ignored = kinds_of(ignore)
    matches = match_models(before, after)
    paired = {m.before.name: m.after.name for m in matches if m.before is not None and m.after is not None}
    graphs = [compare_graphs(match, paired, ignored) for match in matches]
    items = [
        *_graphs(before, after, matches, paired),
        *metadata_changes(before, after, Names.of(matches)),
        *record_changes(before, after),
    ]
    costs = [] if "cost" in ignored else list(_costs(matches))
    kept = [change for change in items if change.kind not in ignored]
    traced = None
    if source is not None:
        models = (before, after) if source == 0 else (after, before)
        traced = trace(*models, matches, source_first=source == 0)
    return Diff(before, after, graphs, kept, costs, ignored, names, traced)


def _graphs(
    before: Model, after: Model, matches: list[GraphMatch], paired: dict[str, str]
) -> Iterator[Change]:
    """Yield graphs of one model only, and another order."""
    for match in matches:
        if match.before is None or match.after is None:
            sides = match.before, match.after
            counts = [None if side is None else f"{len(side)} op{'s' * (len(side) != 1)}" for side in sides]
            yield Change.between("graphs", f"graph {match.name!r}", counts)
    first = [paired[name] for name in before.graphs if name in paired]
    common = set(first)
    second = [name for name in after.graphs if name in common]
    if first != second:
        yield Change("graphs", "order of graphs", ", ".join(first), ", ".join(second))


def _costs(matches: list[GraphMatch]) -> Iterator[Change]:
    for match in matches:
        if match.before is None or match.after is None:
            continue
        first, second = static_cost(match.before), static_cost(match.after)
        for field, title in _COSTS.items():
            pair = getattr(first, field), getattr(second, field)
            if pair[0] != pair[1]:
                share = f"{pair[1] / pair[0] - 1:+.1%}" if pair[0] else None
                yield Change("cost", f"{title} of graph {match.name!r}", *pair, note=share)
