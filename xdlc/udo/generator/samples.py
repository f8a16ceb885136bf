"""Example operands for the tests of a package, guessed from the definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xdlc.ir.dtype import FLOAT32, DType
from xdlc.udo.generator.cpp import default_number, is_demanded
from xdlc.udo.generator.naming import Quoted, python
from xdlc.udo.generator.template_context import CPU, CoreView, OperationView, Place

_DIMS = (2, 4, 3, 5)
"""Dimensions that texts name, one after the other."""
_SHAPES = ((), (3,), (2, 3), (2, 2, 3), (1, 4, 4, 3), (1, 2, 2, 2, 3))
"""Shapes of tensors without a text, by rank; the last dimensions are equal, so that a vector suits all."""
_REPEATS = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """A tensor or a parameter of a case.

    Attributes:
        place: Its definition.
        omitted: Whether it is omitted.
        dims: Dimensions.
        dtype: Data type on the CPU.
        value: Value of a scalar or a string.
    """

    place: Place
    omitted: bool
    dims: tuple[int, ...]
    dtype: DType
    value: int | float | str = 0


@dataclass(frozen=True)
class Case:
    """An operation with operands.

    Attributes:
        op: The operation.
        what: Title: which operands there are.
        full: Whether all operands are present, but those of ``without``.
        without: Positions of optional inputs that are omitted.
    """

    op: OperationView
    what: str
    full: bool = True
    without: frozenset[int] = frozenset()

    @cached_property
    def named_dims(self) -> dict[str, int]:
        """Dimensions by their names in the texts of shapes."""
        places = (*self.op.inputs, *self.op.params)
        names = dict.fromkeys(text for place in places for text in place.dim_texts if text.isidentifier())
        return {name: _DIMS[number % len(_DIMS)] for number, name in enumerate(names)}

    @cached_property
    def rank(self) -> int | None:
        """Rank that an activation states, also used for activations of any rank."""
        return next((place.rank for place in self._activations if place.rank), None)

    @cached_property
    def usual(self) -> tuple[int, ...]:
        """Shape that an activation's text states, also used for others of its rank."""
        stated = (place for place in self._activations if place.dim_texts)
        return next((self._shape(place, None) for place in stated), ())

    @property
    def _activations(self) -> Iterator[Place]:
        places = (*self.op.outputs, *self.op.inputs)
        return (place for place in places if place.mandatory and not place.static)

    @cached_property
    def inputs(self) -> tuple[Sample, ...]:
        """Inputs by position; ``omitted`` replaces a missing input before present ones."""
        return self._tensors(self.op.inputs)

    @cached_property
    def outputs(self) -> tuple[Sample, ...]:
        """Outputs by position."""
        return self._tensors(self.op.outputs)

    @cached_property
    def params(self) -> tuple[Sample, ...]:
        """Parameters."""
        places = [place for place in self.op.params if self.full or is_demanded(place)]
        return tuple(self._param(place) for place in places)

    def _tensors(self, places: tuple[Place, ...]) -> tuple[Sample, ...]:
        samples: list[Sample] = []
        for place in places:
            count = self._count(place)
            for _ in range(max(count, 1)):
                dims = self._shape(place, self.rank)
                if not place.static and not place.dim_texts and len(dims) == len(self.usual):
                    dims = self.usual
                samples.append(Sample(place, not count, dims, cpu_type(place)))
        while samples and samples[-1].omitted:
            samples.pop()
        return tuple(samples)

    def _count(self, place: Place) -> int:
        """Return the number of tensors of a place; omitted defaults are filled in."""
        if place.default is not None and not place.repeated:
            return 1
        if not self.full or (place.kind == "input" and place.index in self.without):
            return int(place.mandatory)
        return _REPEATS if place.repeated else 1

    def _shape(self, place: Place, otherwise: int | None) -> tuple[int, ...]:
        """Return a shape for a tensor; ``otherwise`` is the rank if any is allowed."""
        if place.dim_texts:
            dims = self.named_dims | {"..": 1}
            return tuple(dims.get(text) or _dim(text) for text in place.dim_texts)
        rank = place.rank if place.rank is not None else 4 if place.layout else otherwise or 2
        return _SHAPES[rank] if rank < len(_SHAPES) else (1,) * rank

    def _param(self, place: Place) -> Sample:
        dims = () if is_plain(place) else self._shape(place, None)
        return Sample(place, False, dims, cpu_type(place), _value(place))


def cases(core: CoreView) -> tuple[Case, ...]:
    """Return the cases of operations: all operands, the least, and a gap."""
    return tuple(case for op in core.ops for case in _cases(op))


def _cases(op: OperationView) -> Iterator[Case]:
    cases: list[Case] = []
    optional = frozenset(place.index for place in op.inputs[:-1] if not place.mandatory)
    gap = [Case(op, "a gap", without=optional)] if optional and not op.inputs[-1].mandatory else []
    for case in (Case(op, "everything"), Case(op, "the least", full=False), *gap):
        operands = (case.inputs, case.outputs, case.params)
        if all(operands != (one.inputs, one.outputs, one.params) for one in cases):
            cases.append(case)
            yield case


def _dim(text: str) -> int:
    return int(text) if text.isdigit() and 0 < int(text) <= 64 else 2


def is_plain(place: Place) -> bool:
    """Return whether a parameter is a single value."""
    return place.is_scalar or (place.kind == "param" and place.is_string)


def _value(place: Place) -> int | float | str:
    """Return a value for a scalar or a string parameter."""
    if place.values or not is_plain(place):
        return default_number(place) if place.default is not None and place.values else 0
    if place.is_string:
        return place.default if place.default is not None else "text"
    return default_number(place) if place.default is not None else 1


def cpu_type(place: Place) -> DType:
    """Return the first type on the CPU; float activations are float32."""
    dtype = place.types[CPU][0]
    if place.kind == "param" or place.static or dtype.bits == 64:
        return dtype
    return FLOAT32 if dtype.is_float or dtype.is_fixed else dtype


def param_value(sample: Sample) -> Quoted:
    """Return a parameter as Python; a tuple is the shape of a random tensor."""
    place = sample.place
    if not is_plain(place):
        return python(sample.dims if place.initial is None else place.initial)
    if place.values:
        return python(place.values[int(sample.value)].name)
    if place.types[CPU][0].kind == "bool":
        return python(bool(sample.value))
    return python(float(sample.value) if sample.dtype.is_float else sample.value)


def input_value(sample: Sample) -> Quoted:
    """Return an input as Python: a shape, or None."""
    return Quoted("None") if sample.omitted else python(sample.dims)


FILTERS: dict[str, Callable[..., Any]] = {
    "input_value": input_value,
    "param_value": param_value,
    "cases": cases,
}
