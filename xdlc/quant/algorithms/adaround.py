"""AdaRound: weights rounded up or down to minimize the change of layer results.

After "Up or Down? Adaptive Rounding for Post-Training Quantization" (Nagel et al., 2020,
https://arxiv.org/abs/2004.10568), with the same aim: per layer, the least squared error of the
results, fed with what the quantized layers before give.  The paper relaxes the choice of up or down and
trains it by gradients; here the same quadratic problem is solved on integers directly.  Weights are
rounded in turn, those after making up for those before (GPTQ), then moved one by one while that
helps; integers may go further than up or down, since the target is not the float weight but the
one that fits the quantized inputs best.  The scale of each channel is chosen along with them, and the bias
absorbs the mean error.  That needs no training and a few seconds.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from xdlc.ir import ScaleOffset
from xdlc.ir.data import Array
from xdlc.quant.algorithms import Stage, algorithm
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.plan import Plan
from xdlc.quant.reconstruction.network import fit_network
from xdlc.quant.reconstruction.problem import (
    FEW,
    Problem,
    best_scales,
    descended,
    error_of,
    nearest,
    rounded_in_turn,
    scales_to_try,
    turns_of,
)
from xdlc.quant.reconstruction.sites import Fitted, Site, least_scales

FACTORS = tuple(1.0 - step / 20 for step in range(12))
SWEEPS, LARGE = 6, 1 << 20
"""Most rounds over the weights of a layer; one for more weights than these: others gain a decoder nothing."""


@algorithm("adaround", Stage.WEIGHTS)
def run(plan: Plan, calibration: Calibration, engine: Engine) -> Plan:
    """Choose integers, scales and biases by the error of each layer's results."""
    return fit_network(plan, calibration, engine, "adaround", partial(_solve, engine), data=True)


def _solve(engine: Engine, plan: Plan, site: Site, problem: Problem, matrix: Array, scales: Array) -> Fitted:
    gram, best, limits = problem.gram, problem.solution(), site.limits
    turns = turns_of(gram)

    def rounding(real: Array, tried: Array) -> Array:
        return rounded_in_turn(turns, real, tried, limits)

    shared, tried = isinstance(plan.decision.statics[site.op, 1][1], ScaleOffset), [scales]
    # Eight bits clip nothing worth it, and HTP rounds exactly for the scales that were decided; scales
    # that were given stay, and blocks have scales of little error already.
    if limits[1] - limits[0] < FEW and site.weight.encoding is None and scales.shape[1] == 1:
        tried = scales_to_try(
            scales, matrix, limits[1], least_scales(site, plan.decision), FACTORS, shared=shared
        )
    fitted, integers = best_scales(gram, best, tried, rounding, shared=shared, calls=engine.calls)
    sweeps = SWEEPS if best.size <= LARGE else 1
    integers = descended(gram, best, integers, fitted, limits, sweeps)
    plain = nearest(matrix, scales, limits)
    gain = error_of(gram, best - plain * scales) - error_of(gram, best - integers * fitted)
    if shared:
        gain = np.full_like(gain, gain.sum(dtype=np.float64))
    worse = gain[:, None] < 0
    stored: Array = np.where(worse, plain, integers)
    steps: Array = np.where(worse, scales, fitted)
    bias = problem.bias(stored * steps) if site.bias is not None else None
    return Fitted(stored, steps, bias)
