"""Programs of PyTorch as source graphs: names, bound dimensions, state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.importer import GraphInput, GraphState, SourceGraph
from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, ScalarType, SymbolRef, refs
from xdlc.converter.pytorch.exported import Program
from xdlc.converter.pytorch.functional import functional
from xdlc.converter.pytorch.registry import AtenNode, Slot, stated_dtype
from xdlc.converter.pytorch.symbols import Unknown, evaluate
from xdlc.converter.pytorch.tensors import dtype_of
from xdlc.converter.session.node import Node, TypeName
from xdlc.converter.udo.output_inference import Declared
from xdlc.errors import XdlcError

_DROPPED = frozenset(
    """
    _assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async sym_constrain_range
    sym_constrain_range_for_size
    """.split()  # noqa: SIM905 - a list literal would be longer
)
"""Operators of ATen without results that check what is known while converting."""


@dataclass(slots=True)
class Bindings:
    """Values of the symbols of a program.

    Attributes:
        values: Values by symbol; those that are missing stay open.
    """

    values: Mapping[str, int] = field(default_factory=dict)

    def number(self, expression: Any) -> Any:
        """Return the value of an expression, None if it is open."""
        try:
            return evaluate(expression, self.values)
        except Unknown:
            return None

    def shape(self, meta: Meta) -> list[int | None]:
        """Return the shape of a tensor, None for open dimensions."""
        return [self.number(size) for size in meta.sizes]


@dataclass(slots=True)
class Shapes:
    """What a program states of its values, for user-defined operations.

    Attributes:
        values: Shapes and types by name.
    """

    values: dict[str, tuple[list[int | None], ir.DType | None]] = field(default_factory=dict)

    def find(self, name: str) -> Declared:
        """Return what is stated of a value."""
        shape, dtype = self.values.get(name, (None, None))
        return Declared(None if shape is None else tuple(shape), dtype, bool(name))

    def oddity(self, name: str) -> str:
        """Return an empty text: values are tensors of numbers."""
        return ""

    def contradicted(self, found: Any) -> Any:
        """Return no contradictions: shapes of the program are checked where they are used."""
        return iter(())


def source_graph(program: Program, bindings: Bindings) -> tuple[SourceGraph, Shapes]:
    """Return a program as a graph of nodes, and what it states of its values.

    Raises:
        XdlcError: If the program has no form in a DLC.
    """
    return _Builder(program, bindings).graph()


class _Builder:
    """Builder of the source graph of one program."""

    def __init__(self, program: Program, bindings: Bindings) -> None:
        self._program = program
        self._bindings = bindings
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._own_names: Counter[str] = Counter()
        self.shapes = Shapes()

    def graph(self) -> tuple[SourceGraph, Shapes]:
        """Return the main graph."""
        program = self._program
        form = functional(program.graph)
        written = program.written | form.written
        calls, outputs = list(form.graph.calls), []
        for value, name in program.inputs.items():
            self._name(value, name)
        ends = {}
        for name, output in zip(program.outputs, form.graph.outputs, strict=True):
            if name and output is not None:
                ends[self._free(name)] = output
        states: list[GraphState] = []
        for value in written:
            held = program.parameters.get(value)
            name = self._names.get(value) or self._name(value, held.name if held else value)
            next_name = self._free(f"{name}_next")
            ends[next_name] = Ref(written[value])
            initial = 0 if held is None or isinstance(held.data, XdlcError) else _plain(held.data.numpy())
            states.append(GraphState(name, name, next_name, initial))
        problems: dict[str, XdlcError] = {}
        constants: dict[str, ir.TensorData] = {}
        for value, held in program.parameters.items():
            if value in written and not isinstance(held.data, XdlcError):
                continue
            name = self._name(value, held.name)
            if isinstance(held.data, XdlcError):
                problems[name] = held.data
            else:
                constants[name] = held.data
        made = {output for call in calls for output in call.outputs}
        copies = []
        for name, output in ends.items():
            outputs.append(name)
            if isinstance(output, Ref) and output in made and output not in self._names:
                self._names[output] = name
            elif isinstance(output, Ref):
                copies.append(Call("aten.clone", {"self": output, "memory_format": None}, [name]))
                form.graph.values.setdefault(name, form.graph.values.get(output, Meta(ScalarType(6), ())))
                self._names[name] = name
            else:
                constants[f"{name}_value"] = ir.ArrayData(np.asarray(output))
                copies.append(Call("aten.clone", {"self": Ref(f"{name}_value")}, [name]))
                self._names |= {name: name, f"{name}_value": f"{name}_value"}
        inputs = [self._input(value, form.graph) for value in program.inputs]
        inputs += [self._input(value, form.graph) for value in written if value not in program.inputs]
        nodes = self._nodes(calls + copies, form.graph)
        state_ends = {state.written for state in states}
        outputs = [name for name in outputs if name not in state_ends]
        return SourceGraph(inputs, outputs, nodes, constants, states, problems), self.shapes

    def _input(self, value: str, graph: CallGraph) -> GraphInput:
        meta = graph.values[value]
        sizes = [size if size is not None else "?" for size in self._bindings.shape(meta)]
        return GraphInput(self._names[value], dtype_of(meta.dtype), sizes)

    # ------------------------------------------------------------------ names

    def _free(self, name: str) -> str:
        made, number = name, 0
        while made in self._taken:
            number += 1
            made = f"{name}_{number}"
        self._taken.add(made)
        return made

    def _name(self, value: str, name: str) -> str:
        """Choose the name of a value."""
        return self._names.setdefault(value, self._free(name))

    def _named(self, value: str) -> str:
        return self._names.get(value) or self._name(value, value)

    # ------------------------------------------------------------------ nodes

    def _nodes(self, calls: Sequence[Call], graph: CallGraph) -> list[Node]:
        nodes: list[Node] = []
        for call in calls:
            known = [self._symbol(name, graph) for name in call.outputs]
            if known and all(value is not None for value in known):
                continue  # arithmetic with dimensions that are bound
            if call.target.startswith("aten.") and call.target.split(".")[1] in _DROPPED:
                continue
            nodes.append(self._node(call, graph))
        return nodes

    def _symbol(self, name: str, graph: CallGraph) -> int | float | None:
        """Return the value of a number that depends on dimensions, None if it is open or no number."""
        return self._bindings.number(graph.symbols[name]) if name in graph.symbols else None

    def _node(self, call: Call, graph: CallGraph) -> AtenNode:
        names: list[str] = []

        def slotted(value: Any) -> Any:
            if isinstance(value, SymbolRef):
                number = self._symbol(value, graph)
                if number is not None:
                    return number
            if isinstance(value, Ref | SymbolRef):
                names.append(self._named(value))
                return Slot(len(names) - 1)
            if isinstance(value, list | tuple):
                return [slotted(item) for item in value]
            return value

        arguments = {name: slotted(value) for name, value in call.arguments.items()}
        attributes = {
            name: self._inner(value) if isinstance(value, CallGraph) else _attribute(value)
            for name, value in arguments.items()
            if value is not None and not _has_slots(value)
        }
        space, _, type = call.target.partition(".")
        outputs = [self._named(name) if name else "" for name in call.outputs]
        metas = [graph.values.get(name) for name in call.outputs]
        stated = [None if meta is None else self._bindings.shape(meta) for meta in metas]
        dtypes = [None if meta is None else stated_dtype(meta.dtype) for meta in metas]
        for name, shape, dtype in zip(outputs, stated, dtypes, strict=True):
            if shape is not None:
                self.shapes.values[name] = (shape, dtype)
        own = f"{call.module}.{type.partition('.')[0]}" if call.module else next(iter(outputs), type)
        self._own_names[own] += 1
        own = own if self._own_names[own] == 1 else f"{own}_{self._own_names[own] - 1}"
        return AtenNode(
            type,
            names,
            outputs,
            attributes,
            own,
            "" if space == "aten" else space,
            stated=stated,
            arguments=arguments,
            dtypes=dtypes,
            module=call.module,
        )

    def _inner(self, graph: CallGraph) -> SourceGraph:
        """Return a graph inside a node."""
        inner = _Builder(self._program, self._bindings)
        inner.shapes = self.shapes
        inputs = [GraphInput(inner._named(name), ir.dtype.FLOAT32) for name in graph.inputs]
        outputs, constants = [], {}
        for index, output in enumerate(graph.outputs):
            if isinstance(output, Ref | SymbolRef):
                outputs.append(inner._named(output))
            else:
                outputs.append(f"constant_{index}")
                constants[outputs[-1]] = ir.ArrayData(np.asarray(output))
        return SourceGraph(inputs, outputs, inner._nodes(graph.calls, graph), constants)


def _has_slots(value: Any) -> bool:
    return isinstance(value, Slot) or (isinstance(value, list) and any(map(_has_slots, value)))


def _attribute(value: Any) -> Any:
    """Return an argument as an attribute of a user-defined operation."""
    if isinstance(value, ScalarType):
        found = stated_dtype(value)
        return TypeName(found.name if found else str(int(value)))
    return value


def _plain(array: Any) -> Any:
    """Return the first value of a state: a number where all elements are the same, else nested lists."""
    flat = array.reshape(-1)
    return flat[0].item() if flat.size and (flat == flat[0]).all() else array.tolist()


__all__ = ["Bindings", "Shapes", "refs", "source_graph"]
