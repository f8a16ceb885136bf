"""Sub-graphs: graphs that an op runs, their captured values and boundaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.sequence_values import leaves, rebuilt
from xdlc.converter.session.context import ImportContext, Scope, Unresolved
from xdlc.converter.session.node import Body, Node
from xdlc.converter.values import AnyValue, Dims, Value, identity, open_tensor
from xdlc.errors import UnsupportedOp
from xdlc.ir import HOST_PACKAGE, DType, Graph, Tensor

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


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
        """Return what denotes in the graph a value of the scope around it."""
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
        """Add an input; its shape is None if the rank is open."""
        lying = (None,) if shape is None else shape or (1,)
        tensor = open_tensor(self.graph.unique_name(name), lying, dtype)
        tensor.encoding = encoding
        self.graph.add_input(tensor)
        return Value(tensor, () if shape == () else identity(tensor.rank), ranked=shape is not None)

    def output(self, value: Value, *, ranked: bool = True) -> Tensor:
        """Add a value as the next output; a scalar of known rank is [1]."""
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
        value: The value.
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


def constants(context: ImportContext, body: Body) -> Scope:
    """Return a scope inside the current one with the constants of a graph."""
    values = Scope(context.values)
    with context.entered(values=values):
        body.add_constants(context)
    return values


def inline(
    context: ImportContext, body: Body, given: Mapping[str, AnyValue], shared: Scope | None = None
) -> list[AnyValue]:
    """Import the nodes of a graph and return its outputs.

    Args:
        context: The import.
        body: The graph.
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


def graph_name(importer: Operators, node: Node, key: str) -> str:
    """Return a name that sorts after the main graph's and suits other tools."""
    main = next(iter(importer.context.graphs))
    return f"{main}_{re.sub(r'[^0-9A-Za-z]+', '_', node.name).strip('_')}_{key}"


def commit(importer: Operators, subs: Sequence[SubGraph], keys: Sequence[str]) -> dict[str, ir.Param]:
    """Add graphs to the model under free names; return the parameters that name them."""
    params: dict[str, ir.Param] = {}
    for sub, key in zip(subs, keys, strict=True):
        sub.graph.name = importer.context.free_graph_name(sub.graph.name)
        importer.context.graphs[sub.graph.name] = sub.graph
        params[key] = ir.string(sub.graph.name)
    return params
