"""Arrays of inputs, in memory and in files: the shapes that fit, and ``.npy``.

Dynamic dimensions of the graph follow from a file.  A raw file has a size only, from which one dynamic
dimension follows; ``.npy`` files have their shapes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import permutations
from pathlib import Path
from shlex import quote
from typing import IO, Any, NamedTuple

import numpy as np

from xdlc.errors import StorageError, UsageError
from xdlc.ir import Tensor
from xdlc.ir.files import open_file
from xdlc.options import spell

Shape = tuple[int, ...]
_LAYOUTS = {"give array.transpose(0, 3, 1, 2)": "NHWC", "give array.transpose(0, 2, 3, 1)": "NCHW"}
"""Layout of arrays by the transposition that makes them fit."""
_MOST_PERMUTED = 6
"""Rank up to which all orders of the axes are tried."""
Array = Any  # numpy.ndarray of any dtype
_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 1 << 16
_MOST_RANK = 32
_FIX = "check the path; write the file with numpy.save or numpy.savez"
_VALUE = r"""['"]([<>|=]?[a-zA-Z?]\d{0,4})['"]|(True|False)|\(([\d\s,]{0,1000})\)"""
_FIELD = re.compile(rf"""\s*['"](descr|fortran_order|shape)['"]\s*:\s*(?:{_VALUE})\s*(?:,|(?=\}}))""")


def check_shape(tensor: Tensor, shape: Sequence[int]) -> None:
    """Check that an array has the shape of an input.

    Raises:
        UsageError: If it does not; its fix states how the array is made to fit.
    """
    if tuple(shape) != tensor.shape and not fits(shape, tensor.shape, tensor.dynamic_axes):
        problem = f"needs shape {list(tensor.shape)}, but has {list(shape)}"
        if is_permuted(shape, tensor.shape):
            problem += ": its axes are in another order"
        fix = shape_fix(shape, tensor.shape, tensor.dynamic_axes)
        layout = _LAYOUTS.get(fix)
        if layout is not None:
            fix += f", or convert with {spell('desired_input_layout')} {quote(tensor.name)} {layout}"
        raise UsageError(problem, fix=fix, code="XD206")


def fits(shape: Sequence[int], expected: Sequence[int], open_axes: Collection[int] = ()) -> bool:
    """Return whether a shape is the expected one but for open axes."""
    return len(shape) == len(expected) and all(
        dim == size or axis in open_axes for axis, (dim, size) in enumerate(zip(shape, expected, strict=True))
    )


def shape_fix(shape: Sequence[int], expected: Sequence[int], open_axes: Collection[int] = ()) -> str:
    """Return a fix for an array of another shape with the same order of values.

    Example:
        >>> shape_fix((1, 8, 8, 3), (1, 3, 8, 8))
        'give array.transpose(0, 3, 1, 2)'
        >>> shape_fix((8, 8, 3), (1, 3, 8, 8))
        'give array.transpose(2, 0, 1).reshape(1, 3, 8, 8)'
        >>> shape_fix((8, 8), (1, 8, 8, 1))
        'give array.reshape(1, 8, 8, 1)'
    """
    full = tuple(expected)
    for order in _orders(len(shape)):
        if fits([shape[axis] for axis in order], expected, open_axes):
            return f"give array.transpose{order}"
    if not open_axes and math.prod(shape) == math.prod(full):
        cores = [[dim for dim in dims if dim != 1] for dims in (shape, full)]
        if cores[0] == cores[1] or len(shape) == 1:
            return f"give array.reshape{full}"
        for order in _orders(len(shape)):
            if [shape[axis] for axis in order if shape[axis] != 1] == cores[1]:
                return f"give array.transpose{order}.reshape{full}"
    words = ["any" if axis in open_axes else str(dim) for axis, dim in enumerate(full)]
    fix = f"give an array of shape [{', '.join(words)}]"
    if not shape or not full or not shape[0] or not fits(shape[1:], full[1:], [a - 1 for a in open_axes]):
        return fix
    if full[0] and shape[0] % full[0] == 0:
        part = f"array[i:i + {full[0]}] for each {'i' if full[0] == 1 else f'{full[0]} items'}"
        fix = f"give {part}: one sample each, or one element of Session.run_batch"
    return f"{fix}, or convert with a batch of {shape[0]}"


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """Yield orders of axes, changes of layout first."""
    axes = tuple(range(rank))
    if 2 < rank <= _MOST_PERMUTED:
        start = rank > 3
        yield (*axes[:start], axes[-1], *axes[start:-1])
        yield (*axes[:start], *axes[start + 1 :], axes[start])
    if rank <= _MOST_PERMUTED:
        yield from list(permutations(axes))[1:]


def is_permuted(shape: Sequence[int], expected: Sequence[int]) -> bool:
    """Return whether dimensions other than 1 are the expected ones in another order."""
    cores = [[dim for dim in dims if dim != 1] for dims in (shape, expected)]
    return cores[0] != cores[1] and sorted(cores[0]) == sorted(cores[1])


def unit_shape(tensor: Tensor) -> Shape:
    """Return the shape of an input whose dynamic dimensions are 1."""
    return tuple(1 if axis in tensor.dynamic_axes else dim for axis, dim in enumerate(tensor.shape))


def holds_integers(tensor: Tensor) -> bool:
    """Return whether raw files of an input are integers or bools by default."""
    return tensor.dtype.is_integer or tensor.dtype.kind == "bool"


def of_size(size: int, full: int, unit: int, tensor: Tensor) -> Shape | None:
    """Return the shape for a size in bytes; None if it is ambiguous or does not fit.

    Args:
        size: The size, in elements or bytes.
        full: Size of the shape that the input states.
        unit: Size if all dynamic dimensions are 1.
        tensor: The input; a single item of its batch fits too if no dimension is dynamic.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> of_size(12, 3, 3, Tensor("x", (1, 3), FLOAT32, dynamic_axes=(0,)))
        (4, 3)
    """
    if size == full:
        return tensor.shape
    if not tensor.dynamic_axes:
        batch = tensor.shape[0] if tensor.shape else 1
        return (1, *tensor.shape[1:]) if batch > 1 and size * batch == full else None
    if size == unit:
        return unit_shape(tensor)
    if len(tensor.dynamic_axes) > 1 or unit == 0 or size == 0 or size % unit:
        return None
    (axis,) = tensor.dynamic_axes
    return (*tensor.shape[:axis], size // unit, *tensor.shape[axis + 1 :])


def of_array(shape: Sequence[int], tensor: Tensor) -> Shape | None:
    """Return the shape of an array as an input; None if it does not fit.

    Arrays of another shape but the same size fit where no dimension is dynamic, unless they have the
    dimensions in another order.
    """
    if tensor.dynamic_axes:
        return tuple(shape) if fits(shape, tensor.shape, tensor.dynamic_axes) else None
    if is_permuted(shape, tensor.shape):
        return None
    return of_size(math.prod(shape), tensor.size, tensor.size, tensor)


def size_problem(path: object, size: int, unit: int, tensor: Tensor, kind: str) -> tuple[str, str]:
    """Return the problem of a raw file's size and its fix.

    Args:
        unit: Bytes of the input if all dynamic dimensions are 1.
    """
    title = f"{path} has {size} bytes, but input {tensor.name!r}"
    if len(tensor.dynamic_axes) > 1:
        return (
            f"{title} has {len(tensor.dynamic_axes)} dynamic dimensions ({shown(tensor)} of {kind}), and a "
            "raw file does not store dimensions",
            f"save the array as .npy, or convert the model again with {spell('input_dims')}",
        )
    multiple = " or a multiple of this number" if tensor.dynamic_axes else ""
    return (
        f"{title} needs {unit}{multiple} ({shown(tensor)} of {kind})",
        "write the file in the type and layout of the input; xdlc info shows both",
    )


def shown(tensor: Tensor) -> str:
    """Return the shape of an input for a message, ``?`` for a dynamic dimension."""
    dims = ("?" if axis in tensor.dynamic_axes else str(n) for axis, n in enumerate(tensor.shape))
    return "x".join(dims) or "a scalar"


class Header(NamedTuple):
    """Shape, order and numpy dtype of an array."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: Any


def read_header(file: IO[bytes], where: str) -> Header:
    """Read the header of an array from a file, and leave the file at the first value.

    Args:
        where: The file, and the array in it, for errors.

    Raises:
        StorageError: If there is no header, or one of another form.
        OSError: What reading the file raises.
    """
    start = file.read(8)
    width = {b"\1\0": 2, b"\2\0": 4, b"\3\0": 4}.get(start[6:])
    if start[:6] != _MAGIC or width is None:
        raise unreadable(where, "it does not have the header of an .npy file of version 1 to 3")
    length = int.from_bytes(file.read(width), "little")
    if length > _MOST_HEADER:
        raise unreadable(where, f"its header has {length} bytes, more than {_MOST_HEADER}")
    found = _fields(file.read(length).decode("latin-1"))
    if found is None:
        raise unreadable(where, "its header does not describe an array of numbers")
    descr, order, dims = found
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise unreadable(where, f"unknown data type {descr!r}") from None
    shape = tuple(int(dim[:20]) for dim in dims.replace(",", " ").split())
    if len(shape) > _MOST_RANK or max(*shape, 1, math.prod(shape) * dtype.itemsize) >= 1 << 62:
        raise unreadable(where, f"its shape {list(shape)[:9]} exceeds {_MOST_RANK} axes or 4 EiB")
    return Header(shape, order == "True", dtype)


def _fields(text: str) -> tuple[str, str, str] | None:
    """Return the texts of dtype, order and shape; None if the header has another form."""
    text = text.strip(" \n")
    fields: dict[str, str] = {}
    place = 1
    while match := _FIELD.match(text, place):
        fields[match[1]] = next(value for value in match.groups()[1:] if value is not None)
        place = match.end()
    if text[:1] != "{" or text[place:].strip() != "}" or len(fields) != 3:
        return None
    return fields["descr"], fields["fortran_order"], fields["shape"]


def load(path: Path) -> Array:
    """Return the array in an .npy file; values are read when they are used.

    Raises:
        StorageError: If the file cannot be read, or is shorter than its header has it.
    """
    where = os.fspath(path)
    try:
        with open_file(path) as file:
            shape, is_fortran, dtype = read_header(file, where)
            if dtype.hasobject or not dtype.itemsize:
                raise unreadable(where, f"its values have type {dtype}, which is not a number")
            nbytes, start = math.prod(shape) * dtype.itemsize, file.tell()
            if os.fstat(file.fileno()).st_size - start < nbytes:
                raise unreadable(where, f"it ends before the {nbytes} bytes of its values")
            if not nbytes:  # which mmap refuses
                return np.empty(shape, dtype)
            return np.memmap(file, dtype, "r", start, shape, "F" if is_fortran else "C")
    except (OSError, ValueError) as error:
        raise unreadable(where, getattr(error, "strerror", None) or str(error)) from error


def unreadable(where: str, reason: str) -> StorageError:
    """Return the error of an array that cannot be read."""
    return StorageError(f"cannot be read as an array: {reason}", where=where, fix=_FIX)
