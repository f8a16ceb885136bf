"""Literals of the text form: exact, and short where short is exact."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from xdlc.ir.data import Array, ArrayData, TensorData
from xdlc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, DType
from xdlc.ir.encoding import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    ScaleOffset,
    VectorCode,
    as_float32,
)

INLINE_ELEMENTS = 64
"""Data of up to this many elements is always written as numbers."""

ENCODING_NAMES: dict[type[Encoding], str] = {
    ScaleOffset: "per_tensor",
    AxisScaleOffset: "per_axis",
    BlockScaleOffset: "per_block",
    BlockwiseExpansion: "expansion",
    VectorCode: "vector",
}

_BARE = re.compile(r"[A-Za-z0-9_.:/-]+")


def name_text(name: str) -> str:
    """Return a name in the text form: bare if possible, else a JSON string."""
    return name if _BARE.fullmatch(name) else json.dumps(name)


def float_text(value: float) -> str:
    """Return a short decimal that reads back as ``value`` or its float32.

    Example:
        >>> float_text(as_float32(0.1)), float_text(0.1 + 0.2)
        ('0.1', '0.30000000000000004')
    """
    try:
        single = as_float32(value) == value
    except OverflowError:
        single = False
    for digits in (6, 7, 8, 9) if single else ():
        text = f"{value:.{digits}g}"
        if as_float32(float(text)) == value:
            return text
    return repr(float(value))


def scalar_text(dtype: DType, value: float | bool | str) -> str:
    """Return a scalar parameter's value as text."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool) or dtype.kind == "bool":
        return "true" if value else "false"
    if dtype == FLOAT32:
        return float_text(as_float32(value))
    if dtype.is_float or isinstance(value, float):
        return repr(float(value))
    return str(int(value))


def scalar_value(dtype: DType, text: str) -> int | float | bool:
    """Return the value of a number or truth word.

    Raises:
        ValueError: If the word is neither, or does not fit ``dtype``.
    """
    if dtype.kind in ("string", "undefined"):
        raise ValueError(f"a parameter of type {dtype} cannot be a number")
    if text in ("true", "false"):
        return text == "true"
    if dtype == FLOAT32:
        return as_float32(float(text))
    if dtype.is_float:
        return float(text)
    value, (low, high) = int(text), dtype.limits
    if not low <= value <= high:
        raise ValueError(f"the number is outside the range {low} to {high} of {dtype}")
    return value


def data_shape(dtype: DType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the array of a tensor; packed 4-bit data is a row of bytes."""
    return (dtype.nbytes(shape),) if dtype.bits == 4 else shape


def numbers_text(dtype: DType, count: int, array: Array) -> str | None:
    """Return ``[1, 2, ...]`` in row-major order, or None if numbers were inexact.

    Args:
        array: Its data, in numpy's form of ``dtype``.
    """
    import numpy

    if dtype.kind == "bool":
        words = ["true" if value else "false" for value in array.reshape(-1).tolist()]
    elif dtype.bits == 4:
        words = [str(value) for value in _unpacked(dtype, count, array)]
    elif dtype in (BFLOAT16, FLOAT16, FLOAT32):
        words = [float_text(value) for value in array.astype(numpy.float32).reshape(-1).tolist()]
    else:
        words = [repr(value) for value in array.reshape(-1).tolist()]
    again = numbers_data(dtype, count, array.shape, words).numpy()
    return f"[{', '.join(words)}]" if again.tobytes() == array.tobytes() else None


def numbers_data(dtype: DType, count: int, shape: Sequence[int], words: Sequence[str]) -> TensorData:
    """Return the data of numbers written as words.

    Raises:
        ValueError: If a word is not a number of ``dtype``, or there are too few or too many.
    """
    import numpy

    if len(words) != count:
        raise ValueError(f"the tensor needs {count} numbers, but the text has {len(words)}")
    if dtype.kind == "bool":
        unknown = [word for word in words if word not in ("true", "false")]
        if unknown:
            raise ValueError(f"an element must be true or false, but is {unknown[0]}")
        return ArrayData(numpy.array([word == "true" for word in words], numpy.bool_).reshape(shape))
    if dtype.is_float:
        values = numpy.array([float(word) for word in words], numpy.float64)
        if dtype != BFLOAT16:
            with numpy.errstate(over="ignore"):
                return ArrayData(values.astype(dtype.numpy).reshape(shape))
        return ArrayData(values.astype(numpy.float32).astype(dtype.numpy).reshape(shape))
    integers = [int(word) for word in words]
    low, high = dtype.limits
    wrong = [value for value in integers if not low <= value <= high]
    if wrong:
        raise ValueError(f"{wrong[0]} is outside the range {low} to {high} of {dtype}")
    if dtype.bits != 4:
        return ArrayData(numpy.array(integers, dtype.numpy).reshape(shape))
    nibbles = numpy.array([value & 15 for value in integers] + [0] * (count % 2), numpy.uint8)
    return ArrayData((nibbles[0::2] | nibbles[1::2] << 4).reshape(shape))


def _unpacked(dtype: DType, count: int, array: Array) -> list[int]:
    values: list[int] = []
    for byte in array.reshape(-1).tolist():
        values += [byte & 15, byte >> 4]
    sign = 8 if dtype.is_signed else 0
    return [(value ^ sign) - sign for value in values[:count]]
