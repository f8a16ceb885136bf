"""Quantizer: calibration, choice of encodings, and the edit of the graph."""

from xdlc.quant.algorithms import Stage, algorithm, known_algorithms
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.options import QuantOptions
from xdlc.quant.overrides import ENCODING_VERSIONS, export_encodings, save_encodings
from xdlc.quant.pipeline import quantize
from xdlc.quant.plan import Plan
from xdlc.quant.range_methods import known_range_methods
from xdlc.quant.samples import read_samples

__all__ = [
    "ENCODING_VERSIONS",
    "Calibration",
    "Engine",
    "Plan",
    "QuantOptions",
    "Stage",
    "algorithm",
    "export_encodings",
    "known_algorithms",
    "known_range_methods",
    "quantize",
    "read_samples",
    "save_encodings",
]
