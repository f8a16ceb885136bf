"""Cross-layer equalization of channel ranges, kept only if it helps.

Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, 2019.  There
it spares weights with one scale; with a scale per channel it is the activations that gain.
"""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs.traits import traits
from xdlc.quant.algorithms import Stage, algorithm
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.equalization import equalize
from xdlc.quant.plan import Plan


@algorithm("cle", Stage.GRAPH)
def cle(plan: Plan, calibration: Calibration, engine: Engine) -> Plan:
    """Equalize channels after convolutions, FullyConnected and Batchnorm."""
    return equalize(plan, calibration, engine, "cle", _is_layer)


def _is_layer(op: Op) -> bool:
    found = traits(op)
    return found.is_convolution or found.macs == "dense" or op.type == "Batchnorm"
