"""Error of ops alone that rounding explains."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdlc.compare.figures import EXACT, Difference
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Graph, ScaleOffset, Tensor
from xdlc.ir.data import Array, ArrayData
from xdlc.ir.quantization import quantized_limits, scale_and_offset, to_float, to_quantized

FLOATS, HALVES, FIXED = 60.0, 40.0, 24.0
"""Least SQNR in dB of a right op: in float32, in float16, and of fixed point that came from floats."""
WEIGHTS = 8.0
"""Decibels by which an error may exceed that of weights that are off by up to half a step at random."""
CLIPPED = 4.0
"""Most noise of an encoding, over that of as many steps across all values."""
COVERED = 0.8
"""Share of the values' range that an encoding covers where samples differ from those of calibration."""
BIAS = 0.45
"""Largest mean error of an op in steps; rounding down makes 0.5, RmsNorm on HTP 0.43."""
_LEAST_VALUES = 16
_WEIGHT_BYTES = 2


@dataclass(slots=True)
class Alone:
    """Differences of a tensor whose ops run alone.

    Attributes:
        tensor: The tensor.
        whole: What is judged, as a whole.
        weights: Of ops in floats, with the stored weights, from the reference.
        noise: Of ops with weights that are off at random, from those with the stored ones.
        range: Of the nearest values of the encoding from exact ones.
        steps: Of the results from the nearest ones to exact values of the same rounded inputs.
    """

    tensor: Tensor
    whole: Difference
    weights: Difference = field(default_factory=Difference)
    noise: Difference = field(default_factory=Difference)
    range: Difference = field(default_factory=Difference)
    steps: Difference = field(default_factory=Difference)


def noisy(graph: Graph) -> Graph:
    """Return a copy of a graph with float weights that are off by up to half a step."""
    import numpy as np

    from xdlc.ir.dtype import FLOAT32

    copy, random = graph.clone(), np.random.default_rng(0)
    forms = ScaleOffset | AxisScaleOffset | BlockScaleOffset | BlockwiseExpansion
    for tensor in copy.tensors.values():
        if tensor.data is None or not tensor.dtype.is_fixed or not isinstance(tensor.encoding, forms):
            continue
        if tensor.dtype.numpy.itemsize <= _WEIGHT_BYTES:
            values = to_float(tensor.numpy(), tensor.encoding, where=tensor.name)
            scale, _ = scale_and_offset(tensor.encoding, tensor.shape, where=tensor.name)
            values += random.uniform(-0.5, 0.5, tensor.shape).astype(np.float32) * scale
            tensor.data, tensor.dtype, tensor.encoding = ArrayData(values), FLOAT32, None
    return copy


def nearest(values: Array, tensor: Tensor) -> Array:
    """Return the nearest values that a tensor can hold."""
    if not tensor.dtype.is_fixed or tensor.encoding is None or values.dtype.kind != "f":
        return values
    import numpy as np

    with np.errstate(invalid="ignore"):  # NaN
        return to_float(to_quantized(values, tensor), tensor.encoding, where=tensor.name)


def fault(alone: Alone, *, is_inner: bool) -> tuple[str, float]:
    """Return what rounding does not explain, or an empty text, and the least dB.

    Args:
        is_inner: Whether other results than that of the tensor are rounded, too.
    """
    tensor, weights = alone.tensor, alone.weights.figures().db
    expected = alone.noise.figures().db
    least = FLOATS if expected == EXACT else min(HALVES, expected - WEIGHTS)
    if weights < least:
        return (
            f"in floats the op is {weights:.1f} dB from the reference, but rounded weights explain only "
            f"{least:.1f} dB",
            least,
        )
    if not isinstance(tensor.encoding, ScaleOffset):
        return fault_below(alone.whole, FIXED)
    scale, levels = tensor.encoding.scale, 2**tensor.dtype.bits - 1
    low, high = min(alone.range.extremes[0], 0.0), max(alone.range.extremes[1], 0.0)
    step = max(scale, (high - low) / levels)
    first, last = (scale * (code + tensor.encoding.offset) for code in quantized_limits(tensor))
    least = alone.range.db_of(CLIPPED * step**2 / 12)
    if min(high, last) - max(low, first) >= COVERED * (high - low):
        least = min(least, FIXED)
    if alone.range.figures().db < least:
        return f"values span {low:.4g} to {high:.4g}, but the encoding {first:.4g} to {last:.4g}", least
    return _fault_of_steps(alone.steps, tensor, FIXED if is_inner else HALVES)


def fault_of_results(difference: Difference, tensor: Tensor, *, by_reference: bool) -> tuple[str, float]:
    """Return what one rounding does not explain, or an empty text, and the least dB.

    Args:
        difference: Of results from those of the same inputs.
        by_reference: Whether inputs were those of the reference, which the op has rounded first.
    """
    if tensor.dtype.is_fixed:
        return _fault_of_steps(difference, tensor, FIXED if by_reference else HALVES)
    return fault_below(difference, FLOATS if by_reference and tensor.dtype.name == "float32" else HALVES)


def fault_below(difference: Difference, least: float) -> tuple[str, float]:
    """Return a clause if an SQNR is below the least one, and the least one in dB."""
    least = max(least, -EXACT)
    return ("" if difference.figures().db >= least else f"xdlc expects at least {least:.1f} dB"), least


def _fault_of_steps(difference: Difference, tensor: Tensor, most: float) -> tuple[str, float]:
    """Return what a step on average does not explain; from ``most`` dB on all is."""
    if not isinstance(tensor.encoding, ScaleOffset):
        return fault_below(difference, most)
    bias = difference.bias / tensor.encoding.scale
    if abs(bias) > BIAS and difference.count >= _LEAST_VALUES and difference.figures().db < most:
        return f"{bias:+.2f} steps off on average", most
    return fault_below(difference, min(most, difference.db_of(tensor.encoding.scale**2)))
