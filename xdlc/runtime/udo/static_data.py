"""Static data of operations, as a child process gets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32, PLAIN, DType, from_numpy
from xdlc.ir.quantization import float_data, unpacked
from xdlc.runtime.udo.descriptor import TensorForm, element, nbytes
from xdlc.runtime.udo.memory import ALIGNMENT, Memory
from xdlc.runtime.udo.rounding import rounded

Array = Any  # numpy.ndarray


class StaticData:
    """Static data of an operation, which goes into one memory.

    Attributes:
        rounded: Places whose reals come as integers, and the types of these.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Callable[[], Array]]] = []
        self._size = 0
        self.rounded: list[tuple[str, DType]] = []

    def add(self, size: int, array: Callable[[], Array]) -> int:
        """Take up data and return where it will lie.

        Args:
            size: Bytes.
            array: Gives the elements.
        """
        place = self._size
        self._pieces.append((place, array))
        self._size += size
        self._size += -self._size % ALIGNMENT
        return place

    def memory(self) -> Memory:
        """Return a memory that holds it.

        Raises:
            StorageError: If there is not so much.
        """
        made = Memory(self._size)
        for place, give in self._pieces:
            array = give()
            made.array(place, array.shape, array.dtype)[...] = array
        return made


def static_form(
    tensor: Tensor, name: str, layout: str, allowed: Sequence[DType], data: StaticData
) -> TensorForm:
    """Return a static tensor, whose elements are added to the data of its operation.

    Args:
        tensor: The tensor.
        name: Name of its place.
        layout: Layout of its place.
        allowed: Types that its place takes: integers that stand for reals stay such if it takes them, and
            come as float32 otherwise, unless it takes other integers alone.
        data: Where its elements go.
    """
    if (tensor.dtype.is_float or tensor.dtype.is_fixed) and not _is_taken(tensor, allowed):
        stored = rounded(tensor, allowed)
        if stored is not None:
            data.rounded.append((name, stored.dtype))
            tensor = stored
    dtype, encoding, shape = tensor.dtype, tensor.encoding, tensor.shape
    scale, offset = 0.0, 0
    if dtype.is_fixed or (dtype.is_float and allowed and dtype not in allowed) or dtype.name == "bfloat16":
        named = {dtype, PLAIN.get(dtype)} & set(allowed)
        if isinstance(encoding, ScaleOffset) and named and FLOAT32 not in allowed:
            scale, offset = float(encoding.scale), int(encoding.offset)
        else:
            dtype = FLOAT32
    kind = element(dtype.code)

    def elements() -> Array:
        held = float_data(tensor) if dtype is FLOAT32 else unpacked(tensor)
        return held.numpy().astype(kind, copy=False).reshape(shape)

    place = data.add(nbytes(shape, kind.itemsize), elements)
    return TensorForm(name, dtype.code, shape, layout, scale, offset, place)


def _is_taken(tensor: Tensor, allowed: Sequence[DType]) -> bool:
    """Return whether a place takes a tensor as it is stored."""
    if tensor.dtype.is_float:
        return tensor.dtype in allowed
    named = {tensor.dtype, PLAIN.get(tensor.dtype)} & set(allowed)
    return bool(named) and isinstance(tensor.encoding, ScaleOffset)


def array_form(
    array: Array, name: str, layout: str, data: StaticData, dtype: DType | None = None
) -> TensorForm:
    """Return an array as a static tensor; see ``static_form``."""
    dtype = dtype or from_numpy(array.dtype)
    held = array.astype(element(dtype.code), copy=False)
    return TensorForm(name, dtype.code, held.shape, layout, place=data.add(held.nbytes, lambda: held))
