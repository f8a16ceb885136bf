"""Element-wise operators, broadcast ones, comparisons and casts."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fuzz.sweep.draft import Draft, family

_ANY = ((-2, 2), (-8, 8), (-100, 100), (-1e-2, 1e-2))
_SMALL = ((-2, 2), (-8, 8))
_POSITIVE = ((0.1, 8), (1, 1000), (1e-3, 1e-1))
_RANGES = {
    **dict.fromkeys(("Abs", "Neg", "Relu", "LeakyRelu", "Sign", "Floor", "Ceil", "Round"), _ANY),
    **dict.fromkeys(("HardSwish", "HardSigmoid", "ThresholdedRelu", "Selu", "Elu", "Celu"), _ANY),
    **dict.fromkeys(("Sigmoid", "Tanh", "Softsign", "Atan"), (*_ANY, (-60000, 60000))),
    **dict.fromkeys(("Gelu", "Erf", "Mish", "Softplus"), ((-2, 2), (-8, 8), (-100, 100))),
    **dict.fromkeys(("Sin", "Cos"), (*_SMALL, (-100, 100))),
    **dict.fromkeys(("Asin", "Acos", "Atanh"), ((-0.9, 0.9),)),
    **dict.fromkeys(("Sinh", "Cosh", "Asinh", "Exp"), _SMALL),
    **dict.fromkeys(("Log", "Sqrt", "Reciprocal"), _POSITIVE),
    "Acosh": ((1.1, 8),),
    "Tan": ((-1.4, 1.4),),
}
_INTEGERS = (np.int32, np.int64)


@family("unary")
def unary(d: Draft) -> None:
    """Draw one function of one operand."""
    type = d.pick(*_RANGES)
    low, high = d.pick(*_RANGES[type])
    attributes = {"approximate": d.pick("none", "tanh")} if type == "Gelu" else {}
    d.opset = 20
    if type in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu") and d.flag():
        attributes["alpha"] = d.pick(0.1, 0.5, 1.0, 2.0)
    d.quantizable = type != "Softsign" or high < 1000  # else 1 + |x| is 0 in 8 bits, and 0 / 0 is anything
    d.node(type, d.input(d.ranked(), low, high), **attributes)


@family("integer_unary")
def integer_unary(d: Draft) -> None:
    """Draw one function of integers or booleans."""
    d.quantizable = False
    type = d.pick("Abs", "Neg", "Sign", "Not")
    if type == "Not":
        d.node(type, d.integers(d.ranked(), 0, 2, np.bool_))
    else:
        d.node(type, d.integers(d.ranked(), -50, 50, d.pick(*_INTEGERS)))


def _broadcast(d: Draft) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shapes of two operands that broadcast."""
    shape = d.shape(d.between(1, 5), 1 << 13)
    others = tuple(size if d.flag(0.6) else 1 for size in shape)
    mine = tuple(size if other != 1 or d.flag(0.7) else 1 for size, other in zip(shape, others, strict=True))
    others = others[d.pick(0, 0, *range(len(others))) :] if d.flag() else others
    return (mine, others) if d.flag() else (others, mine)


