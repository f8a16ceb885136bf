"""The texts of constraints that are enforced; any other text is documentation.

======== ==================================================================================
Type     Text
======== ==================================================================================
Shape    ``rank = 5``, ``rank >= 1``, ``rank <= 4``, ``rank = rank(in[0]) + 1``,
         ``shape = in[0]``, ``shape = broadcast(in[0], in[1])``, ``size = in[0]``,
         ``extent(0) = 1``, ``extent(-2) <= 32``, of tensors that are not static;
         ``extent(-1) <= 4096 unless all in are multiples of 32``: on the same axis of every input
Datatype ``datatype = in[0]``; ``datatype like in[0]``: float with float, quantized with
         quantized, of any width
Value    ``> 0``, ``in [0, 1]``, ``in [0, rank(in[0]) - 1]``, ``in {0, 2, 13}``
======== ==================================================================================

Each check returns what was expected and what was found, or None if all is well or nothing can be
said (a tensor that is left out, an extent that is only known when the graph runs).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from xdlc.ir.data import Elided
from xdlc.ir.dtype import UNDEFINED, DType
from xdlc.ir.tensor import Scalar, Tensor


class Finding(NamedTuple):
    """A broken rule."""

    expected: str
    found: str


Lookup = Callable[[str], Tensor | None]
"""From ``in[0]`` or ``out[1]`` to the tensor at that place of the op."""

_TERM = re.compile(r"\s*([+-]?)\s*(?:(\d+)|rank\(([^()]+)\))")
_RANK = re.compile(r"rank (>=|<=|=) (.+)")
_EXTENT = re.compile(r"extent\((-?\d+)\) (<=|=) (\d+)(?: unless all in are multiples of (\d+))?")
_DATATYPE = re.compile(r"datatype (=|like) (\S+)")
_RANGE = re.compile(r"in \[([^,]+), (.+)\]")
_SET = re.compile(r"in \{([\d, ]+)\}")


def _rank_value(text: str, lookup: Lookup) -> int | None:
    """Return the value of a sum of numbers and ``rank(...)``, or None if a tensor is missing.

    Example:
        >>> _rank_value("rank(in[0]) - 1", lambda name: None), _rank_value("3 + 1", lambda name: None)
        (None, 4)
    """
    total, position = 0, 0
    text = text.strip()
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            return None
        sign, number, name = term.groups()
        if number is None:
            tensor = lookup(name)
            if tensor is None:
                return None
            value = tensor.rank
        else:
            value = int(number)
        total += -value if sign == "-" else value
        position = term.end()
    return total


def check_shape(text: str, tensor: Tensor, lookup: Lookup) -> Finding | None:
    """Check a constraint of type Shape."""
    if match := _RANK.fullmatch(text):
        return _check_rank(match[1], match[2], tensor, lookup)
    if match := _EXTENT.fullmatch(text):
        return _check_extent(match, tensor, lookup)
    if tensor.dynamic_axes:
        return None
    if text.startswith("shape = broadcast(") and text.endswith(")"):
        names = [name.strip() for name in text.removeprefix("shape = broadcast(")[:-1].split(",")]
        return _check_broadcast([lookup(name) for name in names], tensor)
    what, _, name = text.partition(" = ")
    source = lookup(name)
    if what not in ("shape", "size") or source is None or source.dynamic_axes:
        return None
    same = source.shape == tensor.shape if what == "shape" else source.size == tensor.size
    if same:
        return None
    expected = f"the shape {list(source.shape)} of {name}"
    if what == "size":
        expected = f"the {source.size} elements of {name}"
    return Finding(expected, f"shape {list(tensor.shape)}")


def _check_extent(match: re.Match[str], tensor: Tensor, lookup: Lookup) -> Finding | None:
    axis, limit = int(match[1]) + (tensor.rank if int(match[1]) < 0 else 0), int(match[3])
    if tensor.is_static or not 0 <= axis < tensor.rank or axis in tensor.dynamic_axes:
        return None
    extent = tensor.shape[axis]
    if extent == limit or (match[2] == "<=" and extent < limit):
        return None
    expected = f"extent {'at most ' if match[2] == '<=' else ''}{limit} on axis {axis}"
    if match[4]:
        step = int(match[4])
        extents = [held.shape[axis] for held in _inputs(lookup) if axis < held.rank]
        if not any(held % step for held in extents):
            return None
        return Finding(f"{expected}, or inputs with multiples of {step}", f"{extent} of {extents}")
    return Finding(expected, f"shape {list(tensor.shape)}")


def _inputs(lookup: Lookup) -> Iterator[Tensor]:
    for index in count():
        tensor = lookup(f"in[{index}]")
        if tensor is None:
            return
        yield tensor


def _check_rank(relation: str, text: str, tensor: Tensor, lookup: Lookup) -> Finding | None:
    wanted = _rank_value(text, lookup)
    if wanted is None:
        return None
    holds = {"=": tensor.rank == wanted, ">=": tensor.rank >= wanted, "<=": tensor.rank <= wanted}[relation]
    word = {"=": "", ">=": "at least ", "<=": "at most "}[relation]
    return None if holds else Finding(f"rank {word}{wanted}", f"rank {tensor.rank} {list(tensor.shape)}")


def _check_broadcast(sources: Sequence[Tensor | None], tensor: Tensor) -> Finding | None:
    present = [source for source in sources if source is not None]
    if len(present) < len(sources) or any(source.dynamic_axes for source in present):
        return None
    rank = max(source.rank for source in present)
    shape: list[int] = []
    for axis in range(-rank, 0):
        extents = {source.shape[axis] for source in present if -axis <= source.rank} - {1}
        if len(extents) > 1:
            shapes = " and ".join(str(list(source.shape)) for source in present)
            return Finding("inputs that broadcast", f"shapes {shapes}")
        shape.append(extents.pop() if extents else 1)
    if tuple(shape) == tensor.shape:
        return None
    return Finding(f"the broadcast shape {shape}", f"shape {list(tensor.shape)}")


def check_datatype(text: str, tensor: Tensor, lookup: Lookup) -> Finding | None:
    """Check a constraint of type Datatype."""
    match = _DATATYPE.fullmatch(text)
    source = lookup(match[2]) if match else None
    if match is None or source is None or UNDEFINED in (source.dtype, tensor.dtype):
        return None
    if source.dtype == tensor.dtype or (match[1] == "like" and _alike(source.dtype, tensor.dtype)):
        return None
    return Finding(f"the data type {source.dtype} of {match[2]}", str(tensor.dtype))


def _alike(a: DType, b: DType) -> bool:
    return (a.is_float and b.is_float) or (a.is_fixed and b.is_fixed)


def check_value(text: str, param: Scalar | Tensor, lookup: Lookup) -> Finding | None:
    """Check a constraint of type Value on every element of a parameter."""
    values = _values(param)
    if text == "> 0":
        return _first_outside(values, lambda value: value > 0, "values above 0")
    if match := _SET.fullmatch(text):
        allowed = [int(word) for word in match[1].split(",")]
        return _first_outside(values, allowed.__contains__, f"one of {', '.join(map(str, allowed))}")
    if match := _RANGE.fullmatch(text):
        low, high = (_rank_value(bound, lookup) for bound in match.groups())
        if low is None or high is None:
            return None
        expected = f"{low}" if low == high else f"{low} to {high}"
        return _first_outside(values, lambda value: low <= value <= high, expected)
    return None


def _values(param: Scalar | Tensor) -> list[float]:
    if isinstance(param, Scalar):
        return [] if isinstance(param.value, str) else [param.value]
    if param.dtype.kind not in ("int", "uint", "float") or isinstance(param.data, Elided):
        return []
    return [float(value) for value in param.numpy().reshape(-1).tolist()]


def _first_outside(values: list[float], holds: Callable[[float], bool], expected: str) -> Finding | None:
    return next((Finding(expected, f"{value:g}") for value in values if not holds(value)), None)


def check_extents(
    shape: tuple[str, ...], tensor: Tensor, lookup: Lookup, bound: dict[str, tuple[int, str]]
) -> Finding | None:
    """Check extents against names, numbers and ranks; a name must mean one number in the whole op.

    Args:
        shape: Extents as the definition tells them; ``..`` stands for any number of axes.
        tensor: The tensor.
        lookup: Tensors of the op.
        bound: Values of the names met so far, with the tensor that gave them; is added to.
    """
    if not shape:
        return None
    if ".." in shape:
        cut = shape.index("..")
        tail = len(shape) - cut - 1
        if tensor.rank < cut + tail:
            return Finding(f"rank at least {cut + tail}", f"rank {tensor.rank} {list(tensor.shape)}")
        axes = [*range(cut), *range(tensor.rank - tail, tensor.rank)]
        words = shape[:cut] + shape[cut + 1 :]
    else:
        if tensor.rank != len(shape):
            return Finding(
                f"rank {len(shape)} [{', '.join(shape)}]", f"rank {tensor.rank} {list(tensor.shape)}"
            )
        axes, words = list(range(tensor.rank)), shape
    for axis, word in zip(axes, words, strict=True):
        if axis in tensor.dynamic_axes:
            continue
        extent = tensor.shape[axis]
        wanted, source = _extent(word, lookup), word
        if wanted is None and word.isidentifier() and word != "_":
            wanted, source = bound.setdefault(word, (extent, tensor.name))
            source = f"{word}, as in {source!r}"
        if wanted is not None and wanted != extent:
            return Finding(f"extent {wanted} ({source}) on axis {axis}", f"shape {list(tensor.shape)}")
    return None


def _extent(word: str, lookup: Lookup) -> int | None:
    if word.isdigit() or word.startswith("rank("):
        return _rank_value(word, lookup)
    return None
