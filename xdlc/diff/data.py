"""Elements of static tensors, compared in chunks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from xdlc.compare.figures import Difference
from xdlc.content.inspection import in_words
from xdlc.diff.change import Change, differ, shown, shown_pair
from xdlc.errors import ModelError
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, Dequantized, Encoding, ScaleOffset, Tensor, TensorData
from xdlc.ir.data import ROWS_CHUNK, Array, Elided, MappedData
from xdlc.ir.quantization import as_blocks, check_scales, float_data, unpacked
from xdlc.lazy import is_installed

FEW = 16
"""Elements of a tensor whose values a difference shows."""


def tensor_changes(
    before: Tensor, after: Tensor, place: str, *, roles: bool = True, values: bool = True
) -> Iterator[Change]:
    """Yield the differences of two tensors, with those of their elements.

    Args:
        place: The tensor in words, like ``output 0 'y'``.
        values: Whether elements are compared.
    """
    if before.name != after.name:
        yield Change("tensor-names", f"name of {place}", before.name, after.name)
    yield from form_changes(before, after, place)
    if roles and before.role != after.role:
        yield Change("roles", f"role of {place}", before.role.name.lower(), after.role.name.lower())
    if values:
        yield from data_changes(before, after, place)


def form_changes(before: Tensor, after: Tensor, place: str) -> Iterator[Change]:
    """Yield the differences of shape, open axes, data type and encoding."""
    if before.shape != after.shape:
        yield Change("shapes", f"shape of {place}", _dims(before.shape), _dims(after.shape))
    if set(before.dynamic_axes) != set(after.dynamic_axes):
        axes = [shown(sorted(tensor.dynamic_axes)) for tensor in (before, after)]
        yield Change.between("dynamic-axes", f"open axes of {place}", axes)
    if before.dtype is not after.dtype:
        yield Change("dtypes", f"data type of {place}", before.dtype.name, after.dtype.name)
    if before.encoding != after.encoding and repr(before.encoding) != repr(after.encoding):
        yield encoding_change(before.encoding, after.encoding, f"encoding of {place}")


def _dims(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def data_changes(before: Tensor, after: Tensor, place: str, kind: str = "weights") -> Iterator[Change]:
    """Yield the difference of the elements of two tensors, if there is any."""
    first, second = before.data, after.data
    if first is None or second is None:
        if first is not second:
            texts = [None if data is None else f"{data.nbytes} bytes" for data in (first, second)]
            yield Change.between(kind, f"values of {place}", texts)
        return
    if before.size != after.size:
        counts = f"{before.size} elements", f"{after.size} elements"
        yield Change.between(kind, f"values of {place}", counts)
    elif not same_bytes(first, second):
        are_numbers = bool(before.dtype.bits and after.dtype.bits)
        difference = figures(before, after) if are_numbers and is_installed("numpy") else None
        if difference is None or difference.differing or before.dtype is after.dtype:
            few = are_numbers and before.size <= FEW and (difference is None or difference.differing > 0)
            values = shown_pair(map(real_values, (before, after))) if few else [None, None]
            text = "the stored bytes differ" if difference is None else difference.text
            size = None if difference is None else difference.as_dict()
            yield Change(kind, f"values of {place}", values[0], values[1], text, size)


def encoding_change(before: Encoding | None, after: Encoding | None, what: str) -> Change:
    """Return the difference of two encodings, with the parts that differ as a note."""
    note = None
    if before is not None and type(before) is type(after):
        note = "; ".join(_parts(before, after)) or None
    return Change("encodings", what, in_words(before), in_words(after), note)


def _parts(before: Encoding, after: Encoding) -> Iterator[str]:
    """Yield the parts of two encodings of one kind that differ."""
    for name in before.__dataclass_fields__:
        first, second = getattr(before, name), getattr(after, name)
        if repr(first) == repr(second) and not isinstance(first, Sequence):
            continue
        if isinstance(first, Sequence) and len(first) == len(second):
            pairs = [pair for pair in zip(first, second, strict=True) if differ(*pair)]
            text = f"{len(pairs)} of {len(first)} {name.replace('_', ' ')} differ"
            if pairs:
                yield text + (_largest(pairs) if "scales" in name else _range(pairs))
        elif isinstance(first, Sequence):
            yield f"{len(first)} {name.replace('_', ' ')} became {len(second)}"
        elif name == "scale":
            yield f"scale differs{_largest([(first, second)])}"
        else:
            yield f"{name.replace('_', ' ')} {_plain(first)} became {_plain(second)}"


def _plain(value: object) -> str:
    return "none" if value is None else str(value)


def _largest(pairs: Sequence[tuple[float, float]]) -> str:
    """Return the largest relative difference of scales in words, if it is finite."""
    share = max(
        abs(after - before) / abs(before) if before and math.isfinite(after - before) else math.inf
        for before, after in pairs
    )
    if math.isinf(share):
        return ""
    return f", by at most {share:.3g} times" if share >= 10 else f", by at most {share:.2%}"


def _range(pairs: Sequence[tuple[int, int]]) -> str:
    return f", by at most {max(abs(after - before) for before, after in pairs)}"


_CHUNK = 1 << 22  # elements that are compared at a time
_PIECE = 1 << 19  # bytes that are compared at a time
_SINGLE = 4  # bytes of a float32 number


@dataclass(frozen=True, slots=True)
class DataFigures:
    """Difference of the elements of two static tensors.

    Attributes:
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
