"""The quantizer: calibration, encodings, and the edit of the graph, each on its own."""

from xdlc.quant.algorithms import algorithm, known_algorithms
from xdlc.quant.options import QuantOptions
from xdlc.quant.pipeline import quantize

__all__ = ["QuantOptions", "algorithm", "known_algorithms", "quantize"]
