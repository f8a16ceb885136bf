"""Imports If, Loop and Scan as ``If`` and ``While``, whose graphs are graphs of the model.

What a graph of the source reads of the graphs around it becomes inputs of the op; constants are put
into the graph itself.  Conditions that are known leave only the chosen branch, small known numbers of
iterations leave the iterations one after the other.

A scan output is an accumulator, a state that starts empty and grows along an axis, so that any number
of iterations is exact, none among them.  Shapes of states are found by importing the body under an
assumption and again under a wider one where the body breaks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.inference import Extents, extents
from xdlc.converter.onnx.registry import Node
from xdlc.converter.onnx.structures import leaves, matched, rebuilt, tensor_of
from xdlc.converter.values import AnyValue, Value, identity, open_tensor
from xdlc.errors import UnsupportedOp, XdlcError
from xdlc.ir import HOST_PACKAGE, DType, Graph, Tensor
from xdlc.ir.dtype import BOOL8, INT64
from xdlc.opdefs.control_flow import IF, WHILE

NODE_LIMIT = 1 << 14
"""Most nodes that unrolled loops of a model may come to."""


class Unsettled(Exception):
    """A value cannot be had, because of a problem that has been reported already."""


class Scope(dict[str, AnyValue]):
    """Values by the names that a graph has for them; others are looked for in the scope around it.

    Args:
        outer: The scope around it.
        capture: Makes a value of the outer scope one of this graph; default: it is that already.
    """

    def __init__(
        self, outer: Scope | None = None, capture: Callable[[str, AnyValue], AnyValue] | None = None
    ):
        super().__init__()
        self._outer = outer
        self._capture = capture

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (self._outer is not None and name in self._outer)

    def __missing__(self, name: str) -> AnyValue:
        if self._outer is None:
            raise KeyError(name)
        value = self._outer[name]
        if self._capture is not None:
            value = self[name] = self._capture(name, value)
        return value

    def tensor(self, name: str) -> Value:
        """Return a value that is a tensor.

        Raises:
            TypeError: If it is a sequence or an optional.
        """
        value = self[name]
        if not isinstance(value, Value):
            raise TypeError(f"{name!r} is no tensor")
        return value


class SubGraph:
    """A graph under construction that an op is going to run.

    Attributes:
        builder: Adds to the graph.
        opened: Whether the extents of what it captures are taken as open.
        captured: What the graph reads of the scope around it, by name: values there.
        inputs: The input of the graph for each of these.
    """

    def __init__(self, name: str, *, opened: bool = False) -> None:
        self.builder = Builder(Graph(name))
        self.opened = opened
        self.captured: dict[str, Value] = {}
        self.inputs: dict[str, Tensor] = {}

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.builder.graph

    def capture(self, name: str, value: AnyValue) -> AnyValue:
        """Return what stands in the graph for a value of the scope around it."""
        if isinstance(value, Value):
            return self._capture_tensor(name, value)
        parts = [self._capture_tensor(f"{name}~{index}", leaf) for index, leaf in enumerate(leaves(value))]
        return rebuilt(value, iter(parts))

    def _capture_tensor(self, name: str, value: Value) -> Value:
        held = value.tensor
        if value.is_static:
            copy = Tensor(held.name, held.shape, held.dtype, held.encoding, held.data, held.role)
            return Value(copy, value.order, bits=value.bits)
        shape = extents(value)
        if self.opened and shape is not None:
            shape = (None,) * len(shape)
        made = self.input(name, shape, held.dtype, held.encoding)
        self.captured[name], self.inputs[name] = value, made.tensor
        return made

    def input(
        self, name: str, shape: Extents | None, dtype: DType, encoding: ir.Encoding | None = None
    ) -> Value:
        """Add an input; its shape is None if the rank is open."""
        lying = (None,) if shape is None else shape or (1,)
        tensor = open_tensor(self.graph.unique_name(name), lying, dtype)
        tensor.encoding = encoding
        self.graph.add_input(tensor)
        return Value(tensor, () if shape == () else identity(tensor.rank), ranked=shape is not None)

    def output(self, value: Value, *, ranked: bool = True) -> Tensor:
        """Make a value the graph's next output; a scalar is given as [1] if the rank is known."""
        builder = self.builder
        tensor = boundary(builder, value, ranked=ranked)
        if tensor.producer is None or self.graph.is_output(tensor):
            why = "an output that is an input, a constant or another output"
            copied = Value(tensor, identity(tensor.rank), ranked=value.ranked)
            if tensor.dynamic_axes:
                tensor = builder.unary("Identity", copied, package=HOST_PACKAGE).tensor
            else:
                tensor = builder.emit(
                    "Reshape", [tensor], tensor.shape, tensor.dtype, encoding=tensor.encoding, why=why
                )
        return self.graph.add_output(tensor)


