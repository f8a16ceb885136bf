"""Handlers of element-wise operators, of operators that copy, and of comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xdlc.converter.caffe2.ops._args import flag, inputs, integer, number
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.nhwc import elementwise
from xdlc.converter.nhwc.shapes import cast, dims, ints, reshape, vector
from xdlc.converter.nhwc.shapes import number as scalar
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, FLOAT16, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT16

_SAME = {"Negative": "Neg"} | {
    name: name
    for name in """
    Abs Acos Asin Atan Ceil Cos Cosh Erf Exp Floor Log Mish Not Reciprocal Relu Round Sigmoid Sign Sin Sinh
    Softplus Softsign Sqrt Tan Tanh
    """.split()  # noqa: SIM905 - a list literal would be 26 lines
}
"""Canonical operators of those without arguments."""
_ALPHA = {
    "Celu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
}
"""Defaults of the arguments of those that canonical operators have by the same names."""


@operator(*_SAME, layout=ANY)
def _same(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    return g(_SAME[node.type], [x])


@operator(*_ALPHA, layout=ANY)
def _with_alpha(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    return g(node.type, [x], **{name: number(node, name, value) for name, value in _ALPHA[node.type].items()})


@operator("Selu", layout=ANY)
def _selu(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    alpha = number(node, "alpha", 1.6732632423543772848170429916717)
    return g("Selu", [x], alpha=alpha, gamma=number(node, "scale", 1.0507009873554804934193349852946))


@operator("Gelu", layout=ANY)
def _gelu(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    return g("Gelu", [x], approximate="tanh" if flag(node, "fast_gelu") else "none")


def _cube(g: Operators, x: Value) -> Value:
    return g("Mul", [elementwise.square(g, x), x])


def _cbrt(g: Operators, x: Value) -> Value:
    return g("Mul", [g("Sign", [x]), g("Pow", [g("Abs", [x]), scalar(g, x, 1 / 3)])])


def _swish(g: Operators, x: Value) -> Value:
    return g("Mul", [x, g("Sigmoid", [x])])


_COMPOSED: dict[str, Callable[[Operators, Value], Value]] = {
    "Cbrt": _cbrt,
    "Cube": _cube,
    "Log1p": elementwise.log1p,
    "Rsqrt": elementwise.rsqrt,
    "Sqr": elementwise.square,
    "Swish": _swish,
}


@operator(*_COMPOSED, layout=ANY)
def _composed(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    return _COMPOSED[node.type](g, x)


@operator("Clip", "ReluN", layout=ANY)
def _clip(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    if node.type == "ReluN":
        return elementwise.clipped(g, x, 0.0, number(node, "n", 6.0))
    low, high = number(node, "min", -math.inf), number(node, "max", math.inf)
    if low > high or low == math.inf or high == -math.inf:
        raise node.invalid(f"its limits {low:g} and {high:g} leave nothing")
    least, most = (None if math.isinf(limit) else limit for limit in (low, high))
    return x if least is None and most is None else elementwise.clipped(g, x, least, most)


@operator("Scale", layout=ANY)
def _scale(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    return g("Mul", [x, scalar(g, x, number(node, "scale", 1.0))])


@operator("Logit", layout=ANY)
def _logit(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    eps = number(node, "eps", 1e-6)
    inside = elementwise.clipped(g, x, eps, 1.0 - eps)
    return g("Log", [g("Div", [inside, g("Sub", [scalar(g, x, 1), inside])])])


_CAST: dict[int, tuple[str, DType]] = {
    1: ("float", FLOAT32),
    2: ("int32", INT32),
    3: ("byte", UINT8),
    5: ("bool", BOOL8),
    6: ("uint8", UINT8),
    7: ("int8", INT8),
    8: ("uint16", UINT16),
    9: ("int16", INT16),
    10: ("int64", INT64),
    12: ("float16", FLOAT16),
    13: ("double", FLOAT64),
}
"""Name and type by the number of Caffe2's TensorProto.DataType."""


