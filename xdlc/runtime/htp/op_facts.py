"""What messages about a refused op need to know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc import opdefs
from xdlc.ir import NATIVE_PACKAGE, Op, Param, ScaleOffset, Tensor

_MOST_VALUES = 16
_MOST_BREACHES = 3


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """An input or output.

    Attributes:
        place: ``input 0``, ``output 1``...
        name: Its name.
        dtype: Name of its data type.
        shape: Its extents.
        offset: Offset of its encoding, if it has one for the whole tensor.
    """

    place: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int | None = None

    def __str__(self) -> str:
        return f"{self.place} ({self.name!r})"


@dataclass(frozen=True, slots=True)
class OpFacts:
    """An op as the validator was asked about it.

    Attributes:
        tensors: Its inputs that are not left out, then its outputs.
        params: Values of its parameters by name, of tensors the first ones.
        breaches: What xdlc's own tables of HTP have against it.
    """

    tensors: tuple[TensorFacts, ...]
    params: Mapping[str, tuple[float, ...]]
    breaches: tuple[str, ...] = ()

    @classmethod
    def of(cls, op: Op) -> OpFacts:
        """Return the facts of an op."""
        sides = (("input", op.inputs), ("output", op.outputs))
        tensors = (
            _tensor(f"{side} {index}", tensor)
            for side, held in sides
            for index, tensor in enumerate(held)
            if tensor is not None
        )
        params = {name: _values(param) for name, param in op.params.items()}
        breaches = opdefs.verify_op(op, backend="htp") if op.package == NATIVE_PACKAGE else []
        return cls(tuple(tensors), params, tuple(breaches[:_MOST_BREACHES]))

    @classmethod
    def read(cls, words: Mapping[str, Any]) -> OpFacts:
        """Return the facts that ``words`` gives."""
        tensors = (
            TensorFacts(place, name, dtype, tuple(shape), offset)
            for place, name, dtype, shape, offset in words["tensors"]
        )
        params = {name: tuple(values) for name, values in words["params"].items()}
        return cls(tuple(tensors), params, tuple(words["breaches"]))

    def words(self) -> dict[str, Any]:
        """Return the facts as JSON takes them."""
        return {
            "tensors": [
                [held.place, held.name, held.dtype, held.shape, held.offset] for held in self.tensors
            ],
            "params": dict(self.params),
            "breaches": self.breaches,
        }

    def at(self, side: str, index: int) -> str:
        """Return how to call an input or output."""
        place = f"{side} {index}"
        return next((str(tensor) for tensor in self.tensors if tensor.place == place), place)

    def of_rank(self, rank: int) -> list[TensorFacts]:
        """Return the inputs and outputs of a rank."""
        return [tensor for tensor in self.tensors if len(tensor.shape) == rank]

    def types(self) -> str:
        """Return the data types of its inputs and outputs in words, or nothing if they are not known."""
        read, given = (
            [tensor.dtype for tensor in self.tensors if tensor.place.startswith(side)]
            for side in ("input", "output")
        )
        return f"from {', '.join(read) or 'nothing'} to {', '.join(given)}" if given else ""

    def holding(self, value: float) -> list[str]:
        """Return what of the op has a value: offsets of tensors, and parameters."""
        found = [f"the offset of {tensor}" for tensor in self.tensors if tensor.offset == value]
        return found + [f"parameter {name!r}" for name, values in self.params.items() if value in values]


NO_FACTS = OpFacts((), {})


def _tensor(place: str, tensor: Tensor) -> TensorFacts:
    offset = tensor.encoding.offset if isinstance(tensor.encoding, ScaleOffset) else None
    return TensorFacts(place, tensor.name, tensor.dtype.name, tensor.shape, offset)


def _values(param: Param) -> tuple[float, ...]:
    if isinstance(param, Tensor):
        return tuple(_numbers(param.numpy().reshape(-1)[:_MOST_VALUES].tolist()))
    return tuple(_numbers([param.value]))


def _numbers(values: Sequence[object]) -> Iterable[float]:
    for value in values:
        if isinstance(value, int | float):
            yield value if value == value and abs(value) != float("inf") else 0.0
