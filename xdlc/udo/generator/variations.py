"""What the tests of a package vary of an operation's operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdlc.ir.dtype import FLOAT32, DType
from xdlc.udo.generator.cores import CPU
from xdlc.udo.generator.literals import default_number
from xdlc.udo.generator.template_context import OperationView, Place


@dataclass(frozen=True, slots=True)
class Sizes:
    """Extents of tensors.

    Attributes:
        extents: Those that texts name, one after the other.
        shapes: Those of tensors without a text, by rank; the last ones are the same, so that a vector goes
            with all of them.
    """

    extents: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]


EVEN = Sizes((2, 4, 3, 5), ((), (3,), (2, 3), (2, 2, 3), (1, 4, 4, 3), (1, 2, 2, 2, 3)))
ODD = Sizes((3, 7, 5, 1), ((), (5,), (7, 5), (1, 7, 5), (3, 1, 7, 5), (1, 3, 1, 7, 5)))
ONES = Sizes((1,), tuple((1,) * rank for rank in range(6)))


@dataclass(frozen=True, slots=True)
class Variation:
    """What is there of an operation's operands, and how large it is.

    Attributes:
        what: What is peculiar to it.
        full: Whether all is there that can be, but for what is ``without``.
        without: Kinds and positions of tensors that are left out.
        repeats: How many tensors a repeated input or output stands for.
        values: Positions of parameters, with their values.
        dtype: Data type of those tensors that can have it.
        sizes: Extents.
    """

    what: str
    full: bool = True
    without: frozenset[tuple[str, int]] = frozenset()
    repeats: int = 2
    values: tuple[tuple[int, int], ...] = ()
    dtype: DType | None = None
    sizes: Sizes = EVEN


EVERYTHING, LEAST = Variation("everything"), Variation("the least", full=False)


def basic(op: OperationView) -> tuple[Variation, ...]:
    """Return everything, the least that there can be, and a gap if there can be one among the inputs."""
    gap = frozenset(("input", place.index) for place in op.inputs[:-1] if not place.mandatory)
    if gap and not op.inputs[-1].mandatory:
        return EVERYTHING, LEAST, Variation("a gap", without=gap)
    return EVERYTHING, LEAST


def variations(op: OperationView) -> tuple[Variation, ...]:
    """Return the basic ones; each optional tensor left out; other numbers, values, types and sizes."""
    return (*basic(op), *_without(op), *_repeats(op), *_values(op), *_types(op), *_sizes(op))


def _without(op: OperationView) -> Iterator[Variation]:
    optional = [place for place in (*op.inputs, *op.outputs) if not place.mandatory]
    gaps = {variation.without for variation in basic(op)}
    for place in optional if len(optional) > 1 else ():
        without = frozenset({(place.kind, place.index)})
        if without not in gaps:
            yield Variation(f"without {place.name}", without=without)


def _repeats(op: OperationView) -> Iterator[Variation]:
    """One and three tensors for what is repeated; two are everything."""
    if any(place.repeated for place in (*op.inputs, *op.outputs)):
        yield Variation("one repeated", repeats=1)
        yield Variation("three repeated", repeats=3)


def _values(op: OperationView) -> Iterator[Variation]:
    """Each enumerator and each truth value but that of everything."""
    for place in op.params:
        values = [(value.name, value.value) for value in place.values]
        if not values and place.is_scalar and place.types[CPU][0].kind == "bool":
            values = [("false", 0), ("true", 1)]
        for name, value in values:
            if value != sample_value(place):
                yield Variation(f"{place.name} {name}", values=((place.index, value),))


def _types(op: OperationView) -> Iterator[Variation]:
    """Each data type that an input can have beside its first."""
    found = dict.fromkeys(dtype for place in op.inputs for dtype in cpu_types(place)[1:])
    yield from (Variation(f"as {dtype.name}", dtype=dtype) for dtype in found)


def _sizes(op: OperationView) -> Iterator[Variation]:
    """Odd extents; and all extents 1, if outputs have none that is computed and might be 0 then."""
    yield replace(EVERYTHING, what="odd extents", sizes=ODD)
    extents = (text for place in op.outputs for text in place.extents)
    if all(text == ".." or text.isidentifier() or text.isdigit() for text in extents):
        yield replace(EVERYTHING, what="extents of 1", sizes=ONES)


def is_plain(place: Place) -> bool:
    """Return whether a parameter is one value."""
    return place.is_scalar or (place.kind == "param" and place.is_string)


def sample_value(place: Place) -> int | float | str:
    """Return a value for a scalar or a string parameter."""
    if place.values or not is_plain(place):
        return default_number(place) if place.default is not None and place.values else 0
    if place.is_string:
        return place.default if place.default is not None else "text"
    return default_number(place) if place.default is not None else 1


def cpu_type(place: Place) -> DType:
    """Return the type in which the CPU gets a tensor, the first of several."""
    return cpu_types(place)[0]


def cpu_types(place: Place) -> tuple[DType, ...]:
    """Return the types in which the CPU gets a tensor: activations that stand for reals are float32."""
    return tuple(dict.fromkeys(_cpu_type(place, dtype) for dtype in place.types[CPU]))


def _cpu_type(place: Place, dtype: DType) -> DType:
    if place.kind == "param" or place.static or dtype.bits == 64:
        return dtype
    return FLOAT32 if dtype.is_float or dtype.is_fixed else dtype
