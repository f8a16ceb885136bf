"""Sub-graphs that an op runs: captured values, boundaries, conditions, types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.sequence_values import leaves, rebuilt
from xdlc.converter.session.context import ImportContext, Scope, Unresolved
from xdlc.converter.session.node import Body, Node
from xdlc.converter.values import AnyValue, Dims, Value, identity, open_tensor
from xdlc.errors import UnsupportedOp
from xdlc.ir import HOST_PACKAGE, DType, Graph, Tensor


def scalar(g: Operators, value: int | bool) -> Value:
    """Return a known number, int64, or truth value, of rank 0."""
    dtype = numpy.bool_ if isinstance(value, bool) else numpy.int64
    return g.builder.const(numpy.asarray(value, dtype))


def known(value: AnyValue | None) -> int | None:
    """Return a number or truth value that is known, else None."""
    if not isinstance(value, Value) or not value.is_static or value.size != 1:
        return None
    return int(value.numpy().reshape(-1)[0])


def as_condition(g: Operators, value: Value) -> Tensor:
    """Return a condition as a tensor of shape [1]."""
    if value.rank > 1 or value.is_dynamic:
        value = g("Reshape", [value, [1]])
    return boundary(g.builder, value)


def stacked(g: Operators, pieces: Sequence[Value], axis: int, backwards: bool) -> Value:
    """Return values side by side along a new axis."""
    rows = [g("Unsqueeze", [piece, [axis]]) for piece in pieces]
    if backwards:
        rows.reverse()
    return rows[0] if len(rows) == 1 else g("Concat", rows, axis=axis)


Kind = tuple[Dims | None, DType, ir.Encoding | None]
"""Shape (None if the rank is open), data type and encoding."""


def kind_of(value: Value) -> Kind:
    """Return dimensions, data type and encoding of a value."""
    return value.dims, value.dtype, value.tensor.encoding


def joined(node: Node, values: Sequence[Value]) -> Kind:
    """Return the common kind of alternative values.

    Raises:
        ModelError: If they are of different types.
    """
    kinds = [kind_of(value) for value in values]
    if len({(dtype, encoding) for _, dtype, encoding in kinds}) > 1:
        names = " and ".join(dict.fromkeys(str(dtype) for _, dtype, _ in kinds))
        raise node.invalid(f"a value has several types, {names}, depending on the branch or the iteration")
    shape = kinds[0][0]
    for other, _, _ in kinds[1:]:
        shape = wider(shape, other)
    return shape, kinds[0][1], kinds[0][2]


def wider(one: Dims | None, other: Dims | None) -> Dims | None:
    """Return the most specific shape that fits both shapes; differing sizes are open."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def grown(shape: Dims | None, axis: int, extent: int | None) -> Dims:
    """Return a shape with one more axis."""
    held = list(shape or ())
    held.insert(axis if axis >= 0 else axis + len(held) + 1, extent)
    return tuple(held)


def emit(
    builder: Builder,
    type: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Kind],
    params: Mapping[str, ir.Param],
) -> list[Value]:
    """Append an op that runs graphs; return its results of the kinds ``outputs``."""
    shapes: list[Dims] = [(None,) if shape is None else shape or (1,) for shape, _, _ in outputs]
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


