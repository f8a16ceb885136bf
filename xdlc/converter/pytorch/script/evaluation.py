"""One evaluated call of a TorchScript network: objects, operators, changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.pytorch.archive import Archive
from xdlc.converter.pytorch.exported import Program, joined
from xdlc.converter.pytorch.pickled import Global, Record, StoredTensor
from xdlc.converter.pytorch.script import quantized
from xdlc.converter.pytorch.script.machine import Code, Machine
from xdlc.converter.pytorch.script.recorder import NUMBERS, Recorder
from xdlc.converter.pytorch.script.types import FLOAT32
from xdlc.converter.pytorch.script.values import Object, Tensor, tensors
from xdlc.converter.pytorch.tensors import Parameter, dtype_of, unpickled
from xdlc.converter.session.boundary import fixed_inputs
from xdlc.errors import UnsupportedOp, XdlcError

_PREPACKED = ("xnnpack", "vulkan", "metal", "mkldnn", "tensorrt")
_MOST_DEPTH = 64
_MOST_OUTPUTS = 1 << 10


@dataclass(slots=True)
class ScriptInput:
    """An input of a network.

    Attributes:
        kind: Its type, as the code states it.
        shape: Its shape in the example with which the network was traced; None without one.
        dtype: Its data type, as a number of c10; a guess unless ``is_stated``.
        default: Its default value, if it has one.
        part: Position in the tuple that it is a part of, from 1 on; 0 for none.
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None = None
    dtype: int = int(FLOAT32)
    is_stated: bool = False
    default: Any = None
    part: int = 0


