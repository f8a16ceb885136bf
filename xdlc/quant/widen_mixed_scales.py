"""16-bit activations where values of unlike size are joined: boxes in pixels with scores.

Eight bits over 640 pixels have steps of 2.5: a score of 0.9 beside them is 0.  What joins such values, and
what hands the result on to the outputs, gets 16 bits; so does the arithmetic that makes the large ones, as
far as bytes allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from xdlc.ir import Op
from xdlc.quant.advice import written
from xdlc.quant.capabilities import takes
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.mixed.groups import graph_cost
from xdlc.quant.mixed_scale_ops import Join, find_joins, makers, writer
from xdlc.quant.op_specs import rule_of
from xdlc.quant.placement import place
from xdlc.quant.precision import Precision

if TYPE_CHECKING:
    from xdlc.quant.job import Job

MOST_BYTES = 1.15
"""How many times as many bytes may be moved before arithmetic in front of a join keeps its 8 bits."""

FEW_BYTES = 0.03
"""What that arithmetic may add in any case: boxes are few beside the scores of many classes."""

LARGEST = 1 << 14
"""How many times as large values may be for 16 bits to hold others beside them."""

_FLOAT_BITS = 32


def raise_unlike(job: Job) -> list[str]:
    """Give 16 bits to ops that join values of unlike size; change the precision of ``job`` alone.

    Widths that the user gave, by name or by an encoding, stay.

    Args:
        job: The quantization under way, calibrated.

    Returns:
        What was done, and where it could not be: one line each, for people.
    """
    graph, before = job.graph, job.precision
    lost: list[str] = []
    kept: list[Join] = []
    for join in find_joins(graph, job.placement, job.calibration, job.masks):
        if not join.is_final and join.wide > LARGEST * join.narrow:
            continue  # what a layer makes of values that small is nothing to begin with
        reason = _why_not(job, join)
        if reason is None:
            kept.append(join)
        else:
            lost.append(_lost(join, reason))
    if not kept:
        return lost
    plain = graph_cost(graph, job.placement, before, _FLOAT_BITS).bytes

    def factor(ops: Iterable[Op]) -> float:
        wide = _widened(before, ops)
        return graph_cost(graph, place(graph, wide), wide, _FLOAT_BITS).bytes / plain

    inner = [join for join in kept if not join.is_final]
    if inner and factor(_onward(kept)) > MOST_BYTES:
        lost += [_lost(join, _for_more_bytes(job, join)) for join in inner]
        kept = [join for join in kept if join.is_final]
    late = _onward(kept)
    large = [tensor for join in kept if join.is_final for tensor in join.large]
    early = [op for op in makers(graph, job.placement, large) if op not in late and _is_free(job, op)]
    low, high = 0, len(early)
    most = max(MOST_BYTES, factor(late) + FEW_BYTES)
    while low < high:
        middle = (low + high + 1) // 2
        fits = factor([*late, *early[:middle]]) <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    wide = [*late, *early[:low]]
    count = sum(job.placement.fixed[op] == 8 for op in wide)
    job.precision = _widened(before, wide)
    ends = (op for op in map(writer, large) if op is not None)
    job.precision.fine |= {op.name for op in (*_onward(join for join in kept if join.is_final), *ends)}
    job.place()
    return [_done(kept, count, factor(wide)), *lost] if count else lost


def _onward(joins: Iterable[Join]) -> list[Op]:
    return list(dict.fromkeys(op for join in joins for op in join.onward))


def _widened(precision: Precision, ops: Iterable[Op]) -> Precision:
    wide = precision.copy()
    wide.acts.update({op.name: 16 for op in ops})
    return wide


def _lost(join: Join, reason: str) -> str:
    return (
        f"warning: {join.op.name!r} joins values up to {join.narrow:.3g} with values up to {join.wide:.3g} "
        f"in 8 bits, which the small ones do not survive: {reason}"
    )


def _for_more_bytes(job: Job, join: Join) -> str:
    flags = written({"act_bitwidth_of": {op.name: 16 for op in join.onward}}, job.command)
    return f"16 bits there and in what reads it move many more bytes; if that is worth it: {flags}"


def _in_float(job: Job, *ops: Op) -> str:
    names = dict.fromkeys((*job.options.float_ops, *(op.name for op in ops)))
    return written({"float_ops": tuple(names)}, job.command)


def _done(joins: Sequence[Join], count: int, factor: float) -> str:
    first = max(joins, key=lambda join: join.wide / join.narrow)
    others = f" and {len(joins) - 1} more join" if len(joins) > 1 else " joins"
    return (
        f"{first.op.name!r}{others} values up to {first.narrow:.3g} with values up to {first.wide:.3g}: "
        f"{count} op{'' if count == 1 else 's'} there have 16-bit activations, bytes moved x {factor:.2f}"
    )


def _is_free(job: Job, op: Op) -> bool:
    rule = rule_of(op)
    given = any(given_bits(tensor) is not None for tensor in op.outputs)
    if rule is None or 16 not in rule.widths or given or op.name in job.precision.acts:
        return False
    return takes(op, 16, job.precision.weight_bits_of(op), job.options.soc)


def _why_not(job: Job, join: Join) -> str | None:
    """Return why a join cannot have 16 bits, and what to do, or None if it can, or has them."""
    soc = job.options.soc
    narrow = [op for op in join.onward if job.placement.fixed[op] == 8]
    if not narrow:
        return None
    if soc is not None and not soc.capabilities.a16w8:
        return (
            f"{soc.capabilities.name} of {soc.name} has no 16-bit activations; choose a target from v68 "
            "on, or give the model an output for each part"
        )
    if join.wide > LARGEST * join.narrow:
        return f"nor do they 16 bits; let it stay float: {_in_float(job, join.op)}"
    for op in narrow:
        rule = rule_of(op)
        if op.name in job.precision.acts:
            return f"{op.name!r} was asked to have 8 bits; leave that out, or ask for 16"
        weights = job.precision.weight_bits_of(op)
        if rule is None or 16 not in rule.widths or not takes(op, 16, weights, soc):
            return (
                f"{op.name!r} ({op.type}) has no 16 bits; let both stay float: {_in_float(job, join.op, op)}"
            )
    given = next((tensor for tensor in join.written if given_bits(tensor) == 8), None)
    if given is not None:
        return f"an encoding of 8 bits is given for {given.name!r}; give one of 16 bits, or none"
    return None
