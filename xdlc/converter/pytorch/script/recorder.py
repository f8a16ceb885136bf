"""Recorder of TorchScript's operator calls, with shapes and types of results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, ScalarType, results, schema
from xdlc.converter.pytorch.script.types import BOOL, FLOAT32, FLOATS, INT64, count_of, result_types, type_of
from xdlc.converter.pytorch.script.values import Results, Tensor, replaced, shape_of, tensors
from xdlc.converter.pytorch.tensors import Parameter, dtype_of
from xdlc.errors import UnsupportedOp, XdlcError

_MOST_CALLS = 8_000
_MOST_ELEMENTS = 1 << 28
_MOST_KNOWN = 1 << 16
_FIX = "export the model with torch.export"
_RESHAPING = ("squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "resize_")
NUMBERS = {"int": INT64, "float": FLOAT32, "bool": BOOL}
"""Data types of numbers."""
MISSING = object()
"""Result of an operator that its handler lacks."""


class WrongType(Exception):
    """An input must be of integers: operators use it as indices."""


class Recorder:
    """Recorder of one evaluation.

    Attributes:
        graph: The graph that calls are added to.
        parameters: Stored tensors, by the name of their value.
        stored: The tensors of these.
        guessed: Names of the inputs whose type is not stated.
        metas: Types and shapes of all tensors, those of graphs inside among them.
        written: Names of the storages that operators change.
        module: Path of the module that runs.
        branches: How many branches that depend on data are open.
    """

    def __init__(self, path: str, nbytes: int) -> None:
        self.graph = CallGraph([], [])
        self.parameters: dict[str, Parameter] = {}
        self.stored: dict[str, Tensor] = {}
        self.guessed: set[str] = set()
        self.metas: dict[str, Meta] = {}
        self.written: set[str] = set()
        self.module = ""
        self.branches = 0
        self._main = self.graph
        self._names: Counter[str] = Counter()
        self._calls = 0
        self._shared: dict[str, list[Tensor]] = {}
        self._results = Results(path, nbytes)

    def constant(
        self, data: ir.TensorData | XdlcError, name: str, dtype: int, shape: Sequence[int], place: Any = ()
    ) -> Tensor:
        """Return a stored tensor."""
        tensor = self._tensor(Ref(self.fresh(name)), ScalarType(dtype), shape)
        self.store(tensor, Parameter(name, data, tuple(place)))
        if isinstance(data, ir.TensorData):
            self._results.bind(tensor.name, data)
        else:
            self._results.forget(tensor)
        return tensor

    def store(self, tensor: Tensor, parameter: Parameter) -> None:
        """Register a tensor as a parameter of the program."""
        self.stored[tensor.name], self.parameters[tensor.name] = tensor, parameter
        self._main.values[tensor.name] = self.metas[tensor.name]

    def array(self, array: Any, dtype: int) -> Tensor:
        """Return a tensor of known values."""
        held = np.asarray(array, dtype_of(dtype).numpy)
        return self.constant(ir.ArrayData(held), "constant", dtype, held.shape)

    def number(self, value: float) -> Tensor:
        """Return a number as a tensor."""
        made = self.array(value, type_of(value))
        made.number = True
        return made

    def unknown(self, name: str, dtype: int, shape: Sequence[int]) -> Tensor:
        """Return a tensor of unknown values: an input of the main graph or a sub-graph."""
        made = self._tensor(Ref(self.fresh(name)), ScalarType(dtype), shape)
        self._results.forget(made)
        return made

    def _tensor(self, name: Ref, dtype: ScalarType, shape: Sequence[int], storage: str = "") -> Tensor:
        made = Tensor(name, dtype, tuple(shape), storage or name)
        self.graph.values[name] = self.metas[name] = Meta(made.dtype, made.shape)
        self._shared.setdefault(made.storage, []).append(made)
        return made

    def fresh(self, name: str) -> str:
        """Return a name that no value has."""
        self._names[name] += 1
        return name if self._names[name] == 1 else self.fresh(f"{name}_{self._names[name] - 1}")

    def known(self, tensor: Tensor) -> Any:
        """Return the elements of a constant tensor; None if they are not known."""
        value = self._results.value(tensor.name)
        return value.numpy() if value.is_static and value.size <= _MOST_KNOWN else None

    def item(self, tensor: Tensor, kind: str = "") -> Any:
        """Return a tensor's only element as a number; as a tensor if it depends on data."""
        if math.prod(tensor.shape) != 1:
            raise UnsupportedOp(f"a tensor of shape {list(tensor.shape)} is not a number")
        known = self.known(tensor)
        if known is not None:
            return {"int": int, "float": float, "bool": bool}.get(kind, lambda number: number)(known.item())
        dtype = NUMBERS.get(kind, tensor.dtype)
        if dtype == BOOL != tensor.dtype:
            tensor = self.call("ne.Scalar", {"self": tensor, "other": 0})
        elif dtype != tensor.dtype:
            if dtype == INT64 and tensor.dtype in FLOATS:
                tensor = self.call("trunc", {"self": tensor})
            tensor = self.cast(tensor, dtype)
        made = self.call("clone", {"self": tensor, "memory_format": None})
        made = self.call("reshape", {"self": made, "shape": []}) if made.shape else made
        return replace(made, number=True)

    def cast(self, tensor: Tensor, dtype: int) -> Tensor:
        """Return a tensor in another type."""
        given = {"dtype": ScalarType(dtype), "non_blocking": False, "copy": False, "memory_format": None}
        made: Tensor = self.call("to.dtype", {"self": tensor, **given})
        return made

    def call(
        self, name: str, arguments: Mapping[str, Any], space: str = "aten", dtype: int | None = None
    ) -> Any:
        """Add a call; return the tensor that results, or a tuple or list of them."""
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise UnsupportedOp(f"the script calls more than {_MOST_CALLS} operators", fix=_FIX)
        _check_sizes(arguments)
        self._check_indices(arguments)
        slots = schema(name) or () if space == "aten" else ()
        operands, kinds = tensors(list(arguments.values())), results(name) if slots else ("T",)
        if not all(kind in ("T", "T[]") for kind in kinds):
            raise UnsupportedOp(f"{name} returns a value that is not a tensor", fix=_FIX)
        types = result_types(name, arguments) if dtype is None else [ScalarType(dtype)]
        if kinds == ("T[]",):  # as many as there are in a list, each of its own type, or parts of one
            listed = next((tensors(value) for value in arguments.values() if isinstance(value, list)), [])
            count = count_of(name, arguments)
            types = [tensor.dtype for tensor in listed] if len(listed) == count else types * count
        outputs = [self.fresh(name.partition(".")[0].strip("_")) for _ in types]
        call = Call(f"{space}.{name}", {k: replaced(v) for k, v in arguments.items()}, outputs, self.module)
        self.graph.calls.append(call)
        if any(slot.is_written for slot in slots):
            return self._changed(call, [arguments[slot.name] for slot in slots if slot.is_written], operands)
        viewed = next((arguments[slot.name] for slot in slots if slot.is_viewed), None)
        storage = viewed.storage if isinstance(viewed, Tensor) else ""
        recorded: list[Any] = []
        for output, value, dtype in zip(outputs, self._results.of(call, operands, types), types, strict=True):
            if value is None:
                recorded.append(MISSING)
            else:
                recorded.append(self._tensor(Ref(output), dtype, shape_of(value, name), storage))
                self._results.set(output, value)
        if kinds == ("T[]",):
            return recorded
        return recorded[0] if len(recorded) == 1 else tuple(recorded)

    def _changed(self, call: Call, changed: Sequence[Any], operands: Sequence[Tensor]) -> Tensor:
        """Return the tensor that a call changes; aliases of its storage become unknown."""
        space, _, name = call.target.partition(".")
        operator, dot, overload = name.partition(".")
        plain = operator.removesuffix("_") + dot + overload
        tensor = changed[0]
        if len(changed) != 1 or not isinstance(tensor, Tensor) or plain == name or operator in _RESHAPING:
            raise UnsupportedOp(f"{name} changes its arguments in place, which is not supported", fix=_FIX)
        new_values: list[Any] = [None]
        if all(self.known(operand) is not None for operand in operands) and schema(plain) is not None:
            new_values = self._results.of(replace(call, target=f"{space}.{plain}"), operands, [tensor.dtype])
        self.written.add(tensor.storage)
        for operand in self._shared.get(tensor.storage, ()):
            self._results.forget(operand)
        if not self.branches and new_values[0] is not None and shape_of(new_values[0], name) == tensor.shape:
            self._results.set(tensor.name, new_values[0])
        for output in call.outputs:
            self.graph.values[output] = self.metas[output] = Meta(tensor.dtype, tensor.shape)
        return tensor

    def _check_indices(self, arguments: Mapping[str, Any]) -> None:
        """Refuse an input used as indices if its type is a guess."""
        for each in tensors([arguments.get("index"), arguments.get("indices")]):
            if each.name in self.guessed and each.dtype == FLOAT32:
                raise WrongType(each.name)

    @contextmanager
    def inner(self) -> Iterator[CallGraph]:
        """Add calls to a graph of their own while the context is open."""
        around, self.graph = self.graph, CallGraph([], [])
        self.branches += 1
        try:
            yield self.graph
        finally:
            self.graph = around
            self.branches -= 1


def _check_sizes(arguments: Mapping[str, Any]) -> None:
    """Refuse sizes of tensors that cannot be meant."""
    for name in ("size", "sizes", "repeats", "shape"):
        value = arguments.get(name)
        sizes = [each for each in value if isinstance(each, int)] if isinstance(value, list) else []
        if math.prod(max(each, 1) for each in sizes) > _MOST_ELEMENTS:
            raise UnsupportedOp(
                f"the script makes a tensor of shape {value}", fix="check the shapes of the inputs"
            )
