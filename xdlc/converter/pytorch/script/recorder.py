"""Recorder of the operators that TorchScript calls, with the shapes and types of their results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, ScalarType
from xdlc.converter.pytorch.parameters import Parameter
from xdlc.converter.pytorch.schemas import results, schema
from xdlc.converter.pytorch.script.results import Results, shape_of
from xdlc.converter.pytorch.script.types import BOOL, FLOAT32, FLOATS, INT64, count_of, result_types, type_of
from xdlc.converter.pytorch.script.values import Tensor, replaced, tensors
from xdlc.converter.pytorch.tensors import dtype_of
from xdlc.errors import UnsupportedOp, XdlcError

_MOST_CALLS = 12_000
_MOST_ELEMENTS = 1 << 28
_MOST_KNOWN = 1 << 16
_INDICES = ("index", "indices")
MISSING = object()
"""Result of an operator that its handler does not have."""


class WrongType(Exception):
    """An input must be of integers: the operators take it for indices."""


class Recorder:
    """Recorder of one evaluation.

    Args:
        path: The file, for errors.
        nbytes: Its size, in proportion to which constants are folded.

    Attributes:
        graph: The graph that calls are added to.
        parameters: Stored tensors, by the name of their value.
        stored: The tensors of these.
        guessed: Names of the inputs whose type is not stated.
        metas: Types and shapes of all tensors, those of graphs inside among them.
        written: Names of the storages that operators change.
        module: Path of the module that runs.
        branches: How many branches and loops that depend on data are open.
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
        self._path = path
        self._names: Counter[str] = Counter()
        self._calls = 0
        self._shared: dict[str, list[Tensor]] = {}
        self._results = Results(path, nbytes)

    # ------------------------------------------------------------------ tensors

    def constant(
        self,
        data: ir.TensorData | XdlcError,
        name: str,
        dtype: int,
        shape: Sequence[int],
        place: Sequence[Any] = (),
    ) -> Tensor:
        """Return a stored tensor.

        Args:
            data: Its elements, or why they cannot be read.
            name: Its name.
            dtype: Its data type.
            shape: Its shape.
            place: What is equal for tensors that are the same elements.
        """
        made = self._tensor(name, dtype, shape)
        self.store(made, Parameter(name, data, tuple(place)))
        if isinstance(data, ir.TensorData):
            self._results.bind(made.name, data)
        else:
            self._results.forget(made)
        return made

    def store(self, tensor: Tensor, parameter: Parameter) -> None:
        """Let a tensor be one that the program holds."""
        self.stored[tensor.name], self.parameters[tensor.name] = tensor, parameter
        self._main.values[tensor.name] = self.metas[tensor.name]

    def array(self, array: Any, dtype: int) -> Tensor:
        """Return a tensor of known values."""
        held = np.asarray(array, dtype_of(dtype).numpy)
        return self.constant(ir.ArrayData(held), "constant", dtype, held.shape)

    def number(self, value: float) -> Tensor:
        """Return a number as a tensor that denotes it."""
        made = self.array(value, type_of(value))
        made.number = True
        return made

    def unknown(self, name: str, dtype: int, shape: Sequence[int]) -> Tensor:
        """Return a tensor whose values are not known: an input of the main graph, or of one inside it."""
        made = self._tensor(name, dtype, shape)
        self._results.forget(made)
        return made

    def _tensor(self, name: str, dtype: int, shape: Sequence[int]) -> Tensor:
        unique = self.fresh(name)
        made = Tensor(Ref(unique), ScalarType(dtype), tuple(shape), unique)
        self.graph.values[unique] = self.metas[unique] = Meta(made.dtype, made.shape)
        self._shared[unique] = [made]
        return made

    def fresh(self, name: str) -> str:
        """Return a name that no value has."""
        self._names[name] += 1
        return name if self._names[name] == 1 else self.fresh(f"{name}_{self._names[name] - 1}")

    def known(self, tensor: Tensor) -> Any:
        """Return the elements of a tensor that are known now; None if they are not."""
        value = self._results.value(tensor.name)
        if not value.is_static or value.size > _MOST_KNOWN:
            return None
        return value.numpy()

    # ------------------------------------------------------------------ calls

    def call(
        self, name: str, arguments: Mapping[str, Any], space: str = "aten", dtype: int | None = None
    ) -> Any:
        """Add a call; return the tensor that results, or a tuple or list of them.

        Args:
            name: Operator and overload.
            arguments: All arguments by name.
            space: Namespace of the operator.
            dtype: Data type of the result of an operator that is not of ATen.

        Raises:
            XdlcError: If it cannot be imported.
        """
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise UnsupportedOp(f"calls more than {_MOST_CALLS} operators", fix="export it with torch.export")
        _check_sizes(arguments)
        slots = schema(name) or () if space == "aten" else ()
        changed = [arguments[each.name] for each in slots if each.is_written]
        kinds = results(name) if space == "aten" else ("T",)
        if not all(kind in ("T", "T[]") for kind in kinds):
            raise UnsupportedOp(f"{name} returns what is no tensor", fix="export the model with torch.export")
        types = result_types(name, arguments) if dtype is None else [ScalarType(dtype)]
        operator = name.partition(".")[0]
        count = count_of(name, arguments) if kinds == ("T[]",) else len(kinds)
        if kinds == ("T[]",):  # as many as there are in a list, each of its own type, or parts of one
            listed = next((tensors(value) for value in arguments.values() if isinstance(value, list)), [])
            types = [each.dtype for each in listed] if len(listed) == count else types * count
        outputs = [self.fresh(operator.strip("_")) for _ in range(count)]
        call = Call(f"{space}.{name}", {k: replaced(v) for k, v in arguments.items()}, outputs, self.module)
        self.graph.calls.append(call)
        given = list(tensors(list(arguments.values())))
        if changed:
            return self._changed(call, changed, given)
        found = self._results.of(call, given, types)
        viewed = next((arguments[each.name] for each in slots if each.is_viewed), None)
        made: list[Any] = []
        for output, value, dtype in zip(outputs, found, types, strict=True):
            if value is None:
                made.append(MISSING)
                continue
            base = viewed.storage if isinstance(viewed, Tensor) else output
            tensor = Tensor(Ref(output), dtype, shape_of(value, name), base)
            self._shared.setdefault(base, []).append(tensor)
            self.graph.values[output] = self.metas[output] = Meta(dtype, tensor.shape)
            self._results.set(output, value)
            made.append(tensor)
        if kinds == ("T[]",):
            return made
        return made[0] if len(made) == 1 else tuple(made)

    def _changed(self, call: Call, changed: Sequence[Any], given: Sequence[Tensor]) -> Tensor:
        """Return the tensor that a call changes; what shares its storage is unknown from then on."""
        (tensor,) = changed if len(changed) == 1 else (None,)
        space, _, name = call.target.partition(".")
        operator, dot, overload = name.partition(".")
        plain = operator.removesuffix("_") + dot + overload
        if not isinstance(tensor, Tensor) or operator == plain:
            raise UnsupportedOp(f"{name} changes its arguments, which has no functional form")
        found: list[Any] = []
        if all(self.known(each) is not None for each in given) and schema(plain) is not None:
            found = self._results.of(replace(call, target=f"{space}.{plain}"), given, [tensor.dtype])
        self.written.add(tensor.storage)
        for each in self._shared.get(tensor.storage, ()):
            self._results.forget(each)
        value = found[0] if found else None
        if value is not None and shape_of(value, name) == tensor.shape:
            self._results.set(tensor.name, value)
        for output in call.outputs:
            self.graph.values[output] = self.metas[output] = Meta(tensor.dtype, tensor.shape)
        return tensor

    def check_indices(self, arguments: Mapping[str, Any]) -> None:
        """Refuse the type of an input that is taken for indices, if the type is a guess.

        Raises:
            WrongType: With the name of the input.
        """
        for each in tensors([arguments.get(name) for name in _INDICES]):
            if each.name in self.guessed and each.dtype == FLOAT32:
                raise WrongType(each.name)

    # ------------------------------------------------------------------ graphs inside

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

    def truth(self, tensor: Tensor) -> Tensor:
        """Return whether the one element of a tensor is not 0, as a number that depends on data."""
        made = tensor
        if tensor.dtype != BOOL:
            made = self.call("ne.Scalar", {"self": tensor, "other": 0})
        return self._single(made)

    def converted(self, tensor: Tensor, dtype: ScalarType) -> Tensor:
        """Return the one element of a tensor as a number that depends on data."""
        if tensor.dtype != dtype:
            if dtype == INT64 and tensor.dtype in FLOATS:
                tensor = self.call("trunc", {"self": tensor})
            tensor = self.cast(tensor, dtype)
        return self._single(tensor)

    def cast(self, tensor: Tensor, dtype: int) -> Tensor:
        """Return a tensor in another type."""
        given = {"dtype": ScalarType(dtype), "non_blocking": False, "copy": False, "memory_format": None}
        made: Tensor = self.call("to.dtype", {"self": tensor, **given})
        return made

    def _single(self, tensor: Tensor) -> Tensor:
        if math.prod(tensor.shape) != 1:
            raise UnsupportedOp(f"a tensor of shape {list(tensor.shape)} is no number")
        made = self.call("reshape", {"self": tensor, "shape": []}) if tensor.shape else tensor
        return replace(made, number=True)


def _check_sizes(arguments: Mapping[str, Any]) -> None:
    """Refuse sizes of tensors that cannot be meant."""
    for name in ("size", "sizes", "repeats", "shape"):
        value = arguments.get(name)
        sizes = [each for each in value if isinstance(each, int)] if isinstance(value, list) else []
        if math.prod(max(each, 1) for each in sizes) > _MOST_ELEMENTS:
            raise UnsupportedOp(f"makes a tensor of shape {value}", fix="check the shapes of the inputs")
