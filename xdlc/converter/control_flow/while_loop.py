"""Loops as a ``While`` with condition and body as graphs of the model.

A scan output is an accumulator, a state that starts empty and grows along an axis, so that any number
of iterations is exact, none among them.  Shapes of states are found by importing the body under an
assumption and again under a wider one where the body breaks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdlc.converter.control_flow.repeat import Repeat
from xdlc.converter.control_flow.sub_graph import (
    Kind,
    SubGraph,
    as_condition,
    boundary,
    commit,
    constants,
    emit,
    graph_name,
    grown,
    joined,
    known,
    scalar,
    share_captures,
    sub_graph,
    wider,
)
from xdlc.converter.functions.shapes import vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.session.context import Assumed, Scope
from xdlc.converter.session.node import Computed
from xdlc.converter.values import AnyValue, Dims, Value, identity
from xdlc.ir import Tensor
from xdlc.ir.dtype import BOOL8, INT64
from xdlc.opdefs.control_flow import WHILE
from xdlc.records import record


def looped(g: Operators, loop: Repeat) -> list[AnyValue]:
    """Return the results of a ``While``, whose states must be tensors."""
    assumed = _first_assumption(g, loop)
    for index, value in enumerate(loop.states):
        g.context.values[f"{loop.node.name}~state{index}"] = value
    if loop.trip is not None:
        g.context.values[f"{loop.node.name}~trip"] = loop.trip
    while True:
        forget = g.context.checkpoint()
        body = _Body(g, loop, assumed)
        with sub_graph(g.context, graph_name(g, loop.node, "body")) as sub:
            other = body.build(sub)
        if other is None:
            return body.finish(sub)
        forget()
        assumed = g.assumptions[g.context.path(loop.node)] = other


def _first_assumption(g: Operators, loop: Repeat) -> Assumed:
    """Return the assumptions of earlier imports, widened by the initial values."""
    states = loop.tensors(loop.states)
    assumed = g.assumptions.setdefault(g.context.path(loop.node), Assumed([value.dims for value in states]))
    assumed.shapes = [wider(shape, value.dims) for shape, value in zip(assumed.shapes, states, strict=True)]
    assumed.condition |= loop.condition is not None and known(loop.condition) is None
    return assumed


@record
class _Body:
    """The graphs of a loop, under an assumption.

    Attributes:
        kinds: What is known of the states that vary and of the accumulators.
        carried: Inputs of the body: those, the number of the iteration, and the condition if it varies.
        results: Results of the body for them, and whether its rank is known.
        elements: Its results for the scan outputs.
    """

    g: Operators
    loop: Repeat
    assumed: Assumed
    kinds: list[Kind] = field(default_factory=list)
    carried: list[Tensor] = field(default_factory=list)
    results: list[tuple[Value, bool]] = field(default_factory=list)
    elements: list[Value] = field(default_factory=list)

    @property
    def varying(self) -> list[int]:
        """Positions of the states that iterations change."""
        return [i for i in range(len(self.loop.states)) if i not in self.assumed.constant]

    def build(self, sub: SubGraph) -> Assumed | None:
        """Import the body; return a wider assumption if the body breaks the present one."""
        g, loop, assumed = self.g, self.loop, self.assumed
        states = self._states(sub)
        number = sub.input(f"{loop.node.name}~number", (1,) * loop.ranks[0], INT64)
        if assumed.condition:
            flag = sub.input(f"{loop.node.name}~flag", (1,) * loop.ranks[1], BOOL8)
        else:
            flag = loop.flag(g, None)
        condition, after, rows = loop.step(number, flag, states, constants(g.context, loop.body))
        go_on = None if condition is None else tensor_of(loop.node, condition, "the condition of the loop")
        following, self.elements = loop.tensors(after), loop.tensors(rows)
        other = self._wider(go_on, states, following)
        if other is not None:
            return other
        for index in self.varying:
            self._carry(states[index], following[index], assumed.shapes[index])
        for element, (axis, backwards) in zip(self.elements, loop.scans, strict=True):
            self._accumulate(sub, number, element, axis, backwards)
        self.carried.append(number.tensor)
        self.results.append((g("Add", [number, 1]), True))
        if assumed.condition:
            self.carried.append(flag.tensor)
            tensor = as_condition(g, flag if go_on is None else go_on)
            self.results.append((Value(tensor, identity(1)), True))
        for value, ranked in self.results:
            sub.output(value, ranked=ranked)
        return None

    def _states(self, sub: SubGraph) -> list[Value]:
        """Return the states of an iteration: body inputs, or values around it."""
        states = []
        for index, (value, shape) in enumerate(
            zip(self.loop.tensors(self.loop.states), self.assumed.shapes, strict=True)
        ):
            name = f"{self.loop.node.name}~state{index}"
            if index in self.assumed.constant:
                states.append(self.g.context.values.tensor(name))
            else:
                states.append(sub.input(name, shape, value.dtype, value.tensor.encoding))
        return states

    def _wider(
        self, go_on: Value | None, states: Sequence[Value], following: Sequence[Value]
    ) -> Assumed | None:
        """Return an assumption that fits these states too; None if the present one does."""
        assumed, pairs = self.assumed, list(zip(states, following, strict=True))
        constant = assumed.constant | {
            index
            for index, (before, after) in enumerate(pairs)
            if before.tensor is after.tensor and before.order == after.order
        }
        shapes = list(assumed.shapes)
        for index, pair in enumerate(pairs):
            if index not in constant:
                shapes[index], _, _ = joined(self.loop.node, pair)
        condition = assumed.condition or (go_on is not None and not known(go_on))
        other = Assumed(shapes, frozenset(constant), condition)
        return None if other == assumed else other

    def _carry(self, state: Value, following: Value, shape: Dims | None) -> None:
        self.kinds.append((shape, state.dtype, state.tensor.encoding))
        self.carried.append(state.tensor)
        self.results.append((following, shape is not None))

    def _accumulate(self, sub: SubGraph, number: Value, element: Value, axis: int, backwards: bool) -> None:
        """Carry a scan output, to which each iteration adds an element."""
        g, shape = self.g, element.dims
        at = axis if axis >= 0 or shape is None else axis + len(shape) + 1
        known_shape = None if shape is None else grown(shape, at, None)
        name = f"{self.loop.node.name}~scan{len(self.carried)}"
        rows = sub.input(name, known_shape, element.dtype, element.tensor.encoding)
        piece = g("Unsqueeze", [element, [axis]])
        pair = [piece, rows] if backwards else [rows, piece]
        if shape is not None and None not in shape:
            longer = g("Concat", pair, axis=at)
        else:
            # What is there before the first element has none of its dimensions: the first one replaces it.
            first = g("Equal", [number, 0])
            longer = self._first_or_joined(first, piece, pair, at)
        self._carry(rows, longer, known_shape)

    def _first_or_joined(self, first: Value, piece: Value, pair: Sequence[Value], axis: int) -> Value:
        """Return ``piece`` if ``first`` is true, else the joined values of ``pair``."""
        g, context = self.g, self.g.context

        def alone(_: object) -> list[Value]:
            return g.apply("Identity", [context.values.tensor("piece")], names=["alone"])

        def together(_: object) -> list[Value]:
            both = [context.values.tensor(name) for name in ("a", "b")]
            return g.apply("Concat", both, {"axis": axis}, names=["joined"])

        with context.scope(Scope(context.values)):
            context.values.update(piece=piece, a=pair[0], b=pair[1])
            branches = {
                "then_branch": Computed((), ["alone"], alone),
                "else_branch": Computed((), ["joined"], together),
            }
            return g.apply("If", [first], branches, names=["chosen"])[0]

    def finish(self, body: SubGraph) -> list[AnyValue]:
        """Make the graph of the condition and the op; return the results of the loop."""
        g, loop = self.g, self.loop
        if not self.kinds:
            return loop.states  # nothing changes from iteration to iteration
        with sub_graph(g.context, graph_name(g, loop.node, "cond")) as cond:
            twins = [cond.graph.add_input(_twin(tensor)) for tensor in self.carried]
            cond.output(self._condition(twins[len(self.kinds) :]))
        captured = share_captures([body, cond])
        for sub, carried in ((body, self.carried), (cond, twins)):
            sub.graph.inputs[:] = [*carried, *(sub.inputs[name] for name in captured)]
        params = commit(g, [cond, body], ("cond_graph", "body_graph"))
        inputs = [*self._initial(), *(boundary(g.builder, value) for value in captured.values())]
        finals = iter(emit(g.builder, WHILE, inputs, self._final_kinds(), params))
        states = [
            value if index in self.assumed.constant else next(finals)
            for index, value in enumerate(loop.states)
        ]
        return [*states, *finals]

    def _condition(self, states: Sequence[Tensor]) -> Value:
        """Return whether another iteration begins, by the body and the trip count."""
        g = self.g
        number, *flags = (Value(tensor, ()) for tensor in states)
        parts = flags
        if self.loop.trip is not None:
            trip = g.context.values.tensor(f"{self.loop.node.name}~trip")
            parts = [g("Less", [number, trip]), *flags]
        if not parts:
            return scalar(g, True)
        value = parts[0] if len(parts) == 1 else g("And", parts)
        return Value(as_condition(g, value), identity(1))

    def _initial(self) -> list[Tensor]:
        """Return the initial operands of the op for carried values."""
        import numpy

        g, loop, builder = self.g, self.loop, self.g.builder
        states = loop.tensors(loop.states)
        tensors = [
            boundary(builder, states[i], ranked=self.assumed.shapes[i] is not None) for i in self.varying
        ]
        for shape, dtype, _ in self.kinds[len(tensors) :]:
            none = tuple(0 if extent is None else extent for extent in shape or (None,))
            tensors.append(boundary(builder, builder.const(numpy.zeros(none, dtype.numpy))))
        tensors.append(boundary(builder, vector(g, [0])))
        if self.assumed.condition:
            given = scalar(g, True) if loop.condition is None else loop.condition
            tensors.append(as_condition(g, given))
        return tensors

    def _final_kinds(self) -> list[Kind]:
        """Return the kinds of the results; scans are complete if the count is known."""
        count = None if self.assumed.condition else known(self.loop.trip)
        if count is None:
            return self.kinds
        first = len(self.varying)
        scans = zip(self.kinds[first:], self.elements, self.loop.scans, strict=True)
        longest = [
            (shape and grown(element.dims or (), axis, max(count, 0)), dtype, encoding)
            for (shape, dtype, encoding), element, (axis, _) in scans
        ]
        return [*self.kinds[:first], *longest]


def _twin(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.encoding, dynamic_axes=tensor.dynamic_axes)
