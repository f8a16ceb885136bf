"""Notes on the quantization of UDOs, and checks of their encodings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdlc.errors import raise_all
from xdlc.ir import Op, Tensor
from xdlc.ir.graph import is_udo
from xdlc.options import spell
from xdlc.quant.op_specs import is_real
from xdlc.quant.placement import Placement
from xdlc.quant.plan import GraphPlan
from xdlc.quant.precision import Precision
from xdlc.quant.udo import Place

_NAMED = 5
"""Most ops that a note names."""


def check_udos(parts: Sequence[GraphPlan]) -> list[str]:
    """Refuse encodings that definitions do not support; return notes on what differs from the request.

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
    return [f"{text} ({_listed(names)})" for text, names in found.items()]


def one_scale_notes(parts: Sequence[GraphPlan]) -> list[str]:
    """Return a note on static data that get one scale where one per channel was requested."""
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
        "static data of UDOs have one scale, for no definition states which axis has channels; "
        f"{spell('quantization_overrides')} can give them one per channel "
        f"({_listed(list(dict.fromkeys(names)))})"
    ]


def narrow_udo(plan: GraphPlan, output: str) -> str | None:
    """Return the operation of a UDO before an output whose definition has fixed point of 8 bits alone."""
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
    """Return the static data of an op whose form is not given, and what its definition supports."""
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
        yield f"is not for the DSP of the target: its definition names {', '.join(others)}"
    ports = placement.ports.get(op)
    if ports is None:
        if op in placement.reasons:
            yield f"stays float: {placement.reasons[op]}"
        return
    wanted = precision.act_bits_of(op) or precision.act_bits
    udos = precision.udos
    read = zip(op.inputs, ports.inputs, udos.inputs(op), strict=True)
    written = zip(op.outputs, ports.outputs, udos.outputs(op), strict=True)
    for verb, side in (("reads", read), ("writes", written)):
        for tensor, dtype, place in side:
            if tensor is None or tensor.is_static or not is_real(tensor):
                continue
            if dtype is not None and dtype.bits == wanted:
                continue
            how = "as floats" if dtype is None else f"with {dtype.bits} bits, not {wanted}"
            yield f"{verb} {place.name!r} {how}: its definition supports {place}"
    differing = [place.name for place in (*udos.inputs(op), *udos.outputs(op)) if place.differs]
    if differing:
        names = ", ".join(map(repr, dict.fromkeys(differing)))
        yield f"has no type for {names} that is taken by all DSPs it is defined for: name the target"
    yield from _static_notes(op, precision)


def _static_notes(op: Op, precision: Precision) -> Iterator[str]:
    """Yield a note for static data that have other bits than the requested ones of weights."""
    wanted = precision.weight_bits_of(op)
    for _, place in _statics(op, precision):
        dtype = place.static(wanted)
        if dtype is None and place.static_types():
            yield f"keeps {place.name!r} float, 4 bits have to be requested: its definition supports {place}"
        elif dtype is not None and dtype.bits not in (wanted, 32):
            bits = f"{dtype.bits} bits, not {wanted}"
            yield f"stores {place.name!r} with {bits}: its definition supports {place}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