def boundary(builder: Builder, value: Value, *, ranked: bool = True) -> Tensor:
    """Return the tensor in which a value goes from graph to graph: in the source's order, scalars as [1].

    Args:
        builder: Of the graph that holds the value.
        value: The value.
        ranked: Whether its rank is known on the other side; if not, a scalar keeps rank 0.
    """
    if value.bits is not None:
        raise UnsupportedOp(f"{value.tensor.name!r} holds integers of {value.bits} bits")
    if value.rank:
        return builder.source_order(value)
    if ranked:
        return builder.source_order(builder.reshape(value, (1,))) if value.is_static else value.tensor
    if value.is_static:
        return builder.source_order(value)
    if value.scalar is None:
        value.scalar = builder.emit("Reshape", [value.tensor], (), value.dtype, why="a scalar again")
    return value.scalar


class Importer(Protocol):
    """What is asked of the import of a model."""

    builder: Builder
    values: Scope
    unroll_loops: int
    assumptions: dict[tuple[str, ...], Assumed]
    graphs: dict[str, Graph]
    problems: list[XdlcError]
    opening: bool

    def sub_graph(self, name: str) -> AbstractContextManager[SubGraph]:
        """Import into a new graph while the context is open."""

    def inline(
        self,
        graph: Any,
        given: Mapping[str, AnyValue],
        shared: Scope | None = None,
        *,
        is_source: bool = True,
    ) -> list[AnyValue]:
        """Import the nodes of a ``GraphProto``; return its outputs.  Raises Unsettled."""

    def constants(self, graph: Any) -> Scope:
        """Return a scope with the initializers and constants of a ``GraphProto``."""

    def apply(self, type: str, inputs: Sequence[Value], **attributes: Any) -> Value:
        """Import a node of one output that the source does not have.  Raises Unsettled."""

    def apply_many(self, type: str, inputs: Sequence[Value], count: int, **attributes: Any) -> list[Value]:
        """Import a node of ``count`` outputs that the source does not have.  Raises Unsettled."""

    def list_elements(self, count: int) -> bool:
        """Return whether sequences may list that many elements more, and count them if so."""

    def size_of(self, graph: Any) -> int:
        """Return the number of nodes that a ``GraphProto`` comes to, its functions expanded."""

    def spend(self, nodes: int) -> bool:
        """Return whether that many nodes may be added by unrolling, and count them if so."""

    def attempt(self) -> Callable[[], list[XdlcError]]:
        """Return a function that forgets the graphs and problems since now, and returns the problems."""

    def path(self, node: Node) -> tuple[str, ...]:
        """Return where a node stands among the graphs of the source."""


# ---------------------------------------------------------------------------- If


