"""Element-wise operations and reductions of functional models."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from xdlc.converter.keras.handling import as_float, const, handler
from xdlc.converter.keras.ops._arguments import Arguments
from xdlc.converter.keras.ops.activations import FUNCTIONS
from xdlc.converter.nhwc import elementwise as e
from xdlc.converter.nhwc.reduce import accumulated, l2_normalized, moments, place_of, reduced, top_k
from xdlc.converter.nhwc.shapes import axis_of, cast, permuted, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, INT32

Unary = Callable[[Operators, Value], Value]
_SAME = {"Absolute": "Abs", "Fabs": "Abs", "Negative": "Neg", "Sign": "Sign", "LogicalNot": "Not"}
_FLOAT = {
    **{name: name for name in ("Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh")},
    **{name: name for name in ("Floor", "Ceil", "Round", "Reciprocal", "Erf")},
    **{f"Arc{name}": f"A{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "Isnan": "IsNaN",
    "Isinf": "IsInf",
}


def _scaled_log(g: Operators, x: Value, base: float) -> Value:
    return g("Mul", [g("Log", [x]), const(g, 1 / math.log(base))])


def _trunc(g: Operators, x: Value) -> Value:
    return g("Mul", [g("Sign", [x]), g("Floor", [g("Abs", [x])])])


_FORMULAS: dict[str, Unary] = {
    "Rsqrt": e.rsqrt,
    "Log1p": e.log1p,
    "Expm1": e.expm1,
    "Erfc": e.erfc,
    "Erfinv": e.erfinv,
    "Isfinite": e.is_finite,
    "Log2": lambda g, x: _scaled_log(g, x, 2),
    "Log10": lambda g, x: _scaled_log(g, x, 10),
    "Exp2": lambda g, x: g("Exp", [g("Mul", [x, const(g, math.log(2))])]),
    "Deg2rad": lambda g, x: g("Mul", [x, const(g, math.pi / 180)]),
    "Rad2deg": lambda g, x: g("Mul", [x, const(g, 180 / math.pi)]),
    "Trunc": _trunc,
}


@handler(*_SAME, *_FLOAT, *_FORMULAS, domain="ops", ignores=("decimals",))
def unary(node: Node, g: Operators) -> Value:
    """Apply a function of one tensor; all but a few make integers floats."""
    x = Arguments(node).value(g, "x")
    if node.type in _SAME:
        x = cast(g, x, BOOL8) if node.type == "LogicalNot" and x.dtype is not BOOL8 else x
        return g(_SAME[node.type], [x])
    x = as_float(g, x)
    return _FORMULAS[node.type](g, x) if node.type in _FORMULAS else g(_FLOAT[node.type], [x])


@handler("Square", domain="ops")
def square(node: Node, g: Operators) -> Value:
    """Return x * x."""
    x = Arguments(node).value(g, "x")
    return g("Mul", [x, x])


_ACTIVATIONS = {
    "".join(word.capitalize() for word in name.split("_")): function for name, function in FUNCTIONS.items()
} | {"Gelu": partial(FUNCTIONS["gelu"], approximate=True)}
_NO_OPS = ("Relu", "Linear", "Exponential", "HardSigmoid2", "Swish", "HardSwish", "Mish", "Tanh")


@handler(*(name for name in _ACTIVATIONS if name not in _NO_OPS), "Relu", domain="ops")
def activation(node: Node, g: Operators) -> Value:
    """Apply an activation function."""
    given = Arguments(node)
    names = ("negative_slope", "alpha", "threshold", "default_value", "axis", "approximate", "b")
    options = {name: given.option(name) for name in names if name in node.attributes}
    x = as_float(g, given.value(g, "x"))
    return _ACTIVATIONS[node.type](g, x, **options)


# ---------------------------------------------------------------------------------------- two operands

Binary = Callable[[Operators, Value, Value], Value]


def _plain(type: str) -> Binary:
    return lambda g, x, y: g(type, [x, y])


def _divided(g: Operators, x: Value, y: Value) -> Value:
    return g("Div", [as_float(g, x), as_float(g, y)])


_BINARY: dict[str, Binary] = {
    **{name: _plain(type) for name, type in {"Add": "Add", "Subtract": "Sub", "Multiply": "Mul"}.items()},
    **{name: _plain(name) for name in ("Equal", "Greater", "Less")},
    **{name: _plain(type) for name, type in {"Maximum": "Max", "Minimum": "Min", "Power": "Pow"}.items()},
    "GreaterEqual": _plain("GreaterOrEqual"),
    "LessEqual": _plain("LessOrEqual"),
    "NotEqual": e.not_equal,
    "Divide": _divided,
    "TrueDivide": _divided,
    "DivideNoNan": lambda g, x, y: e.div_no_nan(g, as_float(g, x), as_float(g, y)),
    "FloorDivide": e.floor_div,
    "Mod": e.floor_mod,
    "Arctan2": lambda g, x, y: e.atan2(g, as_float(g, x), as_float(g, y)),
    "SquaredDifference": e.squared_difference,
}
_LOGICAL = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}


@handler(*_BINARY, domain="ops")
def binary(node: Node, g: Operators) -> Value:
    """Apply a function of two tensors, or of a tensor and a number."""
    return _BINARY[node.type](g, *Arguments(node, "x1 x2").pair(g))


@handler(*_LOGICAL, domain="ops")
def logical(node: Node, g: Operators) -> Value:
    """Apply a function of two truth values; numbers other than 0 are true."""
    given = Arguments(node, "x1 x2").pair(g)
    return g(_LOGICAL[node.type], [each if each.dtype is BOOL8 else cast(g, each, BOOL8) for each in given])


@handler("Where", domain="ops")
def where(node: Node, g: Operators) -> Value:
    """Choose between two tensors."""
    given = Arguments(node, "condition x1 x2")
    condition = given.value(g, "condition")
    condition = condition if condition.dtype is BOOL8 else cast(g, condition, BOOL8)
    return g("Where", [condition, *given.pair(g)])


@handler("Clip", domain="ops")
def clip(node: Node, g: Operators) -> Value:
    """Limit a tensor to a range of numbers."""
    given = Arguments(node)
    return e.clipped(g, given.value(g, "x"), given.option("x_min"), given.option("x_max"))


# ---------------------------------------------------------------------------------------- along axes

_REDUCTIONS = {
    **{name: name for name in ("Mean", "Sum", "Max", "Min", "Prod", "Any", "All", "Std", "Var")},
    "Amax": "Max",
    "Amin": "Min",
    "Average": "Mean",
    "Logsumexp": "LogSumExp",
}


def axes_of(x: Value, given: Any) -> list[int]:
    """Return axes as a list; None is all of them."""
    listed = range(x.rank) if given is None else given if isinstance(given, list) else [given]
    return sorted(axis_of(int(axis), x.rank) for axis in listed)


@handler(*_REDUCTIONS, domain="ops", ignores=("dtype",))
def reduction(node: Node, g: Operators) -> Value:
    """Reduce along axes."""
    given = Arguments(node, "x weights")
    if given.has("weights"):
        raise node.problem("weights of an average")
    x, keep = given.value(g, "x"), bool(given.option("keepdims", False))
    axes, kind = axes_of(x, given.option("axis")), _REDUCTIONS[node.type]
    if given.option("initial") is not None:
        raise node.problem("initial")
    if kind in ("Any", "All"):
        found = reduced(
            g, "Max" if kind == "Any" else "Min", cast(g, cast(g, x, BOOL8), INT32), axes, keep=keep
        )
        return cast(g, found, BOOL8)
    if kind in ("Std", "Var"):
        _, variance = moments(g, as_float(g, x), axes)
        found = g("Unsqueeze", [variance, vector(g, axes)]) if keep else variance
        return g("Sqrt", [found]) if kind == "Std" else found
    x = as_float(g, x) if kind in ("Mean", "LogSumExp") else x
    return reduced(g, kind, x, axes, keep=keep)


@handler("Argmax", "Argmin", domain="ops")
def place(node: Node, g: Operators) -> Value:
    """Return the place of the greatest or least element."""
    given = Arguments(node)
    x, axis = given.value(g, "x"), given.option("axis")
    if axis is None:
        x, axis = g("Reshape", [x, vector(g, [-1])]), 0
    found = place_of(g, "ArgMax" if node.type == "Argmax" else "ArgMin", x, int(axis), INT32)
    return g("Unsqueeze", [found, vector(g, [int(axis)])]) if given.option("keepdims", False) else found


@handler("Cumsum", "Cumprod", domain="ops", ignores=("dtype",))
def running(node: Node, g: Operators) -> Value:
    """Return running sums or products."""
    given = Arguments(node)
    x, axis = given.value(g, "x"), given.option("axis")
    if axis is None:
        x, axis = g("Reshape", [x, vector(g, [-1])]), 0
    type = "CumSum" if node.type == "Cumsum" else "CumProd"
    return accumulated(g, type, x, int(axis), exclusive=False, reverse=False)


@handler("Normalize", domain="ops")
def normalize(node: Node, g: Operators) -> Value:
    """Divide by the root of the sum of squares."""
    given = Arguments(node)
    if given.option("order", 2) != 2:
        raise node.problem(f"order {given.option('order')!r:.20}")
    x = as_float(g, given.value(g, "x"))
    epsilon = float(given.option("epsilon", 1e-7))
    return l2_normalized(g, x, axes_of(x, given.option("axis", -1)), epsilon**2)


@handler("Moments", domain="ops", ignores=("synchronized",))
def both_moments(node: Node, g: Operators) -> list[Value]:
    """Return mean and variance."""
    given = Arguments(node)
    x = as_float(g, given.value(g, "x"))
    axes = axes_of(x, given.option("axes"))
    found = moments(g, x, axes)
    return [
        g("Unsqueeze", [each, vector(g, axes)]) if given.option("keepdims", False) else each for each in found
    ]


@handler("LayerNorm", "RMSNorm", domain="ops")
def layer_norm(node: Node, g: Operators) -> Value:
    """Normalize along the last axis."""
    is_root = node.type == "RMSNorm"
    given = Arguments(node, "x scale" if is_root else "x gamma beta")
    x = as_float(g, given.value(g, "x"))
    if axes_of(x, given.option("axis", -1)) != [x.rank - 1] or given.option("rms_scaling", False):
        raise node.problem("axes other than the last, or rms_scaling")
    ones, zeros = np.ones(x.shape[-1]), np.zeros(x.shape[-1])
    names = [("scale", ones)] if is_root else [("gamma", ones), ("beta", zeros)]
    scales = [given.value(g, name, x) if given.has(name) else const(g, default) for name, default in names]
    epsilon = float(given.option("epsilon", 1e-7))
    type = "SimplifiedLayerNormalization" if is_root else "LayerNormalization"
    return g(type, [x, *scales], axis=-1, epsilon=epsilon)


@handler("TopK", domain="ops", ignores=("sorted",))
def greatest(node: Node, g: Operators) -> list[Value]:
    """Return the k greatest elements along the last axis and their places."""
    given = Arguments(node)
    return top_k(g, given.value(g, "x"), vector(g, [int(given.option("k"))]), INT32)


@handler("Sort", domain="ops")
def sort(node: Node, g: Operators) -> Value:
    """Sort along an axis, the least element first."""
    given = Arguments(node)
    x = given.value(g, "x")
    axis = axis_of(int(given.option("axis", -1)), x.rank)
    order = [*(each for each in range(x.rank) if each != axis), axis]
    back = [order.index(each) for each in range(x.rank)]
    x = permuted(g, x, order)
    found = g.apply("TopK", [x, vector(g, [x.shape[-1]])], {"axis": -1, "largest": 0}, 2)[0]
    return permuted(g, found, back)