class SubGraph:
    """A graph under construction that an op is going to run.

    Attributes:
        builder: Adds to the graph.
        opened: Whether the dimensions of captured values are taken as dynamic.
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
        """Return the value in the graph that denotes a value of the enclosing scope."""
        if isinstance(value, Value):
            return self._capture_tensor(name, value)
        parts = [self._capture_tensor(f"{name}~{index}", leaf) for index, leaf in enumerate(leaves(value))]
        return rebuilt(value, iter(parts))

    def _capture_tensor(self, name: str, value: Value) -> Value:
        tensor = value.tensor
        if value.is_static:
            copy = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.encoding, tensor.data, tensor.role)
            return Value(copy, value.order, bits=value.bits)
        shape = value.dims
        if self.opened and shape is not None:
            shape = (None,) * len(shape)
        made = self.input(name, shape, tensor.dtype, tensor.encoding)
        self.captured[name], self.inputs[name] = value, made.tensor
        return made

    def input(
        self, name: str, shape: Dims | None, dtype: DType, encoding: ir.Encoding | None = None
    ) -> Value:
        """Add an input; its shape is None if the rank is unknown."""
        lying = (None,) if shape is None else shape or (1,)
        tensor = open_tensor(self.graph.unique_name(name), lying, dtype)
        tensor.encoding = encoding
        self.graph.add_input(tensor)
        return Value(tensor, () if shape == () else identity(tensor.rank), ranked=shape is not None)

    def state(self, name: str, value: AnyValue) -> AnyValue:
        """Return an input of the kind of a tensor; other values are captured."""
        return self.input(name, *kind_of(value)) if isinstance(value, Value) else self.capture(name, value)

    def output(self, value: Value, *, ranked: bool = True) -> Tensor:
        """Add a value as the next output; a scalar of known rank has the shape [1]."""
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
    """Return the tensor in which a value passes between graphs.

    Args:
        builder: Of the graph that holds the value.
        ranked: Whether its rank is known on the other side; if not, a scalar keeps rank 0.
    """
    if value.rank or not ranked:
        return builder.source_form(value)
    if value.bits is not None:
        raise UnsupportedOp(f"{value.tensor.name!r} holds integers of {value.bits} bits")
    return builder.source_order(builder.reshape(value, (1,))) if value.is_static else value.tensor


def share_captures(subs: Sequence[SubGraph]) -> dict[str, Value]:
    """Give each graph inputs for all captured values; return these values."""
    captured: dict[str, Value] = {}
    for sub in subs:
        captured |= sub.captured
    for sub in subs:
        for name, value in captured.items():
            if name not in sub.inputs:
                sub.capture(name, value)
    return captured


@contextmanager
def sub_graph(context: ImportContext, name: str) -> Iterator[SubGraph]:
    """Import into a new graph while the context is open, with captured values."""
    sub = SubGraph(name, opened=context.frame.opens)
    sub.builder.node = context.builder.node
    with context.scope(Scope(context.values, sub.capture), sub.builder):
        yield sub


@contextmanager
def trial(
    g: Operators, node: Node, key: str, states: Sequence[AnyValue]
) -> Iterator[tuple[SubGraph, list[AnyValue]]]:
    """Import into a graph that is forgotten; yield it, and its inputs for states."""
    forget = g.context.checkpoint()
    try:
        with sub_graph(g.context, graph_name(g, node, key)) as sub:
            yield sub, [sub.state(f"state{index}", value) for index, value in enumerate(states)]
    finally:
        forget()


def constants(context: ImportContext, body: Body) -> Scope:
    """Return a nested scope with the constants of a graph."""
    values = Scope(context.values)
    with context.entered(values=values):
        body.add_constants(context)
    return values


def inline(
    context: ImportContext, body: Body, given: Mapping[str, AnyValue], shared: Scope | None = None
) -> list[AnyValue]:
    """Import the nodes of a graph and return its outputs.

    Args:
        given: Values of its inputs.
        shared: Its ``constants``, if it is imported more than once.

    Raises:
        Unresolved: If an output cannot be had; the problem has been reported.
    """
    values = Scope(constants(context, body) if shared is None else shared)
    values.update(given)
    with context.scope(values):
        body.add_nodes(context)
        for name in body.outputs:
            frame = context.frame
            if name in frame.values and name not in frame.unresolved:
                continue
            if name not in frame.unresolved:
                place = ": ".join([context.source.path, *frame.around[-1:]])
                context.problems.append(context.missing(name, place))
            raise Unresolved
        return [context.values[name] for name in body.outputs]


def check_formals(node: Node, graph: Body, inputs: int, outputs: int) -> None:
    """Refuse a node whose graph has another number of inputs, or fewer outputs."""
    if len(graph.inputs) != inputs or len(graph.outputs) < outputs:
        raise node.invalid(
            f"a graph has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs, "
            f"but needs {inputs} and {outputs}"
        )


def graph_name(g: Operators, node: Node, key: str) -> str:
    """Return a name that sorts after the main graph's and is valid in other tools."""
    main = next(iter(g.context.graphs))
    return f"{main}_{re.sub(r'[^0-9A-Za-z]+', '_', node.name).strip('_')}_{key}"


def commit(g: Operators, subs: Sequence[SubGraph], keys: Sequence[str]) -> dict[str, ir.Param]:
    """Add graphs to the model under free names; return the parameters that name them."""
    params: dict[str, ir.Param] = {}
    for sub, key in zip(subs, keys, strict=True):
        sub.graph.name = g.context.free_graph_name(sub.graph.name)
        g.context.graphs[sub.graph.name] = sub.graph
        params[key] = ir.string(sub.graph.name)
    return params
