"""Differences of two graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdlc.diff.change import Change, shown_pair
from xdlc.diff.data import FEW, data_changes, form_changes, tensor_changes
from xdlc.diff.match import GraphMatch, in_order
from xdlc.ir import Graph, Op, Param, Role, Tensor
from xdlc.opdefs.control_flow import GRAPH_PARAMS, is_control_flow


def op_changes(
    before: Op, after: Op, match: GraphMatch, graphs: Mapping[str, str], *, moved: tuple[int, int] | None
) -> Iterator[Change]:
    """Yield the differences of two ops, without those of their tensors.

    Args:
        match: The pairs of tensors of the two graphs.
        graphs: Names of graphs of the second model by those of the first.
        moved: Places of the two ops in the order, if it differs.
    """
    texts = (
        ("op-names", "name", before.name, after.name),
        ("types", "type", before.type, after.type),
        ("packages", "package", before.package, after.package),
        ("origins", "source nodes", _listed(before.origin.nodes), _listed(after.origin.nodes)),
        ("reasons", "reason of insertion", before.origin.reason, after.origin.reason),
    )
    for kind, what, first, second in texts:
        if first != second:
            yield Change(kind, what, first, second)
    if moved:
        yield Change.between("order", "place in the order", moved)
    yield from _inputs(before, after, match)
    if len(before.outputs) != len(after.outputs):
        yield Change("outputs", "outputs", _names(before.outputs), _names(after.outputs))
    yield from _params(before, after, graphs)


def _listed(names: Sequence[str]) -> str | None:
    return ", ".join(names) or None


def _names(tensors: Sequence[Tensor | None]) -> str:
    return ", ".join("none" if tensor is None else repr(tensor.name) for tensor in tensors)


def _inputs(before: Op, after: Op, match: GraphMatch) -> Iterator[Change]:
    if len(before.inputs) != len(after.inputs):
        yield Change("inputs", "inputs", _names(before.inputs), _names(after.inputs))
        return
    for place, (first, second) in enumerate(zip(before.inputs, after.inputs, strict=True)):
        counterpart = None if first is None else match.tensors.get(first)
        if counterpart is not second or (first is None) != (second is None):
            names = [None if tensor is None else tensor.name for tensor in (first, second)]
            yield Change.between("inputs", f"input {place}", names)


def _params(before: Op, after: Op, graphs: Mapping[str, str]) -> Iterator[Change]:
    runs = GRAPH_PARAMS[before.type] if is_control_flow(before) else ()
    for name in before.params | after.params:
        what = f"parameter {name!r}"
        first, second = before.params.get(name), after.params.get(name)
        if isinstance(first, Tensor) and isinstance(second, Tensor):
            yield from _tensor_param(first, second, what, (before.name, after.name))
        elif not _same_scalar(first, second):
            texts = shown_pair(map(_plain, (first, second)))
            is_renamed = name in runs and graphs.get(str(texts[0])) == texts[1]
            if not is_renamed:
                yield Change.between("params", what, texts, _types(first, second))


def _same_scalar(first: Param | None, second: Param | None) -> bool:
    """Return whether two parameters are equal; NaN equals itself, and 0 equals -0."""
    return first == second or repr(first) == repr(second)


def _types(first: Param | None, second: Param | None) -> str | None:
    """Return the data types of two parameters in words, if they differ."""
    if first is None or second is None or first.dtype is second.dtype:
        return None
    return f"data type {first.dtype.name} became {second.dtype.name}"


def _plain(param: Param | None) -> Any:
    """Return a parameter as a value or a list; a large tensor in words."""
    if not isinstance(param, Tensor):
        return None if param is None else param.value
    if param.data is not None and param.size <= FEW:
        return param.tolist()
    return f"{param.dtype.name} of shape {'x'.join(map(str, param.shape)) or 'scalar'}"


def _tensor_param(before: Tensor, after: Tensor, what: str, ops: tuple[str, str]) -> Iterator[Change]:
    suffixes = [tensor.name.removeprefix(op) for tensor, op in zip((before, after), ops, strict=True)]
    if suffixes[0] != suffixes[1]:
        yield Change("tensor-names", f"name of {what}", before.name, after.name)
    for change in form_changes(before, after, what):
        kind = "encodings" if change.kind == "encodings" else "params"
        yield replace(change, kind=kind)
    yield from data_changes(before, after, what, kind="params")


SAME, MOVED, CHANGED, ONLY_BEFORE, ONLY_AFTER = STATES = ("same", "moved", "changed", "only_a", "only_b")
_ENDS = (Role.OUTPUT, Role.NATIVE)


@dataclass(slots=True)
class OpDiff:
    """A pair of ops, or an op of one model only.

    Attributes:
        before: Op of the first model, or None.
        after: Op of the second model, or None.
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
            old, new = (", ".join(tensor.name for tensor in side) for side in (first, second))
            yield Change("io", f"{what} of the graph", old, new)
