"""Functions of elements, and of elements of several bottoms."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdlc.converter.caffe.registry import MANY, Params, bottoms, layer, misfit, params, weights
from xdlc.converter.functions.elementwise import clipped, filled_like, silu
from xdlc.converter.functions.shapes import cast, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32

_Function = Callable[[Operators, Value, Params], Value]


def _canonical(operator: str) -> _Function:
    """Return the application of an operator without parameters."""
    return lambda g, x, p: g(operator, [x])


def _relu(g: Operators, x: Value, p: Params) -> Value:
    """Return max(x, 0) + slope * min(x, 0)."""
    slope = p.number("negative_slope", 0.0)
    return g("LeakyRelu", [x], alpha=slope) if slope else g("Relu", [x])


def _relu6(g: Operators, x: Value, p: Params) -> Value:
    """Return ``x`` limited to 0 ... 6; forks have a slope below 0."""
    return clipped(g, _relu(g, x, p), None, 6.0) if p.has("negative_slope") else clipped(g, x, 0.0, 6.0)


def _power(g: Operators, x: Value, p: Params) -> Value:
    """Return (shift + scale * x)^power."""
    power, scale = p.number("power", 1.0), p.number("scale", 1.0)
    inner = _affine(g, x, scale, p.number("shift", 0.0))
    if power == 0.0:
        return filled_like(g, x, 1.0)
    if power == 2.0:
        return g("Mul", [inner, inner])
    return inner if power == 1.0 else g("Pow", [inner, power])


def _exp(g: Operators, x: Value, p: Params) -> Value:
    """Return base^(shift + scale * x); the base -1 is e."""
    rate, scale, shift = _log_of_base(p), p.number("scale", 1.0), p.number("shift", 0.0)
    return g("Exp", [_affine(g, x, rate * scale, rate * shift)])


def _log(g: Operators, x: Value, p: Params) -> Value:
    """Return log(shift + scale * x) to a base; base -1 is e."""
    rate = _log_of_base(p)
    if not rate:
        raise misfit("logarithms to base 1 are undefined")
    inner = _affine(g, x, p.number("scale", 1.0), p.number("shift", 0.0))
    return _affine(g, g("Log", [inner]), 1 / rate, 0.0)


def _log_of_base(p: Params) -> float:
    base = p.number("base", -1.0)
    if base != -1.0 and base <= 0:
        raise misfit(f"the base must be -1 or above 0, but is {base:g}")
    return 1.0 if base == -1.0 else math.log(base)


def _dropout(g: Operators, x: Value, p: Params) -> Value:
    """Return ``x``; without ``scale_train`` of forks, scale it by the kept ratio."""
    ratio = p.number("dropout_ratio", 0.5)
    if p.flag("sample_weights_test", False):
        raise misfit("xdlc does not support sample_weights_test, which drops elements at inference")
    return x if p.flag("scale_train", True) else _affine(g, x, 1 - ratio, 0.0)


_FUNCTIONS: dict[str, _Function] = {
    "AbsVal": _canonical("Abs"),
    "BNLL": _canonical("Softplus"),
    "Clip": lambda g, x, p: clipped(g, x, *(p.number(name, finite=False) for name in ("min", "max"))),
    "Dropout": _dropout,
    "ELU": lambda g, x, p: g("Elu", [x], alpha=p.number("alpha", 1.0)),
    "Exp": _exp,
    "HardSigmoid": lambda g, x, p: g(
        "HardSigmoid", [x], alpha=p.number("alpha", 0.2), beta=p.number("beta", 0.5)
    ),
    "HardSwish": _canonical("HardSwish"),
    "Log": _log,
    "Mish": _canonical("Mish"),
    "Power": _power,
    "ReLU": _relu,
    "ReLU6": _relu6,
    "Sigmoid": _canonical("Sigmoid"),
    "Swish": lambda g, x, p: silu(g, x, p.number("beta", 1.0)),
    "TanH": _canonical("Tanh"),
    "Threshold": lambda g, x, p: cast(g, g("Greater", [x, p.number("threshold", 0.0)]), FLOAT32),
}


@layer(*_FUNCTIONS, layout=ANY)
def function(node: Node, g: Operators) -> Value:
    """Apply a function with the layer's one parameter message, whatever its name."""
    name = next((field.split(".")[0] for field in sorted(node.attributes) if "." in field), "")
    return _FUNCTIONS[node.type](g, bottoms(node, 1)[0], params(node, name))


