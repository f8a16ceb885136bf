"""Handlers of operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xdlc.converter.functions import elementwise as formulas
from xdlc.converter.functions import spectra
from xdlc.converter.functions.shapes import cast, known, reshape
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    complex_inputs,
    complex_value,
    dtype_of,
    handler,
)
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, INT32, UINT8

_NAMESAKES = """
Abs Acos Acosh Asin Asinh Atan Atanh BitwiseAnd BitwiseOr BitwiseXor Ceil Cos Cosh Div Elu Equal Erf Exp Floor
Greater Less Log Mul Neg Pow Reciprocal Relu Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Tan Tanh
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
    "MatrixDeterminant": "Det",
    "Maximum": "Max",
    "Minimum": "Min",
    "RealDiv": "Div",
    "Rint": "Round",
    "SelectV2": "Where",
}
"""Canonical operators with the same meaning, by the name in TensorFlow."""


def _normal_quantile(g: Operators, x: Value) -> Value:
    term = Term(g, x)
    return ((term + term - 1).via(formulas.erfinv) * math.sqrt(2)).value


_FORMULAS: dict[str, Callable[..., Value]] = {
    "AccumulateNV2": lambda g, *values: formulas.total(g, values),
    "AddN": lambda g, *values: formulas.total(g, values),
    "Atan2": formulas.atan2,
    "ClipByValue": lambda g, x, low, high: g("Min", [g("Max", [x, low]), high]),
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
    "Mod": formulas.truncate_mod,
    "MulNoNan": formulas.mul_no_nan,
    "Ndtri": _normal_quantile,
    "NotEqual": formulas.not_equal,
    "Relu6": lambda g, x: formulas.clipped(g, x, 0, 6),
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
    operands = handler.operands(node)
    is_logical = node.type.startswith("Bitwise") and operands[0].dtype is BOOL8
    return g(_SAME[node.type].removeprefix("Bitwise") if is_logical else _SAME[node.type], operands)


@handler(*_FORMULAS, ignores=("incompatible_shape_error", "shape"))
def _formula(node: Node, g: Operators, *values: Value) -> Value:
    return _FORMULAS[node.type](g, *values)


@handler("Round")
def _round(node: Node, g: Operators, x: Value) -> Value:
    return g("Round", [x]) if x.dtype.is_float else x


@handler("BiasAdd")
def _bias_add(node: Node, g: Operators, x: Value, bias: Value) -> Value:
    if node.attr("data_format", "NHWC").startswith("NC") and x.rank > 2:
        bias = reshape(g, bias, (bias.size, *[1] * (x.rank - 2)))
    return g("Add", [x, bias])


@handler("ApproximateEqual")
def _approximate_equal(node: Node, g: Operators, x: Value, y: Value) -> Value:
    return formulas.approximately_equal(g, x, y, node.attr("tolerance", 1e-5))


@handler("LeakyRelu")
def _leaky_relu(node: Node, g: Operators, x: Value) -> Value:
    return g("LeakyRelu", [x], alpha=node.attr("alpha", 0.2))


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
    count, axis = int(known(depth, "the depth").reshape(())), node.attr("axis", -1)
    if count < 0 or not -1 <= axis <= indices.rank:
        raise node.invalid(f"a depth of {count} does not fit axis {axis} of {indices.rank + 1}")
    return formulas.one_hot(g, indices, count, on, off, axis)


@handler("LowerBound", "UpperBound")
def _bound(node: Node, g: Operators, table: Value, x: Value) -> Value:
    # table is [rows, n], sorted, and x [rows, values]
    rows, columns = Term(g, table).raised(1), Term(g, x).raised(2)
    below = rows < columns if node.type == "LowerBound" else rows <= columns
    positions = g("ReduceSum", [below.to(INT32).value, [2]], keepdims=0)
    return cast(g, positions, dtype_of(node, "out_type", "int32"))


@handler(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "CheckNumerics",
    "CheckNumericsV2",
    "Snapshot",
    "EnsureShape",
    "Print",
    "PlaceholderWithDefault",
    "ReadVariableOp",
    ignores=("message", "shape", "dtype", "first_n", "summarize", "U"),
)
def _first_input(node: Node, _g: Operators) -> Value:
    return node.required(0)


@handler("IdentityN")
def _all_inputs(node: Node, _g: Operators) -> list[Value]:
    return [node.required(index) for index in range(len(node.names))]
