"""Serializable descriptor of an op for the worker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import BY_CODE, DType
from xdlc.opdefs.op_view import OpView, TensorSpec, Value
from xdlc.runtime.udo.memory import Memory

Array = Any  # numpy.ndarray
Dims = tuple[int | None, ...]
MAX_RANK = 16
"""Axes that a tensor of a kernel may have."""
OPEN_EXTENT = 0xFFFFFFFF
"""The least number that is no extent."""


@dataclass(frozen=True, slots=True)
class TensorForm:
    """Descriptor of a tensor.

    Attributes:
        dtype: Code of its data type.
        dims: Dimensions, None for a dynamic one.
        layout: ``NHWC`` and the like, or empty.
        scale: Of quantized values; else 0.
        offset: Offset of quantized values.
        place: Offset of static data in the memory of the operation; None for other tensors.
    """

    name: str
    dtype: int = 0
    dims: Dims = ()
    layout: str = ""
    scale: float = 0.0
    offset: int = 0
    place: int | None = None
    omitted: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a dimension is dynamic."""
        return None in self.dims

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, none of them dynamic."""
        return tuple(extent for extent in self.dims if extent is not None)

    @property
    def nbytes(self) -> int:
        """Size of the elements; 0 if a dimension is dynamic."""
        if self.omitted or self.is_open or not self.dtype:
            return 0
        return nbytes(self.shape, (BY_CODE[self.dtype].bits + 7) // 8)  # numpy takes long to import

    def at(self, dims: Dims) -> TensorForm:
        """Return the tensor with other dimensions."""
        return replace(self, dims=tuple(dims))


def nbytes(shape: tuple[int, ...], itemsize: int) -> int:
    """Return the size of dense elements."""
    return math.prod(shape) * itemsize


def element(code: int) -> Any:
    """Return the numpy dtype of a type code; 4-bit elements use a byte each."""
    import numpy

    dtype = BY_CODE[code]
    if dtype.bits == 4:
        return numpy.dtype(numpy.int8 if dtype.is_signed else numpy.uint8)
    return dtype.numpy


@dataclass(frozen=True, slots=True)
class ParamForm:
    """Descriptor of a parameter.

    Attributes:
        dtype: Code of its data type.
        value: A scalar or string; None for a tensor.
        enumerator: Name of the value of an enumeration.
    """

    name: str
    dtype: int
    value: int | float | bool | str | None = None
    enumerator: str | None = None
    tensor: TensorForm | None = None


@dataclass(frozen=True, slots=True)
class OpForm:
    """Descriptor of an op; attributes like :class:`xdlc.opdefs.op_view.OpView`."""

    package: str
    type: str
    name: str
    inputs: tuple[TensorForm, ...]
    outputs: tuple[TensorForm, ...]
    params: tuple[ParamForm, ...]

    def words(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> OpForm:
        """Return a descriptor from its JSON values."""
        return cls(
            words["package"],
            words["type"],
            words["name"],
            tuple(map(_tensor, words["inputs"])),
            tuple(map(_tensor, words["outputs"])),
            tuple(map(_param, words["params"])),
        )

    def view(self, memory: Memory) -> OpView:
        """Return the view of shape functions.

        Args:
            memory: Holds the static data.
        """
        return OpView(
            self.package,
            self.type,
            self.name,
            tuple(None if form.omitted else spec_of(form, memory) for form in self.inputs),
            tuple(spec_of(form, memory) if form.dtype else None for form in self.outputs),
            self.values(memory),
        )

    def values(self, memory: Memory) -> dict[str, Value]:
        """Return the parameters as plain values."""
        values: dict[str, Value] = {}
        for param in self.params:
            if param.tensor is not None:
                values[param.name] = static_array(param.tensor, memory)
            else:
                values[param.name] = param.value if param.enumerator is None else param.enumerator
        return values


def _tensor(words: Mapping[str, Any]) -> TensorForm:
    return TensorForm(**{**words, "dims": tuple(words["dims"])})


def _param(words: Mapping[str, Any]) -> ParamForm:
    tensor = words["tensor"]
    return ParamForm(**{**words, "tensor": None if tensor is None else _tensor(tensor)})


def static_array(form: TensorForm, memory: Memory) -> Array:
    """Return the elements of a static tensor."""
    return memory.array(form.place or 0, form.shape, element(form.dtype))


def spec_of(form: TensorForm, memory: Memory) -> TensorSpec:
    """Return the ``TensorSpec`` of shape functions and Python kernels."""
    data = None if form.place is None else ArrayData(static_array(form, memory))
    return TensorSpec(form.dims, dtype_of(form), form.name, form.layout, data)


def dtype_of(form: TensorForm) -> DType:
    """Return the data type of a tensor."""
    return BY_CODE[form.dtype]


def specs_in(answer: Mapping[str, Any]) -> list[TensorSpec] | None:
    """Return the outputs in a worker's answer, the inverse of ``words_of_specs``."""
    words = answer.get("outputs")
    if words is None:
        return None
    return [
        TensorSpec(tuple(one["dims"]), BY_CODE[one["dtype"]], one["name"], one["layout"]) for one in words
    ]


def words_of_specs(specs: Sequence[TensorSpec] | None) -> list[dict[str, Any]] | None:
    """Return outputs as JSON values."""
    if specs is None:
        return None
    return [
        {"dims": spec.shape, "dtype": spec.dtype.code, "layout": spec.layout, "name": spec.name}
        for spec in specs
    ]