def _affine(g: Operators, x: Value, scale: float, shift: float) -> Value:
    """Return scale * x + shift."""
    x = x if scale == 1.0 else g("Mul", [x, scale])
    return g("Add", [x, shift]) if shift else x


@layer("PReLU", layout=ANY)
def prelu(node: Node, g: Operators) -> Value:
    """Multiply negative values by a slope, per channel or shared."""
    (x,) = bottoms(node, 1)
    if x.rank < 2:
        raise misfit(f"the layer needs channels (axis 1), but its bottom has {x.rank} axes")
    channels = 1 if params(node, "prelu_param").flag("channel_shared", False) else x.shape[1]
    (slope,) = weights(node, g, [channels])
    return g("PRelu", [x, reshape(g, slope, (channels, *[1] * (x.rank - 2)))])


@layer("Eltwise", layout=ANY, ignores=("eltwise_param.stable_prod_grad",))
def eltwise(node: Node, g: Operators) -> Value:
    """Return the product, weighted sum or maximum of bottoms of one shape.

    A maximum has no use for coefficients, which Caffe's eltwise_layer.cpp refuses of products alone.
    """
    p, operands = params(node, "eltwise_param"), bottoms(node, 2, MANY)
    operation = p.word("operation", {"PROD": 0, "SUM": 1, "MAX": 2}, "SUM")
    factors = p.numbers("coeff")
    shapes = [list(operand.shape) for operand in operands]
    if any(shape != shapes[0] for shape in shapes):
        raise misfit(f"the bottoms of the layer must have one shape, but have {shapes}")
    if len(factors) not in (0, len(operands)):
        raise misfit(f"the layer has {len(factors)} values of coeff, but {len(operands)} bottoms")
    if factors and operation == "PROD":
        raise misfit(f"operation {operation} does not support coeff")
    if factors and operation == "MAX":
        g.context.diagnostics.notices.append(f"{g.context.place(node)}: coeff has no effect on a maximum")
        factors = []
    type = {"PROD": "Mul", "SUM": "Add", "MAX": "Max"}[operation]
    factors = factors or [1.0] * len(operands)
    total = _affine(g, operands[0], factors[0], 0.0)
    for operand, factor in zip(operands[1:], factors[1:], strict=True):
        if operation == "SUM" and factor == -1.0:
            total = g("Sub", [total, operand])
        else:
            total = g(type, [total, _affine(g, operand, factor, 0.0)])
    return total


@layer("Axpy", layout=ANY)
def axpy(node: Node, g: Operators) -> Value:
    """Return a * x + y with a number per image and channel: a [N, C] or [N, C, 1, 1]."""
    a, x, y = bottoms(node, 3)
    shape = x.shape
    if len(shape) < 2 or a.shape[:2] != shape[:2] or a.size != math.prod(shape[:2]) or y.shape != shape:
        shapes = [list(each.shape) for each in (a, x, y)]
        raise misfit(f"the bottoms of the layer must be [N, C] and twice [N, C, H, W], but are {shapes}")
    return g("Add", [g("Mul", [reshape(g, a, (*shape[:2], *[1] * (len(shape) - 2))), x]), y])


@layer("Scale", "Bias", layout=ANY)
def scale(node: Node, g: Operators) -> Value:
    """Scale and shift some axes of the first bottom, by blobs or a second bottom."""
    is_scale = node.type == "Scale"
    x, *others = bottoms(node, 1, 2)
    p, shape = params(node, "scale_param" if is_scale else "bias_param"), x.shape
    axis, count = p.integer("axis", 1), p.integer("num_axes", 1, least=-1)
    covered = len(others[0].shape) if others else count
    first = 0 if covered == 0 else node.axis(axis, len(shape))
    end = len(shape) if covered < 0 else first + covered
    covered_shape = shape[first:end]
    if end > len(shape) or (others and others[0].shape != covered_shape):
        source = f"a second bottom of {list(others[0].shape)}" if others else f"num_axes {count}"
        raise misfit(f"{source} does not fit a bottom {list(shape)} from axis {axis} on")
    has_terms = is_scale and p.flag("bias_term", False)
    operands = [*others, *weights(node, g, *[covered_shape] * ((not others) + has_terms))]
    for type, operand in zip(("Mul", "Add") if is_scale else ("Add",), operands, strict=False):
        x = g(type, [x, reshape(g, operand, (*covered_shape, *[1] * (len(shape) - end)))])
    return x
