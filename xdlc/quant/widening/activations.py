"""16-bit activations where 8 bits lose values.

These are residual streams, and values of different magnitude.

A residual stream, what runs past the blocks of a transformer and is normalized, is rounded twice in each
block.  A few channels or tokens of some networks reach a hundred times as far as the rest: eight bits leave
everything else a few steps (Bondarenko et al., Understanding and Overcoming the Challenges of Efficient
Transformer Quantization, 2021, find the same of BERT).  Matrix products keep their 8 bits.

Eight bits over 640 pixels have steps of 2.5: a score of 0.9 beside them is 0.  An op that joins such values,
and those after it up to the outputs, get 16 bits; so does the arithmetic that computes the large ones, as far
as bytes allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits
from xdlc.options import spell
from xdlc.quant.advice import Advice, Options
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.calibration.statistics import Statistics, share_below
from xdlc.quant.capabilities import supports
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.mixed.groups import graph_cost
from xdlc.quant.op_specs import rule_of, single_name
from xdlc.quant.placement import Placement, place
from xdlc.quant.plan import Plan
from xdlc.quant.precision import Precision
from xdlc.quant.widening.mixed_scales import Join, find_joins, makers, writer

FEW_STEPS = 4.0
"""Steps of 8 bits that half of all values reach at least; of normally distributed ones 20 do."""

_LEVELS = 255
_NORMS = ("LayerNorm", "RmsNorm")


def widen_residual(plan: Plan, calibration: Calibration) -> Plan:
    """Return a plan with 16 bits for the sums and norms of residual streams.

    Widths that the user set, by name or by an encoding, stay.

    Args:
        calibration: Its calibration; without histograms nothing is done.
    """
    graph, soc = plan.graph, plan.options.soc
    if plan.options.one_act_bitwidth or (soc is not None and not soc.capabilities.a16w8):
        return plan
    sums, norms = ([op for op in part if _is_free(plan, op)] for part in find_stream(graph, plan.placement))
    statistics = calibration.statistics
    measured = [*sums, *(op for op in norms if single_name(op) in _NORMS)]
    steps = {op: typical_steps(statistics.get(op.outputs[0], Statistics())) for op in measured}
    worst = min(measured, key=lambda op: steps[op], default=None)
    if worst is None or steps[worst] >= FEW_STEPS:
        return plan
    moved = _moved_bytes(plan, [*sums, *norms])
    name, most = worst.outputs[0].name, steps[worst]
    return plan.with_precision(_widened(plan.precision, [*sums, *norms])).noted(
        f"{len(sums)} sums of the residual stream and their norms get 16-bit activations, moving "
        f"{moved:.2f} times the bytes: 8 bits leave half the values of {name!r} fewer than {most:.1f} steps"
    )


def find_stream(graph: Graph, placement: Placement) -> tuple[list[Op], list[Op]]:
    """Return the 8-bit sums of the residual stream, and the ops that normalize them.

    Such a sum is normalized, or added to another one.

    A norm is LayerNorm, RmsNorm, or the mean of squares, of centred values perhaps, and what is computed with
    it up to the next product of matrices: norms as exporters wrote them before opset 17.
    """
    ops = list(graph.ops)
    normed: set[Tensor] = set()
    sums: list[Op] = []
    for op in reversed(ops):
        read = _normed_by(op)
        if read is not None and _is_sum(read):
            normed.add(read)
        elif op.outputs[0] in normed and (_adds(op) or _moves(op)):
            normed.update(op.computed)
            if _adds(op):
                sums.append(op)
    inside = {op.outputs[0] for op in sums}
    norms: list[Op] = []
    for op in ops:
        if op.outputs[0] in inside or not any(tensor in inside for tensor in op.inputs):
            continue
        if _moves(op) or (traits(op).norm_step and op not in sums):
            inside.add(op.outputs[0])
            norms.append(op)
        elif single_name(op) in _NORMS:
            norms.append(op)
    stream = [[op for op in part if placement.fixed.get(op) == 8] for part in (sums[::-1], norms)]
    return stream[0], stream[1]


def _normed_by(op: Op) -> Tensor | None:
    """Return the input that LayerNorm, RmsNorm or a mean of squares normalizes."""
    source = op.inputs[0] if op.inputs else None
    if single_name(op) in _NORMS or source is None:
        return source
    square = source.producer
    if single_name(op) != "ReduceMean" or square is None or square.inputs[0] is None:
        return None
    if single_name(square) != "ElementWisePower" and square.inputs[0] is not square.inputs[-1]:
        return None
    centred = square.inputs[0].producer
    if centred is not None and single_name(centred) == "ElementWiseSubtract":
        return centred.inputs[0]
    return square.inputs[0]


def _adds(op: Op) -> bool:
    return single_name(op) == "ElementWiseAdd"


def _moves(op: Op) -> bool:
    return rule_of(op).selects


def _is_sum(tensor: Tensor) -> bool:
    op = tensor.producer
    while op is not None and _moves(op) and op.inputs[0] is not None:
        op = op.inputs[0].producer
    return op is not None and _adds(op)


def typical_steps(statistics: Statistics) -> float:
    """Return the steps of 8 bits that half of all values reach.

    Without statistics they are infinite.
    """
    histogram = statistics.histogram
    if not histogram.total or not statistics.seen.width:
        return float("inf")
    median = share_below(np.abs(histogram.centres), histogram.counts, 0.5)
    return median * _LEVELS / statistics.seen.width


MOST_BYTES = 1.15
"""How many times as many bytes may be moved before arithmetic in front of a join keeps its 8 bits."""

FEW_BYTES = 0.03
"""Share of more bytes that is always acceptable: boxes are few compared to scores."""

LARGEST = 1 << 14
"""Largest ratio of values that 16 bits can represent together."""

_FLOAT_BITS = 32


def widen_mixed_scales(plan: Plan, calibration: Calibration) -> Plan:
    """Return a plan with 16 bits for ops that combine values of different magnitude.

    Widths that the user set, by name or by an encoding, stay.

    Args:
        plan: The plan; gets notes on what was done, and where it could not be.
    """
    graph, before = plan.graph, plan.precision
    lost: list[str] = []
    kept: list[Join] = []
    for join in find_joins(graph, plan.placement, calibration, plan.main.masks):
        if not join.is_final and join.wide > LARGEST * join.narrow:
            continue  # what a layer makes of values that small is nothing to begin with
        reason = _why_not(plan, join)
        if reason is None:
            kept.append(join)
        else:
            lost.append(_lost(join, *reason))
    if not kept:
        return plan.noted(*lost)
    factor = partial(_moved_bytes, plan)
    inner = [join for join in kept if not join.is_final]
    if inner and factor(_onward(kept)) > MOST_BYTES:
        lost += [_lost(join, *_for_more_bytes(join)) for join in inner]
        kept = [join for join in kept if join.is_final]
    late = _onward(kept)
    large = [tensor for join in kept if join.is_final for tensor in join.large]
    early = [
        op
        for op in makers(graph, plan.placement, large)
        if op not in late
        and _is_free(plan, op)
        and supports(op, 16, before.weight_bits_of(op), plan.options.soc)
    ]
    low, high = 0, len(early)
    most = max(MOST_BYTES, factor(late) + FEW_BYTES)
    while low < high:
        middle = (low + high + 1) // 2
        fits = factor([*late, *early[:middle]]) <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    wide = [*late, *early[:low]]
    count, moved = sum(plan.placement.fixed[op] == 8 for op in wide), factor(wide)
    precision = _widened(before, wide)
    ends = (op for op in map(writer, large) if op is not None)
    precision.fine |= {op.name for op in (*_onward(join for join in kept if join.is_final), *ends)}
    done = [_done(kept, count, moved)] if count else []
    return plan.with_precision(precision).noted(*done, *lost)


def _onward(joins: Iterable[Join]) -> list[Op]:
    return list(dict.fromkeys(op for join in joins for op in join.onward))


def _widened(precision: Precision, ops: Iterable[Op]) -> Precision:
    wide = precision.copy()
    wide.acts.update({op.name: 16 for op in ops})
    return wide


def _moved_bytes(plan: Plan, ops: Iterable[Op]) -> float:
    """Return the factor of moved bytes if some ops have 16-bit activations."""
    graph, wide = plan.graph, _widened(plan.precision, ops)
    plain = graph_cost(graph, plan.placement, plan.precision, _FLOAT_BITS).bytes
    return graph_cost(graph, place(graph, wide), wide, _FLOAT_BITS).bytes / plain


def _lost(join: Join, reason: str, options: Options | None = None) -> Advice:
    return Advice(
        f"warning: {join.op.name!r} joins values up to {join.narrow:.3g} with values up to "
        f"{join.wide:.3g} in 8 bits, which cannot resolve the small values: {reason}",
        options,
    )


def _for_more_bytes(join: Join) -> tuple[str, Options]:
    options = {"act_bitwidth_of": {op.name: 16 for op in join.onward}}
    return "16 bits for this op and the next ops move many more bytes; to use 16 bits", options


def _in_float(plan: Plan, *ops: Op) -> Options:
    names = dict.fromkeys((*plan.options.float_ops, *(op.name for op in ops)))
    return {"float_ops": tuple(names)}


def _done(joins: Sequence[Join], count: int, factor: float) -> str:
    first = max(joins, key=lambda join: join.wide / join.narrow)
    others = f" and {len(joins) - 1} more join" if len(joins) > 1 else " joins"
    return (
        f"{first.op.name!r}{others} values up to {first.narrow:.3g} with values up to {first.wide:.3g}: "
        f"{count} op{'' if count == 1 else 's'} after the join get 16-bit activations, moving {factor:.2f} "
        "times the bytes"
    )


def _is_free(plan: Plan, op: Op) -> bool:
    """Return whether an op supports 16-bit activations and nothing sets its width."""
    given = any(given_bits(tensor) is not None for tensor in op.outputs)
    return not given and 16 in rule_of(op).activation_bits and op.name not in plan.precision.acts


def _why_not(plan: Plan, join: Join) -> tuple[str, Options | None] | None:
    """Return why a join cannot have 16 bits, and options to set.

    The result is None if it can, or has them.
    """
    soc = plan.options.soc
    narrow = [op for op in join.onward if plan.placement.fixed[op] == 8]
    if not narrow:
        return None
    if plan.options.one_act_bitwidth:
        return (
            f"HTA computes with one width: use {spell('act_bitwidth', 16)}, or write an output for each part",
            None,
        )
    if soc is not None and not soc.capabilities.a16w8:
        return (
            f"{soc.capabilities.name} of {soc.name} has no 16-bit activations; choose a target from v68 "
            "on, or give the model an output for each part",
            None,
        )
    if join.wide > LARGEST * join.narrow:
        return "16 bits cannot resolve these values either; keep the op float", _in_float(plan, join.op)
    for op in narrow:
        if op.name in plan.precision.acts:
            return f"{op.name!r} has 8 bits, because you requested 8; request 16, or omit the request", None
        weights = plan.precision.weight_bits_of(op)
        if 16 not in rule_of(op).activation_bits or not supports(op, 16, weights, soc):
            return f"{op.name!r} ({op.type}) has no 16 bits; keep both float", _in_float(plan, join.op, op)
    given = next((tensor for tensor in join.written if given_bits(tensor) == 8), None)
    if given is not None:
        return f"you set an encoding of 8 bits for {given.name!r}; set 16 bits, or omit the encoding", None
    return None
