"""Example operands of operations, for the tests that packages come with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from xdlc.ir.dtype import FLOAT32, DType
from xdlc.udo.generator.cores import CPU
from xdlc.udo.generator.cpp import is_demanded, type_code
from xdlc.udo.generator.literals import default_number
from xdlc.udo.generator.quoting import Quoted, c_string, python
from xdlc.udo.generator.views import CoreView, OpView, Place

_SHAPES = ((), (3,), (2, 3), (2, 2, 3), (1, 4, 4, 3), (1, 2, 2, 2, 3))
_EXTENTS = (2, 4, 3, 5)
_REPEATS = 2
EVERYTHING, LEAST, GAP = "everything", "the least", "a gap"


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
    def op(self) -> OpView: ...
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
        what: ``everything``, ``the least``, or ``a gap``: optional inputs left out before one that is there.
        number: Number of the case.
    """

    op: OpView
    what: str
    number: int
    told: bool = False

    @property
    def id(self) -> str:
        """Identifier."""
        return f"{self.op.type}_{self.number}"

    @property
    def full(self) -> bool:
        """Whether all is there that can be, but for a gap."""
        return self.what != LEAST

    @cached_property
    def extents(self) -> dict[str, int]:
        """Extents by name, the same wherever a text names them."""
        return sample_extents(self.op)

    @cached_property
    def rank(self) -> int | None:
        """Number of axes that an activation states: those that take any are most likely of it too."""
        places = (*self.op.outputs, *self.op.inputs)
        stated = (place.rank for place in places if place.mandatory and not place.static)
        return next((rank for rank in stated if rank), None)

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
        places = [place for place in self.op.params if self.full or is_demanded(place)]
        return tuple(self._param(place) for place in places)

    def _tensors(self, places: tuple[Place, ...]) -> tuple[Sample, ...]:
        found: list[Sample] = []
        for place in places:
            is_gap = self.what == GAP and place.kind == "input" and place.index < len(self.op.inputs) - 1
            is_filled = place.default is not None and not place.repeated
            there = place.mandatory or is_filled or (self.full and not is_gap)
            count = (_REPEATS if self.full else int(place.mandatory)) if place.repeated else 1
            for number in range(count):
                id = f"{place.kind}_{place.index}_{number}"
                dims = sample_shape(place, self.extents, self.rank)
                found.append(Sample(place, id, not there, dims, cpu_type(place)))
        while found and found[-1].omitted:
            found.pop()
        return tuple(found)

    def _param(self, place: Place) -> Sample:
        dims = () if is_plain(place) else sample_shape(place, self.extents, None)
        return Sample(place, f"param_{place.index}", False, dims, cpu_type(place), sample_value(place))


def is_plain(place: Place) -> bool:
    """Return whether a parameter is one value."""
    return place.is_scalar or (place.kind == "param" and place.is_string)


def cases(core: CoreView) -> tuple[Case, ...]:
    """Return the cases of the operations of a core: with everything, and with the least that there can be."""
    found: list[Case] = []
    for op in core.ops:
        for what in _titles(op):
            case = Case(op, what, sum(other.op is op for other in found))
            if not any(_alike(case, other) for other in found):
                found.append(case)
    return tuple(found)


def _alike(one: Case, other: Case) -> bool:
    return all(getattr(one, part) == getattr(other, part) for part in ("op", "inputs", "outputs", "params"))


def _titles(op: OpView) -> tuple[str, ...]:
    has_gap = any(not place.mandatory for place in op.inputs[:-1]) and not op.inputs[-1].mandatory
    return (EVERYTHING, LEAST, GAP) if has_gap else (EVERYTHING, LEAST)


def most_places(cases: Iterable[Operands]) -> int:
    """Return how many operands of one kind a case has at most."""
    found = (len(each) for case in cases for each in (case.inputs, case.outputs, case.params))
    return max(found, default=1) or 1


def sample_extents(op: OpView) -> dict[str, int]:
    """Return an extent for each name in the texts of an operation's operands."""
    names = dict.fromkeys(
        text for place in (*op.inputs, *op.params) for text in place.extents if text.isidentifier()
    )
    return {name: _EXTENTS[number % len(_EXTENTS)] for number, name in enumerate(names)}


def sample_shape(place: Place, extents: dict[str, int], otherwise: int | None) -> tuple[int, ...]:
    """Return a shape for a tensor; ``otherwise`` is its number of axes where the place takes any."""
    if place.extents:
        found = (1 if text == ".." else extents.get(text) or _number(text) for text in place.extents)
        return tuple(found)
    rank = place.rank if place.rank is not None else 4 if place.layout else otherwise or 2
    return _SHAPES[rank] if rank < len(_SHAPES) else (1,) * rank


def _number(text: str) -> int:
    return int(text) if text.isdigit() and 0 < int(text) <= 64 else 2


def cpu_type(place: Place) -> DType:
    """Return the type in which the CPU gets a tensor."""
    dtype = place.types[CPU][0]
    if place.kind == "param" or place.static or dtype.bits == 64:
        return dtype
    return FLOAT32 if dtype.is_float or dtype.is_fixed else dtype


def sample_value(place: Place) -> int | float | str:
    """Return a value for a scalar or a string parameter."""
    if place.values or not is_plain(place):
        return default_number(place) if place.default is not None and place.values else 0
    if place.is_string:
        return place.default if place.default is not None else "text"
    return default_number(place) if place.default is not None else 1


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


FILTERS = {
    "param_value": param_value,
    "cases": cases,
    "tensors": tensors,
    "most_places": most_places,
    "tensor_literal": tensor_literal,
    "param_literal": param_literal,
}