def import_if(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a node; of a known condition only the branch that it chooses.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If a value has no form in a DLC.
        Unsettled: If something inside has been reported.
    """
    condition = tensor_of(node, node.required(0), "its condition")
    branches = [node.graph("then_branch"), node.graph("else_branch")]
    for branch in branches:
        if len(branch.output) < len(node.outputs):
            raise node.invalid("a branch has fewer outputs than the node")
    if condition.is_static:
        if condition.size != 1:
            raise node.invalid(f"its condition has {condition.size} elements")
        return importer.inline(branches[0 if condition.numpy().reshape(-1)[0] else 1], {})
    test = _as_condition(importer, condition)
    imported = [
        _branch(importer, branch, _graph_name(importer, node, key))
        for branch, key in zip(branches, ("then", "else"), strict=True)
    ]
    subs = [sub for sub, _ in imported]
    results = [values for _, values in imported if values is not None]
    if len(results) < len(branches):
        raise Unsettled  # once the problems of both branches have been reported
    pairs = [matched(node, *pair) for pair in zip(*results, strict=False)]
    tensors = [[leaf for pair in pairs for leaf in leaves(pair[index])] for index in range(len(branches))]
    joined = [_joined(node, pair) for pair in zip(*tensors, strict=True)]
    if not joined:
        return [first for first, _ in pairs]  # nothing but empty sequences
    for sub, values in zip(subs, tensors, strict=True):
        for value, (shape, _, _) in zip(values, joined, strict=True):
            sub.output(value, ranked=shape is not None)
    captured = _share_captures(subs)
    for sub in subs:
        sub.graph.inputs[:] = [sub.inputs[name] for name in captured]
    params = _commit(importer, subs, ("then_graph", "else_graph"))
    inputs = [test, *(boundary(importer.builder, value) for value in captured.values())]
    made = iter(_emit(importer.builder, IF, inputs, joined, params))
    return [rebuilt(first, made) for first, _ in pairs]


def _branch(importer: Importer, branch: Any, name: str) -> tuple[SubGraph, list[AnyValue] | None]:
    """Import a branch; return its graph and its results, None if it cannot be imported.

    The shapes around it may be such that it is never taken, and that it is not even valid with them.
    So one that fails is tried once more as if the extents of what it reads were open.
    """
    forget = importer.attempt()
    sub, results = _attempt(importer, branch, name)
    if results is not None or importer.opening or not sub.captured:
        return sub, results
    problems = forget()
    importer.opening = True
    try:
        opened, results = _attempt(importer, branch, name)
    finally:
        importer.opening = False
    if results is not None:
        return opened, results
    forget()
    importer.problems.extend(problems)
    return sub, None


def _attempt(importer: Importer, branch: Any, name: str) -> tuple[SubGraph, list[AnyValue] | None]:
    with importer.sub_graph(name) as sub, suppress(Unsettled):
        return sub, importer.inline(branch, {})
    return sub, None


Kind = tuple[Extents | None, DType, ir.Encoding | None]


def _kind(value: Value) -> Kind:
    return extents(value), value.dtype, value.tensor.encoding


def _joined(node: Node, values: Sequence[Value]) -> Kind:
    """Return what is known of a value that is one of ``values``."""
    kinds = [_kind(value) for value in values]
    if len({(dtype, encoding) for _, dtype, encoding in kinds}) > 1:
        names = " and ".join(dict.fromkeys(str(dtype) for _, dtype, _ in kinds))
        raise node.invalid(f"a value is of type {names}, depending on the branch or the iteration")
    shape = kinds[0][0]
    for other, _, _ in kinds[1:]:
        shape = _wider(shape, other)
    return shape, kinds[0][1], kinds[0][2]


def _wider(one: Extents | None, other: Extents | None) -> Extents | None:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def _share_captures(subs: Sequence[SubGraph]) -> dict[str, Value]:
    """Give each graph inputs for what any of them reads of the outer scope; return these values."""
    captured: dict[str, Value] = {}
    for sub in subs:
        captured |= sub.captured
    for sub in subs:
        for name, value in captured.items():
            if name not in sub.inputs:
                sub.capture(name, value)
    return captured


def _as_condition(importer: Importer, value: Value) -> Tensor:
    """Return a condition as a tensor of shape [1]."""
    if value.rank > 1 or value.is_dynamic:
        value = importer.apply("Reshape", [value, _ints(importer, 1)])
    return boundary(importer.builder, value)


def _ints(importer: Importer, *values: int) -> Value:
    import numpy

    return importer.builder.const(numpy.asarray(values, numpy.int64))


def _scalar(importer: Importer, value: int | bool) -> Value:
    import numpy

    dtype = numpy.bool_ if isinstance(value, bool) else numpy.int64
    return importer.builder.const(numpy.asarray(value, dtype))


def _graph_name(importer: Importer, node: Node, key: str) -> str:
    """Return a name that sorts behind the main graph's and that other tools take as it is."""
    main = next(iter(importer.graphs))
    return f"{main}_{re.sub(r'[^0-9A-Za-z]+', '_', node.name).strip('_')}_{key}"


def _commit(importer: Importer, subs: Sequence[SubGraph], keys: Sequence[str]) -> dict[str, ir.Param]:
    """Add graphs to the model under free names; return the parameters that name them."""
    params: dict[str, ir.Param] = {}
    for sub, key in zip(subs, keys, strict=True):
        base, count = sub.graph.name, 1
        while sub.graph.name in importer.graphs:
            count += 1
            sub.graph.name = f"{base}_{count}"
        importer.graphs[sub.graph.name] = sub.graph
        params[key] = ir.string(sub.graph.name)
    return params


def _emit(
    builder: Builder,
    type: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Kind],
    params: Mapping[str, ir.Param],
) -> list[Value]:
    shapes: list[Extents] = [(None,) if shape is None else shape or (1,) for shape, _, _ in outputs]
    specs = [
        (tuple(1 if extent is None else extent for extent in shape), dtype)
        for shape, (_, dtype, _) in zip(shapes, outputs, strict=True)
    ]
    encodings = [encoding for _, _, encoding in outputs]
    made = builder.emit_many(type, inputs, specs, params, encodings=encodings, package=HOST_PACKAGE)
    values = []
    for tensor, held, (shape, _, _) in zip(made, shapes, outputs, strict=True):
        tensor.dynamic_axes = tuple(axis for axis, extent in enumerate(held) if extent is None)
        order = () if shape == () else identity(tensor.rank)
        values.append(Value(tensor, order, ranked=shape is not None))
    return values


