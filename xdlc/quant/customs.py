"""What the definitions of users' operations allow the quantizer.

A definition names the datatypes that each input and output has on each core.  Fixed point runs on DSPs, so
their types count; an operation that runs on none of them is asked for its types on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdlc import opdefs
from xdlc.errors import ConstraintError, ModelError
from xdlc.ir import Op, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.dtype import DType
from xdlc.opdefs import backends
from xdlc.opdefs.model import Collection, OpDef
from xdlc.opdefs.supplement_rules import offered
from xdlc.quant.given import given_bits
from xdlc.quant.rules import is_real

_FIXED, _FLOAT = ("LPAI", "AIC"), "HTP_FP16"
"""Backends of fixed point beside DSPs, and the DSP that computes with floats."""

_ACTIVATIONS = {8: {dt.UFIXED8, dt.UINT8}, 16: {dt.UFIXED16, dt.UINT16}}
"""What a definition names activations of so many bits; configurations of SNPE write UINT_8 for them."""

_STATICS = (
    (8, dt.SFIXED8, {dt.SFIXED8, dt.INT8}),
    (8, dt.UFIXED8, {dt.UFIXED8, dt.UINT8}),
    (16, dt.SFIXED16, {dt.SFIXED16, dt.INT16}),
    (16, dt.UFIXED16, {dt.UFIXED16, dt.UINT16}),
    (32, dt.SFIXED32, {dt.SFIXED32, dt.INT32}),
)
"""Bits, stored type, and what a definition names it; the first that fits is taken."""


@dataclass(frozen=True, slots=True)
class Place:
    """An input or output of a definition.

    Attributes:
        name: Its name.
        dtypes: The types that it may have where fixed point runs; empty: they are not known.
    """

    name: str
    dtypes: frozenset[DType]

    def bits(self, wanted: int) -> int | None:
        """Return the bits of an activation, those wanted if they are allowed; None: floats only."""
        allowed = [bits for bits, names in _ACTIVATIONS.items() if names & self.dtypes]
        return wanted if wanted in allowed else next(iter(allowed), None)

    def static_types(self) -> list[DType]:
        """Return the fixed-point types that static data may have, the best first."""
        return [stored for _, stored, names in _STATICS if names & self.dtypes]

    def __str__(self) -> str:
        """Say what is allowed."""
        return f"{self.name!r} as {', '.join(sorted(map(str, self.dtypes))) or 'no known type'}"


@dataclass(frozen=True, slots=True)
class Ports:
    """How an op of a user is read and written.

    Attributes:
        inputs: Bits of each input that is an activation of fixed point; None: as it is.
        outputs: Bits of each output of fixed point.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]

    @property
    def bits(self) -> int | None:
        """The most bits of all; None: nothing is of fixed point."""
        return max((bits for bits in chain(self.inputs, self.outputs) if bits is not None), default=None)

    def of(self, op: Op, tensor: Tensor) -> int | None:
        """Return the most bits in which the op reads or writes a tensor; None: only as it is."""
        pairs = chain(zip(op.inputs, self.inputs, strict=True), zip(op.outputs, self.outputs, strict=True))
        return max((bits for held, bits in pairs if held is tensor and bits is not None), default=None)


