"""Warnings of ranges that few values stretch by orders of magnitude over all others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.quant.advice import Options, written
from xdlc.quant.affine import representable
from xdlc.quant.calibration.statistics import Histogram
from xdlc.quant.op_specs import crosses, rule_of

if TYPE_CHECKING:
    from xdlc.quant.job import Job

FEW = 0.001
"""Part of a tensor's values that may stretch its range."""

STEPS = 2.5
"""Steps that all others reach at least."""


_Found: TypeAlias = tuple[float, float, float, str, Options]


def stretched_warnings(job: Job) -> list[str]:
    """Return a warning of tensors that a thousandth of the values, or one constant, leaves hardly a step.

    Ranges that do not hang on values do not count, nor do values that readers cannot tell apart.

    Args:
        job: The quantization under way, decided; of activations histograms tell, which 16 bits have not.

    Returns:
        One line for people, or none.
    """
    found = [*_activations(job), *_constants(job)]
    if not found:
        return []
    rest, largest, scale, name, options = min(found, key=lambda entry: entry[0] / entry[1])
    more = f", as of {len(found) - 1} more tensors" if len(found) > 1 else ""
    return [
        f"warning: few values of {name!r} reach {largest:.3g}, the others {rest:.3g} at most: its encoding "
        f"leaves these {rest / scale:.1f} steps{more}; to keep them: "
        f"{written(options, job.command)}"
    ]


def _activations(job: Job) -> Iterator[_Found]:
    """Yield the largest of most values, that of all, the scale, the name, and what to do."""
    for tensor, (dtype, encoding) in job.decision.activations.items():
        held = job.calibration.found.get(tensor)
        if (
            held is None
            or not held.histogram.total
            or dtype.bits != 8
            or not isinstance(encoding, ScaleOffset)
        ):
            continue
        if tensor in job.decision.useful or _is_fixed(tensor):
            continue
        rest = most_reach(held.histogram)
        if 0.0 < rest < STEPS * encoding.scale:
            values = representable(encoding, dtype)
            largest = max(-values.low, values.high)
            yield rest, largest, encoding.scale, tensor.name, {"act_bitwidth_of": {tensor.name: 16}}


def _constants(job: Job) -> Iterator[_Found]:
    """Yield the same of constants that are no weights."""
    for (op, index), (dtype, encoding) in job.decision.statics.items():
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
    order = np.argsort(size, kind="stable")
    below = np.cumsum(histogram.counts[order])
    return float(size[order][np.searchsorted(below, (1.0 - FEW) * histogram.total)])


def _two_largest(array: Array) -> tuple[float, float]:
    """Return the largest magnitude of the rest, 0 if there is none, and that of one or few elements."""
    import numpy as np

    size = np.abs(array).reshape(-1)
    largest = size.max(initial=0.0)
    rest = size[size < largest]
    few = size.size - rest.size <= max(1, FEW * size.size)
    return (float(rest.max(initial=0.0)) if few else 0.0), float(largest)
