"""Output shapes of fused and quantized products of matrices."""

from __future__ import annotations

from typing import Any

from xdlc.converter.operators.contrib_shapes.rules import (
    Output,
    at,
    float32,
    stand_in,
)
from xdlc.converter.values import Dims


def _product(left: Dims | None, right: Dims | None) -> Dims | None:
    return stand_in("MatMul", {}, [left, right])


def _turned(shape: Dims | None, last: int, batch: int) -> Dims | None:
    """Return the shape of a matrix operand after FusedMatMul's transpositions."""
    if shape is None:
        return None
    if batch and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if last and len(shape) > 1 else shape


def fused_matmul(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A product of operands that are transposed first."""
    left, right = (
        _turned(shapes[index], attributes.get(f"trans{side}", 0), attributes.get(f"transBatch{side}", 0))
        for index, side in ((0, "A"), (1, "B"))
    )
    return [(_product(left, right), dtypes[0])]


def real_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of an integer product with a float result."""
    return [(_product(shapes[0], shapes[1]), float32())]


def integer_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of an integer product with an int32 result."""
    import numpy

    return [(_product(shapes[0], shapes[1]), numpy.dtype(numpy.int32))]


def block_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A product with packed weights, whose dimensions attributes state."""
    units = attributes["N"] if attributes.get("transB", 1) else attributes["K"]
    return [(None if shapes[0] is None else (*shapes[0][:-1], units), dtypes[0])]


def quantized_gemm(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of a quantized Gemm; the result is float if input 8 is omitted."""
    found = stand_in("Gemm", {**attributes, "beta": 1.0}, [shapes[0], shapes[3]])
    return [(found, at(dtypes, 8) or float32())]
