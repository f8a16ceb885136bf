"""Tensors and scalar parameters."""

from __future__ import annotations

import math
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xdlc.ir.data import Array, ArrayData, TensorData
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, STRING, UINT32, DType, from_numpy
from xdlc.ir.encoding import Encoding
from xdlc.records import record

if TYPE_CHECKING:
    from xdlc.ir.graph import Op


class Role(IntEnum):
    """Role of a tensor in its graph, under QNN's tensor-type numbers."""

    INPUT = 0
    OUTPUT = 1
    INPUT_OUTPUT = 2
    NATIVE = 3
    STATIC = 4
    NULL = 5


@record(eq=False)
class Tensor:
    """A value of a graph: an input, an output, an intermediate, or static data.

    Attributes:
        name: Unique in its graph.
        shape: Dimensions; ``()`` is a scalar.
        dtype: QNN data type of the stored elements.
        encoding: Encoding of quantized values; None for unquantized tensors.
        data: Elements of a static tensor.
        role: Role in the graph.
        dynamic_axes: Axes whose dimension is only known when the graph runs.
        producer: The op whose output this is; kept by the graph.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    encoding: Encoding | None = None
    data: TensorData | None = None
    role: Role = Role.NATIVE
    dynamic_axes: tuple[int, ...] = ()
    producer: Op | None = None

    def __post_init__(self) -> None:
        self.shape = tuple(map(int, self.shape))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes of the elements."""
        return self.dtype.nbytes(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether the tensor has data in the model."""
        return self.data is not None

    def numpy(self) -> Array:
        """Return the elements of a static tensor.

        Raises:
            ValueError: If the tensor holds no data.
        """
        if self.data is None:
            raise ValueError(f"tensor {self.name!r} is not static")
        return self.data.numpy()

    def tolist(self) -> Any:
        """Return the elements of a static tensor as nested lists.

        Raises:
            ValueError: If the tensor holds no data.
        """
        if self.data is None:
            raise ValueError(f"tensor {self.name!r} is not static")
        return self.data.tolist()

    def __repr__(self) -> str:
        return f"%{self.name}: {self.dtype}{list(self.shape)}"


@record(frozen=True)
class Scalar:
    """A scalar parameter of an op."""

    dtype: DType
    value: int | float | bool | str


Param = Scalar | Tensor


def u32(value: int) -> Scalar:
    """Return a uint32 scalar parameter."""
    return Scalar(UINT32, int(value))


def i32(value: int) -> Scalar:
    """Return an int32 scalar parameter."""
    return Scalar(INT32, int(value))


def f32(value: float) -> Scalar:
    """Return a float32 scalar parameter, its value rounded to float32."""
    from xdlc.ir.encoding import as_float32

    return Scalar(FLOAT32, as_float32(value))


def b8(value: bool) -> Scalar:
    """Return a bool parameter."""
    return Scalar(BOOL8, bool(value))


def u32s(values: Any) -> Tensor:
    """Return a tensor parameter of uint32, from anything that numpy accepts."""
    import numpy

    array = numpy.asarray(values, numpy.uint32)
    data = _u32_data(array.shape, array.tobytes()) if array.size <= _SHARED else ArrayData(array)
    return Tensor("", data.shape, UINT32, None, data, Role.STATIC)


_SHARED = 64
"""Most elements of a parameter whose data equal parameters share: windows of most nodes are alike."""


@lru_cache(1 << 10)
def _u32_data(shape: tuple[int, ...], content: bytes) -> TensorData:
    import numpy

    return ArrayData(numpy.frombuffer(content, numpy.uint32).reshape(shape))


def string(value: str) -> Scalar:
    """Return a string parameter."""
    return Scalar(STRING, value)


def static(name: str, array: Array, dtype: DType | None = None, encoding: Encoding | None = None) -> Tensor:
    """Return a static tensor, or tensor parameter, with the elements of ``array``.

    Args:
        array: Anything numpy takes as an array.
        dtype: QNN data type; default: the plain type of the array.
    """
    data = ArrayData(array)
    return Tensor(
        name,
        data.shape,
        dtype or from_numpy(data.dtype),
        encoding,
        data,
        Role.STATIC,
    )