@family("binary")
def binary(d: Draft) -> None:
    """Draw one function of two broadcast floats, one perhaps constant."""
    type = d.pick("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "PRelu")
    first, second = _broadcast(d)
    ranges = {"Div": ((-2, 2), (0.3, 3)), "Pow": ((0.3, 3), (-2, 2)), "Mod": ((-9, 9), (0.5, 3))}
    (low, high), limits = ranges.get(type, ((-2, 2), (-2, 2)))
    if type == "PRelu":
        rank = d.between(2, 4)
        shape = d.shape(rank)
        slopes = d.pick((shape[1], *[1] * (rank - 2)), (1,), shape[-1:])
        d.node(type, d.input(shape), d.constant(d.floats(slopes, 0, 1)))
        return
    x = d.input(first, low, high)
    y = d.constant(d.floats(second, *limits)) if d.flag(0.3) else d.input(second, *limits)
    if d.flag(0.15) and type in ("Add", "Sub", "Mul", "Max", "Min"):
        x, y = y, x
    d.node(type, x, y, **({"fmod": 1} if type == "Mod" else {}))


@family("powers")
def powers(d: Draft) -> None:
    """Draw a power of a constant exponent, or a square, or the reciprocal of a root."""
    shape = d.ranked()
    kind = d.pick("Pow", "Pow", "square", "rsqrt")
    if kind == "square":
        x = d.input(shape)
        d.node("Mul", x, x)
    elif kind == "rsqrt":
        d.node("Reciprocal", d.node("Sqrt", d.input(shape, 0.1, 8)))
    elif d.flag():
        d.node("Pow", d.input(shape, 0.2, 3), d.constant(d.pick(0.5, 2, 3, -1, -2, 1.5, -0.5)))
    else:
        d.node("Pow", d.input(shape, -3, 3), d.constant(d.pick(2, 3, 4)))


@family("clip")
def clip(d: Draft) -> None:
    """Draw a Clip of two bounds or one."""
    bounds = d.pick((-0.5, 0.75), (0, 6), (0, 1), (-1, 1))
    names = [d.constant(bound) for bound in bounds]
    x = d.input(d.ranked())
    d.node("Clip", x, *d.pick(names, names[:1], ["", names[1]]))


@family("comparison")
def comparison(d: Draft) -> None:
    """Draw a comparison of floats or integers, or a function of booleans, as floats."""
    first, second = _broadcast(d)
    kind = d.pick("float", "integer", "boolean")
    d.quantizable = False
    if kind == "boolean":
        operands = [d.integers(shape, 0, 2, np.bool_) for shape in (first, second)]
        result = d.node(d.pick("And", "Or", "Xor"), *operands)
    else:
        type = d.pick("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
        if kind == "integer":
            operands = [d.integers(shape, -3, 3, np.int32) for shape in (first, second)]
        else:
            operands = [d.input(shape) for shape in (first, second)]
        result = d.node(type, *operands)
    d.node("Cast", result, to=TensorProto.FLOAT)


@family("integer_binary")
def integer_binary(d: Draft) -> None:
    """Draw arithmetic of broadcast integers."""
    d.quantizable = False
    type, dtype = d.pick("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"), d.pick(*_INTEGERS)
    first, second = _broadcast(d)
    low = 1 if type in ("Div", "Mod") else -50
    d.node(type, d.integers(first, -50, 50, dtype), d.integers(second, low, 50, dtype))


@family("select")
def select(d: Draft) -> None:
    """Draw a Where of floats or integers, any operand broadcast."""
    first, second = _broadcast(d)
    whole = np.broadcast_shapes(first, second)
    shapes = list(d.pick((whole, first, second), (first, whole, second), (first, second, whole)))
    condition = d.integers(shapes[0], 0, 2, np.bool_)
    if d.flag(0.3):
        d.quantizable = False
        d.node("Where", condition, *(d.integers(shape, -9, 9, np.int32) for shape in shapes[1:]))
    else:
        d.node("Where", condition, *(d.input(shape) for shape in shapes[1:]))


@family("cast")
def cast(d: Draft) -> None:
    """Draw a conversion between types of numbers."""
    d.quantizable = False
    shape = d.ranked()
    sources = {
        "float": lambda: d.input(shape, -50, 50),
        "int32": lambda: d.integers(shape, -50, 50, np.int32),
        "int64": lambda: d.integers(shape, -50, 50, np.int64),
        "uint8": lambda: d.integers(shape, 0, 255, np.uint8),
        "int8": lambda: d.integers(shape, -100, 100, np.int8),
        "bool": lambda: d.integers(shape, 0, 2, np.bool_),
    }
    source = d.pick(*sources)
    targets = ["FLOAT", "INT32", "INT64", "BOOL"]
    target = d.pick(*targets)
    d.node("Cast", sources[source](), to=getattr(TensorProto, target))