def alike(first: Any, second: Any) -> bool:
    """Return whether two values of an attribute can belong to the same state."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return (first.shape, first.dtype) == (second.shape, second.dtype)
    is_plain = isinstance(first, int | float | str | None) and type(first) is type(second)
    return is_plain and bool(first == second)


class Evaluation:
    """One call of a network.

    It starts with states: attributes by path, as an earlier call leaves them.

    Attributes:
        program: The program, once it is called.
        ends: What the call sets attributes to, by path.
        moved: Whether it starts with another state than the file has.
    """

    def __init__(self, archive: Archive, code: Code, states: Mapping[str, Any]) -> None:
        self.ends: dict[str, Any] = {}
        self.moved = False
        self._archive = archive
        self._states = states
        self._recorder = Recorder(str(archive.path), archive.source.size)
        self._machine = Machine(code, self._recorder)
        self._made: dict[int, Any] = {}
        self._starts: dict[str, Tensor] = {}
        self._containers: list[tuple[str, Any, Any]] = []
        self.program = Program(str(archive.path), self._recorder.graph)

    def call(
        self,
        root: Record,
        constants: Sequence[Any],
        inputs: Sequence[ScriptInput],
        shapes: Mapping[str, tuple[int, ...]],
        values: Mapping[str, Any],
    ) -> None:
        """Call the network."""
        machine, graph = self._machine, self._recorder.graph
        names = [f"constant_{index}" for index in range(len(constants))]
        machine.constants = [self._value(*pair, "constants/") for pair in zip(constants, names, strict=True)]
        network = self._value(root, "", "data/")
        machine.changed.clear()
        arguments: list[Any] = []
        for entry in inputs:
            value = self._argument(entry, shapes, values)
            if entry.part > 1:
                arguments[-1] += (value,)
            else:
                arguments.append((value,) if entry.part else value)
        for name, value in _named(machine.method(network, "forward", arguments)):
            self.program.outputs.append(name)
            graph.outputs.append(value.name if isinstance(value, Tensor) else value)
        self._end()

    def _value(self, stored: Any, path: str, folder: str) -> Any:
        """Return a pickled value in the form that the code expects."""
        if path in self._states:
            return self._state(path, stored, folder)
        if isinstance(stored, int | float | str | None) and not isinstance(stored, Global):
            return stored
        if id(stored) not in self._made:
            value = self._new(stored, path, folder)
            self._made[id(stored)] = stored, value
            if isinstance(value, list | dict):
                self._containers.append((path, value, value.copy()))
        return self._made[id(stored)][1]

    def _new(self, stored: Any, path: str, folder: str) -> Any:
        if isinstance(stored, StoredTensor):
            return self._tensor(stored, path, folder)
        if isinstance(stored, list | tuple):
            items = [self._value(item, f"{path}.{index}", folder) for index, item in enumerate(stored)]
            return items if isinstance(stored, list) else tuple(items)
        if isinstance(stored, dict):
            return {
                key: self._value(item, f"{path}.{key}".lstrip("."), folder) for key, item in stored.items()
            }
        if not isinstance(stored, Record):
            return stored
        if stored.kind.startswith("__torch__.torch.classes."):
            if any(kind in stored.kind for kind in _PREPACKED):
                problem = (
                    f"{path or 'the network'} has weights packed for one type of processor, {stored.kind}"
                )
                fix = "convert the model before optimize_for_mobile"
                raise UnsupportedOp(problem, fix=fix)
            return quantized.unpacked(self._recorder, self._value(stored.state, path, folder))
        if stored.state is None and len(stored.arguments) == 1:  # a member of an enumeration
            return stored.arguments[0]
        instance = Object(stored.kind, path)
        if isinstance(stored.state, dict):
            instance.fields = self._new(stored.state, path, folder)
        elif stored.state is not None:
            self._machine.method(instance, "__setstate__", [self._value(stored.state, path, folder)])
        return instance

    def _tensor(self, stored: StoredTensor, path: str, folder: str) -> Any:
        """Return a stored tensor; a quantized tensor is returned as an object."""
        number = quantized.INTEGERS.get(stored.storage.number, stored.storage.number)
        try:
            data: ir.TensorData | XdlcError = unpickled(self._archive, folder, stored)
        except XdlcError as error:
            data = error
        tensor = self._recorder.constant(data, path, number, stored.shape, stored)
        if not stored.quantizer:
            return tensor
        parts = [self._value(part, f"{path}.{index}", folder) for index, part in enumerate(stored.quantizer)]
        return quantized.weight(tensor, parts, self._recorder)

    def _state(self, path: str, initial: Any, folder: str) -> Any:
        """Return a mutable attribute: an unknown tensor, or its plain value after a call."""
        end = self._states[path]
        if not isinstance(end, Tensor):
            self.moved = self.moved or end != initial
            return end
        place: tuple[Any, ...] = ()
        if isinstance(initial, StoredTensor) and initial.shape == end.shape:
            place = tuple(initial)
            data = unpickled(self._archive, folder, initial)
        else:
            data = ir.ArrayData(np.zeros(end.shape, dtype_of(end.dtype).numpy))
            self.moved = True
        made = self._starts[path] = self._recorder.unknown(path, end.dtype, end.shape)
        made.number = end.number
        self._recorder.store(made, Parameter(path, data, place))
        return made

    def _argument(
        self, entry: ScriptInput, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Any]
    ) -> Any:
        """Return an argument of the network: a tensor, or a number."""
        recorder, program = self._recorder, self.program
        if entry.name in shapes:
            tensor = recorder.unknown(entry.name, entry.dtype, shapes[entry.name])
            if not entry.is_stated:
                recorder.guessed.add(tensor.name)
        elif entry.kind in NUMBERS and entry.name in values:
            dtypes = {entry.name: np.dtype(dtype_of(NUMBERS[entry.kind]).numpy)}
            fixed = {entry.name: values[entry.name]}
            number = fixed_inputs(dtypes, {entry.name: ()}, fixed, program.path)[entry.name].item()
            program.notices.append(
                f"input {entry.name!r} is now the constant {number}: the DLC has no such input"
            )
            program.fixed.add(entry.name)
            return number
        elif entry.default is not None:
            value = self._machine.value(entry.default, {})
            program.notices.append(f"xdlc uses the default of input {entry.name!r}: {value!r}")
            return value
        elif entry.kind in NUMBERS:
            tensor = recorder.unknown(entry.name, NUMBERS[entry.kind], ())
            tensor.number = True
        elif entry.kind.startswith("Optional["):
            return None
        else:
            raise UnsupportedOp(f"input {entry.name!r} is a {entry.kind}", fix="pass tensors and numbers")
        program.inputs[tensor.name] = entry.name
        return tensor

    def _end(self) -> None:
        """Set the inputs of the graph and the changes of the call."""
        recorder, program = self._recorder, self.program
        program.parameters = recorder.parameters
        for name in recorder.written & recorder.parameters.keys():
            self.ends[recorder.parameters[name].name] = recorder.stored[name]
        for path, now, start in self._containers:
            pairs = zip(_items(now), _items(start), strict=False)
            if len(now) != len(start) or any(a is not b for a, b in pairs):
                problem = f"attribute {path!r} is a {type(now).__name__} that the network changes"
                raise UnsupportedOp(problem, fix="make the attribute an input and an output of the network")
        of_file = {id(made) for _, made in self._made.values()}
        for (_, field), (held, start) in self._machine.changed.items():
            path, end = f"{held.path}.{field}".lstrip("."), held.fields[field]
            is_same = end is start or (not isinstance(end, Tensor) and alike(end, start))
            if id(held) not in of_file or is_same:
                continue
            if not isinstance(end, Tensor | int | float | str | None):
                problem = f"attribute {path!r} changes to a {type(end).__name__}"
                raise UnsupportedOp(problem, fix="make the attribute an input and an output of the network")
            if path in self._starts and isinstance(end, Tensor):
                program.written[self._starts[path].name] = end.name
            self.ends[path] = end
        recorder.graph.inputs = [*program.inputs, *program.parameters]


def _items(held: Any) -> list[Any]:
    return [each for pair in held.items() for each in pair] if isinstance(held, dict) else held


def _named(result: Any) -> list[tuple[str, Any]]:
    """Return a network's results by name: dict keys, else ``output_0``, ..."""
    tensors([result])  # bounds the containers, too
    flat = list(islice(_leaves(result, ()), _MOST_OUTPUTS))
    if len(flat) == _MOST_OUTPUTS:
        raise UnsupportedOp("the network has too many outputs", fix="return tensors")
    flat = [(path, value) for path, value in flat if value is not None]
    for _, value in flat:
        if not isinstance(value, Tensor | int | float):
            raise UnsupportedOp(f"an output is a {type(value).__name__}", fix="return tensors")
    return [(joined(path) or f"output_{index}", value) for index, (path, value) in enumerate(flat)]


def _leaves(result: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Iterate over the leaves of containers, with positions and keys."""
    if len(path) > _MOST_DEPTH:
        raise UnsupportedOp("the containers of the outputs nest too deeply", fix="return tensors")
    if isinstance(result, dict | list | tuple):
        for key, value in result.items() if isinstance(result, dict) else enumerate(result):
            yield from _leaves(value, (*path, key))
    else:
        yield path, result
