"""Constraints of UDO definitions on quantization.

A definition names the datatypes that each input and output has on each core.  Fixed point runs on DSPs, so
their types count; of an operation that runs on none of them its types on the CPU count, floats before 16 bits
before 8, which gain nothing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from xdlc.errors import ConstraintError, ModelError, raise_all
from xdlc.ir import Op, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.dtype import DType
from xdlc.ir.graph import is_udo
from xdlc.opdefs import backends
from xdlc.opdefs.backend_view import resolve
from xdlc.opdefs.model import Collection, OpDef
from xdlc.opdefs.supplements import offered
from xdlc.options import spell
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.op_specs import is_real, listed

if TYPE_CHECKING:
    from xdlc.quant.placement import Placement
    from xdlc.quant.plan import GraphPlan
    from xdlc.quant.precision import Precision


_ACTIVATIONS = (dt.UFIXED8, dt.UFIXED16, dt.SFIXED8, dt.SFIXED16)
"""Types of activations; the first that fits is taken: what surrounds an op is unsigned."""

_STATICS = (dt.SFIXED8, dt.UFIXED8, dt.SFIXED16, dt.UFIXED16, dt.SFIXED32, dt.SFIXED4, dt.UFIXED4)
"""Types of static data; the first that fits is taken."""


@dataclass(frozen=True, slots=True)
class Place:
    """An input or output of a definition.

    Attributes:
        dtypes: The types that it may have where fixed point runs; empty: they are not known.
        differs: Whether no type is taken by all that run it, and these are the types of any.
    """

    name: str
    dtypes: frozenset[DType]
    differs: bool = False

    @property
    def has_floats(self) -> bool:
        """Whether float types are allowed."""
        return any(dtype.is_float for dtype in self.dtypes)

    def activation(self, wanted: int) -> DType | None:
        """Return the type of an activation, of the wanted bits if allowed; None: floats.

        Plain signed integers beside floats are what a kernel for integers takes.
        """
        plain = {dt.INT8, dt.INT16} if self.has_floats else set()
        allowed = [dtype for dtype in _ACTIVATIONS if self._allows(dtype, but=plain)]
        return next((dtype for dtype in allowed if dtype.bits == wanted), next(iter(allowed), None))

    def static_types(self) -> list[DType]:
        """Return the fixed-point types that static data may have, the best first."""
        return [dtype for dtype in _STATICS if self._allows(dtype)]

    def static(self, wanted: int) -> DType | None:
        """Return the type of static data, of the wanted bits if allowed; None: floats.

        Four bits are not chosen unasked where there is anything wider.
        """
        types = self.static_types()
        fits = next((dtype for dtype in types if dtype.bits == wanted), next(iter(types), None))
        lossy = fits is not None and fits.bits < min(wanted, 8)
        return None if lossy and self.has_floats else fits

    def _allows(self, dtype: DType, but: Set[DType] = frozenset()) -> bool:
        return not self.dtypes.isdisjoint({dtype, dt.PLAIN.get(dtype)}.difference(but))

    def __str__(self) -> str:
        """Return the allowed types in words."""
        return f"{self.name!r} as {', '.join(sorted(map(str, self.dtypes))) or 'no known type'}"


@dataclass(frozen=True, slots=True)
class Ports:
    """Types in which a UDO reads its inputs and writes its outputs.

    Attributes:
        inputs: Type of each input that is an activation of fixed point; None: as it is.
        outputs: Type of each output of fixed point.
    """

    inputs: tuple[DType | None, ...]
    outputs: tuple[DType | None, ...]

    @property
    def bits(self) -> int | None:
        """The largest number of bits; None if nothing is in fixed point."""
        return max((held.bits for held in chain(self.inputs, self.outputs) if held is not None), default=None)

    def of(self, op: Op, tensor: Tensor) -> DType | None:
        """Return the widest type in which the op reads or writes a tensor, or None."""
        pairs = chain(zip(op.inputs, self.inputs, strict=True), zip(op.outputs, self.outputs, strict=True))
        return widest(held for read, held in pairs if read is tensor)


def widest(dtypes: Iterable[DType | None]) -> DType | None:
    """Return the type with the most bits, unsigned before signed, or None."""
    known = (dtype for dtype in dtypes if dtype is not None)
    return max(known, key=lambda dtype: (dtype.bits, not dtype.is_signed), default=None)


@dataclass(frozen=True, slots=True)
class _Places:
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    repeated: tuple[bool, bool]
    params: Mapping[str, Place]
    on_cpu: bool


@dataclass(frozen=True, slots=True)
class UdoConstraints:
    """Definitions of the UDOs of a model; UDOs without definition remain float.

    Attributes:
        places: Inputs and outputs of each operation, by package and type.
        elsewhere: Backends of the operations that have none of the DSP that is quantized for.
    """

    places: Mapping[tuple[str, str], _Places] = field(default_factory=dict)
    elsewhere: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, collections: Mapping[str, Collection], arch: int | None = None) -> UdoConstraints:
        """Return the constraints of a model's packages.

        Args:
            arch: Generation of the DSP that is quantized for, like 73; None: any that a definition names.
        """
        defined = [
            (package, opdef, collection)
            for package, collection in collections.items()
            for opdef in collection.opdefs
        ]
        return cls(
            {
                (package, opdef.name): _places(opdef, collection, arch)
                for package, opdef, collection in defined
            },
            {
                (package, opdef.name): sorted(offers)
                for package, opdef, collection in defined
                if f"DSP_V{arch}" in backends.NAMES
                and (offers := offered(collection)[opdef.name])
                and not any(backends.overlap(f"DSP_V{arch}", name) for name in offers)
            },
        )

    def is_known(self, op: Op) -> bool:
        """Return whether an op has a definition."""
        return (op.package, op.type) in self.places

    def inputs(self, op: Op) -> list[Place]:
        """Return the allowed types of each input of an op."""
        found = self.places.get((op.package, op.type))
        return _spread(found.inputs, len(op.inputs), found.repeated[0]) if found else _unknown(op.inputs)

    def outputs(self, op: Op) -> list[Place]:
        """Return the allowed types of each output of an op."""
        found = self.places.get((op.package, op.type))
        return _spread(found.outputs, len(op.outputs), found.repeated[1]) if found else _unknown(op.outputs)

    def params(self, op: Op) -> list[tuple[str, Tensor, Place]]:
        """Return the float tensors among an op's parameters, with their allowed types."""
        places = self.places.get((op.package, op.type))
        return [
            (name, param, places.params[name])
            for name, param in op.params.items()
            if places is not None
            and name in places.params
            and isinstance(param, Tensor)
            and param.dtype.is_float
        ]

    def ports(self, op: Op, wanted: int) -> Ports:
        """Return how an op is read and written with some bits of activations.

        A result whose encoding is given has the bits of that.
        """
        inputs = zip(op.inputs, self.inputs(op), strict=True)
        outputs = zip(op.outputs, self.outputs(op), strict=True)
        return Ports(
            tuple(_port(tensor, place, wanted) for tensor, place in inputs),
            tuple(_port(tensor, place, given_bits(tensor) or wanted) for tensor, place in outputs),
        )

    def why_float(self, op: Op) -> str:
        """Return why an op has no fixed point."""
        if not self.is_known(op):
            return f"the model holds no definition of {op.package}::{op.type}"
        if self.places[op.package, op.type].on_cpu:
            return "its definition names no DSP, and integers do not make the CPU faster"
        tensors, places = (*op.inputs, *op.outputs), (*self.inputs(op), *self.outputs(op))
        named = [
            str(place)
            for tensor, place in zip(tensors, places, strict=True)
            if tensor is not None and is_real(tensor)
        ]
        return f"its definition supports {'; '.join(dict.fromkeys(named))}"

    def conflicts(self, op: Op) -> Iterator[ConstraintError]:
        """Yield an error for each encoding of a result that the definition lacks."""
        for tensor, place in zip(op.outputs, self.outputs(op), strict=True):
            stated = given_bits(tensor)
            taken = None if stated is None else place.activation(stated)
            if taken is not None and taken.bits != stated:
                yield ConstraintError(
                    f"{tensor.name!r} has an encoding of {stated} bits; the definition supports {place}",
                    where=f"op {op.name!r} ({op.package}::{op.type})",
                    fix=f"set {taken.bits} bits, or allow {stated} bits in the definition of the UDO",
                    node=op.name,
                    op=op.type,
                )


