"""Weight scales for which HTP rounds the results of a convolution as exact arithmetic does.

What HTP computes of an integer accumulator was read off the vendor's emulation (SDK 2.51; SM8550,
SM8650 and SM8750 alike), sweeping the accumulator through all its values.  With the multiplier
m = input scale * weight scale / output scale and the power of two g that brings m * g into
[1/16, 1/8):

    result = floor(M * (floor(accumulator / g) + 1/2) + 1/2),   M = m * g rounded to multiples of 2^-15

So a few low bits of the accumulator are lost, and about 2 % of the results are one step off.  Where
1 / (m * g) is an even integer, results change at multiples of g, and only halfway ones differ.
"""

from __future__ import annotations

from xdlc.ir.data import Array

_RATIOS = (1.0, 16 / 14, 16 / 12, 16 / 10, 2.0)
"""Multipliers 1/16, 1/14, 1/12, 1/10 and 1/8, in sixteenths."""

_SPARE = 127 / 127.5
"""A magnitude of 127.5 steps is stored as 127: no worse than rounding anywhere else."""

_ABOVE = 1 + 2.0**-19
"""Halfway results round up on HTP, to even elsewhere; a hair above halfway both round up."""


def exact_scales(least: Array, input_scale: float, output_scale: float) -> Array:
    """Return the smallest weight scales, not below ``least``, whose multipliers lose nothing on HTP.

    A scale grows by a tenth on average and by a quarter at most.

    Args:
        least: Scales that the ranges ask for.
        input_scale: Scale of the input.
        output_scale: Scale of the output.
    """
    import numpy as np

    multipliers = np.asarray(least, np.float64) * _SPARE * (input_scale / output_scale)
    octave = np.exp2(np.floor(np.log2(multipliers)))
    chosen = np.searchsorted(_RATIOS, multipliers / octave)
    return np.take(_RATIOS, chosen) * octave * (_ABOVE * output_scale / input_scale)
