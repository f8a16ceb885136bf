"""Programs of PyTorch as source graphs: names, bound dimensions, state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, ScalarType, SymbolRef
from xdlc.converter.pytorch.exported import Program, understood
from xdlc.converter.pytorch.functional import functional
from xdlc.converter.pytorch.registry import AtenNode, Slot, aten, stated_dtype
from xdlc.converter.pytorch.symbols import Bindings, shown
from xdlc.converter.pytorch.tensors import dtype_of, frozen_names
from xdlc.converter.session.node import GraphInput, GraphState, Node, SourceGraph, TypeName
from xdlc.converter.udo.nodes import Declarations
from xdlc.errors import UnsupportedOp, XdlcError
from xdlc.ir.names import FreeNames
from xdlc.opdefs.source_match import Declared

_CHECKS = "_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async"
_DROPPED = frozenset([*_CHECKS.split(), "sym_constrain_range", "sym_constrain_range_for_size"])
"""Operators of ATen without results that check what is known while converting."""
_MOST_INITIAL = 1 << 18
_FLOAT64 = 7
_COMPLEX = (8, 9, 10)


def source_graph(
    program: Program, bindings: Bindings, *, frozen: bool = False, source_lines: bool = False
) -> tuple[SourceGraph, Declarations]:
    """Return a program as a graph of nodes, and the declarations of its values.

    Args:
        bindings: Values of its symbols.
        frozen: Whether what the network changes keeps its first value, instead of being state.
        source_lines: Whether nodes have the lines of the network's source.

    Raises:
        XdlcError: If the program cannot be stored in a DLC.
    """
    return _Builder(program, bindings, source_lines).graph(frozen)


class _Builder:
    """Builder of the source graph of one program."""

    def __init__(self, program: Program, bindings: Bindings, source_lines: bool) -> None:
        self._program = program
        self._bindings = bindings
        self._source_lines = source_lines
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._free_name = FreeNames(self._taken)
        self._own_names: Counter[str] = Counter()
        self._constants: dict[str, ir.TensorData] = {}
        self._problems: dict[str, XdlcError] = {}
        self._aliases: dict[str, str] = {}
        self.declared: dict[str, Declared] = {}

    def graph(self, frozen: bool) -> tuple[SourceGraph, Declarations]:
        """Return the main graph."""
        program = self._program
        count, ends_of = len(program.graph.outputs), [Ref(end) for end in program.written.values()]
        form = functional(replace(program.graph, outputs=[*program.graph.outputs, *ends_of]))
        written = dict(zip(program.written, form.graph.outputs[count:], strict=True)) | form.written
        if frozen and written:
            names = ", ".join(self._stated(value) for value in written)
            program.notices.append(
                f"{names} keep their initial values in the DLC, though the network changes them"
            )
            written = {}
        for value, name in program.inputs.items():
            self._named(value, name)
        wide = [value for value, meta in form.graph.values.items() if meta.dtype == _FLOAT64]
        if wide:
            notice = f"{len(wide)} float64 tensors become float32 in the DLC, for example {wide[0]!r}"
            program.notices.append(notice)
        ends = self._ends(form.graph.outputs[:count])
        states = self._states(written, ends)
        self._hold(form.graph, written)
        made = {output for call in form.graph.calls for output in call.outputs}
        copies = []
        for name, output in ends.items():
            if isinstance(output, Ref | SymbolRef) and output in made and output not in self._names:
                self._names[output] = name
                self._aliases[output] = name
                continue
            if isinstance(output, Ref | SymbolRef):
                number = ScalarType(4 if isinstance(output, SymbolRef) else 6)
                form.graph.values.setdefault(name, form.graph.values.get(output, Meta(number, ())))
            else:
                held = f"{name}_value"
                self._constants[held] = ir.ArrayData(_array(output))
                self._names[held], output = held, Ref(held)
            self._names[name] = name
            copies.append(Call("aten.clone", {"self": output}, [name]))
        inputs = [self._input(value, form.graph) for value in {**program.inputs, **written}]
        nodes = self._nodes(list(form.graph.calls) + copies, form.graph)
        outputs = [name for name in ends if name not in {state.written for state in states}]
        taken = {*outputs, *self._names.values()}
        aliases = {other: name for other, name in self._aliases.items() if other not in taken}
        found = SourceGraph(inputs, outputs, nodes, self._constants, states, self._problems, aliases)
        return found, Declarations(self.declared)

    def _ends(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """Return the outputs by name; those that bound dimensions determine are numbers."""
        ends: dict[str, Any] = {}
        values = self._program.graph.values
        for name, output in zip(self._program.outputs, outputs, strict=True):
            number = self._symbol(output, self._program.graph) if isinstance(output, SymbolRef) else None
            if isinstance(output, Ref) and getattr(values.get(output), "dtype", None) in _COMPLEX:
                problem = f"output {name!r} is complex, which a DLC cannot hold"
                raise self._refused(problem, "return torch.view_as_real(output)")
            if isinstance(output, Ref | SymbolRef | bool | int | float) and name:
                ends[self._free(name)] = output if number is None else number
            elif name:
                self._program.notices.append(f"output {name!r} is {output!r}, not a tensor: the DLC omits it")
        return ends

    def _states(self, written: Mapping[str, str], ends: dict[str, Any]) -> list[GraphState]:
        """Return the state that changed tensors are; add their next values to the outputs."""
        program = self._program
        places = Counter(parameter.place[:1] for parameter in program.parameters.values() if parameter.place)
        states = []
        for value, next_value in written.items():
            parameter = program.parameters.get(value)
            if parameter is not None and parameter.name.endswith("num_batches_tracked"):
                problem = (
                    f"the program was exported in training mode: it counts batches in {parameter.name!r}"
                )
                raise self._refused(problem, "call model.eval(), and export the model again")
            if parameter is not None and parameter.place and places[parameter.place[:1]] > 1:
                problem = f"the program changes {parameter.name!r}, which shares elements with another tensor"
                raise self._refused(problem, "clone each changed buffer, so that no buffers share elements")
            name = self._named(value, self._stated(value))
            next_name = self._free(f"{name}_next")
            ends[next_name] = Ref(next_value)
            initial = 0
            if parameter is not None:
                if isinstance(parameter.data, XdlcError):
                    raise parameter.data
                initial = self._first(parameter.name, parameter.data)
            states.append(GraphState(name, name, next_name, initial))
        return states

    def _first(self, name: str, data: ir.TensorData) -> Any:
        """Return a state's initial value: one number if all are equal, else nested lists."""
        flat = data.numpy().reshape(-1)
        if not flat.size or (flat == flat[0]).all():
            return flat[0].item() if flat.size else 0
        if flat.size > _MOST_INITIAL:
            problem = f"the program changes {name!r}, whose initial value has {flat.size} different elements"
            raise self._refused(problem, "make this buffer an input of the network")
        return data.numpy().tolist()

    def _refused(self, problem: str, fix: str) -> UnsupportedOp:
        return UnsupportedOp(problem, where=self._program.path, fix=fix)

    def _stated(self, value: str) -> str:
        """Return the name that the program has for an input or a stored tensor."""
        held = self._program.parameters.get(value)
        return self._program.inputs.get(value, value) if held is None else held.name

    def _hold(self, graph: CallGraph, written: Mapping[str, str]) -> None:
        """Add the stored tensors that a graph reads; add shared ones only once."""
        used = set(graph.reads())
        names: dict[tuple[Any, ...], str] = {}
        stated = {value: parameter.name for value, parameter in self._program.parameters.items()}
        frozen = frozen_names(graph, stated)
        for value, parameter in self._program.parameters.items():
            if value in written or value not in used:
                continue
            if parameter.place in names:
                self._names[value] = names[parameter.place]
                continue
            name = self._named(value, frozen.get(value, parameter.name))
            if parameter.place:
                names[parameter.place] = name
            if isinstance(parameter.data, XdlcError):
                self._problems[name] = parameter.data
            else:
                self._constants[name] = parameter.data
        for parameter in self._program.parameters.values():
            if parameter.name != names.get(parameter.place, parameter.name):
                self._aliases[parameter.name] = names[parameter.place]

    def _input(self, value: str, graph: CallGraph) -> GraphInput:
        meta, name = graph.values[value], self._names[value]
        known = zip(self._bindings.shape(meta), meta.sizes, strict=True)
        sizes = [shown(stated) if size is None else size for size, stated in known]
        with understood(f"{self._program.path}: input {name!r}"):
            return GraphInput(name, dtype_of(meta.dtype), sizes)

    def _free(self, name: str) -> str:
        free = self._free_name(name)
        self._taken.add(free)
        return free

    def _named(self, value: str, name: str = "") -> str:
        """Return the name of a value; assign the stated name if it has none."""
        if value not in self._names:
            self._names[value] = self._free(name or value)
        return self._names[value]

    # ------------------------------------------------------------------ nodes

    def _nodes(self, calls: Sequence[Call], graph: CallGraph) -> list[Node]:
        nodes: list[Node] = []
        for call in calls:
            numbers = [self._symbol(name, graph) for name in call.outputs]
            is_number = bool(numbers) and None not in numbers  # arithmetic with dimensions that are bound
            if not is_number and call.target.partition("aten.")[2].partition(".")[0] not in _DROPPED:
                nodes.append(self._node(call, graph))
        return nodes

    def _symbol(self, name: str, graph: CallGraph) -> int | float | None:
        """Return the value of a symbolic number; None if it is open or not a number."""
        return self._bindings.number(graph.symbols[name]) if name in graph.symbols else None

    def _node(self, call: Call, graph: CallGraph) -> AtenNode:
        names: list[str] = []

        def slotted(value: Any) -> Any:
            if isinstance(value, SymbolRef) and (number := self._symbol(value, graph)) is not None:
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
        domain = "" if space == "aten" else space
        if aten.find(domain, type) is None:
            type = type.partition(".")[0]  # UDOs are of operators, not of overloads
        outputs = [self._named(name) if name else "" for name in call.outputs]
        metas = [graph.values.get(name) for name in call.outputs]
        stated = [None if meta is None else self._bindings.shape(meta) for meta in metas]
        dtypes = [None if meta is None else stated_dtype(meta.dtype) for meta in metas]
        for name, shape, dtype in zip(outputs, stated, dtypes, strict=True):
            if shape is not None:
                self.declared[name] = Declared(tuple(shape), dtype)
        own = next(filter(None, call.outputs), type)
        if call.module:
            own = f"{call.module}.{type.partition('.')[0]}"
        number, self._own_names[own] = self._own_names[own], self._own_names[own] + 1
        own = f"{own}_{number}" if number else own
        return AtenNode(
            type,
            names,
            outputs,
            attributes,
            own,
            domain,
            stated=stated,
            arguments=arguments,
            dtypes=dtypes,
            module=call.module,
            source=call.line if self._source_lines else "",
        )

    def _inner(self, graph: CallGraph) -> SourceGraph:
        """Return a graph inside a node."""
        inner = _Builder(self._program, self._bindings, self._source_lines)
        inner.declared = self.declared
        made = {*graph.inputs, *(output for call in graph.calls for output in call.outputs)}
        inner._names = {name: self._named(name) for name in graph.reads() if name not in made}
        inner._taken.update(inner._names.values())
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
    """Return an argument as an attribute of a UDO."""
    if isinstance(value, ScalarType):
        found = stated_dtype(value)
        return TypeName(found.name if found else str(int(value)))
    return value


def _array(number: float) -> Any:
    """Return a number in the type of PyTorch's tensor of it."""
    array = np.asarray(number)
    return array.astype(np.float32) if array.dtype == np.float64 else array