def _port(tensor: Tensor | None, place: Place, wanted: int) -> DType | None:
    if tensor is None or tensor.is_static or not is_real(tensor):
        return None
    found = place.activation(wanted)
    has_own = found is not None and found.bits == tensor.dtype.bits and tensor.dtype in place.dtypes
    return tensor.dtype if has_own and tensor.dtype.is_fixed else found


def _spread(places: Sequence[Place], count: int, repeated: bool) -> list[Place]:
    """Return the place of each of ``count`` tensors; a repeated one gets the rest."""
    rest = places[-1] if repeated and places else Place("?", frozenset())
    return [places[index] if index < len(places) else rest for index in range(count)]


def _unknown(tensors: Sequence[object]) -> list[Place]:
    return [Place("?", frozenset())] * len(tensors)


def _places(opdef: OpDef, collection: Collection, arch: int | None) -> _Places:
    forms = list(_forms(opdef, collection, arch)) or [opdef]
    on_cpu = _cores(opdef, collection, arch) == ["CPU"]

    def place(name: str, types: Sequence[Sequence[DType]]) -> Place:
        return _place(name, [_finest(dtypes) if on_cpu else dtypes for dtypes in types])

    def side(name: str) -> tuple[Place, ...]:
        rows = zip(*(getattr(form, name) for form in forms), strict=True)
        return tuple(place(row[0].name, [tensor.dtypes for tensor in row]) for row in rows)

    last = [bool(held) and held[-1].repeated for held in (opdef.inputs, opdef.outputs)]
    params = {name: place(name, [form.params[name].dtypes for form in forms]) for name in opdef.params}
    return _Places(side("inputs"), side("outputs"), (last[0], last[1]), params, on_cpu)