@operator("Cast", "FloatToHalf", "HalfToFloat", layout=ANY, ignores=("from_type", "sat"))
def _cast(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    if node.type != "Cast":
        return cast(g, x, FLOAT16 if node.type == "FloatToHalf" else FLOAT32)
    given = node.attr("to")
    known = {number: dtype for number, (_, dtype) in _CAST.items()} | dict(_CAST.values())
    target = known.get(given.lower() if isinstance(given, str) else given)
    if target is None:
        raise node.problem(f"a cast to {given!r:.40}, a type that a DLC cannot hold", "remove the cast")
    return elementwise.converted(g, x, target)


# ---------------------------------------------------------------------- copies

_COPIES = """
Alias AliasWithName AsyncNetBarrier Copy CopyCPUToGPU CopyCPUToIDEEP CopyCPUToMKL CopyCPUToOpenGL
CopyFromCPUInput CopyFromOpenGL CopyGPUToCPU CopyIDEEPToCPU CopyMKLToCPU CopyOnDeviceLike CopyToOpenGL
EnsureCPUOutput EnsureDense NanCheck StopGradient
"""


@operator(*_COPIES.split(), layout=ANY, ignores=("name", "is_backward"))
def _copy(node: Node, g: Operators) -> list[Value]:
    """Return the inputs; others than the outputs only state a device or an order."""
    if not node.inputs:
        raise node.invalid("0 inputs instead of 1")
    return [node.required(index) for index in range(min(len(node.inputs), len(node.outputs)))]


@operator("Dropout", layout=ANY, ignores=("ratio",))
def _dropout(node: Node, g: Operators) -> Value:
    """Return the input: without argument is_test the net is one of training, which the notice states."""
    (x,) = inputs(node, 1)
    if not flag(node, "is_test"):
        notice = f"{g.context.source.describe(node)}: is_test is not set, and it drops nothing all the same"
        g.context.diagnostics.notices.append(notice)
    return x


# ---------------------------------------------------------------------- two operands

_BINARY = {
    "Add": "Add",
    "And": "And",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Div": "Div",
    "EQ": "Equal",
    "GE": "GreaterOrEqual",
    "GT": "Greater",
    "LE": "LessOrEqual",
    "LT": "Less",
    "Mul": "Mul",
    "Or": "Or",
    "Sub": "Sub",
    "Xor": "Xor",
}


@operator(*_BINARY, "NE", "Pow", layout=ANY, ignores=("allow_broadcast",))
def _binary(node: Node, g: Operators) -> Value:
    """Apply an operator to two operands; Pow may have its exponent as an argument."""
    if node.type == "Pow" and len(node.inputs) == 1:
        (x,) = inputs(node, 1)
        if "exponent" not in node.attributes:
            raise node.invalid("has neither an argument exponent nor a second input")
        return g("Pow", [x, scalar(g, x, number(node, "exponent", 0.0))])
    x, y = _broadcast(node, g, *inputs(node, 2))
    if node.type == "NE":
        return elementwise.not_equal(g, x, y)
    type = _BINARY.get(node.type, node.type)
    return g(type.removeprefix("Bitwise") if x.dtype is BOOL8 else type, [x, y])


def _broadcast(node: Node, g: Operators, x: Value, y: Value) -> tuple[Value, Value]:
    """Return two operands that broadcast as in numpy.

    With argument broadcast, the axes of the second one start at an axis of the first, and its leading and
    trailing sizes of 1 fit any (Caffe2's elementwise_ops.h).

    Raises:
        ModelError: If the operands do not fit.
    """
    axis, letter = integer(node, "axis", -1), node.attr("axis_str", "")
    order = node.attr("order", "NCHW")
    if not flag(node, "broadcast"):
        if axis != -1 or letter:
            raise node.invalid("argument axis without broadcast")
        if x.ranked and y.ranked and not x.is_dynamic and not y.is_dynamic:
            pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
            if any(a != b and 1 not in (a, b) for a, b in pairs):
                raise node.invalid(f"shapes {list(x.shape)} and {list(y.shape)} do not broadcast")
        return x, y
    if letter:
        if axis != -1 or not isinstance(order, str) or letter not in list(order):
            raise node.invalid(f"axis_str {letter!r:.20} with axis {axis} and order {order!r:.20}")
        axis = order.index(letter)
    shape, own = x.dims or dims(x), dims(y)
    if y.size == 1:
        return x, reshape(g, y, (1,) * x.rank)
    start = x.rank - y.rank if axis == -1 else axis
    if not 0 <= start <= x.rank - y.rank:
        raise node.invalid(f"shape {list(own)} does not fit into {list(shape)} from axis {axis} on")
    inner = [place for place, size in enumerate(own) if size != 1]
    fits = shape[start + inner[0] : start + inner[-1] + 1] == own[inner[0] : inner[-1] + 1]
    if not fits:
        raise node.invalid(f"shape {list(own)} does not fit into {list(shape)} from axis {start} on")
    return x, reshape(g, y, (*(1,) * start, *own, *(1,) * (x.rank - start - y.rank)))


@operator("RowMul", layout=ANY)
def _row_mul(node: Node, g: Operators) -> Value:
    x, rows = inputs(node, 2)
    if not x.rank or rows.shape != x.shape[:1]:
        raise node.invalid(f"{list(rows.shape)} factors for the rows of {list(x.shape)}")
    return g("Mul", [x, reshape(g, rows, (*rows.shape, *(1,) * (x.rank - 1)))])


@operator("Mod", layout=ANY)
def _mod(node: Node, g: Operators) -> Value:
    """Return the remainder by argument divisor, with the sign of the dividend or of the divisor."""
    (x,) = inputs(node, 1)
    divisor = integer(node, "divisor", 0)
    if not divisor:
        raise node.invalid("argument divisor is missing or 0")
    return g("Mod", [x, scalar(g, x, divisor)], fmod=int(not flag(node, "sign_follow_divisor")))


@operator("Where", layout=ANY)
def _where(node: Node, g: Operators) -> Value:
    condition, x, y = inputs(node, 3)
    if flag(node, "broadcast_on_rows") and condition.rank == 1:
        return elementwise.select_rows(g, condition, x, y)
    if not condition.shape == x.shape == y.shape:
        raise node.invalid(f"shapes {[list(value.shape) for value in node.inputs if value]} differ")
    return elementwise.where(g, condition, x, y)


# ---------------------------------------------------------------------- any number of operands


@operator("Sum", "Max", "Min", "Mean", layout=ANY)
def _n_ary(node: Node, g: Operators) -> Value:
    values = _of_one_shape(node, inputs(node, 1, len(node.inputs)))
    return values[0] if len(values) == 1 else g(node.type, values)


def _of_one_shape(node: Node, values: list[Value]) -> list[Value]:
    """Return values.

    Raises:
        ModelError: If their shapes differ.
    """
    for value in values[1:]:
        if value.dims != values[0].dims:
            shapes = f"{list(values[0].shape)} and {list(value.shape)}"
            raise node.invalid(f"inputs of shapes {shapes}, which must be equal")
    return values


@operator("WeightedSum", layout=ANY)
def _weighted_sum(node: Node, g: Operators) -> Value:
    """Return the sum of values times weights, of one element each, that follow them."""
    values = inputs(node, 2, len(node.inputs))
    if len(values) % 2 or any(weight.size != 1 for weight in values[1::2]):
        raise node.invalid("its inputs must be pairs of a value and a weight of one element")
    _of_one_shape(node, values[::2])
    pairs = zip(values[::2], values[1::2], strict=True)
    return elementwise.total(g, [g("Mul", [x, reshape(g, weight, ())]) for x, weight in pairs])


@operator("StumpFunc", layout=ANY)
def _stump(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    low, high, threshold = (number(node, name, 0.0) for name in ("low_value", "high_value", "threshold"))
    above = g("Greater", [x, scalar(g, x, threshold)])
    return elementwise.where(g, above, scalar(g, x, high), scalar(g, x, low))


@operator("ConstantFill", layout=ANY, ignores=("shape",))
def _constant_fill(node: Node, g: Operators) -> Value:
    """Return a value of the shape of the input, or of the shape that it holds, filled with one number."""
    (x,) = inputs(node, 1)
    dtype = _CAST.get(integer(node, "dtype", 1), ("", None))[1]
    if dtype is None or node.attr("extra_shape"):
        raise node.problem("a fill of this type or shape", "make the fill a constant of the init net")
    value = g.builder.const(np.asarray(number(node, "value", 0.0)).astype(dtype.numpy))
    shape = ints(x, "the shape") if flag(node, "input_as_shape") else dims(x)
    return g("Expand", [value, vector(g, shape)])
