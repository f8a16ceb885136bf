"""What the tests of generated packages are made of: operands, and runs of libraries and numpy kernels."""

from xdlc.udo.testing.case import Case, Random
from xdlc.udo.testing.package import Package

__all__ = ["Case", "Package", "Random"]
