"""Handlers of operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xdlc.converter.nhwc import elementwise as formulas
from xdlc.converter.nhwc import spectra
from xdlc.converter.nhwc.shapes import cast, known, number, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    complex_inputs,
    complex_value,
    dtype_of,
    handler,
)
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32, UINT8

_NAMESAKES = """
Abs Acos Acosh Asin Asinh Atan Atanh BitwiseAnd BitwiseOr BitwiseXor Ceil Cos Cosh Equal Erf Exp Floor Greater
Less Log Mul Neg Pow Reciprocal Relu Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Tan Tanh
"""
_SAME = dict(zip(_NAMESAKES.split(), _NAMESAKES.split(), strict=True)) | {
    "Add": "Add",
    "AddV2": "Add",
    "BiasAddV1": "Add",
    "GreaterEqual": "GreaterOrEqual",
    "Inv": "Reciprocal",
    "Invert": "BitwiseNot",
    "IsInf": "IsInf",
    "IsNan": "IsNaN",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "Maximum": "Max",
    "Minimum": "Min",
    "Rint": "Round",
    "SelectV2": "Where",
}
"""Canonical operators with the same meaning, by the name in TensorFlow."""

_FORMULAS: dict[str, Callable[..., Value]] = {
    "Atan2": formulas.atan2,
    "Digamma": formulas.digamma,
    "DivNoNan": formulas.div_no_nan,
    "Erfc": formulas.erfc,
    "Erfinv": formulas.erfinv,
    "Expm1": formulas.expm1,
    "FloorDiv": formulas.floor_div,
    "FloorMod": formulas.floor_mod,
    "IsFinite": formulas.is_finite,
    "Lgamma": formulas.lgamma,
    "Log1p": formulas.log1p,
    "MulNoNan": formulas.mul_no_nan,
    "NotEqual": formulas.not_equal,
    "RealDiv": lambda g, x, y: g("Div", [x, y]),
    "Rsqrt": formulas.rsqrt,
    "Select": formulas.select_rows,
    "Square": formulas.square,
    "SquaredDifference": formulas.squared_difference,
    "TruncateDiv": formulas.truncate_div,
    "TruncateMod": formulas.truncate_mod,
    "Xdivy": formulas.x_div_y,
    "Xlog1py": formulas.x_log1p_y,
    "Xlogy": formulas.x_log_y,
}


@handler(*_SAME, ignores=("incompatible_shape_error",))
def _same(node: Node, g: Operators) -> Any:
    pairs = complex_inputs(node)
    if pairs is not None and _SAME[node.type] in spectra.ARITHMETIC:
        return [complex_value(spectra.combined(g, _SAME[node.type], *pairs))]
    return g(_SAME[node.type], handler.operands(node))


@handler(*_FORMULAS, ignores=("incompatible_shape_error",))
def _formula(node: Node, g: Operators, *values: Value) -> Value:
    return _FORMULAS[node.type](g, *values)


@handler("Mod", "Div")
def _c_division(node: Node, g: Operators, x: Value, y: Value) -> Value:
    if node.type == "Div":
        return g("Div", [x, y])
    return formulas.truncate_mod(g, x, y)


@handler("Round")
def _round(node: Node, g: Operators, x: Value) -> Value:
    return g("Round", [x]) if x.dtype.is_float else x


@handler("AddN", "AccumulateNV2", ignores=("shape",))
def _add_n(node: Node, g: Operators, *values: Value) -> Value:
    return formulas.total(g, values)


@handler("BiasAdd")
def _bias_add(node: Node, g: Operators, x: Value, bias: Value) -> Value:
    if node.attr("data_format", "NHWC").startswith("NC") and x.rank > 2:
        bias = reshape(g, bias, (bias.size, *[1] * (x.rank - 2)))
    return g("Add", [x, bias])


@handler("ApproximateEqual")
def _approximate_equal(node: Node, g: Operators, x: Value, y: Value) -> Value:
    return formulas.approximately_equal(g, x, y, node.attr("tolerance", 1e-5))


@handler("Ndtri")
def _normal_quantile(node: Node, g: Operators, x: Value) -> Value:
    doubled = g("Sub", [g("Add", [x, x]), number(g, x, 1)])
    return g("Mul", [formulas.erfinv(g, doubled), number(g, x, math.sqrt(2))])


@handler("Relu6")
def _relu6(node: Node, g: Operators, x: Value) -> Value:
    return formulas.clipped(g, x, 0, 6)


@handler("LeakyRelu")
def _leaky_relu(node: Node, g: Operators, x: Value) -> Value:
    return g("LeakyRelu", [x], alpha=node.attr("alpha", 0.2))


@handler("Elu")
def _elu(node: Node, g: Operators, x: Value) -> Value:
    return g("Elu", [x], alpha=1.0)


@handler("ClipByValue")
def _clip_by_value(node: Node, g: Operators, x: Value, low: Value, high: Value) -> Value:
    return g("Min", [g("Max", [x, low]), high])


@handler("LeftShift", "RightShift")
def _shift(node: Node, g: Operators, x: Value, count: Value) -> Value:
    return g("BitShift", [x, count], direction=node.type.removesuffix("Shift").upper())


@handler("Cast", ignores=("SrcT", "Truncate"))
def _cast(node: Node, g: Operators, x: Value) -> Value:
    return formulas.converted(g, x, dtype_of(node, "DstT"))


@handler("Bitcast")
def _bitcast(node: Node, g: Operators, x: Value) -> Value:
    return formulas.bits_as(g, x, dtype_of(node, "type"))


@handler("ZerosLike", "OnesLike")
def _filled_like(node: Node, g: Operators, x: Value) -> Value:
    return formulas.filled_like(g, x, node.type == "OnesLike")


@handler("Bucketize")
def _bucketize(node: Node, g: Operators, x: Value) -> Value:
    return formulas.bucketize(g, x, node.attr("boundaries", []))


@handler("OneHot")
def _one_hot(node: Node, g: Operators, indices: Value, depth: Value, on: Value, off: Value) -> Value:
    if indices.dtype is UINT8:
        indices = cast(g, indices, INT32)
    count = int(known(depth, "the depth").reshape(()))
    return formulas.one_hot(g, indices, count, on, off, node.attr("axis", -1))


@handler("LowerBound", "UpperBound")
def _bound(node: Node, g: Operators, table: Value, x: Value) -> Value:
    # table is [rows, n], sorted, and x [rows, values]
    rows, columns = g("Unsqueeze", [table, vector(g, [1])]), g("Unsqueeze", [x, vector(g, [2])])
    below = g("Less" if node.type == "LowerBound" else "LessOrEqual", [rows, columns])
    positions = g("ReduceSum", [cast(g, below, INT32), vector(g, [2])], keepdims=0)
    return cast(g, positions, dtype_of(node, "out_type", "int32"))
