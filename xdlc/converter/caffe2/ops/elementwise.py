"""Handlers of element-wise operators, and of those without effect at inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.caffe2.netdef import DATA_TYPES, dtype_of
from xdlc.converter.caffe2.registry import flag, integer, number, operator
from xdlc.converter.functions import elementwise
from xdlc.converter.functions.shapes import cast, dims, ints, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, FLOAT16, FLOAT32

_SAME = """
Abs Acos Asin Atan Ceil Cos Cosh Erf Exp Floor Log Mish Not Reciprocal Relu Round Sigmoid Sign Sin Sinh
Softplus Softsign Sqrt Tan Tanh
"""
"""Operators without arguments that canonical ones have the names of."""
_UNARY: dict[str, tuple[str, dict[str, float]]] = {
    **{name: (name, {}) for name in _SAME.split()},
    "Celu": ("Celu", {"alpha": 1.0}),
    "Elu": ("Elu", {"alpha": 1.0}),
    "HardSigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": ("LeakyRelu", {"alpha": 0.01}),
    "Negative": ("Neg", {}),
    "ThresholdedRelu": ("ThresholdedRelu", {"alpha": 1.0}),
}
"""Canonical operators, with the defaults of the arguments that these have by the same names."""


@operator(*_UNARY, layout=ANY)
def _unary(node: Node, g: Operators, x: Value) -> Value:
    type, defaults = _UNARY[node.type]
    return g(type, [x], **{name: number(node, name, default) for name, default in defaults.items()})


def _clip(node: Node, g: Operators, x: Value) -> Value:
    low, high = number(node, "min", -math.inf), number(node, "max", math.inf)
    if low > high or low == math.inf or high == -math.inf:
        raise node.invalid(f"the limits {low:g} and {high:g} exclude all values")
    least, most = (None if math.isinf(limit) else limit for limit in (low, high))
    return x if least is None and most is None else elementwise.clipped(g, x, least, most)


def _logit(node: Node, g: Operators, x: Value) -> Value:
    eps = number(node, "eps", 1e-6)
    inside = elementwise.clipped(g, x, eps, 1.0 - eps)
    return g("Log", [g("Div", [inside, g("Sub", [1, inside])])])


def _selu(node: Node, g: Operators, x: Value) -> Value:
    alpha, scale = number(node, "alpha", 1.6732632423543772), number(node, "scale", 1.0507009873554804)
    return g("Selu", [x], alpha=alpha, gamma=scale)


_COMPOSED: dict[str, Callable[[Node, Operators, Value], Value]] = {
    "Cbrt": lambda node, g, x: g("Mul", [g("Sign", [x]), g("Pow", [g("Abs", [x]), 1 / 3])]),
    "Clip": _clip,
    "Cube": lambda node, g, x: g("Mul", [elementwise.square(g, x), x]),
    "FloatToHalf": lambda node, g, x: cast(g, x, FLOAT16),
    "Gelu": lambda node, g, x: g("Gelu", [x], approximate="tanh" if flag(node, "fast_gelu") else "none"),
    "HalfToFloat": lambda node, g, x: cast(g, x, FLOAT32),
    "Log1p": lambda node, g, x: elementwise.log1p(g, x),
    "Logit": _logit,
    "ReluN": lambda node, g, x: elementwise.clipped(g, x, 0.0, number(node, "n", 6.0)),
    "Rsqrt": lambda node, g, x: elementwise.rsqrt(g, x),
    "Scale": lambda node, g, x: g("Mul", [x, number(node, "scale", 1.0)]),
    "Selu": _selu,
    "Sqr": lambda node, g, x: elementwise.square(g, x),
    "Swish": lambda node, g, x: elementwise.silu(g, x),
}


@operator(*_COMPOSED, layout=ANY)
def _composed(node: Node, g: Operators, x: Value) -> Value:
    return _COMPOSED[node.type](node, g, x)


@operator("Cast", layout=ANY, ignores=("from_type", "sat"))
def _cast(node: Node, g: Operators, x: Value) -> Value:
    target_name = node.attr("to")
    if isinstance(target_name, str) and target_name.upper() not in DATA_TYPES:
        raise node.problem(
            f"the operator casts to {target_name!r:.40}, a type that a DLC cannot hold", "remove the cast"
        )
    target = DATA_TYPES[target_name.upper()] if isinstance(target_name, str) else integer(node, "to", 0)
    return elementwise.converted(g, x, ir.dtype.from_numpy(dtype_of(target, "")))


# ---------------------------------------------------------------------- two operands

_OPERANDS = "Add And BitwiseAnd BitwiseOr BitwiseXor Div Mul Or Pow Sub Xor"
_COMPARISONS = {"EQ": "Equal", "GE": "GreaterOrEqual", "GT": "Greater", "LE": "LessOrEqual", "LT": "Less"}
_BINARY = {name: name for name in _OPERANDS.split()} | _COMPARISONS


@operator(*_BINARY, "NE", layout=ANY, ignores=("allow_broadcast",))
def _binary(node: Node, g: Operators) -> Value:
    """Apply a binary operator; the exponent of Pow may be an argument."""
    if node.type == "Pow" and "exponent" in node.attributes:
        (x,) = node.operands(1, 1)
        return g("Pow", [x, number(node, "exponent", 0.0)])
    x, y = _broadcast(node, g, *node.operands(2, 2))
    if node.type == "NE":
        return elementwise.not_equal(g, x, y)
    type = _BINARY[node.type]
    return g(type.removeprefix("Bitwise") if x.dtype is BOOL8 else type, [x, y])


def _broadcast(node: Node, g: Operators, x: Value, y: Value) -> tuple[Value, Value]:
    """Return two operands that broadcast as in numpy.

    With argument broadcast, the axes of the second one start at an axis of the first, and its leading and
    trailing sizes of 1 fit any (Caffe2's elementwise_ops.h).
    """
    axis, letter, order = integer(node, "axis", -1), node.attr("axis_str", ""), node.attr("order", "NCHW")
    if not flag(node, "broadcast"):
        if axis != -1 or letter:
            raise node.invalid("argument axis requires broadcast")
        return x, y
    if letter:
        if axis != -1 or not isinstance(order, str) or letter not in list(order):
            raise node.invalid(f"axis_str {letter!r:.20} contradicts axis {axis} and order {order!r:.20}")
        axis = order.index(letter)
    if y.size == 1:
        return x, reshape(g, y, (1,) * x.rank)
    shape, own = dims(x), dims(y)
    start = x.rank - y.rank if axis == -1 else axis
    after = x.rank - y.rank - start
    wide = [place for place, size in enumerate(own) if size != 1]
    inner = slice(wide[0], wide[-1] + 1)
    if start < 0 or after < 0 or shape[start:][inner] != own[inner]:
        raise node.invalid(f"an input {list(own)} does not fit into {list(shape)} from axis {start} on")
    return x, reshape(g, y, (*(1,) * start, *own, *(1,) * after))


@operator("Where", layout=ANY)
def _where(node: Node, g: Operators, condition: Value, x: Value, y: Value) -> Value:
    by_rows = flag(node, "broadcast_on_rows") and condition.rank == 1
    _check_shapes(node, [x, y] if by_rows else [condition, x, y])
    return elementwise.select_rows(g, condition, x, y)


# ---------------------------------------------------------------------- any number of operands


def _check_shapes(node: Node, values: Sequence[Value]) -> None:
    if any(value.dims != values[0].dims for value in values):
        raise node.invalid(f"inputs of shapes {[list(value.shape) for value in values]} must have one shape")


@operator("Sum", "Max", "Min", "Mean", layout=ANY)
def _n_ary(node: Node, g: Operators, *values: Value) -> Value:
    _check_shapes(node, values)
    return values[0] if len(values) == 1 else g(node.type, values)


@operator("WeightedSum", layout=ANY)
def _weighted_sum(node: Node, g: Operators, *values: Value) -> Value:
    """Return the sum of values times weights, of one element each, that follow them."""
    if len(values) % 2 or any(weight.size != 1 for weight in values[1::2]):
        raise node.invalid("the inputs of the operator must be pairs of a value and a weight of one element")
    _check_shapes(node, values[::2])
    pairs = zip(values[::2], values[1::2], strict=True)
    return elementwise.total(g, [g("Mul", [x, reshape(g, weight, ())]) for x, weight in pairs])


@operator("ConstantFill", layout=ANY, ignores=("shape",))
def _constant_fill(node: Node, g: Operators, x: Value) -> Value:
    """Return a constant in the shape of the input, or in the shape that it contains."""
    if node.attr("extra_shape"):
        raise node.problem(
            "xdlc does not support the argument extra_shape", "fill the tensor in the init net instead"
        )
    value = np.asarray(number(node, "value", 0.0)).astype(dtype_of(integer(node, "dtype", 1), ""))
    shape = ints(x, "the shape") if flag(node, "input_as_shape") else dims(x)
    return g("Expand", [value, vector(g, shape)])


_COPIES = """
Alias AliasWithName AsyncNetBarrier Copy CopyCPUToGPU CopyCPUToIDEEP CopyCPUToMKL CopyCPUToOpenGL
CopyFromCPUInput CopyFromOpenGL CopyGPUToCPU CopyIDEEPToCPU CopyMKLToCPU CopyOnDeviceLike CopyToOpenGL
EnsureCPUOutput EnsureDense NanCheck StopGradient
"""


@operator(*_COPIES.split(), layout=ANY, ignores=("name", "is_backward"))
def _copy(node: Node, g: Operators, x: Value, *others: Value) -> list[Value]:
    """Return the inputs; inputs beyond the outputs only state a device or an order."""
    return [x, *others][: len(node.outputs)]


@operator("Dropout", layout=ANY, ignores=("ratio",))
def _dropout(node: Node, g: Operators, x: Value) -> Value:
    """Return the input; without is_test a notice states that the net is for training."""
    if not flag(node, "is_test"):
        notice = f"{g.context.source.describe(node)}: is_test is not set, but the DLC drops no values"
        g.context.diagnostics.notices.append(notice)
    return x
