"""Differences of two graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdlc.diff.change import Change
from xdlc.diff.match import GraphMatch, in_order
from xdlc.diff.ops import op_changes
from xdlc.diff.tensors import tensor_changes
from xdlc.ir import Graph, Op, Role, Tensor

SAME, MOVED, CHANGED, ONLY_BEFORE, ONLY_AFTER = STATES = ("same", "moved", "changed", "only_a", "only_b")
_ENDS = (Role.OUTPUT, Role.NATIVE)


@dataclass(slots=True)
class OpDiff:
    """A pair of ops, or an op of one model only.

    Attributes:
        before: Op of the first model, or None.
        after: Op of the second model, or None.
        changes: Their differences.
    """

    before: Op | None
    after: Op | None
    changes: list[Change] = field(default_factory=list)

    @property
    def op(self) -> Op:
        """The op, that of the first model where both have it."""
        op = self.before or self.after
        assert op is not None
        return op

    @property
    def state(self) -> str:
        """One of ``STATES``."""
        if self.before is None or self.after is None:
            return ONLY_AFTER if self.before is None else ONLY_BEFORE
        if not self.changes:
            return SAME
        return MOVED if {change.kind for change in self.changes} == {"order"} else CHANGED


@dataclass(slots=True)
class GraphDiff:
    """Differences of a pair of graphs.

    Attributes:
        match: The pairs.
        ops: All ops in the order of the second graph; ops of the first one only come after their producers.
        changes: Differences of no op: inputs, outputs, tensors that no op uses.
    """

    match: GraphMatch
    ops: list[OpDiff]
    changes: list[Change]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.changes and all(pair.state == SAME for pair in self.ops)


def compare_graphs(match: GraphMatch, graphs: Mapping[str, str], ignored: Collection[str] = ()) -> GraphDiff:
    """Return the differences of two graphs.

    Args:
        match: Their pairs.
        graphs: Names of graphs of the second model by those of the first.
        ignored: Kinds that are omitted.
    """
    if match.before is None or match.after is None:
        return GraphDiff(match, [] if "ops" in ignored else _singles(match), [])
    pairs = _merged(match, without="ops" in ignored)
    rows = {pair.before: pair for pair in pairs if pair.before is not None}
    unmoved = in_order(match)
    places = [{op: place for place, op in enumerate(graph.ops)} for graph in (match.before, match.after)]
    for before, after in match.ops.items():
        moved = None if before in unmoved else (places[0][before], places[1][after])
        rows[before].changes += op_changes(before, after, match, graphs, moved=moved)
    changes = list(_ends(match))
    changes += _tensors(match, rows, set(ignored))
    result = GraphDiff(match, pairs, [change for change in changes if change.kind not in ignored])
    for pair in pairs:
        pair.changes = [change for change in pair.changes if change.kind not in ignored]
    return result


def _singles(match: GraphMatch) -> list[OpDiff]:
    """Return the ops of a graph of one model only."""
    first, second = ([] if graph is None else graph.ops for graph in (match.before, match.after))
    return [*(OpDiff(op, None) for op in first), *(OpDiff(None, op) for op in second)]


def _merged(match: GraphMatch, *, without: bool) -> list[OpDiff]:
    """Return pairs and single ops in the order of the second graph."""
    before, after = match.before, match.after
    if before is None or after is None:
        return []
    backwards = {counterpart: op for op, counterpart in match.ops.items()}
    following: dict[Op | None, list[Op]] = {}
    last: Op | None = None
    for op in before.ops:
        if op in match.ops:
            last = match.ops[op]
        elif not without:
            following.setdefault(last, []).append(op)
    rows = [OpDiff(op, None) for op in following.get(None, ())]
    for op in after.ops:
        if op in backwards or not without:
            rows.append(OpDiff(backwards.get(op), op))
        rows += [OpDiff(single, None) for single in following.get(op, ())]
    return rows


def _tensors(match: GraphMatch, rows: Mapping[Op, OpDiff], ignored: set[str]) -> Iterator[Change]:
    """Put differences of tensors to ops that write or first read them; yield others."""
    before, after = match.before, match.after
    if before is None or after is None:
        return
    outputs = set(before.outputs), set(after.outputs)
    places = _places(before)
    for first, second in match.tensors.items():
        op, place = places.get(first, (None, f"tensor {first.name!r}"))
        swapped = (first in outputs[0]) != (second in outputs[1]) and {first.role, second.role} == set(_ENDS)
        changes = tensor_changes(first, second, place, roles=not swapped, values="weights" not in ignored)
        if op is None or op not in rows:
            yield from changes
        else:
            rows[op].changes += changes
    paired = set(match.tensors.values())
    for graph, singles in (
        (before, [tensor for tensor in before.tensors.values() if tensor not in match.tensors]),
        (after, [tensor for tensor in after.tensors.values() if tensor not in paired]),
    ):
        inputs = set(graph.inputs)
        for tensor in singles:
            if tensor.producer is None and tensor not in inputs and not graph.consumers(tensor):
                names = (tensor.name, None) if graph is before else (None, tensor.name)
                yield Change.between("tensors", f"unused tensor {tensor.name!r}", names)


def _places(graph: Graph) -> dict[Tensor, tuple[Op | None, str]]:
    """Return the op and the place in words of each tensor of a graph."""
    places: dict[Tensor, tuple[Op | None, str]] = {
        tensor: (None, f"input {tensor.name!r}") for tensor in graph.inputs
    }
    for op in graph.ops:
        for tensor in op.inputs:
            if tensor is not None and tensor.producer is None:
                places.setdefault(tensor, (op, f"tensor {tensor.name!r}"))
        for number, tensor in enumerate(op.outputs):
            places[tensor] = (op, f"output {number} {tensor.name!r}")
    return places


def _ends(match: GraphMatch) -> Iterator[Change]:
    """Yield the differences of the lists of inputs and outputs."""
    before, after = match.before, match.after
    if before is None or after is None:
        return
    if before.name != after.name:
        yield Change("graph-names", "name of the graph", before.name, after.name)
    for what, first, second in (
        ("inputs", before.inputs, after.inputs),
        ("outputs", before.outputs, after.outputs),
    ):
        if [match.tensors.get(tensor) for tensor in first] != second:
            yield Change("io", f"{what} of the graph", _names(first), _names(second))


def _names(tensors: Sequence[Tensor]) -> str:
    return ", ".join(tensor.name for tensor in tensors)