# ---------------------------------------------------------------------------- Loop and Scan


@dataclass(slots=True)
class Assumed:
    """What is taken for granted about the values of a loop, until an iteration breaks it.

    Attributes:
        shapes: Shape of each state; None if the rank is open.
        constant: Positions of the states that no iteration changes.
        condition: Whether the body decides when the loop ends.
    """

    shapes: list[Extents | None]
    constant: frozenset[int] = frozenset()
    condition: bool = False


Step = Callable[
    [Value, Value, Sequence[AnyValue], Scope], "tuple[AnyValue | None, list[AnyValue], list[AnyValue]]"
]
"""One iteration: from its number, the condition and the states to the next condition (None: it goes
on), the next states and the elements of the scan outputs."""


@dataclass(slots=True)
class Repeat:
    """A Loop or a Scan.

    Attributes:
        node: The node.
        body: Its ``GraphProto``.
        step: One iteration.
        states: Initial states.
        trip: The largest number of iterations; None for any.
        condition: Whether to begin; None if so.
        scans: Axis of each scan output, and whether it is filled from its end.
        ranks: Ranks in which the body takes the number of the iteration and the condition.
    """

    node: Node
    body: Any
    step: Step
    states: list[AnyValue]
    trip: Value | None
    condition: Value | None
    scans: list[tuple[int, bool]]
    ranks: tuple[int, int] = (0, 0)

    def run(self, importer: Importer) -> list[AnyValue]:
        """Return the final states and the scan outputs.

        Raises:
            UnsupportedOp: If a state is a sequence or an optional and the loop cannot be unrolled.
        """
        unrolled = self._unrolled(importer)
        if unrolled is not None:
            return unrolled
        if self._holds_tensors():
            return self._looped(importer)
        raise self.node.problem(
            "a state is a sequence or an optional, which a DLC cannot hold, and the loop cannot be unrolled: "
            "its length is not known, or too large",
            "keep the state in a tensor, for instance as a scan output, or make the length constant",
        )

    def _holds_tensors(self) -> bool:
        return all(isinstance(state, Value) for state in self.states)

    def tensors(self, values: Sequence[AnyValue]) -> list[Value]:
        """Return values that the body gives for tensors."""
        return [tensor_of(self.node, value, "a value that its body gives") for value in values]

    # ------------------------------------------------------------------ unrolling

    def _unrolled(self, importer: Importer) -> list[AnyValue] | None:
        """Return the results of the iterations one after the other; None if too many are needed.

        A loop that carries sequences is unrolled as far as nodes are left, as there is no other way.
        """
        count = _known(self.trip)
        if (self.trip is not None and count is None) or (
            self.condition is not None and _known(self.condition) is None
        ):
            return None
        if self.condition is not None and not _known(self.condition):
            count = 0
        limit = importer.unroll_loops if self._holds_tensors() else NODE_LIMIT
        if count is not None and count > limit:
            return None
        if count != 0 and not self._ends_known(importer):
            return None
        forget = importer.attempt()
        shared = importer.constants(self.body)
        states, rows = self.states, list[list[Value]]()
        size, done = importer.size_of(self.body), 0
        go_on: AnyValue | None = None
        while count is None or done < count:
            if done >= limit or not importer.spend(size):
                forget()
                return None
            number = self._number(importer, done)
            go_on, states, row = self.step(number, self._flag(importer, go_on), states, shared)
            rows.append(self.tensors(row))
            done += 1
            if go_on is not None:
                if _known(go_on) is None:
                    forget()
                    return None
                if not _known(go_on):
                    break
        if not rows and self.scans:
            return [*states, *self._empty(importer)]
        columns = [[row[index] for row in rows] for index in range(len(self.scans))]
        joined = [_stacked(importer, column, *scan) for column, scan in zip(columns, self.scans, strict=True)]
        return [*states, *joined]

    def _number(self, importer: Importer, number: int) -> Value:
        return importer.builder.reshape(_scalar(importer, number), (1,) * self.ranks[0])

    def _flag(self, importer: Importer, go_on: AnyValue | None) -> Value:
        value = _scalar(importer, True) if go_on is None else tensor_of(self.node, go_on, "its condition")
        return importer.builder.reshape(value, (1,) * self.ranks[1])

    def _ends_known(self, importer: Importer) -> bool:
        """Return whether the condition of each iteration can be known, as far as names tell."""
        if not self.body.output:
            return True
        known = {name for index, name in enumerate(_formals(self.body)) if index < 2}
        known |= {
            name for name, state in zip(_formals(self.body)[2:], self.states, strict=False) if state.is_static
        }
        known |= {tensor.name for tensor in self.body.initializer}
        producer = {name: node for node in self.body.node for name in node.output}
        pending, seen = [self._condition_name()], set()
        while pending:
            name = pending.pop()
            if name in seen or name in known or not name:
                continue
            seen.add(name)
            node = producer.get(name)
            if node is None:
                if name in _formals(self.body) or name not in importer.values:
                    return False
                if not importer.values[name].is_static:
                    return False
            elif any(attribute.HasField("g") for attribute in node.attribute):
                return False
            elif node.op_type not in ("Shape", "Size"):
                pending.extend(node.input)
        return True

    def _condition_name(self) -> str:
        return str(self.body.output[0].name) if self.node.type == "Loop" else ""

    def _empty(self, importer: Importer) -> list[Value]:
        """Return scan outputs without elements, whose types an import of the body tells."""
        import numpy

        forget = importer.attempt()
        with importer.sub_graph(_graph_name(importer, self.node, "none")) as sub:
            states = [
                sub.input(f"state{index}", *_kind(value))
                if isinstance(value, Value)
                else sub.capture(f"state{index}", value)
                for index, value in enumerate(self.states)
            ]
            number = sub.input("number", (1,) * self.ranks[0], INT64)
            flag = sub.input("flag", (1,) * self.ranks[1], BOOL8)
            _, _, elements = self.step(number, flag, states, importer.constants(self.body))
        forget()
        return [
            importer.builder.const(numpy.zeros(_grown(extents(value), axis, 0), value.dtype.numpy))
            for value, (axis, _) in zip(self.tensors(elements), self.scans, strict=True)
        ]

    # ------------------------------------------------------------------ looping

    def _looped(self, importer: Importer) -> list[AnyValue]:
        """Return the results of a ``While``."""
        initial = _known(self.condition)
        key = importer.path(self.node)
        initial_states = self.tensors(self.states)
        assumed = importer.assumptions.setdefault(key, Assumed([extents(value) for value in initial_states]))
        assumed.shapes = [
            _wider(shape, extents(value)) for shape, value in zip(assumed.shapes, initial_states, strict=True)
        ]
        assumed.condition |= self.condition is not None and initial is None
        for index, value in enumerate(initial_states):
            importer.values[f"{self.node.name}~state{index}"] = value
        if self.trip is not None:
            importer.values[f"{self.node.name}~trip"] = self.trip
        while True:
            forget = importer.attempt()
            made = _Body(self, assumed)
            with importer.sub_graph(_graph_name(importer, self.node, "body")) as sub:
                wider = made.build(importer, sub)
            if wider is None:
                return made.finish(importer, sub)
            forget()
            assumed.shapes, assumed.constant, assumed.condition = (
                wider.shapes,
                wider.constant,
                wider.condition,
            )