@dataclass(frozen=True, slots=True)
class _Places:
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    repeated: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Customs:
    """The definitions of the users' operations of a model; without one, an op stays float.

    Attributes:
        places: Inputs and outputs of each operation, by package and type.
    """

    places: Mapping[tuple[str, str], _Places] = field(default_factory=dict)

    @classmethod
    def of(cls, collections: Mapping[str, Collection], arch: int | None = None) -> Customs:
        """Return what the packages of a model allow.

        Args:
            collections: The packages by name.
            arch: Generation of the DSP that is quantized for, like 73; None: any that a definition names.
        """
        return cls(
            {
                (package, opdef.name): _places(opdef, collection, arch)
                for package, collection in collections.items()
                for opdef in collection.opdefs
            }
        )

    def is_known(self, op: Op) -> bool:
        """Return whether there is a definition of an op."""
        return (op.package, op.type) in self.places

    def inputs(self, op: Op) -> list[Place]:
        """Return what is allowed for each input of an op."""
        found = self.places.get((op.package, op.type))
        return _spread(found.inputs, len(op.inputs), found.repeated[0]) if found else _unknown(op.inputs)

    def outputs(self, op: Op) -> list[Place]:
        """Return what is allowed for each output of an op."""
        found = self.places.get((op.package, op.type))
        return _spread(found.outputs, len(op.outputs), found.repeated[1]) if found else _unknown(op.outputs)

    def ports(self, op: Op, wanted: int) -> Ports:
        """Return how an op is read and written where activations are to have ``wanted`` bits."""
        inputs = zip(op.inputs, self.inputs(op), strict=True)
        outputs = zip(op.outputs, self.outputs(op), strict=True)
        return Ports(
            tuple(_bits(tensor, place, wanted) for tensor, place in inputs),
            tuple(_bits(tensor, place, wanted) for tensor, place in outputs),
        )

    def why_float(self, op: Op) -> str:
        """Return why an op has nothing of fixed point."""
        if not self.is_known(op):
            return f"the model holds no definition of {op.package}::{op.type}"
        tensors, places = (*op.inputs, *op.outputs), (*self.inputs(op), *self.outputs(op))
        named = [
            str(place)
            for tensor, place in zip(tensors, places, strict=True)
            if tensor is not None and is_real(tensor)
        ]
        signed = any(dtype.is_fixed and dtype.is_signed for place in places for dtype in place.dtypes)
        but = "; activations of fixed point are stored unsigned" if signed else ""
        return f"its definition takes {'; '.join(dict.fromkeys(named))}{but}"

    def conflicts(self, op: Op) -> Iterator[ConstraintError]:
        """Yield an error for each encoding that a result of an op has and its definition does not take."""
        for tensor, place in zip(op.outputs, self.outputs(op), strict=True):
            stated = given_bits(tensor)
            taken = None if stated is None else place.bits(stated)
            if taken is not None and taken != stated:
                yield ConstraintError(
                    f"{tensor.name!r} has an encoding of {stated} bits; the definition takes {place}",
                    where=f"op {op.name!r} ({op.package}::{op.type})",
                    fix=f"give it {taken} bits, or widen the definition in the configuration",
                    node=op.name,
                    op=op.type,
                )


def _bits(tensor: Tensor | None, place: Place, wanted: int) -> int | None:
    if tensor is None or tensor.is_static or not is_real(tensor):
        return None
    return place.bits(wanted)


def _spread(places: Sequence[Place], count: int, repeated: bool) -> list[Place]:
    """Return the place of each of ``count`` tensors; a repeated one takes the rest."""
    rest = places[-1] if repeated and places else Place("?", frozenset())
    return [places[index] if index < len(places) else rest for index in range(count)]


def _unknown(tensors: Sequence[object]) -> list[Place]:
    return [Place("?", frozenset())] * len(tensors)


def _places(opdef: OpDef, collection: Collection, arch: int | None) -> _Places:
    forms = list(_forms(opdef, collection, arch)) or [opdef]

    def side(name: str) -> tuple[Place, ...]:
        rows = zip(*(getattr(form, name) for form in forms), strict=True)
        return tuple(_place(row[0].name, [tensor.dtypes for tensor in row]) for row in rows)

    last = [bool(held) and held[-1].repeated for held in (opdef.inputs, opdef.outputs)]
    return _Places(side("inputs"), side("outputs"), (last[0], last[1]))


def _forms(opdef: OpDef, collection: Collection, arch: int | None) -> Iterator[OpDef]:
    """Yield the definition as each backend whose types count has it."""
    for core in _cores(opdef, collection, arch):
        try:
            yield opdefs.resolve(opdef, collection, core)
        except ModelError:  # narrower ones of its kind settle what it leaves open
            continue


def _place(name: str, types: Sequence[Sequence[DType]]) -> Place:
    """Return what one tensor may be on all cores; on any of them if these have nothing in common."""
    known = [frozenset(held) for held in types if held]
    common = frozenset.intersection(*known) if known else frozenset()
    return Place(name, common or frozenset().union(*known))


def _cores(opdef: OpDef, collection: Collection, arch: int | None) -> list[str]:
    """Return the backends whose types count: the DSP of the target, else all DSPs, else the CPU."""
    offers = offered(collection)[opdef.name]
    own = f"DSP_V{arch}"
    if own in backends.NAMES and any(backends.overlap(own, name) for name in offers):
        return [own]
    told = offers | {table.backend for table in collection.supplements if opdef.name in table.ops}
    named = [name for name in backends.NAMES if name in told and name != _FLOAT]
    fixed = [name for name in named if backends.is_dsp(name) or name in _FIXED]
    return fixed or (["CPU"] if "CPU" in named else named[:1])
