"""Handlers of quantization: PT2E, torchao, QAT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.functions.shapes import axis_of, cast, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._grids import PT2E, Grid, affine, affine_grid, real, stored
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import FLOAT32, INT32, INT64


def _value(g: Operators, given: Value | float, dtype: DType) -> Value:
    return given if isinstance(given, Value) else g.builder.const(np.asarray(given, dtype.numpy))


def _integer(node: AtenNode, bound: Value | float, name: str) -> int:
    """Return an integer bound as a number."""
    if not isinstance(bound, Value):
        return int(bound)
    if not bound.is_static or bound.size != 1:
        raise node.problem(f"argument {name} must be a constant, but is computed", "pass a number")
    return int(bound.numpy().reshape(-1)[0])


def _crossed(node: AtenNode, g: Operators, x: Value, grid: Grid, dtype: DType) -> Value:
    """Return the result of an operator that quantizes or dequantizes."""
    return stored(node, g, x, grid, dtype) if node.type.startswith("quantize") else real(node, g, x, grid)


def _channels(x: Value, axis: int) -> tuple[int, ...]:
    """Return blocks of one index along an axis."""
    held = axis_of(axis, x.rank)
    return tuple(1 if place == held else size for place, size in enumerate(x.shape))


# ---------------------------------------------------------------------- PT2E


@aten("quantize_per_tensor", "dequantize_per_tensor", domain=PT2E, layout=ANY, ignores=("out_dtype",))
def _per_tensor(
    node: AtenNode,
    g: Operators,
    input: Value,
    scale: Value | float,
    zero_point: Value | int,
    quant_min: Value | int,
    quant_max: Value | int,
    dtype: DType,
) -> Value:
    low, high = _integer(node, quant_min, "quant_min"), _integer(node, quant_max, "quant_max")
    grid = Grid(_value(g, scale, FLOAT32), _value(g, zero_point, INT64), low, high)
    return _crossed(node, g, input, grid, dtype)


@aten("quantize_per_channel", "dequantize_per_channel", domain=PT2E, layout=ANY, ignores=("out_dtype",))
def _per_channel(
    node: AtenNode,
    g: Operators,
    input: Value,
    scales: Value,
    zero_points: Value | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Value:
    grid = Grid(scales, zero_points, quant_min, quant_max, _channels(input, axis))
    return _crossed(node, g, input, grid, dtype)


@aten("quantize_per_token", "dequantize_per_token", domain=PT2E, layout=ANY, ignores=("output_dtype",))
def _per_token(
    node: AtenNode,
    g: Operators,
    input: Value,
    scales: Value,
    zero_points: Value,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Value:
    blocks = (*(1 for _ in input.shape[1:]), input.shape[-1])
    return _crossed(node, g, input, Grid(scales, zero_points, quant_min, quant_max, blocks, late=True), dtype)


@aten(
    "quantize_per_channel_group",
    "dequantize_per_channel_group",
    domain=PT2E,
    layout=ANY,
    ignores=("output_dtype",),
)
def _per_group(
    node: AtenNode,
    g: Operators,
    input: Value,
    scales: Value,
    zero_points: Value | None,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    group_size: int = 128,
) -> Value:
    blocks = (*(1 for _ in input.shape[1:]), group_size)
    return _crossed(node, g, input, Grid(scales, zero_points, quant_min, quant_max, blocks, late=True), dtype)


@aten("convert_element_type", domain=PT2E, layout=ANY)
def _convert(node: AtenNode, g: Operators, input: Value, dtype: DType) -> Value:
    return cast(g, input, dtype)


# ---------------------------------------------------------------------- torchao


@affine("quantize_affine")
def _quantize_affine(
    node: AtenNode,
    g: Operators,
    input: Value,
    block_size: Sequence[int],
    scale: Value,
    zero_point: Value | None,
    output_dtype: DType,
    quant_min: float | None = None,
    quant_max: float | None = None,
    zero_point_domain: str | None = "INT",
) -> Value:
    grid = affine_grid(node, input, block_size, scale, zero_point, output_dtype, quant_min, quant_max)
    _check_domain(node, zero_point_domain)
    return stored(node, g, input, grid, output_dtype)


@affine("dequantize_affine")
def _dequantize_affine(
    node: AtenNode,
    g: Operators,
    input: Value,
    block_size: Sequence[int],
    scale: Value,
    zero_point: Value | None,
    input_dtype: DType,
    quant_min: float | None = None,
    quant_max: float | None = None,
    zero_point_domain: str | None = "INT",
    output_dtype: DType = FLOAT32,
) -> Value:
    _check_domain(node, zero_point_domain)
    grid = affine_grid(node, input, block_size, scale, zero_point, input_dtype, quant_min, quant_max)
    return real(node, g, input, grid)


def _check_domain(node: AtenNode, name: str | None) -> None:
    if name not in ("INT", "NONE", None):
        raise node.problem(f"xdlc does not support zero points of domain {name}", "use integer zero points")


# ---------------------------------------------------------------------- fake quantization


def _fake(node: AtenNode, g: Operators, x: Value, grid: Grid) -> list[Value]:
    """Return fake-quantized floats and, where an operator has it, the in-range mask."""
    results = [real(node, g, stored(node, g, x, grid, INT32), grid)]
    if len(node.outputs) > 1 and node.outputs[1]:
        raise node.problem(
            "xdlc does not support the mask of elements in range", "use only the first result of the operator"
        )
    return results + [x] * (len(node.outputs) - 1)


@aten(
    "fake_quantize_per_tensor_affine",
    "fake_quantize_per_tensor_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "_fake_quantize_learnable_per_tensor_affine",
    layout=ANY,
    ignores=("grad_factor",),
)
def _fake_per_tensor(
    node: AtenNode,
    g: Operators,
    self: Value,
    scale: Value | float,
    zero_point: Value | int,
    quant_min: int,
    quant_max: int,
    fake_quant_enabled: Value | None = None,
) -> list[Value]:
    if fake_quant_enabled is not None and not _integer(node, fake_quant_enabled, "fake_quant_enabled"):
        return [self] * len(node.outputs)
    qparams = [_value(g, scale, FLOAT32), _value(g, zero_point, INT64)]
    if any(value.size != 1 for value in qparams):
        raise node.invalid(f"{qparams[0].size} scales do not fit {qparams[1].size} zero points of a tensor")
    step, zero = (reshape(g, value, ()) for value in qparams)
    if zero.dtype.is_float:
        zero = clipped(g, g("Round", [zero]), quant_min, quant_max)
    return _fake(node, g, self, Grid(step, zero, quant_min, quant_max))


@aten(
    "fake_quantize_per_channel_affine",
    "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_learnable_per_channel_affine",
    layout=ANY,
    ignores=("grad_factor",),
)
def _fake_per_channel(
    node: AtenNode,
    g: Operators,
    self: Value,
    scale: Value,
    zero_point: Value,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> list[Value]:
    late = zero_point.dtype.is_float
    if late and "learnable" in node.type:
        zero_point, late = clipped(g, g("Round", [zero_point]), quant_min, quant_max), False
    grid = Grid(scale, zero_point, quant_min, quant_max, _channels(self, axis), late)
    return _fake(node, g, self, grid)


@aten("fake_quant_per_channel", domain=PT2E, layout=ANY)
def _fake_quant_per_channel(
    node: AtenNode,
    g: Operators,
    input: Value,
    scales: Value,
    zero_points: Value,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> list[Value]:
    return _fake_per_channel(node, g, input, scales, zero_points, axis, quant_min, quant_max)


# ---------------------------------------------------------------------- products of integers


@aten("_int_mm")
def _product(node: AtenNode, g: Operators, self: Value, mat2: Value) -> Value:
    return g("MatMulInteger", [self, mat2])


@aten("_weight_int8pack_mm")
def _packed_product(node: AtenNode, g: Operators, self: Value, mat2: Value, scales: Value) -> Value:
    grid = Grid(scales, None, -128, 127, _channels(mat2, 0))
    return g("MatMul", [self, g("Transpose", [real(node, g, mat2, grid)], perm=[1, 0])])


@aten("access_subclass_inner_tensor", domain="export")
def _part_of_subclass(node: AtenNode, g: Operators) -> Value:
    raise node.problem(
        "the call reads a part of a tensor that is a Python object",
        "call torchao.utils.unwrap_tensor_subclass(model) before the export",
    )