@dataclass(slots=True)
class _Body:
    """The graphs of a loop, under an assumption."""

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

    def build(self, importer: Importer, sub: SubGraph) -> Assumed | None:
        """Import the body; return the wider assumption that it asks for, if it does."""
        loop, assumed = self.loop, self.assumed
        states: list[Value] = []
        for index, (value, shape) in enumerate(zip(loop.tensors(loop.states), assumed.shapes, strict=True)):
            name = f"{loop.node.name}~state{index}"
            if index in assumed.constant:
                states.append(importer.values.tensor(name))
            else:
                states.append(sub.input(name, shape, value.dtype, value.tensor.encoding))
        number = sub.input(f"{loop.node.name}~number", (1,) * loop.ranks[0], INT64)
        if assumed.condition:
            flag = sub.input(f"{loop.node.name}~flag", (1,) * loop.ranks[1], BOOL8)
        else:
            flag = loop._flag(importer, None)
        condition, after, rows = loop.step(number, flag, states, importer.constants(loop.body))
        go_on = None if condition is None else tensor_of(loop.node, condition, "its condition")
        following, elements = loop.tensors(after), loop.tensors(rows)
        wider = self._wider(go_on, states, following)
        if wider is not None:
            return wider
        varying = self.varying
        self.kinds = [(assumed.shapes[i], states[i].dtype, states[i].tensor.encoding) for i in varying]
        self.carried = [states[i].tensor for i in varying]
        self.results = [(following[i], assumed.shapes[i] is not None) for i in varying]
        self.elements = elements
        for element, (axis, backwards) in zip(elements, loop.scans, strict=True):
            self._accumulate(importer, sub, number, element, axis, backwards)
        one = _scalar(importer, 1)
        self.carried.append(number.tensor)
        self.results.append((importer.apply("Add", [number, one]), True))
        if assumed.condition:
            self.carried.append(flag.tensor)
            held = flag if go_on is None else go_on
            tensor = _as_condition(importer, held)
            self.results.append((Value(tensor, identity(1)), True))
        for value, ranked in self.results:
            sub.output(value, ranked=ranked)
        return None

    def _wider(
        self, go_on: Value | None, states: Sequence[Value], following: Sequence[Value]
    ) -> Assumed | None:
        assumed = self.assumed
        constant = assumed.constant | {
            index
            for index, (before, after) in enumerate(zip(states, following, strict=True))
            if before is after or before.tensor is after.tensor
        }
        shapes = list(assumed.shapes)
        for index, (value, after) in enumerate(zip(states, following, strict=True)):
            if index not in constant:
                shapes[index], _, _ = _joined(self.loop.node, (value, after))
        condition = assumed.condition or (go_on is not None and not _known(go_on))
        wider = Assumed(shapes, frozenset(constant), condition)
        return None if wider == assumed else wider

    def _accumulate(
        self, importer: Importer, sub: SubGraph, number: Value, element: Value, axis: int, backwards: bool
    ) -> None:
        shape = extents(element)
        at = axis if axis >= 0 or shape is None else axis + len(shape) + 1
        grown = None if shape is None else _grown(shape, at, None)
        name = f"{self.loop.node.name}~scan{len(self.carried)}"
        held = sub.input(name, grown, element.dtype, element.tensor.encoding)
        piece = importer.apply("Unsqueeze", [element, _ints(importer, axis)])
        self.kinds.append((grown, element.dtype, element.tensor.encoding))
        self.carried.append(held.tensor)
        pair = [piece, held] if backwards else [held, piece]
        if shape is not None and None not in shape:
            self.results.append((importer.apply("Concat", pair, axis=at), True))
            return
        # What is there before the first element has none of its extents: the first one replaces it.
        first = importer.apply("Equal", [number, _scalar(importer, 0)])
        given = {"first": first, "piece": piece, "a": pair[0], "b": pair[1]}
        chosen = self.loop.tensors(importer.inline(_first_or_joined(at), given, is_source=False))
        self.results.append((chosen[0], grown is not None))

    def finish(self, importer: Importer, body: SubGraph) -> list[AnyValue]:
        """Make the graph of the condition and the op; return the results of the loop."""
        loop, builder = self.loop, importer.builder
        if not self.kinds:
            return loop.states  # nothing changes from iteration to iteration
        with importer.sub_graph(_graph_name(importer, loop.node, "cond")) as cond:
            twins = [cond.graph.add_input(_twin(tensor)) for tensor in self.carried]
            cond.output(self._condition(importer, twins[len(self.kinds) :]))
        captured = _share_captures([body, cond])
        for sub, carried in ((body, self.carried), (cond, twins)):
            sub.graph.inputs[:] = [*carried, *(sub.inputs[name] for name in captured)]
        params = _commit(importer, [cond, body], ("cond_graph", "body_graph"))
        inputs = [*self._initial(importer), *(boundary(builder, value) for value in captured.values())]
        finals = iter(_emit(builder, WHILE, inputs, self._final_kinds(), params))
        states = [
            value if index in self.assumed.constant else next(finals)
            for index, value in enumerate(loop.states)
        ]
        return [*states, *finals]

    def _condition(self, importer: Importer, states: Sequence[Tensor]) -> Value:
        """Return whether another iteration begins: as the body says, and as long as the trip count does."""
        number, *flags = (Value(tensor, ()) for tensor in states)
        parts = flags
        if self.loop.trip is not None:
            trip = importer.values.tensor(f"{self.loop.node.name}~trip")
            parts = [importer.apply("Less", [number, trip]), *flags]
        if not parts:
            return _scalar(importer, True)
        value = parts[0] if len(parts) == 1 else importer.apply("And", parts)
        return Value(_as_condition(importer, value), identity(1))

    def _initial(self, importer: Importer) -> list[Tensor]:
        """Return what the op takes for the values that iterations carry."""
        import numpy

        loop, builder = self.loop, importer.builder
        states = loop.tensors(loop.states)
        tensors = [
            boundary(builder, states[i], ranked=self.assumed.shapes[i] is not None) for i in self.varying
        ]
        for shape, dtype, _ in self.kinds[len(tensors) :]:
            none = tuple(0 if extent is None else extent for extent in shape or (None,))
            tensors.append(boundary(builder, builder.const(numpy.zeros(none, dtype.numpy))))
        tensors.append(boundary(builder, _ints(importer, 0)))
        if self.assumed.condition:
            given = _scalar(importer, True) if loop.condition is None else loop.condition
            tensors.append(_as_condition(importer, given))
        return tensors

    def _final_kinds(self) -> list[Kind]:
        """Return what is known of the results: how long the scan outputs are, if every iteration runs."""
        count = None if self.assumed.condition else _known(self.loop.trip)
        if count is None:
            return self.kinds
        first = len(self.varying)
        scans = zip(self.kinds[first:], self.elements, self.loop.scans, strict=True)
        grown = [
            (shape and _grown(extents(element) or (), axis, max(count, 0)), dtype, encoding)
            for (shape, dtype, encoding), element, (axis, _) in scans
        ]
        return [*self.kinds[:first], *grown]


