"""Handlers of operators that compute scales and zero points in the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import cast, dims, number, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._grids import PT2E, affine, affine_grid, split
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import FLOAT32


@aten("choose_qparams", domain=PT2E)
def _choose(
    node: AtenNode,
    g: Operators,
    input: Value,
    quant_min: int,
    quant_max: int,
    eps: float,
    dtype: DType,
) -> list[Value]:
    return _asymmetric(node, g, *_range(g, input, range(input.rank)), quant_min, quant_max, eps)


@aten("choose_qparams_symmetric", domain=PT2E)
def _choose_symmetric(
    node: AtenNode,
    g: Operators,
    input: Value,
    quant_min: int,
    quant_max: int,
    eps: float,
    dtype: DType,
) -> list[Value]:
    zero = 0 if dtype.is_signed else 128
    return _symmetric(node, g, *_range(g, input, range(input.rank)), quant_min, quant_max, eps, zero)


@aten("choose_qparams_per_token", domain=PT2E)
def _choose_per_token(node: AtenNode, g: Operators, input: Value, dtype: DType) -> list[Value]:
    high = reduced(g, "Max", g("Abs", [cast(g, input, FLOAT32)]), [-1], keep=True)
    most = dtype.limits[1] if dtype.is_signed else dtype.limits[1] // 2
    scale = g("Div", [g("Max", [high, number(g, high, 1e-5)]), number(g, high, most)])
    return [scale, g("Mul", [scale, number(g, scale, 0)])]


@aten("choose_qparams_per_token_asymmetric", "_choose_qparams_per_token_asymmetric_impl", domain=PT2E)
def _choose_per_token_asymmetric(node: AtenNode, g: Operators, input: Value, dtype: DType) -> list[Value]:
    least, most = -128, 127
    low, high = _range(g, input, [-1])
    steps = g("Div", [g("Sub", [high, low]), number(g, low, most - least)])
    scale = g("Max", [steps, number(g, low, float(np.finfo(np.float32).eps))])
    start, end = (g("Div", [each, scale]) for each in (low, high))
    below, above = g("Add", [start, number(g, low, least)]), g("Add", [end, number(g, low, most)])
    is_above = g("Greater", [g("Add", [below, above]), number(g, low, 0)])
    places = [g("Sub", [number(g, low, bound), end_]) for bound, end_ in ((least, start), (most, end))]
    zero = clipped(g, g("Where", [is_above, *places]), least, most)
    return [scale, g("Round", [zero])]


def _range(g: Operators, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Return the least and the greatest element, at most and at least 0."""
    x = cast(g, x, FLOAT32)
    low, high = (reduced(g, name, x, list(axes), keep=True) for name in ("Min", "Max"))
    return g("Min", [low, number(g, x, 0)]), g("Max", [high, number(g, x, 0)])


def _shaped(node: AtenNode, g: Operators, values: Sequence[Value]) -> list[Value]:
    """Return scales and zero points in the shapes that the program states."""
    shaped = []
    for value, stated in zip(values, node.stated, strict=True):
        sizes = [size for size in stated or () if size is not None]
        is_same = stated is None or len(sizes) != len(stated) or tuple(sizes) == value.shape
        shaped.append(value if is_same else reshape(g, value, sizes))
    return shaped


def _asymmetric(
    node: AtenNode, g: Operators, low: Value, high: Value, least: int, most: int, eps: float
) -> list[Value]:
    """Return scale and zero point of a range with 0."""
    steps = g("Div", [g("Sub", [high, low]), number(g, low, most - least)])
    scale = g("Max", [steps, number(g, low, eps)])
    zero = g("Sub", [number(g, low, least), g("Round", [g("Div", [low, scale])])])
    return _shaped(node, g, [scale, clipped(g, zero, least, most)])


def _symmetric(
    node: AtenNode, g: Operators, low: Value, high: Value, least: int, most: int, eps: float, zero: int
) -> list[Value]:
    """Return scale and zero point of a range around 0."""
    reach = g("Max", [g("Neg", [low]), high])
    scale = g("Max", [g("Div", [reach, number(g, low, (most - least) / 2)]), number(g, low, eps)])
    return _shaped(node, g, [scale, _filled(g, scale, zero)])


def _filled(g: Operators, like: Value, number_: float) -> Value:
    return g("Add", [g("Mul", [like, number(g, like, 0)]), number(g, like, number_)])


@affine("choose_qparams_affine")
def _choose_affine(
    node: AtenNode,
    g: Operators,
    input: Value,
    mapping_type: str,
    block_size: Sequence[int],
    target_dtype: DType,
    quant_min: float | None = None,
    quant_max: float | None = None,
    eps: float | None = None,
    scale_dtype: DType | None = None,
    zero_point_dtype: DType | None = None,
    keepdim: bool = False,
) -> list[Value]:
    x = cast(g, input, FLOAT32)
    grid = affine_grid(node, x, block_size, x, None, target_dtype, quant_min, quant_max)
    least, most = grid.low, grid.high
    if eps is None:
        eps = float(np.finfo(np.float16 if input.dtype.bits == 16 else np.float32).eps)
    parts, _ = split(dims(x), grid.blocks or dims(x))
    low, high = _range(g, reshape(g, x, parts), range(1, 2 * x.rank, 2))
    middle = (most + least + 1) // 2
    if mapping_type == "ASYMMETRIC":
        return _asymmetric(node, g, low, high, least, most, eps)
    if mapping_type == "SYMMETRIC":
        return _symmetric(node, g, low, high, least, most, eps, middle)
    if mapping_type != "SYMMETRIC_NO_CLIPPING_ERR":
        raise node.problem(
            f"xdlc does not support the mapping type {mapping_type}", "use ASYMMETRIC or SYMMETRIC"
        )
    steps = [g("Div", [end, number(g, x, limit)]) for end, limit in ((low, least), (high, most))]
    scale = g("Max", [g("Max", steps), number(g, x, eps)])
    return _shaped(node, g, [scale, _filled(g, scale, middle)])