def _finest(dtypes: Sequence[DType]) -> list[DType]:
    """Return the float types, else the 16-bit types, else all types."""
    floats = [dtype for dtype in dtypes if dtype.is_float]
    return floats or [dtype for dtype in dtypes if dtype.bits == 16] or list(dtypes)


def _forms(opdef: OpDef, collection: Collection, arch: int | None) -> Iterator[OpDef]:
    """Yield the definition as resolved for each backend whose types count."""
    for core in _cores(opdef, collection, arch):
        try:
            yield resolve(opdef, collection, core)
        except ModelError:  # narrower ones of its kind settle what it leaves open
            continue


def _place(name: str, types: Sequence[Sequence[DType]]) -> Place:
    """Return the types that a tensor may have on all cores, else on any of them."""
    known = [frozenset(held) for held in types if held]
    common = frozenset.intersection(*known) if known else frozenset()
    return Place(name, common or frozenset().union(*known), differs=bool(known) and not common)


def _cores(opdef: OpDef, collection: Collection, arch: int | None) -> list[str]:
    """Return the backends whose types count: the target's DSP, all DSPs, or the CPU."""
    offers = offered(collection)[opdef.name]
    own = f"DSP_V{arch}"
    if own in backends.NAMES and any(backends.overlap(own, name) for name in offers):
        return [own]
    offered_by = offers | {table.backend for table in collection.supplements if opdef.name in table.ops}
    named = [name for name in backends.NAMES if name in offered_by and name != "HTP_FP16"]
    fixed = [name for name in named if backends.is_fixed_point(name)]
    return fixed or (["CPU"] if "CPU" in named else named[:1])


def check_udos(parts: Sequence[GraphPlan]) -> list[str]:
    """Refuse encodings that definitions do not allow; return notes on differences.

    Raises:
        ConstraintError: For each encoding of a result that the definition of its op does not support.
    """
    udos = [(op, part) for part in parts for op in part.graph.ops if is_udo(op)]
    raise_all(
        [
            problem
            for op, part in udos
            if op in part.placement.ports
            for problem in part.precision.udos.conflicts(op)
        ]
    )
    found: dict[str, list[str]] = {}
    for op, part in udos:
        for what in _notes(op, part.placement, part.precision):
            found.setdefault(f"{op.package}::{op.type} {what}", []).append(op.name)
    return [f"{text} ({listed(names)})" for text, names in found.items()]


