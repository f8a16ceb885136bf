"""Pairs of graphs, ops and tensors of two models.

Ops are paired by name and type, by source nodes, by structure (type, parameters, shapes and neighbours), by
name alone, and last by type between the same neighbours.  If many of the pairs differ, ops with unique
surroundings are paired first.  Each step is linear in the number of ops.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

from xdlc.ir import Graph, Model, Op, Param, Tensor

_SMALL = 1 << 12
"""Bytes of a tensor parameter whose values count when ops are paired by structure."""
_SWEEPS = 4
_FEW_UNLIKE = 4
"""Pairs that may differ before names are doubted, and by which pairs by structure must be better."""
_EDGES = 3

Key = Callable[[Op], Hashable | None]


@dataclass(slots=True)
class GraphMatch:
    """Pairs of a graph with its counterpart.

    Attributes:
        before: The graph of the first model; None if only the second has it.
        after: The graph of the second model; None if only the first has it.
        ops: Op of the second graph by op of the first.
        tensors: Tensor of the second graph by tensor of the first.
    """

    before: Graph | None
    after: Graph | None
    ops: dict[Op, Op] = field(default_factory=dict)
    tensors: dict[Tensor, Tensor] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the graph, that of the first model where both have it."""
        graph = self.after if self.before is None else self.before
        assert graph is not None
        return graph.name


def match_models(before: Model, after: Model) -> list[GraphMatch]:
    """Return the graphs of two models as pairs, in the order of the models."""
    pairs = {name: name for name in before.graphs if name in after.graphs}
    mains = next(iter(before.graphs), None), next(iter(after.graphs), None)
    if mains[0] is not None and mains[1] is not None and mains[0] not in pairs and mains[1] not in pairs:
        pairs[mains[0]] = mains[1]
    paired = set(pairs.values())
    left = [graph for name, graph in before.graphs.items() if name not in pairs]
    right = [graph for name, graph in after.graphs.items() if name not in paired]
    pairs |= _alike(left, right)
    matches = [
        _match_graphs(graph, after.graphs[pairs[name]]) if name in pairs else GraphMatch(graph, None)
        for name, graph in before.graphs.items()
    ]
    paired = set(pairs.values())
    return matches + [GraphMatch(None, graph) for name, graph in after.graphs.items() if name not in paired]


def _alike(left: Sequence[Graph], right: Sequence[Graph]) -> dict[str, str]:
    """Return names of graphs as pairs, first of those with most types in common."""
    if len(left) == len(right) == 1:
        return {left[0].name: right[0].name}
    types = {graph: Counter(op.type for op in graph.ops) for graph in (*left, *right)}
    shares = {
        (first.name, second.name): _share(types[first], types[second])
        for first, second in product(left, right)
    }
    pairs: dict[str, str] = {}
    paired = set[str]()
    for first, second in sorted(shares, key=shares.__getitem__, reverse=True):
        if first not in pairs and second not in paired and shares[first, second]:
            pairs[first] = second
            paired.add(second)
    return pairs


def _share(first: Counter[str], second: Counter[str]) -> float:
    """Return the share of ops with a type in common; 1 without ops."""
    count = first.total() + second.total()
    return 2 * (first & second).total() / count if count else 1.0


def _match_graphs(before: Graph, after: Graph) -> GraphMatch:
    """Return the pairs by name, or those by structure if more of their ops are alike.

    Names count less if a converter numbers ops: a new op then shifts the names of all later ones.
    """
    by_name = _Pairing(before, after)
    by_name.run()
    alike = by_name.alike()
    if min(len(before), len(after)) - alike <= _FEW_UNLIKE:
        return by_name.match
    by_structure = _Pairing(before, after)
    by_structure.by_surroundings()
    by_structure.run()
    return by_structure.match if by_structure.alike() > alike + _FEW_UNLIKE else by_name.match


