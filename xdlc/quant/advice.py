"""Warnings about lost quality, with options of the quantizer that are not set already."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xdlc.errors import ConstraintError, raise_all
from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.quant.advised import Advice, Options
from xdlc.quant.affine import representable
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.calibration.statistics import Histogram, share_below
from xdlc.quant.op_specs import crosses, rule_of
from xdlc.quant.output_accuracy import Figure
from xdlc.quant.remedies import Remedies
from xdlc.quant.udo_notes import narrow_udo

if TYPE_CHECKING:
    from xdlc.quant.plan import Plan

NEAR_DB = 1.0
"""An output may be this much below a goal before it is worth a warning."""


def warnings(remedies: Remedies) -> Iterator[str]:
    """Yield a line for each output of which something is lost: what, and what to do."""
    for figure in remedies.figures:
        if figure.verdict.is_poor:
            yield _advice(remedies, figure).after(
                f"warning: output {figure.output!r} is likely {_grade(figure)} as {figure.verdict.kind}: "
                f"{figure.verdict}; "
            )


def _grade(figure: Figure) -> str:
    return "useless" if figure.verdict.is_useless else "poor"


def _advice(remedies: Remedies, figure: Figure) -> Advice:
    """Return what to do about an output; no bits while the samples or a definition are at fault."""
    if remedies.calibration.problems:
        return Advice(f"the calibration samples are at fault: {remedies.calibration.problems[0]}")
    narrow = narrow_udo(remedies.plan.main, figure.output)
    if narrow is not None:
        return Advice(
            f"{narrow} computes with 8 bits: let its definition have 16 bits or floats, and convert again"
        )
    return Advice(*remedies.of(figure))


def goal_warnings(plan: Plan, figures: Sequence[Figure]) -> Iterator[str]:
    """Yield a line if outputs are below the goal that mixed precision kept on the samples it judged by."""
    goal = plan.search.goal
    if goal is None:
        return
    below = [(f.sqnr, f) for f in figures if f.held_out and f.sqnr is not None and f.sqnr < goal - NEAR_DB]
    if not below:
        return
    reached, worst = min(below, key=lambda pair: pair[0])
    others = f", {len(below) - 1} more outputs below it too" if len(below) > 1 else ""
    yield Advice(
        f"warning: output {worst.output!r} is at {reached:.1f} dB on {worst.samples} held-out samples, below "
        f"the goal of {goal:.1f} dB that the samples for the choice of widths reach{others}; calibrate with "
        f"more samples of what the network will see, or set a higher goal",
        {"min_sqnr": math.ceil(10 * (2 * goal - max(reached, 0.0))) / 10},
    )


def check_figures(remedies: Remedies, least: float | None, command: Sequence[str]) -> None:
    """Refuse a quantized network with outputs below a least SQNR.

    Args:
        remedies: What may help, with the figures of the outputs.
        least: In dB; None: any will do.

    Raises:
        ConstraintError: If an output is below, or useless; several make a ProblemList.
    """
    if least is None:
        return
    problems, remedies = [], remedies.for_least(least)
    for figure in remedies.figures:
        if figure.verdict.is_useless or (figure.sqnr is not None and figure.sqnr < least):
            problem = f"fail_below is {least:g} dB, {figure}; {figure.verdict}"
            fix = _advice(remedies, figure).in_command(command)
            problems.append(ConstraintError(problem, where=f"output {figure.output!r}", fix=fix))
    raise_all(problems)


FEW = 0.001
"""Part of a tensor's values that may stretch its range."""

STEPS = 2.5
"""Steps that all others reach at least."""


_Found: TypeAlias = tuple[float, float, float, str, Options]


def stretched_warnings(plan: Plan, calibration: Calibration) -> list[str]:
    """Return a warning of tensors that a thousandth of the values, or one constant, leaves hardly a step.

    Ranges that do not hang on values do not count, nor do values that make no difference to readers.

    Args:
        calibration: Its calibration; 16-bit activations have no histograms to judge by.

    Returns:
        One line for people, or none.
    """
    found = [*_activations(plan, calibration), *_constants(plan)]
    if not found or calibration.problems:
        return []
    rest, largest, scale, name, options = min(found, key=lambda entry: entry[0] / entry[1])
    more = f", as of {len(found) - 1} more tensors" if len(found) > 1 else ""
    return [
        Advice(
            f"warning: few values of {name!r} reach {largest:.3g}, the others {rest:.3g} at most: "
            f"its encoding leaves these {rest / scale:.1f} steps{more}; to keep them",
            options,
        )
    ]


def _activations(plan: Plan, calibration: Calibration) -> Iterator[_Found]:
    """Yield the largest of most values, that of all, the scale, the name, and what to do."""
    for tensor, (dtype, encoding) in plan.decision.activations.items():
        statistics = calibration.found.get(tensor)
        if (
            statistics is None
            or not statistics.histogram.total
            or dtype.bits != 8
            or not isinstance(encoding, ScaleOffset)
        ):
            continue
        if tensor in plan.decision.useful or _is_fixed(tensor):
            continue
        rest, seen = most_reach(statistics.histogram), statistics.seen
        if 0.0 < rest < STEPS * encoding.scale < max(-seen.low, seen.high):
            values = representable(encoding, dtype)
            largest = max(-values.low, values.high)
            yield rest, largest, encoding.scale, tensor.name, {"act_bitwidth_of": {tensor.name: 16}}


def _constants(plan: Plan) -> Iterator[_Found]:
    """Yield the same of constants that are no weights."""
    for (op, index), (dtype, encoding) in plan.decision.statics.items():
        tensor = op.inputs[index]
        if tensor is None or dtype.is_signed or not isinstance(encoding, ScaleOffset):
            continue
        rest, largest = _two_largest(tensor.numpy())
        if 0.0 < rest < STEPS * encoding.scale:
            yield rest, largest, encoding.scale, tensor.name, {"float_ops": (op.name,)}


def _is_fixed(tensor: Tensor) -> bool:
    op = tensor.producer
    rule = rule_of(op) if op is not None else None
    return op is not None and (crosses(op) or (rule is not None and rule.unit_low is not None))


def most_reach(histogram: Histogram) -> float:
    """Return the magnitude that all but a thousandth of the counted values stay below."""
    import numpy as np

    size = np.maximum(np.abs(histogram.edges[:-1]), np.abs(histogram.edges[1:]))
    return share_below(size, histogram.counts, 1.0 - FEW)


def _two_largest(array: Array) -> tuple[float, float]:
    """Return the largest magnitude of the rest, 0 if there is none, and that of one or few elements."""
    import numpy as np

    size = np.abs(array).reshape(-1)
    largest = size.max(initial=0.0)
    rest = size[size < largest]
    few = size.size - rest.size <= max(1, FEW * size.size)
    return (float(rest.max(initial=0.0)) if few else 0.0), float(largest)