def _twin(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.encoding, dynamic_axes=tensor.dynamic_axes)


def _known(value: AnyValue | None) -> int | None:
    """Return a number or truth value that is known, else None."""
    if not isinstance(value, Value) or not value.is_static or value.size != 1:
        return None
    return int(value.numpy().reshape(-1)[0])


def _grown(shape: Extents | None, axis: int, extent: int | None) -> Extents:
    """Return a shape with one more axis."""
    held = list(shape or ())
    held.insert(axis if axis >= 0 else axis + len(held) + 1, extent)
    return tuple(held)


def _stacked(importer: Importer, pieces: Sequence[Value], axis: int, backwards: bool) -> Value:
    """Return values side by side along a new axis."""
    rows = [importer.apply("Unsqueeze", [piece, _ints(importer, axis)]) for piece in pieces]
    if backwards:
        rows.reverse()
    return rows[0] if len(rows) == 1 else importer.apply("Concat", rows, axis=axis)


def _first_or_joined(axis: int) -> Any:
    """Return a graph that gives ``piece`` if ``first`` holds, else ``a`` and ``b`` joined."""
    from onnx import ValueInfoProto, helper

    def graph(name: str, node: Any) -> Any:
        return helper.make_graph([node], name, [], [ValueInfoProto(name=output) for output in node.output])

    then = graph("then", helper.make_node("Identity", ["piece"], ["alone"]))
    other = graph("else", helper.make_node("Concat", ["a", "b"], ["joined"], axis=axis))
    return graph("choice", helper.make_node("If", ["first"], ["chosen"], then_branch=then, else_branch=other))


