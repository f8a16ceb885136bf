"""Import of Loop and Scan, as unrolled iterations or as a ``While``."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.control_flow.repeat import Repeat, unrolled
from xdlc.converter.control_flow.sub_graph import check_formals, inline, scalar, stacked
from xdlc.converter.control_flow.while_loop import looped
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import structural
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.session.context import Scope
from xdlc.converter.session.node import Node, bind_dims
from xdlc.converter.values import AnyValue, Value


@structural("Loop")
def import_loop(node: Node, g: Operators) -> list[AnyValue]:
    """Import a Loop, as unrolled iterations or as a ``While``."""
    body = node.graph("body")
    first, second, *initial = (*node.inputs, None, None)[: max(len(node.inputs), 2)]
    trip = None if first is None else tensor_of(node, first, "the trip count of the loop")
    condition = None if second is None else tensor_of(node, second, "the condition of the loop")
    states: list[AnyValue] = [value for value in initial if value is not None]
    if len(states) != len(initial):
        raise node.problem(
            "an initial value of the loop is missing", "set an initial tensor for every state of the loop"
        )
    check_formals(node, body, 2 + len(states), 1 + len(states))

    def step(
        number: Value, flag: Value, held: Sequence[AnyValue], shared: Scope
    ) -> tuple[AnyValue | None, list[AnyValue], list[AnyValue]]:
        given = dict(zip(body.inputs, (number, flag, *held), strict=True))
        go_on, *rest = inline(g.context, body, given, shared)
        return go_on, rest[: len(held)], rest[len(held) :]

    scans = [(0, False)] * (len(body.outputs) - 1 - len(states))
    loop = Repeat(node, body, step, states, trip, condition, scans, (body.input_rank(0), body.input_rank(1)))
    return iterated(g, loop)


def iterated(g: Operators, loop: Repeat) -> list[AnyValue]:
    """Return the final states and the scan outputs.

    Raises:
        UnsupportedOp: If a state is a sequence or an optional and the loop cannot be unrolled.
    """
    results = unrolled(g, loop)
    if results is not None:
        return results
    if loop.holds_tensors:
        return looped(g, loop)
    raise loop.node.problem(
        "a state of the loop is a sequence or an optional; xdlc cannot unroll the loop, "
        "because its length is unknown or too large",
        "keep the state in a tensor, for instance as a scan output, or make the length constant",
    )


@structural("Scan", since=9)
def import_scan(node: Node, g: Operators) -> list[AnyValue]:
    """Import a Scan of opset 9 or newer."""
    return _scan(g, node, [_input(node, index) for index in range(len(node.inputs))])


@structural("Scan")
def import_scan_8(node: Node, g: Operators) -> list[AnyValue]:
    """Import a Scan of opset 8, which scans each element of a batch by itself."""
    if node.input(0) is not None:
        raise node.problem(
            "the sequences differ in length", "use a Scan for each length, or upgrade the model to opset 9"
        )
    inputs = [_input(node, index) for index in range(1, len(node.inputs))]
    batch = inputs[0].dims if inputs else None
    if not batch or batch[0] is None:
        raise node.problem("the size of the batch is not known", bind_dims())
    if not g.context.budget.unrolled_nodes.take(batch[0] * (node.graph("body").size + len(inputs))):
        raise node.problem(
            f"a batch of {batch[0]} is too large for a Scan of opset 8", "upgrade the model to opset 9"
        )
    rows = []
    for index in range(batch[0]):
        at = scalar(g, index)
        rows.append(_scan(g, node, [g("Gather", [value, at], axis=0) for value in inputs]))
    return [stacked(g, column, 0, False) for column in zip(*rows, strict=True)]


def _input(node: Node, index: int) -> Value:
    return tensor_of(node, node.required(index), f"input {index}")


def _scan(g: Operators, node: Node, inputs: Sequence[Value]) -> list[AnyValue]:
    body, count = node.graph("body"), int(node.attr("num_scan_inputs", 0))
    first = len(inputs) - count
    if count < 1 or first < 0:
        raise node.invalid(f"the Scan scans {count} inputs, but has {len(inputs)}")
    check_formals(node, body, len(inputs), first)
    axes = _listed(node, "scan_input_axes", count)
    reverse = _listed(node, "directions" if node.opset < 9 else "scan_input_directions", count)
    made = len(body.outputs) - first
    scans = list(
        zip(
            _listed(node, "scan_output_axes", made),
            (way == 1 for way in _listed(node, "scan_output_directions", made)),
            strict=True,
        )
    )
    sequences = [f"{node.name}~sequence{index}" for index in range(count)]
    for name, value, axis in zip(sequences, inputs[first:], axes, strict=True):
        if value.ranked and not -value.rank <= axis < value.rank:
            raise node.invalid(f"the Scan scans axis {axis}, but a value has rank {value.rank}")
        g.context.values[name] = value
    length = f"{node.name}~length"
    g.context.values[length] = _length(g, inputs[first], axes[0])

    def step(
        number: Value, flag: Value, states: Sequence[AnyValue], shared: Scope
    ) -> tuple[AnyValue | None, list[AnyValue], list[AnyValue]]:
        slices = []
        for name, axis, backwards in zip(sequences, axes, reverse, strict=True):
            at = number
            if backwards:
                last = g("Sub", [g.context.values.tensor(length), 1])
                at = g("Sub", [last, number])
            slices.append(g("Gather", [g.context.values.tensor(name), at], axis=axis))
        results = inline(g.context, body, dict(zip(body.inputs, (*states, *slices), strict=True)), shared)
        return None, results[: len(states)], results[len(states) :]

    trip = g.context.values.tensor(length)
    return iterated(g, Repeat(node, body, step, list(inputs[:first]), trip, None, scans))


def _listed(node: Node, attribute: str, count: int) -> list[int]:
    values = [int(value) for value in node.attr(attribute) or [0] * count]
    if len(values) != count:
        raise node.invalid(f"attribute {attribute} has {len(values)} values instead of {count}")
    return values


def _length(g: Operators, value: Value, axis: int) -> Value:
    """Return the size of a value along an axis."""
    shape = value.dims
    known = None if shape is None else shape[axis]
    if known is not None:
        return scalar(g, known)
    return g("Gather", [g("Shape", [value]), axis], axis=0)
