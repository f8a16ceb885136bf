"""SeqMSE: scales of weights with the least error in the results of each layer.

Layer by layer in the order of execution, fed with what the quantized layers before give, scales of
each output channel are tried from 0.4 of what holds the largest weight up to all of that; weights
are rounded to nearest ("sequential MSE" of AIMET, https://quic.github.io/aimet-pages).  Scales of
blocks change by one factor for each output channel.  Weights
stay real: what comes after may still round them in another way.  Eight-bit weights beside 8-bit
activations keep their scales, with which HTP rounds exactly.
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
from xdlc.quant.reconstruction.problem import FEW, Problem, best_scales, nearest, scales_to_try
from xdlc.quant.reconstruction.sites import Fitted, Site, least_scales

FACTORS = tuple(1.0 - step / 40 for step in range(25))


@algorithm("seqmse", Stage.WEIGHTS)
def run(plan: Plan, calibration: Calibration, engine: Engine) -> Plan:
    """Choose the scales of weights by the error of each layer's results."""
    return fit_network(plan, calibration, engine, "seqmse", partial(_solve, engine), data=False)


def _solve(engine: Engine, plan: Plan, site: Site, problem: Problem, matrix: Array, scales: Array) -> Fitted:
    def rounding(_: Array, tried: Array) -> Array:
        copies = np.tile(matrix, (1, 1, tried.shape[2] // matrix.shape[2]))
        return nearest(copies, tried, site.limits)

    shared, tried = isinstance(plan.decision.statics[site.op, 1][1], ScaleOffset), [scales]
    exact = site.limits[1] - site.limits[0] >= FEW and plan.placement.fixed[site.op] == 8
    if site.weight.encoding is None and not exact:  # scales that were given stay
        tried = scales_to_try(
            scales, matrix, site.limits[1], least_scales(site, plan.decision), FACTORS, shared=shared
        )
    steps, integers = best_scales(
        problem.gram, problem.solution(), tried, rounding, shared=shared, calls=engine.calls
    )
    bias = problem.bias(integers * steps) if site.bias is not None else None
    return Fitted(integers, steps, bias)
