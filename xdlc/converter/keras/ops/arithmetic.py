"""Operations of ``keras.ops`` that compute: arithmetic, reductions, products."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from xdlc.converter.functions import elementwise as e
from xdlc.converter.functions.normalization import l2_normalized
from xdlc.converter.functions.reduce import accumulated, moments, place_of, reduced, top_k
from xdlc.converter.functions.shapes import cast, vector
from xdlc.converter.keras.ops._operations import Arguments, converted, operations, truth
from xdlc.converter.keras.ops.activations import FUNCTIONS
from xdlc.converter.keras.registry import as_float, const
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, INT32, INT64


def _plain(type: str) -> Callable[..., Value]:
    return lambda g, *values: g(type, list(values))


def _scaled_log(g: Operators, x: Value, *, base: float) -> Value:
    return g("Mul", [g("Log", [x]), 1 / math.log(base)])


_ANY_TYPE = {"Absolute": "Abs", "Negative": "Neg", "Sign": "Sign"}
_OF_FLOATS: dict[str, Callable[[Operators, Value], Value]] = {
    **{name: _plain(name) for name in ("Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh")},
    **{name: _plain(name) for name in ("Floor", "Ceil", "Reciprocal", "Erf")},
    **{f"Arc{name}": _plain(f"A{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "Isnan": _plain("IsNaN"),
    "Isinf": _plain("IsInf"),
    "Isfinite": e.is_finite,
    "Rsqrt": e.rsqrt,
    "Log1p": e.log1p,
    "Expm1": e.expm1,
    "Log2": partial(_scaled_log, base=2),
    "Log10": partial(_scaled_log, base=10),
}
_BINARY: dict[str, Callable[[Operators, Value, Value], Value]] = {
    "Add": _plain("Add"),
    "Subtract": _plain("Sub"),
    "Multiply": _plain("Mul"),
    "Maximum": _plain("Max"),
    "Minimum": _plain("Min"),
    "Power": _plain("Pow"),
    "Equal": _plain("Equal"),
    "NotEqual": e.not_equal,
    "Greater": _plain("Greater"),
    "GreaterEqual": _plain("GreaterOrEqual"),
    "Less": _plain("Less"),
    "LessEqual": _plain("LessOrEqual"),
    "FloorDivide": e.floor_div,
    "Mod": e.floor_mod,
    "SquaredDifference": e.squared_difference,
}
_BINARY_OF_FLOATS: dict[str, Callable[[Operators, Value, Value], Value]] = {
    "Divide": _plain("Div"),
    "TrueDivide": _plain("Div"),
    "DivideNoNan": e.div_no_nan,
    "Arctan2": e.atan2,
}
_LOGICAL = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}
_ACTIVATIONS = {
    "".join(word.capitalize() for word in name.split("_")): function
    for name, function in FUNCTIONS.items()
    if name not in ("linear", "exponential", "hard_sigmoid_2", "swish", "hard_swish", "mish", "tanh")
} | {"Gelu": partial(FUNCTIONS["gelu"], approximate=True)}
_ACTIVATION_OPTIONS = ("negative_slope", "alpha", "threshold", "default_value", "axis", "approximate", "b")


def _of_floats(a: Arguments) -> Value:
    return _BINARY_OF_FLOATS[a.node.type](a.g, *(as_float(a.g, each) for each in a.pair()))


def _logical(a: Arguments) -> Value:
    return a.g(_LOGICAL[a.node.type], [truth(a.g, each) for each in a.pair()])


def _activated(a: Arguments) -> Value:
    options = {name: a.option(name) for name in _ACTIVATION_OPTIONS if name in a.node.attributes}
    if odd := [name for name, option in options.items() if isinstance(option, float) and math.isnan(option)]:
        raise a.node.invalid(f"the argument {odd[0]} is NaN")
    return _ACTIVATIONS[a.node.type](a.g, a.real(), **options)


def _round(a: Arguments) -> Value:
    if a.option("decimals", 0):
        raise a.node.problem(
            "xdlc does not support rounding to decimals",
            "multiply the values, round them, and divide the result",
        )
    return a.g("Round", [a.real()])


def _clip(a: Arguments) -> Value:
    x, limits = a.value(), (a.option("x_min"), a.option("x_max"))
    is_whole = all(limit is None or float(limit).is_integer() for limit in limits)
    return e.clipped(a.g, x if is_whole else as_float(a.g, x), *limits)


def _filled(a: Arguments) -> Value:
    name = a.option("dtype")
    x = a.value() if name is None else converted(a.node, a.g, a.value(), name)
    number = {"ZerosLike": 0, "OnesLike": 1}.get(a.node.type)
    return e.filled_like(a.g, x, a.option("fill_value") if number is None else number)


# ---------------------------------------------------------------------------------------- along axes

_REDUCTIONS = {
    **{name: name for name in ("Mean", "Sum", "Max", "Min", "Prod", "Any", "All", "Std", "Var")},
    "Amax": "Max",
    "Amin": "Min",
    "Logsumexp": "LogSumExp",
}


def _reduction(a: Arguments) -> Value:
    g, kind, keep = a.g, _REDUCTIONS[a.node.type], bool(a.option("keepdims", False))
    if a.option("initial") is not None:
        raise a.node.problem("initial")
    x, name = a.value(), a.option("dtype")
    x = x if name is None else converted(a.node, g, x, name)
    axes = a.axes(x)
    if kind in ("Any", "All"):
        whole = g.builder.cast(truth(g, x), INT32)
        return truth(g, reduced(g, "Max" if kind == "Any" else "Min", whole, axes, keep=keep))
    if kind in ("Std", "Var"):
        _, variance = moments(g, as_float(g, x), axes)
        found = g("Unsqueeze", [variance, vector(g, axes)]) if keep else variance
        return g("Sqrt", [found]) if kind == "Std" else found
    if kind in ("Mean", "LogSumExp"):
        x = as_float(g, x)
    return reduced(g, kind, g.builder.cast(x, INT32) if x.dtype is BOOL8 else x, axes, keep=keep)


def _extreme(a: Arguments) -> Value:
    x, axis = a.along_one()
    keep = bool(a.option("keepdims", False))
    if keep and a.option("axis") is None:
        raise a.node.problem("xdlc does not support keepdims without axis")
    found = place_of(a.g, "ArgMax" if a.node.type == "Argmax" else "ArgMin", x, axis, INT32)
    return a.g("Unsqueeze", [found, [axis]]) if keep else found


def _running(a: Arguments) -> Value:
    x, axis = a.along_one()
    name = a.option("dtype")
    if name == "bool":
        raise a.node.problem("xdlc does not support cumulative sums of type bool")
    x = x if name is None else converted(a.node, a.g, x, name)
    x = cast(a.g, x, INT32) if x.dtype is BOOL8 else x
    return accumulated(a.g, "CumSum", x, axis, exclusive=False, reverse=False)


def _normalized(a: Arguments) -> Value:
    x = a.real()
    if a.option("order", 2) != 2:
        raise a.node.problem(f"xdlc does not support order {a.option('order')!r:.20}")
    return l2_normalized(a.g, x, a.axes(x, -1), float(a.option("epsilon", 1e-7)) ** 2)


# ---------------------------------------------------------------------------------------- products


def _einsum(a: Arguments) -> Value:
    values = [a.real(f"x{place}") for place in range(len(a.node.attr("args") or []))]
    return a.g("Einsum", values, equation=str(a.option("subscripts")).replace(" ", ""))


def _product(a: Arguments) -> Value:
    x, y = (as_float(a.g, each) for each in a.pair())
    if a.node.type == "Dot" and y.rank > 2:
        raise a.node.problem(
            f"xdlc does not support inputs of ranks {x.rank} and {y.rank}", "use keras.ops.einsum"
        )
    return a.g("MatMul", [x, y])


def _of_any_type(a: Arguments) -> Value:
    x, type = a.value(), _ANY_TYPE[a.node.type]
    if x.dtype is BOOL8 and type == "Neg":
        raise a.node.invalid("xdlc does not support the negative of bools")
    return x if x.dtype is BOOL8 else a.g(type, [x])


def _one_hot(a: Arguments) -> Value:
    on, off, places = const(a.g, 1), const(a.g, 0), cast(a.g, a.value(), INT64)
    return e.one_hot(a.g, places, a.integer("num_classes"), on, off, a.integer("axis", -1))


operations(dict.fromkeys(_ANY_TYPE, ("x", _of_any_type)))
operations({name: ("x", lambda a: _OF_FLOATS[a.node.type](a.g, a.real())) for name in _OF_FLOATS})
operations({name: ("x1 x2", lambda a: _BINARY[a.node.type](a.g, *a.pair())) for name in _BINARY})
operations(dict.fromkeys(_BINARY_OF_FLOATS, ("x1 x2", _of_floats)))
operations(dict.fromkeys(_LOGICAL, ("x1 x2", _logical)))
operations(dict.fromkeys(_ACTIVATIONS, ("x", _activated)))
operations(dict.fromkeys(_REDUCTIONS, ("x", _reduction)))
operations(
    {
        "LogicalNot": ("x", lambda a: a.g("Not", [truth(a.g, a.value())])),
        "Square": ("x", lambda a: e.square(a.g, a.value())),
        "Round": ("x", _round),
        "Clip": ("x", _clip),
        "ZerosLike": ("x", _filled),
        "OnesLike": ("x", _filled),
        "FullLike": ("x fill_value", _filled),
        "Where": ("condition x1 x2", lambda a: a.g("Where", [truth(a.g, a.value("condition")), *a.pair()])),
        "OneHot": ("x", _one_hot),
        "Argmax": ("x", _extreme),
        "Argmin": ("x", _extreme),
        "Cumsum": ("x", _running),
        "Normalize": ("x", _normalized),
        "TopK": ("x", lambda a: top_k(a.g, a.value(), vector(a.g, [a.integer("k")]), INT32)),
        "Matmul": ("x1 x2", _product),
        "Dot": ("x1 x2", _product),
        "Einsum": (" ".join(f"x{place}" for place in range(16)), _einsum),
    }
)
