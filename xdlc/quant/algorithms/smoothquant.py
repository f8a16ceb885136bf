"""SmoothQuant: large channels of activations, moved into the weights after.

Xiao et al., SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language
Models, 2022.  The strength of the move is chosen chain by chain, by the noise it leaves.
"""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs.traits import traits
from xdlc.quant.algorithms import Stage, algorithm
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.equalization import equalize
from xdlc.quant.plan import Plan


@algorithm("smoothquant", Stage.GRAPH)
def smoothquant(plan: Plan, calibration: Calibration, engine: Engine) -> Plan:
    """Return a plan with smoothed channels after norms and FullyConnected.

    The gamma and beta of a norm absorb its factors.
    """
    return equalize(plan, calibration, engine, "smoothquant", _is_norm_or_linear)


def _is_norm_or_linear(op: Op) -> bool:
    return traits(op).norm or traits(op).macs == "dense"
