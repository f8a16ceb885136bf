"""What a user should know of how users' ops are quantized, and what keeps them from it."""

from __future__ import annotations

from collections.abc import Iterator

from xdlc.errors import raise_all
from xdlc.ir import Graph, Op
from xdlc.ir.graph import is_custom
from xdlc.quant.placement import Placement
from xdlc.quant.precision import Precision
from xdlc.quant.rules import is_real

_NAMED = 5
"""Most ops that a note names."""


def check_customs(graph: Graph, placement: Placement, precision: Precision) -> list[str]:
    """Refuse encodings that definitions do not take; return notes on what is not as it was asked for.

    Args:
        graph: The float graph.
        placement: Which of its ops are quantized.
        precision: The widths that were asked for, and what definitions allow.

    Raises:
        ConstraintError: For each encoding of a result that the definition of its op does not take.
    """
    customs = [op for op in graph.ops if is_custom(op)]
    raise_all(
        [problem for op in customs if op in placement.ports for problem in precision.customs.conflicts(op)]
    )
    found: dict[str, list[str]] = {}
    for op in customs:
        for what in _notes(op, placement, precision):
            found.setdefault(f"{op.package}::{op.type} {what}", []).append(op.name)
    return [f"{text} ({_listed(names)})" for text, names in found.items()]


def _notes(op: Op, placement: Placement, precision: Precision) -> Iterator[str]:
    ports = placement.ports.get(op)
    if ports is None:
        if op in placement.reasons:
            yield f"stays float: {placement.reasons[op]}"
        return
    wanted = precision.act_bits_of(op) or precision.act_bits
    customs = precision.customs
    read = zip(op.inputs, ports.inputs, customs.inputs(op), strict=True)
    written = zip(op.outputs, ports.outputs, customs.outputs(op), strict=True)
    for verb, side in (("reads", read), ("writes", written)):
        for tensor, dtype, place in side:
            if tensor is None or tensor.is_static or not is_real(tensor):
                continue
            if dtype is not None and dtype.bits == wanted:
                continue
            how = "as floats" if dtype is None else f"with {dtype.bits} bits, not {wanted}"
            yield f"{verb} {place.name!r} {how}: its definition takes {place}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
