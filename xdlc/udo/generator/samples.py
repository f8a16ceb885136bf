"""Example operands of operations, for the tests that packages come with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from xdlc.ir.dtype import DType
from xdlc.udo.generator.cores import CPU
from xdlc.udo.generator.cpp import is_demanded, type_code
from xdlc.udo.generator.quoting import Quoted, c_string, python
from xdlc.udo.generator.template_context import CoreView, OperationView, Place
from xdlc.udo.generator.variations import (
    EVEN,
    EVERYTHING,
    Sizes,
    Variation,
    basic,
    cpu_type,
    cpu_types,
    is_plain,
    sample_value,
    variations,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A tensor or a parameter of a case.

    Attributes:
        place: What it stands for.
        id: Identifier, unique in the case.
        omitted: Whether it is left out.
        dims: Extents.
        dtype: Data type on the CPU.
        value: Value of a scalar or a string.
        data: Bytes of a tensor; None for any.
    """

    place: Place
    id: str
    omitted: bool
    dims: tuple[int, ...]
    dtype: DType
    value: int | float | str = 0
    data: bytes | None = None


class Operands(Protocol):
    """An operation with operands, as ``cycle_cases.h`` has them.

    ``what`` is any text, ``id`` an identifier, and ``told`` whether the extents of the outputs are right.
    """

    @property
    def op(self) -> OperationView: ...
    @property
    def what(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def told(self) -> bool: ...
    @property
    def inputs(self) -> tuple[Sample, ...]: ...
    @property
    def outputs(self) -> tuple[Sample, ...]: ...
    @property
    def params(self) -> tuple[Sample, ...]: ...


def tensors(case: Operands) -> tuple[Sample, ...]:
    """Return all tensors of a case that are there."""
    found = (*case.inputs, *case.outputs, *(one for one in case.params if not is_plain(one.place)))
    return tuple(one for one in found if not one.omitted)


@dataclass(frozen=True)
class Case:
    """An operation with operands that are guesses from its definition.

    Attributes:
        op: The operation.
        variation: What is there, and how large it is.
        number: Number of the case.
    """

    op: OperationView
    variation: Variation
    number: int
    told: bool = False

    @property
    def what(self) -> str:
        """What is peculiar to it."""
        return self.variation.what

    @property
    def id(self) -> str:
        """Identifier."""
        return f"{self.op.type}_{self.number}"

    @cached_property
    def extents(self) -> dict[str, int]:
        """Extents by name, the same wherever a text names them."""
        return sample_extents(self.op, self.variation.sizes)

    @cached_property
    def rank(self) -> int | None:
        """Number of axes that an activation states: those that take any are most likely of it too."""
        return next((place.rank for place in self._activations if place.rank), None)

    @cached_property
    def usual(self) -> tuple[int, ...]:
        """Shape that the text of an activation tells: others of its rank are most likely of it too."""
        told = (place for place in self._activations if place.extents)
        return next((sample_shape(place, self.extents, None) for place in told), ())

    @property
    def _activations(self) -> Iterator[Place]:
        places = (*self.op.outputs, *self.op.inputs)
        return (place for place in places if place.mandatory and not place.static)

    @cached_property
    def inputs(self) -> tuple[Sample, ...]:
        """Inputs; one that is left out in the middle is there, as omitted."""
        return self._tensors(self.op.inputs)

    @cached_property
    def outputs(self) -> tuple[Sample, ...]:
        """Outputs."""
        return self._tensors(self.op.outputs)

    @cached_property
    def params(self) -> tuple[Sample, ...]:
        """Parameters."""
        places = [place for place in self.op.params if self.variation.full or is_demanded(place)]
        return tuple(self._param(place) for place in places)

    def _tensors(self, places: tuple[Place, ...]) -> tuple[Sample, ...]:
        found: list[Sample] = []
        for place in places:
            count = self._count(place)
            there = bool(count)
            for number in range(count if place.repeated else 1):
                id = f"{place.kind}_{place.index}_{number}"
                dims = sample_shape(place, self.extents, self.rank, self.variation.sizes)
                if not place.static and not place.extents and len(dims) == len(self.usual):
                    dims = self.usual
                found.append(Sample(place, id, not there, dims, self._dtype(place)))
        while found and found[-1].omitted:
            found.pop()
        return tuple(found)

    def _count(self, place: Place) -> int:
        """How many tensors there are of a place; inputs with a default are filled in if they are left out."""
        if place.default is not None and not place.repeated:
            return 1
        full = self.variation.full and (place.kind, place.index) not in self.variation.without
        if not full:
            return int(place.mandatory)
        return self.variation.repeats if place.repeated else 1

    def _dtype(self, place: Place) -> DType:
        types = cpu_types(place)
        return self.variation.dtype if self.variation.dtype in types else types[0]

    def _param(self, place: Place) -> Sample:
        sizes = self.variation.sizes
        dims = () if is_plain(place) else sample_shape(place, self.extents, None, sizes)
        value = dict(self.variation.values).get(place.index, sample_value(place))
        return Sample(place, f"param_{place.index}", False, dims, cpu_type(place), value)


def cases(core: CoreView) -> tuple[Case, ...]:
    """Return the cases that operations of a core live through many times: the first of those for tests."""
    return tuple(case for op in core.ops for case in _cases(op, basic(op)))


def _cases(op: OperationView, variations: Sequence[Variation]) -> list[Case]:
    """One case for each variation that differs from those before."""
    found: list[Case] = []
    for variation in variations:
        case = Case(op, variation, len(found))
        if not any(_alike(case, other) for other in found):
            found.append(case)
    return found


def _alike(one: Case, other: Case) -> bool:
    return all(getattr(one, part) == getattr(other, part) for part in ("inputs", "outputs", "params"))


def every_case(core: CoreView) -> tuple[Case, ...]:
    """Return the cases in which the kernels of a core's operations are compared."""
    return tuple(case for op in core.ops for case in _cases(op, variations(op)))


def most_places(cases: Iterable[Operands]) -> int:
    """Return how many operands of one kind a case has at most."""
    found = (len(each) for case in cases for each in (case.inputs, case.outputs, case.params))
    return max(found, default=1) or 1


def sample_extents(op: OperationView, sizes: Sizes = EVEN) -> dict[str, int]:
    """Return an extent for each name in the texts of an operation's operands."""
    names = dict.fromkeys(
        text for place in (*op.inputs, *op.params) for text in place.extents if text.isidentifier()
    )
    return {name: sizes.extents[number % len(sizes.extents)] for number, name in enumerate(names)}


def sample_shape(
    place: Place, extents: dict[str, int], otherwise: int | None, sizes: Sizes = EVEN
) -> tuple[int, ...]:
    """Return a shape for a tensor; ``otherwise`` is its number of axes where the place takes any."""
    if place.extents:
        found = (1 if text == ".." else extents.get(text) or _number(text) for text in place.extents)
        return tuple(found)
    rank = place.rank if place.rank is not None else 4 if place.layout else otherwise or 2
    return sizes.shapes[rank] if rank < len(sizes.shapes) else (1,) * rank


def _number(text: str) -> int:
    return int(text) if text.isdigit() and 0 < int(text) <= 64 else 2


def tensor_literal(sample: Sample, case: Operands) -> Quoted:
    """Return a tensor as an initialiser of C."""
    dims = f"{sample.id}_dims_{case.id}" if sample.dims else "0"
    layout = f"XDLC_UDO_{sample.place.layout}" if sample.place.layout else "XDLC_UDO_LAYOUT_NONE"
    data = f", .data = (void *){sample.id}_data_{case.id}" if sample.data else ""
    flags = "XDLC_UDO_STATIC" if sample.place.static or sample.place.kind == "param" else "0"
    return Quoted(
        f"{{.name = {c_string(sample.place.name)}, .flags = {flags}, .data_type = {type_code(sample.dtype)}, "
        f".layout = {layout}, .rank = {len(sample.dims)}, .dims = {dims}{data}}}"
    )


def param_literal(sample: Sample, case: Operands) -> Quoted:
    """Return a parameter as an initialiser of C."""
    name = f".name = {c_string(sample.place.name)}, .data_type = {type_code(sample.dtype)}"
    if sample.place.is_string:
        return Quoted(f"{{{name}, .kind = XDLC_UDO_PARAM_STRING, .string = {c_string(str(sample.value))}}}")
    if not sample.place.is_scalar:
        return Quoted(f"{{{name}, .kind = XDLC_UDO_PARAM_TENSOR, .tensor = {tensor_literal(sample, case)}}}")
    field = "real" if sample.dtype.is_float else "integer"
    return Quoted(f"{{{name}, .kind = XDLC_UDO_PARAM_SCALAR, .{field} = {_c_number(sample)}}}")


def _c_number(sample: Sample) -> str:
    value = sample.value
    if sample.dtype.is_float:
        number = float(value)
        return repr(number) if abs(number) < float("inf") else "0.0"
    whole = int(value)
    return str(whole - (1 << 64) if whole >= 1 << 63 else whole) if whole > -(1 << 63) + 1 else "INT64_MIN"


def param_value(sample: Sample) -> Quoted:
    """Return what a test in Python gives a parameter; a tuple is the shape of a random tensor."""
    place = sample.place
    if not is_plain(place):
        return python(sample.dims if place.initial is None else place.initial)
    if place.values:
        return python(place.values[int(sample.value)].name)
    if place.types[CPU][0].kind == "bool":
        return python(bool(sample.value))
    return python(float(sample.value) if sample.dtype.is_float else sample.value)


def changed_params(case: Case) -> tuple[Sample, ...]:
    """Return the parameters of a case that are not as where everything is there."""
    usual = {one.place.name: param_value(one) for one in Case(case.op, EVERYTHING, 0).params}
    return tuple(one for one in case.params if param_value(one) != usual[one.place.name])


def input_value(sample: Sample) -> Quoted:
    """Return what a test in Python gives an input: a shape, and a data type that is not its first one."""
    if sample.omitted:
        return Quoted("None")
    shape = python(sample.dims)
    if sample.dtype == cpu_type(sample.place):
        return shape
    return Quoted(f"Random({shape}, {python(sample.dtype.name)})")


FILTERS = {
    "input_value": input_value,
    "param_value": param_value,
    "cases": cases,
    "tensors": tensors,
    "changed_params": changed_params,
    "every_case": every_case,
    "most_places": most_places,
    "tensor_literal": tensor_literal,
    "param_literal": param_literal,
}