class _Pairing:
    """Pairing of the ops of two graphs."""

    def __init__(self, before: Graph, after: Graph) -> None:
        self.match, self.before, self.after = GraphMatch(before, after), before, after
        self.sides = list(before.ops), list(after.ops)
        self.numbers: dict[Op, int] = {}
        self.tensors: dict[Tensor, int] = {}
        self.forms: dict[Op, Hashable] = {}
        self.ends = {tensor: place for graph in (before, after) for place, tensor in enumerate(graph.outputs)}

        self._inputs()

    def run(self) -> None:
        """Pair ops, then the tensors that they read and write."""
        self._by_key(lambda op: (op.name, op.type, op.package))
        self._by_key(lambda op: (op.origin.nodes, op.type, op.package) if op.origin.nodes else None)
        self._by_structure()
        self._by_key(lambda op: op.name)
        self._by_structure()
        self._between()
        self._statics()

    def alike(self) -> int:
        """Return the number of pairs of one form that read the same tensors."""
        return sum(
            self._form(first) == self._form(second)
            and list(map(self._source, first.inputs)) == list(map(self._source, second.inputs))
            for first, second in self.match.ops.items()
        )

    def by_surroundings(self) -> None:
        """Pair ops whose forms, with those of ops near them, are unique in both graphs."""
        sides = [self._surroundings(side) for side in self.sides]
        unique = [{mark for mark, count in Counter(side.values()).items() if count == 1} for side in sides]
        common, marks = unique[0] & unique[1], {**sides[0], **sides[1]}
        self._by_key(lambda op: marks[op] if marks[op] in common else None)
        self._follow()

    def _surroundings(self, ops: Sequence[Op]) -> dict[Op, int]:
        """Return a number of each op for its form and those of ops up to some edges away."""
        marks = {op: hash(self._form(op)) for op in ops}
        for _ in range(_EDGES):
            near = {
                op: ([marks[other] for other in _producers_of(op)], sorted(marks[r] for r in _readers_of(op)))
                for op in ops
            }
            marks = {op: hash((marks[op], tuple(first), 0, *second)) for op, (first, second) in near.items()}
        return marks

    def _open(self) -> list[list[Op]]:
        return [[op for op in side if op not in self.numbers] for side in self.sides]

    def _pair(self, first: Op, second: Op) -> None:
        number = len(self.match.ops)
        self.match.ops[first] = second
        self.numbers[first] = self.numbers[second] = number
        for result, counterpart in zip(first.outputs, second.outputs, strict=False):
            self._pair_tensors(result, counterpart)

    def _pair_tensors(self, first: Tensor, second: Tensor) -> None:
        self.tensors[first] = self.tensors[second] = len(self.match.tensors)
        self.match.tensors[first] = second

    def _by_key(self, key: Key) -> None:
        """Pair open ops with the same key, in their order."""
        left, right = self._open()
        waiting: dict[Hashable, deque[Op]] = {}
        for op in right if left else ():
            value = key(op)
            if value is not None:
                waiting.setdefault(value, deque()).append(op)
        for op in left if waiting else ():
            queue = waiting.get(key(op))
            if queue:
                self._pair(op, queue.popleft())

    def _by_structure(self) -> None:
        """Pair ops of one form whose producers, or whose readers, are pairs."""
        for _ in range(_SWEEPS):
            count = len(self.match.ops)
            if not all(self._open()):
                return
            for neighbours in (self._producers, self._readers):
                self._by_key(partial(self._anchored, neighbours))
            self._follow()
            if len(self.match.ops) == count:
                return

    def _anchored(self, neighbours: Key, op: Op) -> Hashable | None:
        near = neighbours(op)
        return None if near is None else (self._form(op), near)

    def _follow(self) -> None:
        """Pair neighbours of pairs that have one form, along chains."""
        waiting = deque(self.match.ops.items())
        while waiting:
            pair = waiting.popleft()
            for near in (_readers_of, _producers_of):
                left, right = ([op for op in near(end) if op not in self.numbers] for end in pair)
                for first, second in self._same_form(left, right) if left and right else ():
                    self._pair(first, second)
                    waiting.append((first, second))

    def _same_form(self, left: Sequence[Op], right: Sequence[Op]) -> list[tuple[Op, Op]]:
        by_form: dict[Hashable, deque[Op]] = {}
        for op in right:
            by_form.setdefault(self._form(op), deque()).append(op)
        queues = [(op, by_form.get(self._form(op))) for op in left]
        return [(op, queue.popleft()) for op, queue in queues if queue]

    def _producers(self, op: Op) -> Hashable | None:
        near = [self._source(tensor) for tensor in op.inputs]
        return tuple(near) if any(isinstance(number, int) and number >= 0 for number in near) else None

    def _source(self, tensor: Tensor | None) -> Hashable:
        if tensor is None:
            return -2
        if tensor.is_static:
            return (tensor.shape, tensor.dtype.name)
        return self.tensors.get(tensor, -1)

    def _readers(self, op: Op) -> Hashable | None:
        near = sorted(self.numbers.get(reader, -1) for reader in _readers_of(op))
        ends = tuple(self.ends[tensor] for tensor in op.outputs if tensor in self.ends)
        return (tuple(near), ends) if ends or (near and near[-1] >= 0) else None

    def _form(self, op: Op) -> Hashable:
        if op not in self.forms:
            self.forms[op] = (
                op.type,
                op.package,
                tuple(sorted((name, _param(param)) for name, param in op.params.items())),
                tuple(None if t is None else (t.shape, t.is_static) for t in op.inputs),
                tuple(t.shape for t in op.outputs),
            )
        return self.forms[op]

    def _between(self) -> None:
        """Pair ops of one type between the same pairs of the order."""
        places: dict[Op, Hashable] = {}
        for side in self.sides:
            last = -1
            for op in side:
                last = self.numbers.get(op, last)
                places[op] = (last, op.type, op.package)
        self._by_key(places.__getitem__)

    def _inputs(self) -> None:
        """Pair inputs of the graphs: by name, then by shape and type, then by order."""
        keys: tuple[Callable[[Tensor], Hashable], ...] = (_name, _shape_and_type, _any)
        for key in keys:
            waiting: dict[Hashable, deque[Tensor]] = {}
            for tensor in self.after.inputs:
                if tensor not in self.tensors:
                    waiting.setdefault(key(tensor), deque()).append(tensor)
            for tensor in self.before.inputs:
                queue = waiting.get(key(tensor))
                if tensor not in self.tensors and queue:
                    self._pair_tensors(tensor, queue.popleft())

    def _statics(self) -> None:
        """Pair tensors without a producer: by name, then by their place in paired ops.

        Names count first only if paired ops read the tensors: numbers in names may have shifted.
        """
        named = [
            (tensor, self.after.tensors[name])
            for name, tensor in self.before.tensors.items()
            if name in self.after.tensors and tensor.producer is None
        ]
        for tensor, same_name in named:
            readers = {self.match.ops.get(op) for op in self.before.consumers(tensor)}
            if not readers.isdisjoint(self.after.consumers(same_name)):
                self._pair_open(tensor, same_name)
        for first, second in self.match.ops.items():
            for source, counterpart in zip(first.inputs, second.inputs, strict=False):
                if source is not None and counterpart is not None:
                    self._pair_open(source, counterpart)
        for tensor, same_name in named:
            self._pair_open(tensor, same_name)

    def _pair_open(self, first: Tensor, second: Tensor) -> None:
        are_sources = first.producer is None and second.producer is None
        if are_sources and first not in self.tensors and second not in self.tensors:
            self._pair_tensors(first, second)


