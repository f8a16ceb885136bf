"""TFLite variables, which persist between runs, as model inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.session.node import GraphInput, GraphState, Node, SourceGraph
from xdlc.converter.tflite.tensors import TensorInfo
from xdlc.errors import ModelError, UnsupportedOp

STATES = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19),
    "LSTM": (18, 19),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (35, 36, 37, 38),
    "RNN": (4,),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (4,),
    "BIDIRECTIONAL_SEQUENCE_RNN": (4, 8),
    "SVDF": (4,),
}
"""Positions of the inputs that operators change."""
_MOST_ELEMENTS = 1 << 12
"""Most elements of a variable whose different values at the start an input can state."""


def with_states(graph: SourceGraph, where: str) -> SourceGraph:
    """Return the main graph with an input and output for each variable it changes.

    Variable ``x`` becomes input ``x_in`` and output ``x_out``; one that nothing changes is a constant, and
    variables of graphs inside nodes are zero.

    Args:
        graph: The graph, its nodes in the order of their execution.

    Raises:
        ModelError: If a variable is read that nothing sets.
        UnsupportedOp: If its value at the start is computed, or too large to be stated.
    """
    for node in graph.nodes:
        for inner in node.graphs():
            _reset(inner)
    return _Variables(graph, where).bound()


def _reset(graph: SourceGraph) -> None:
    """Make the variables of a graph inside a node zeros."""
    made = {name for node in graph.nodes for name in node.outputs} | {each.name for each in graph.inputs}
    zeros: dict[str, ir.TensorData] = {}
    for node in graph.nodes:
        for tensor in filter(None, node.message.inputs):
            if tensor.is_variable and tensor.name not in made and tensor.name not in graph.constants:
                zeros[tensor.name] = ir.ArrayData(np.zeros(tensor.shape, tensor.dtype))
        for inner in node.graphs():
            _reset(inner)
    graph.constants = {**graph.constants, **zeros}


def _handles(graph: SourceGraph) -> dict[str, str]:
    """Return the variables of a graph's handles."""
    names = {}
    for node in graph.nodes:
        if node.type == "VAR_HANDLE" and node.outputs:
            parts = (node.attributes.get("container"), node.attributes.get("shared_name"))
            names[node.outputs[0]] = "/".join(filter(None, parts)) or node.outputs[0]
    return names


def _assigned(node: Node, handles: Mapping[str, str]) -> str | None:
    """Return the variable that a node assigns to, if any."""
    is_assigning = node.type == "ASSIGN_VARIABLE" and len(node.names) > 1
    return handles.get(node.names[0]) if is_assigning else None


class _Variables:
    """The variables of a graph."""

    def __init__(self, graph: SourceGraph, where: str) -> None:
        self._graph = graph
        self._where = where
        self._inputs: list[GraphInput] = []
        self._current: dict[str, str] = {}
        self._start: dict[str, ir.TensorData] = {}
        self._handles = _handles(graph)
        self._assigned = {_assigned(node, self._handles) for node in graph.nodes}
        self._constants: dict[str, ir.TensorData] = dict(graph.constants)

    def bound(self) -> SourceGraph:
        """Return the graph with the variables bound."""
        graph, nodes = self._graph, list[Node]()
        for node in graph.nodes:
            for inner in node.graphs() if node.type == "CALL_ONCE" else ():
                self._initialize(inner)
        made = {name for node in graph.nodes for name in node.outputs} | {each.name for each in graph.inputs}
        for node in graph.nodes:
            nodes.append(self._bound(node, made))
        states = [
            GraphState(name, f"{name}_in", current, self._initial(name))
            for name, current in self._current.items()
            if current != f"{name}_in" and current != name
        ]
        return SourceGraph(
            [*graph.inputs, *self._inputs], graph.outputs, nodes, self._constants, [*graph.states, *states]
        )

    def _initialize(self, graph: SourceGraph) -> None:
        handles = _handles(graph)
        for node in graph.nodes:
            name = _assigned(node, handles)
            if name is None:
                continue
            value = graph.constants.get(node.names[1])
            if value is None:
                raise UnsupportedOp(
                    f"variable {name!r} has a computed initial value",
                    where=self._where,
                    fix="initialize the variable with a constant",
                )
            self._start[name] = value

    def _bound(self, node: Node, computed: set[str]) -> Node:
        """Return a node with the current values of the variables that it reads and writes."""
        if node.type == "READ_VARIABLE" and node.names and node.outputs and node.names[0] in self._handles:
            info = node.message.outputs[0]
            return replace(node, names=[self._value(self._handles[node.names[0]], info)])
        name = _assigned(node, self._handles)
        if name is not None:
            self._value(name, node.message.inputs[1])
            self._current[name] = node.names[1]
            return node
        changed = STATES.get(node.type, ())
        names, outputs, infos = list(node.names), list(node.outputs), list[TensorInfo]()
        for position, tensor in enumerate(node.message.inputs):
            if tensor is None or not tensor.is_variable:
                continue
            if tensor.name in computed or tensor.name in self._constants:
                continue
            names[position] = self._value(tensor.name, tensor, is_changed=True)
            if position in changed:
                written = f"{tensor.name}_out"
                while written in computed:
                    written += "_"
                computed.add(written)
                self._current[tensor.name] = written
                outputs.append(written)
                infos.append(tensor)
        if names == list(node.names) and not infos:
            return node
        message = replace(node.message, outputs=[*node.message.outputs, *infos])
        return replace(node, names=names, outputs=outputs, message=message)

    def _value(self, name: str, tensor: TensorInfo, *, is_changed: bool = False) -> str:
        """Return the name of the value of a variable now."""
        if name not in self._current:
            read = f"{name}_in"
            self._current[name] = read
            if is_changed or name in self._assigned:
                dtype = tensor.qnn_dtype
                self._inputs.append(GraphInput(read, dtype, self._shape(name, tensor)))
            elif name in self._start:
                self._constants[read] = self._start[name]
            else:
                fix = "initialize the variable in the model's initializer"
                raise ModelError(
                    f"the operator reads variable {name!r}, which no operator sets",
                    where=self._where,
                    fix=fix,
                )
        return self._current[name]

    def _shape(self, name: str, tensor: TensorInfo) -> tuple[int, ...]:
        return tuple(self._start[name].shape) if name in self._start else tensor.shape

    def _initial(self, name: str) -> Any:
        """Return the value of a variable at the start: a number, or nested lists."""
        data = self._start.get(name)
        if data is None:
            return 0
        array = np.asarray(data.numpy())
        if array.size and (array == array.reshape(-1)[0]).all():
            return array.reshape(-1)[0].item()
        if array.size > _MOST_ELEMENTS:
            raise UnsupportedOp(
                f"variable {name!r} starts with {array.size} different values, which a DLC cannot hold",
                where=self._where,
                fix="make the variable an input of the model",
            )
        return array.tolist()
