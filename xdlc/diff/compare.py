"""Comparison of two models."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xdlc.content.static_cost import static_cost
from xdlc.diff.change import Change
from xdlc.diff.graphs import compare_graphs
from xdlc.diff.kinds import kinds_of
from xdlc.diff.match import GraphMatch, match_models
from xdlc.diff.metadata import Names, metadata_changes
from xdlc.diff.records import record_changes
from xdlc.diff.report import Diff
from xdlc.diff.trace import trace
from xdlc.ir import Model

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
        before: The first model.
        after: The second model.
        ignore: Kinds of differences to omit, or groups of kinds; see ``xdlc.diff.KINDS``.
        names: Names of the models in texts.
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
