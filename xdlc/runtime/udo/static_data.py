"""Static data of operations for the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdlc.ir import ArrayData, ScaleOffset, Tensor, packed
from xdlc.ir.dtype import (
    FLOAT32,
    PLAIN,
    SFIXED4,
    SFIXED8,
    SFIXED16,
    UFIXED4,
    UFIXED8,
    UFIXED16,
    DType,
    from_numpy,
)
from xdlc.ir.quantization import float_data, unpacked
from xdlc.runtime.udo.descriptor import TensorForm, element, nbytes
from xdlc.runtime.udo.memory import ALIGNMENT, Memory

Array = Any  # numpy.ndarray


_TYPES = (SFIXED16, UFIXED16, SFIXED8, UFIXED8, SFIXED4, UFIXED4)
"""The most exact first."""


class StaticData:
    """Static data of an operation, for one memory.

    Attributes:
        rounded: Names of tensors whose float values are quantized for the kernel, and their types.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Callable[[], Array]]] = []
        self._size = 0
        self.rounded: list[tuple[str, DType]] = []

    def add(self, size: int, array: Callable[[], Array]) -> int:
        """Add data and return its offset.

        Args:
            size: Bytes.
            array: Returns the elements.
        """
        place = self._size
        self._pieces.append((place, array))
        self._size += size
        self._size += -self._size % ALIGNMENT
        return place

    def memory(self) -> Memory:
        """Return a memory with the data.

        Raises:
            StorageError: If there is not enough memory.
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
        name: Name of its place.
        layout: Layout of its place.
        allowed: Types that its place takes: quantized values stay such if it takes them, and become
            float32 otherwise, unless it takes other integers alone.
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


def rounded(tensor: Tensor, allowed: Sequence[DType]) -> Tensor | None:
    """Quantize static data under one scale; None if the place rejects integers.

    Before a model is quantized its static data are floats; a library that was built for integers
    runs on these.

    Args:
        tensor: Floats, or quantized values of a type that the place does not take.
        allowed: Types that the place takes.
    """
    import numpy

    dtype = next((one for one in _TYPES if {one, PLAIN.get(one)} & set(allowed)), None)
    if dtype is None or any(one.is_float for one in allowed):
        return None
    reals = float_data(tensor).numpy().reshape(tensor.shape).astype(numpy.float64)
    low, high = (float(numpy.append(reals, 0.0).min()), float(numpy.append(reals, 0.0).max()))
    if not (numpy.isfinite(low) and numpy.isfinite(high)):
        return None
    least, most = dtype.limits
    width = max(-low, high) / most if dtype.is_signed else (high - low) / most
    scale = float(numpy.float32(width)) or 1.0
    offset = 0 if dtype.is_signed else round(low / scale)
    steps = numpy.clip(numpy.rint(reals / scale) - offset, least, most)
    kind = numpy.dtype(f"{'i' if dtype.is_signed else 'u'}{max(dtype.bits, 8) // 8}")
    held = ArrayData(steps.astype(kind))
    data = packed(held) if dtype.bits == 4 else held
    return Tensor(tensor.name, tensor.shape, dtype, ScaleOffset(scale, offset), data, tensor.role)