def one_scale_notes(parts: Sequence[GraphPlan]) -> list[str]:
    """Return a note on static data with one scale where one per channel was requested."""
    names = [
        f"{op.package}::{op.type} {place.name!r}"
        for part in parts
        for op in part.placement.ports
        for tensor, place in _statics(op, part.precision)
        if place.static(part.precision.weight_bits_of(op)) is not None and tensor.size > 1
    ]
    if not names:
        return []
    return [
        "static data of UDOs get one scale, because definitions do not name the channel axis; "
        f"{spell('quantization_overrides')} can set a scale for each channel "
        f"({listed(list(dict.fromkeys(names)))})"
    ]


def narrow_udo(plan: GraphPlan, output: str) -> str | None:
    """Return the UDO before an output that has only 8 bits of fixed point, or None."""
    pending, seen = [plan.graph.tensors[output]], set[Op]()
    for tensor in pending:  # grows
        op = tensor.producer
        if op is None or op in seen:
            continue
        seen.add(op)
        ports = plan.placement.ports.get(op) if is_udo(op) else None
        if ports is not None and ports.bits == 8 and plan.precision.udos.ports(op, 16).bits == 8:
            return f"{op.package}::{op.type}"
        pending += [source for source in op.inputs if source is not None]
    return None


def _statics(op: Op, precision: Precision) -> list[tuple[Tensor, Place]]:
    """Return the float static data of an op, with what its definition supports."""
    inputs = zip(op.inputs, precision.udos.inputs(op), strict=True)
    params = ((param, place) for _, param, place in precision.udos.params(op))
    return [
        (tensor, place)
        for tensor, place in (*inputs, *params)
        if tensor is not None and tensor.is_static and tensor.dtype.is_float and tensor.encoding is None
    ]


def _notes(op: Op, placement: Placement, precision: Precision) -> Iterator[str]:
    others = precision.udos.elsewhere.get((op.package, op.type))
    if others:
        yield f"does not support the DSP of the target: its definition names {', '.join(others)}"
    ports = placement.ports.get(op)
    if ports is None:
        if op in placement.reasons:
            yield f"stays float: {placement.reasons[op]}"
        return
    requested = precision.act_bits_of(op) or precision.act_bits
    udos = precision.udos
    read = zip(op.inputs, ports.inputs, udos.inputs(op), strict=True)
    written = zip(op.outputs, ports.outputs, udos.outputs(op), strict=True)
    for verb, side in (("reads", read), ("writes", written)):
        for tensor, dtype, place in side:
            if tensor is None or tensor.is_static or not is_real(tensor):
                continue
            if dtype is not None and dtype.bits == requested:
                continue
            how = "as floats" if dtype is None else f"with {dtype.bits} bits, not {requested}"
            yield f"{verb} {place.name!r} {how}: its definition supports {place}"
    differing = [place.name for place in (*udos.inputs(op), *udos.outputs(op)) if place.differs]
    if differing:
        names = ", ".join(map(repr, dict.fromkeys(differing)))
        yield f"has no type for {names} that all its DSPs support: pass a SoC"
    yield from _static_notes(op, precision)


def _static_notes(op: Op, precision: Precision) -> Iterator[str]:
    """Yield a note for static data with other bits than requested."""
    requested = precision.weight_bits_of(op)
    for _, place in _statics(op, precision):
        dtype = place.static(requested)
        if dtype is None and place.static_types():
            yield (
                f"keeps {place.name!r} float, because nothing requested 4 bits: its definition supports "
                f"{place}"
            )
        elif dtype is not None and dtype.bits not in (requested, 32):
            bits = f"{dtype.bits} bits, not {requested}"
            yield f"stores {place.name!r} with {bits}: its definition supports {place}"
