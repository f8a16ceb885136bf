"""Shape functions: dimensions of results from operands and parameters."""

from xdlc.opdefs.shapes.base import Dims, ShapeError, infer, shape, verify_shapes

__all__ = ["Dims", "ShapeError", "infer", "shape", "verify_shapes"]