def _name(tensor: Tensor) -> Hashable:
    return tensor.name


def _shape_and_type(tensor: Tensor) -> Hashable:
    return tensor.shape, tensor.dtype.name


def _any(_tensor: Tensor) -> Hashable:
    return None


def _readers_of(op: Op) -> list[Op]:
    return [reader for tensor in op.outputs for reader in op.graph.consumers(tensor)] if op.graph else []


def _producers_of(op: Op) -> list[Op]:
    return [tensor.producer for tensor in op.inputs if tensor is not None and tensor.producer is not None]


def _param(param: Param) -> Hashable:
    if not isinstance(param, Tensor):
        return (param.dtype.name, repr(param.value))
    small = param.data is not None and param.data.nbytes <= _SMALL
    return (param.dtype.name, param.shape, bytes(param.data.content()) if small and param.data else b"")


def in_order(match: GraphMatch) -> set[Op]:
    """Return most ops of the first graph whose order is also that of the second."""
    if match.before is None or match.after is None:
        return set()
    places = {op: place for place, op in enumerate(match.after.ops)}
    paired = [op for op in match.before.ops if op in match.ops]
    ends: list[int] = []
    tails: list[int] = []
    links: list[int] = []
    for number, op in enumerate(paired):
        place = places[match.ops[op]]
        at = bisect_left(ends, place)
        ends[at : at + 1] = [place]
        tails[at : at + 1] = [number]
        links.append(tails[at - 1] if at else -1)
    kept: set[Op] = set()
    number = tails[-1] if tails else -1
    while number >= 0:
        kept.add(paired[number])
        number = links[number]
    return kept
