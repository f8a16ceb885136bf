"""Elements of static tensors, compared in chunks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from xdlc.compare.figures import Difference
from xdlc.errors import ModelError
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, Dequantized, ScaleOffset, Tensor, TensorData
from xdlc.ir.data import ROWS_CHUNK, Array, Elided, MappedData
from xdlc.ir.quantization import as_blocks, check_scales, float_data, unpacked
from xdlc.lazy import is_installed

_CHUNK = 1 << 22  # elements that are compared at a time
_PIECE = 1 << 19  # bytes that are compared at a time
_SINGLE = 4  # bytes of a float32 number


@dataclass(frozen=True, slots=True)
class DataFigures:
    """Difference of the elements of two static tensors.

    Attributes:
        count: Number of elements.
        differing: Number of elements with another value.
        largest: Largest absolute difference of float values, or of integers; infinity if one value of two
            different ones is not finite.
        db: SQNR in dB of float values; None for integers, and if ``largest`` is infinity.
    """

    count: int
    differing: int
    largest: float
    db: float | None

    @property
    def text(self) -> str:
        """The figures in words."""
        if not self.differing:
            return "the stored bytes differ, and the values are equal"
        ratio = "" if self.db is None else f", SQNR {self.db:.1f} dB"
        return (
            f"{self.differing} of {self.count} elements differ, largest difference {self.largest:.4g}{ratio}"
        )

    def as_dict(self) -> dict[str, float | None]:
        """Return the figures by name; None for those that are not finite."""
        figures = {"largest": self.largest, "sqnr_db": self.db}
        return {
            "elements": self.count,
            "differing": self.differing,
            **{
                name: value if value is not None and math.isfinite(value) else None
                for name, value in figures.items()
            },
        }


def same_bytes(first: TensorData, second: TensorData) -> bool:
    """Return whether two data have the same bytes.

    The same range of one file is equal; xdlc then only checks its CRC-32.

    Raises:
        ContainerError: If the bytes of a file do not have their CRC-32.
        StorageError: If a file became shorter.
    """
    if first is second:
        return True
    if isinstance(first, Elided) or isinstance(second, Elided):
        return getattr(first, "digest", "") == getattr(second, "digest", "")
    if first.nbytes != second.nbytes:
        return False
    if _is_same_range(first, second):
        return True
    if not is_installed("numpy"):
        return _is_same_content(first.content(), second.content())
    import numpy

    return all(
        numpy.array_equal(_as_bytes(chunk), _as_bytes(counterpart))
        for chunk, counterpart in _chunks(first, second)
    )


def _is_same_range(first: TensorData, second: TensorData) -> bool:
    """Return whether two data are one range of one file, whose CRC-32 is then checked."""
    if not (isinstance(first, MappedData) and isinstance(second, MappedData)):
        return False
    (source, offset), (counterpart, place) = first.location, second.location
    if source is not counterpart:
        if source.file is None or counterpart.file is None:
            return False
        states = [os.fstat(each.file.fileno()) for each in (source, counterpart) if each.file is not None]
        if not os.path.samestat(*states):
            return False
    if offset != place:
        return False
    source.check(offset)
    return True


def _is_same_content(left: memoryview, right: memoryview) -> bool:
    """Return whether bytes are equal, without numpy; views compare by elements."""
    pieces = range(0, len(left), _PIECE)
    return all(bytes(left[at : at + _PIECE]) == bytes(right[at : at + _PIECE]) for at in pieces)


def _as_bytes(array: Array) -> Array:
    import numpy

    flat: Array = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
    return flat.view(numpy.uint64) if flat.size % 8 == 0 else flat


def _chunks(first: TensorData, second: TensorData) -> Iterator[tuple[Array, Array]]:
    """Yield flat pieces of two data of one size, and release what was read."""
    pair = first, second
    is_long = max(data.nbytes_read for data in pair) > ROWS_CHUNK
    if is_long and first.shape and first.shape == second.shape and all(data.has_rows for data in pair):
        step = max(1, ROWS_CHUNK * first.shape[0] // max(data.nbytes_read for data in pair))
        for start in range(0, first.shape[0], step):
            stop = min(start + step, first.shape[0])
            yield first.rows(start, stop).reshape(-1), second.rows(start, stop).reshape(-1)
            for data in pair:
                data.release_rows(start, stop)
        return
    left, right = (data.numpy().reshape(-1) for data in pair)
    if left.size == right.size:
        for start in range(0, left.size, _CHUNK):
            yield left[start : start + _CHUNK], right[start : start + _CHUNK]
    else:
        yield left, right
    for data in pair:
        data.release()


def figures(before: Tensor, after: Tensor) -> DataFigures:
    """Return the difference of two static tensors with as many numbers.

    Floats and quantized values that have an encoding are compared as floats.

    Raises:
        ContainerError: If the bytes of a file do not have their CRC-32.
    """
    pair = before, after
    if all(tensor.dtype.is_float or _is_scaled(tensor) for tensor in pair):
        with suppress(ModelError):  # an encoding that does not fit: the integers can still be compared
            return _figures(*map(_reals, pair), are_reals=True)
    return _figures(*map(unpacked, pair), are_reals=False)


def _figures(first: TensorData, second: TensorData, *, are_reals: bool) -> DataFigures:
    import numpy

    sums, count, differing, largest = Difference(), 0, 0, 0.0
    for left, right in _chunks(first, second):
        unequal = (left != right) & ~(numpy.isnan(left) & numpy.isnan(right))
        count += unequal.size
        differing += int(numpy.count_nonzero(unequal))
        if not (numpy.isfinite(left[unequal]).all() and numpy.isfinite(right[unequal]).all()):
            largest = math.inf
        elif not are_reals or max(left.itemsize, right.itemsize) > _SINGLE:
            largest = max(largest, _gap(left[unequal], right[unequal]))
        if are_reals:
            sums.add(left, right)
    if not are_reals:
        return DataFigures(count, differing, largest, None)
    result = sums.figures()
    return DataFigures(
        count, differing, max(largest, result.largest), result.db if math.isfinite(largest) else None
    )


def _gap(left: Array, right: Array) -> float:
    """Return the largest absolute difference; that of integers is exact."""
    import numpy

    if numpy.result_type(left, right).kind not in "iub":
        return float(numpy.abs(left.astype(numpy.float64) - right.astype(numpy.float64)).max(initial=0))
    high, low = (bound(left, right).astype(numpy.uint64) for bound in (numpy.maximum, numpy.minimum))
    return float((high - low).max(initial=0))


def real_values(tensor: Tensor) -> Any:
    """Return the elements as nested lists: real values where they are known."""
    if not is_installed("numpy"):
        return tensor.tolist()
    if _is_scaled(tensor):
        with suppress(ModelError):  # an encoding that does not fit: the integers are still values
            return _reals(tensor).numpy().tolist()
    return unpacked(tensor).numpy().tolist()


def _is_scaled(tensor: Tensor) -> bool:
    return tensor.dtype.is_fixed and tensor.encoding is not None


def _reals(tensor: Tensor) -> TensorData:
    """Return the float values of a tensor, computed when they are read."""
    if not _is_scaled(tensor) or tensor.encoding is None:
        return unpacked(tensor)
    encoding, where = tensor.encoding, f"tensor {tensor.name!r}"
    check_scales(encoding, tensor.shape, where=where)
    encoding = as_blocks(encoding, tensor.shape, where=where) or encoding
    if isinstance(encoding, ScaleOffset | AxisScaleOffset | BlockScaleOffset):
        return Dequantized(unpacked(tensor), tensor.dtype, encoding)
    return float_data(tensor)
