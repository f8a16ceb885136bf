"""Loops of the form ``while condition(states): states = body(states)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdlc.converter.control_flow.recurrence import recurrence
from xdlc.converter.control_flow.sub_graph import check_formals, inline, known, scalar, trial
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.context import UNROLLED_NODES, Unresolved
from xdlc.converter.session.node import Body, Computed, Node
from xdlc.converter.values import AnyValue, SequenceValue, Value
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import FLOAT32

_PASSING = {"Identity", "clone"}
_MONOTONE = {"less", "lt", "logicaland", "add", "addv2", "const", *(one.lower() for one in _PASSING)}
_MOST_TRIPS = (1 << 31) - 1
_DEPTH = 1 << 16


def apply_while(
    node: Node,
    g: Operators,
    condition: Body,
    body: Body,
    states: Sequence[AnyValue],
    unlisted: Callable[[Sequence[AnyValue]], list[AnyValue]] | None = None,
) -> list[AnyValue]:
    """Return the final states of a loop; unchanged states are not carried.

    Args:
        condition: Graph from the states to a truth value.
        body: Graph from the states to the next states.
        unlisted: Returns the states with lists as tensors, which a loop that is not unrolled needs.

    Raises:
        ModelError: If a graph has another number of inputs or outputs.
        UnsupportedOp: If the condition is not a tensor.
    """
    for graph, outputs in ((condition, 1), (body, len(states))):
        check_formals(node, graph, len(states), outputs)
    trips = _trip_count(node, g, condition, body, states)
    if trips == 0:
        return list(states)
    if unlisted and not _can_unroll(g, body, trips) and any(isinstance(x, SequenceValue) for x in states):
        states = unlisted(states)
    context = g.context
    fixed = passed_on(body)
    varying = [position for position in range(len(states)) if position not in fixed]
    outside = {position: f"{context.builder.node}~fixed{position}" for position in fixed}
    context.values.update((name, states[position]) for position, name in outside.items())

    def given(formals: Sequence[str], held: Sequence[AnyValue]) -> dict[str, AnyValue]:
        found = {formals[position]: context.values[name] for position, name in outside.items()}
        found.update((formals[position], value) for position, value in zip(varying, held, strict=True))
        return found

    def go_on(held: Sequence[AnyValue]) -> AnyValue:
        return inline(context, condition, given(condition.inputs, held))[0]

    def step(values: Sequence[AnyValue]) -> list[AnyValue]:
        following = inline(context, changing, given(body.inputs, values[2:]))
        return [go_on(following) if trips is None else scalar(g, True), *following]

    changing = body.only(varying)
    initial = [states[position] for position in varying]
    found = None if trips is None else _recurrence(node, g, changing, varying, initial, given, trips)
    if found is not None:
        return [found.get(position, value) for position, value in enumerate(states)]
    start = go_on(initial) if trips is None else None
    if not isinstance(start, Value | None):
        raise UnsupportedOp("the condition of the loop is not a tensor")
    count = None if trips is None else scalar(g, trips)
    names = [f"state{position}" for position in varying]
    loop = _Iteration(["number", "flag", *names], ["go_on", *(f"{name}_next" for name in names)], step)
    loop.size_of = [body] if trips is not None else [condition, body]
    made = g.apply_any("Loop", [count, start, *initial], {"body": loop}, len(varying)) if varying else []
    finals = dict(zip(varying, made, strict=True))
    return [finals.get(position, value) for position, value in enumerate(states)]


def _recurrence(
    node: Node,
    g: Operators,
    body: Body,
    varying: Sequence[int],
    initial: Sequence[AnyValue],
    bound: Callable[[Sequence[str], Sequence[AnyValue]], dict[str, AnyValue]],
    trips: int,
) -> dict[int, AnyValue] | None:
    """Return the final states of a loop that is a recurrent layer, or None."""
    context = g.context
    rows = [value for value in initial if isinstance(value, Value) and value.rank == 2]
    if not rows or not all(value.dtype is FLOAT32 and not value.is_dynamic for value in rows):
        return None
    if not context.budget.unrolled_nodes.take(body.size):
        return None
    for name, position, value in zip(body.outputs, varying, initial, strict=True):
        if not isinstance(value, Value) and position not in _read(body, [name])[0]:
            return None  # a list that each iteration makes anew
    try:
        with trial(g, node, "cell", initial) as (sub, before):
            after = [
                g("Unsqueeze", [value.elements[0], [0]])
                if isinstance(value, SequenceValue) and len(value.elements) == 1
                else value
                for value in inline(context, body, bound(body.inputs, before))
            ]
    except Unresolved:
        return None
    results = {at: value for at, value in zip(varying, after, strict=True) if isinstance(value, Value)}
    if len(results) < len(after):
        return None
    tensors = {
        at: value.tensor for at, value in zip(varying, before, strict=True) if isinstance(value, Value)
    }
    return recurrence(g, sub, tensors, results, dict(zip(varying, initial, strict=True)), trips)


class _Iteration(Computed):
    """An iteration in the form of the body of a Loop.

    Attributes:
        size_of: Graphs that it imports: the body, and the condition if nothing else ends the loop.
    """

    size_of: Sequence[Body] = ()

    @property
    def size(self) -> int:
        """Number of nodes."""
        return sum(graph.size for graph in self.size_of)

    def operands(self, name: str) -> Sequence[str] | None:
        """Return the operands of a value; the condition of a counted loop has none."""
        return () if name == self.outputs[0] and len(self.size_of) == 1 else super().operands(name)


def passed_on(body: Body) -> frozenset[int]:
    """Return the positions of the states that a body passes on unchanged."""
    pairs = zip(body.inputs, body.outputs, strict=False)
    return frozenset(index for index, (formal, name) in enumerate(pairs) if _origin(body, name) == formal)


def _origin(body: Body, name: str) -> str:
    for _ in range(_DEPTH):
        node = body.producer(name)
        if node is None or node.type not in _PASSING or name != node.outputs[0]:
            break
        name = node.names[0]
    return name


def _can_unroll(g: Operators, body: Body, trips: int | None) -> bool:
    """Return whether a loop that runs a number of times may be unrolled."""
    if trips is None or trips > g.unroll_loops:
        return False
    return g.context.budget.unrolled_nodes.used + trips * body.size <= UNROLLED_NODES


def _trip_count(
    node: Node, g: Operators, condition: Body, body: Body, states: Sequence[AnyValue]
) -> int | None:
    """Return how often a loop runs, if that depends on known states only; else None.

    The states that decide are computed step by step as long as the loop may be unrolled.  After that the
    count is found by bisection, if conditions and states are sums, comparisons and conjunctions.
    """
    deciding, types = _deciding(condition, body)
    if not all(position < len(states) and _number(states[position]) for position in deciding):
        return None
    try:
        with trial(g, node, "trips", ()):
            return _counted(g, condition, body.only(deciding), deciding, states, types)
    except Unresolved:
        return None


def _number(value: AnyValue) -> bool:
    return (
        isinstance(value, Value) and value.is_static and value.size == 1 and value.dtype.numpy.kind in "iub"
    )


def _counted(
    g: Operators,
    condition: Body,
    body: Body,
    deciding: Sequence[int],
    states: Sequence[AnyValue],
    types: set[str],
) -> int | None:
    def given(formals: Sequence[str], numbers: Mapping[int, AnyValue]) -> dict[str, AnyValue]:
        return {formals[position]: value for position, value in numbers.items()}

    def goes_on(numbers: Mapping[int, AnyValue]) -> int | None:
        return known(inline(g.context, condition, given(condition.inputs, numbers))[0])

    numbers: dict[int, AnyValue] = {position: states[position] for position in deciding}
    track = [numbers]
    steps = max(g.unroll_loops, 2) + 1
    for count in range(steps):
        more = goes_on(numbers)
        if not more:
            return None if more is None else count
        following = inline(g.context, body, given(body.inputs, numbers))
        numbers = dict(zip(deciding, following, strict=True))
        if not all(map(_number, numbers.values())):
            return None
        track = [*track[-2:], numbers]
    before, first, second = (
        {position: known(value) or 0 for position, value in one.items()} for one in track[-3:]
    )
    if not types <= _MONOTONE or any(first[one] - before[one] != second[one] - first[one] for one in numbers):
        return None  # sums of states whose steps are equal twice have equal steps for ever

    def after(trips: int) -> dict[int, AnyValue]:
        """Return the states after a number of further iterations."""
        later: dict[int, AnyValue] = {}
        for position, value in numbers.items():
            assert isinstance(value, Value)
            number = second[position] + trips * (second[position] - first[position])
            bound = (1 << (value.dtype.bits - 1)) - 1
            array = value.numpy() * 0 + max(min(number, bound), -bound)
            later[position] = g.builder.const(array.astype(value.dtype.numpy))
        return later

    low, high = -1, _MOST_TRIPS
    if goes_on(after(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        more = goes_on(after(middle))
        if more is None:
            return None
        low, high = (middle, high) if more else (low, middle)
    return steps + high


def _deciding(condition: Body, body: Body) -> tuple[list[int], set[str]]:
    """Return the positions of the deciding states, and the operators they need."""
    if len(condition.inputs) != len(body.inputs) or len(body.outputs) != len(body.inputs):
        return [-1], set()
    positions, types = _read(condition, condition.outputs[:1])
    pending = list(positions)
    while pending:
        position = pending.pop()
        more, needed = _read(body, [body.outputs[position]])
        types |= needed
        pending += more - positions
        positions |= more
    return sorted(positions), types


def _read(body: Body, names: Iterable[str]) -> tuple[set[int], set[str]]:
    """Return the positions of the inputs of values, and the operators between."""
    positions = {name: index for index, name in enumerate(body.inputs)}
    positions_read, types, seen, pending = set[int](), set[str](), set[str](), list(names)
    while pending:
        name = pending.pop()
        if name in seen or not name:
            continue
        seen.add(name)
        node = body.producer(name)
        if name in positions:
            positions_read.add(positions[name])
        elif node is not None:
            types.add(node.type.partition(".")[0].replace("_", "").lower())
            pending += body.operands(name) or ()
    return positions_read, types