def _formals(graph: Any) -> list[str]:
    return [entry.name for entry in graph.input]


def _check_formals(node: Node, body: Any, inputs: int, outputs: int) -> None:
    if len(body.input) != inputs or len(body.output) < outputs:
        raise node.invalid(f"its body does not take {inputs} values and give at least {outputs}")


def import_loop(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a node.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If a value has no form in a DLC.
        Unsettled: If something inside has been reported.
    """
    body = node.graph("body")
    first, second, *initial = (*node.inputs, None, None)[: max(len(node.inputs), 2)]
    trip = None if first is None else tensor_of(node, first, "its trip count")
    condition = None if second is None else tensor_of(node, second, "its condition")
    states: list[AnyValue] = [value for value in initial if value is not None]
    if len(states) != len(initial):
        raise node.problem("an initial value is left out", "give every state of the loop a tensor")
    _check_formals(node, body, 2 + len(states), 1 + len(states))
    names = _formals(body)

    def step(
        number: Value, flag: Value, held: Sequence[AnyValue], shared: Scope
    ) -> tuple[AnyValue | None, list[AnyValue], list[AnyValue]]:
        given = dict(zip(names, (number, flag, *held), strict=True))
        go_on, *rest = importer.inline(body, given, shared)
        return go_on, rest[: len(held)], rest[len(held) :]

    scans = [(0, False)] * (len(body.output) - 1 - len(states))
    ranks = tuple(len(entry.type.tensor_type.shape.dim) for entry in body.input[:2])
    return Repeat(node, body, step, states, trip, condition, scans, (ranks[0], ranks[1])).run(importer)


def import_scan(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a node, of opset 9 or newer.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If a value has no form in a DLC.
        Unsettled: If something inside has been reported.
    """
    return _scan(importer, node, [_input(node, index) for index in range(len(node.inputs))])


def import_scan_8(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a node of opset 8, which scans each element of a batch by itself.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If a value has no form in a DLC, or the lengths of the sequences differ.
        Unsettled: If something inside has been reported.
    """
    if node.input(0) is not None:
        raise node.problem(
            "the sequences have lengths of their own", "scan them one by one, or upgrade the model to opset 9"
        )
    inputs = [_input(node, index) for index in range(1, len(node.inputs))]
    batch = extents(inputs[0]) if inputs else None
    if not batch or batch[0] is None:
        raise node.problem("the size of the batch is not known", "bind it with --input_dim or --batch")
    if not importer.spend(batch[0] * (importer.size_of(node.graph("body")) + len(inputs))):
        raise node.problem(
            f"a batch of {batch[0]} is too large to be scanned one by one", "upgrade the model to opset 9"
        )
    rows = []
    for index in range(batch[0]):
        at = _scalar(importer, index)
        rows.append(
            _scan(importer, node, [importer.apply("Gather", [value, at], axis=0) for value in inputs])
        )
    return [_stacked(importer, column, 0, False) for column in zip(*rows, strict=True)]


def _input(node: Node, index: int) -> Value:
    return tensor_of(node, node.required(index), f"input {index}")


def _scan(importer: Importer, node: Node, inputs: Sequence[Value]) -> list[AnyValue]:
    body, count = node.graph("body"), int(node.attr("num_scan_inputs", 0))
    first = len(inputs) - count
    if count < 1 or first < 0:
        raise node.invalid(f"it scans {count} of {len(inputs)} inputs")
    _check_formals(node, body, len(inputs), first)
    axes = _listed(node, "scan_input_axes", count)
    reverse = _listed(node, "directions" if node.opset < 9 else "scan_input_directions", count)
    made = len(body.output) - first
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
            raise node.invalid(f"it scans axis {axis} of a value of rank {value.rank}")
        importer.values[name] = value
    length = f"{node.name}~length"
    importer.values[length] = _length(importer, inputs[first], axes[0])
    names = _formals(body)

    def step(
        number: Value, flag: Value, held: Sequence[AnyValue], shared: Scope
    ) -> tuple[AnyValue | None, list[AnyValue], list[AnyValue]]:
        slices = []
        for name, axis, backwards in zip(sequences, axes, reverse, strict=True):
            at = number
            if backwards:
                last = importer.apply("Sub", [importer.values.tensor(length), _scalar(importer, 1)])
                at = importer.apply("Sub", [last, number])
            slices.append(importer.apply("Gather", [importer.values.tensor(name), at], axis=axis))
        results = importer.inline(body, dict(zip(names, (*held, *slices), strict=True)), shared)
        return None, results[: len(held)], results[len(held) :]

    trip = importer.values.tensor(length)
    return Repeat(node, body, step, list(inputs[:first]), trip, None, scans).run(importer)


def _listed(node: Node, attribute: str, count: int) -> list[int]:
    values = [int(value) for value in node.attr(attribute) or [0] * count]
    if len(values) != count:
        raise node.invalid(f"attribute {attribute} has {len(values)} values instead of {count}")
    return values


def _length(importer: Importer, value: Value, axis: int) -> Value:
    """Return the extent of a value along an axis."""
    shape = extents(value)
    known = None if shape is None else shape[axis]
    if known is not None:
        return _scalar(importer, known)
    return importer.apply("Gather", [importer.apply("Shape", [value]), _scalar(importer, axis)], axis=0)


def find(type: str, domain: str, opset: int) -> Callable[[Importer, Node], list[AnyValue]] | None:
    """Return the function that imports an operator with graphs of its own, or None."""
    if domain:
        return None
    if type == "Scan":
        return import_scan if opset >= 9 else import_scan_8
    return {"If": import_if, "Loop": import_loop}.get(type)
