"""Activations: layers, and names in the configuration of other layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from xdlc.converter.functions.elementwise import celu, clipped, silu
from xdlc.converter.functions.gathering import split
from xdlc.converter.functions.normalization import softmax as softmax_last
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import axis_of, dims, permuted
from xdlc.converter.functions.terms import Term, of_terms
from xdlc.converter.keras.layers import EXPORT, PACKAGES
from xdlc.converter.keras.registry import (
    argument,
    as_float,
    handler,
    moved,
    number_of,
    only_input,
    required_weight,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

Function = Callable[..., Value]
_EXCLUDED = -1.5e38  # of a softmax


def leaky(g: Operators, x: Value, negative_slope: float = 0.2) -> Value:
    """Return x, and x times a slope below 0."""
    return g("LeakyRelu", [x], alpha=float(negative_slope))


def relu(
    g: Operators,
    x: Value,
    negative_slope: float = 0.0,
    max_value: float | None = None,
    threshold: float = 0.0,
) -> Value:
    """Return slope * (x - threshold) below threshold, else x, at most max_value."""
    if threshold:
        below = g("Mul", [g("Sub", [x, threshold]), negative_slope])
        activated = g("Where", [g("Greater", [x, threshold]), x, below])
    elif negative_slope:
        activated = leaky(g, x, negative_slope)
    else:
        return clipped(g, x, 0, max_value) if max_value is not None else g("Relu", [x])
    return clipped(g, activated, None, max_value) if max_value is not None else activated


def softmax(g: Operators, x: Value, axis: Any = -1, log: bool = False) -> Value:
    """Return the softmax along an axis, or along several at once."""
    axes = sorted(axis_of(int(each), x.rank) for each in (axis if isinstance(axis, list | tuple) else [axis]))
    if len(axes) == 1:
        x, back = moved(g, x, axes, [x.rank - 1])
        return permuted(g, softmax_last(g, x, log=log), back)
    powers = g("Exp", [g("Sub", [x, reduced(g, "Max", x, axes, keep=True)])])
    return g("Div", [powers, reduced(g, "Sum", powers, axes, keep=True)])


def gelu(g: Operators, x: Value, approximate: bool = False) -> Value:
    """Return x times the normal distribution function, by erf or by tanh."""
    return g("Gelu", [x], approximate="tanh" if approximate else "none")


def _glu(g: Operators, x: Value, axis: int = -1) -> Value:
    (size,) = dims(x, [axis])
    first, second = split(g, x, [size // 2] * 2, axis)
    return g("Mul", [first, g("Sigmoid", [second])])


@of_terms
def _sparse_plus(x: Term) -> Term:
    above = x + 1
    return (x <= -1).where(0, (x >= 1).where(x, above * above * 0.25))


@of_terms
def _squareplus(x: Term, b: float = 4) -> Term:
    return (x + (x * x + b)("Sqrt")) * 0.5


@of_terms
def _threshold(x: Term, threshold: float, default_value: float) -> Term:
    return (x > threshold).where(x, default_value)


def _plain(type: str, **options: float) -> Function:
    return lambda g, x: g(type, [x], **options)


def _shrink(g: Operators, x: Value, threshold: float = 0.5, *, soft: bool) -> Value:
    if soft and threshold < 0:  # the limits cross: the upper one wins, with ONNX the lower one
        return g("Neg", [g("Shrink", [g("Neg", [x])], bias=float(threshold), lambd=float(threshold))])
    return g("Shrink", [x], bias=float(threshold) if soft else 0.0, lambd=float(threshold))


FUNCTIONS: dict[str, Function] = {
    "linear": lambda g, x: x,
    "relu": relu,
    "relu6": lambda g, x: clipped(g, x, 0, 6),
    "leaky_relu": leaky,
    "elu": lambda g, x, alpha=1.0: g("Elu", [x], alpha=float(alpha)),
    "selu": _plain("Selu"),
    "celu": celu,
    "gelu": gelu,
    "sigmoid": _plain("Sigmoid"),
    "tanh": _plain("Tanh"),
    "softmax": softmax,
    "log_softmax": partial(softmax, log=True),
    "softplus": _plain("Softplus"),
    "softsign": _plain("Softsign"),
    "silu": silu,
    "swish": silu,
    "hard_sigmoid": _plain("HardSigmoid", alpha=1 / 6, beta=0.5),
    "hard_sigmoid_2": _plain("HardSigmoid", alpha=0.2, beta=0.5),
    "hard_silu": _plain("HardSwish"),
    "hard_swish": _plain("HardSwish"),
    "exponential": _plain("Exp"),
    "mish": _plain("Mish"),
    "log_sigmoid": of_terms(lambda x: -(-x)("Softplus")),
    "hard_tanh": lambda g, x: clipped(g, x, -1, 1),
    "tanh_shrink": of_terms(lambda x: x - x("Tanh")),
    "soft_shrink": partial(_shrink, soft=True),
    "hard_shrink": partial(_shrink, soft=False),
    "threshold": _threshold,
    "squareplus": _squareplus,
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda g, x: clipped(g, g("Mul", [g("Add", [x, 1]), 0.5]), 0, 1),
    "glu": _glu,
}
"""Activation functions by name; ``hard_sigmoid_2`` is that of Keras 2."""
_LAYERS = {"ReLU": "relu", "LeakyReLU": "leaky_relu", "ELU": "elu", "Softmax": "softmax"}
_OPTIONS = ("negative_slope", "max_value", "threshold", "alpha", "axis", "approximate")


def function_of(node: Node, stated: Any) -> Function:
    """Return the function that a configuration names or serializes.

    Raises:
        UnsupportedOp: If it is unknown.
    """
    options: dict[str, Any] = {}
    name = "linear" if stated is None else stated
    if isinstance(stated, dict):
        kind, config = stated.get("class_name"), stated.get("config")
        is_own = stated.get("module") and str(stated["module"]).split(".")[0] not in PACKAGES
        name = config if isinstance(config, str) else _LAYERS.get(str(kind))
        name = None if is_own else name
        if isinstance(config, dict):
            options = {key: config[key] for key in _OPTIONS if config.get(key) is not None}
            if name == "leaky_relu" and "alpha" in options:
                options["negative_slope"] = options.pop("alpha")
            if kind == "Activation" and isinstance(config.get("activation"), str):
                name = config["activation"]
    function = FUNCTIONS.get(name) if isinstance(name, str) else None
    if function is None:
        raise node.problem(f"activation {name if isinstance(name, str) else stated!r:.60} is unknown", EXPORT)
    return partial(function, **options) if options else function


def activated(node: Node, g: Operators, x: Value) -> Value:
    """Return a value after the activation that a layer states."""
    return function_of(node, node.attr("activation"))(g, x)


@handler("Activation")
def activation(node: Node, g: Operators) -> Value:
    """Apply an activation by name."""
    return activated(node, g, as_float(g, only_input(node)))


@handler("ReLU")
def relu_layer(node: Node, g: Operators) -> Value:
    """Apply a ReLU with slope, limit and threshold."""
    limit = None if node.attr("max_value") is None else number_of(node, "max_value")
    slope, threshold = number_of(node, "negative_slope", 0.0), number_of(node, "threshold", 0.0)
    if not math.isfinite(slope):
        raise node.invalid(f"negative_slope must be finite, but is {slope}")
    return relu(g, as_float(g, only_input(node)), slope, limit, threshold)


@handler("LeakyReLU")
def leaky_relu(node: Node, g: Operators) -> Value:
    """Apply a leaky ReLU, whose slope Keras 2 calls alpha."""
    slope = number_of(node, "alpha" if "alpha" in node.attributes else "negative_slope", 0.3)
    return leaky(g, as_float(g, only_input(node)), slope)


@handler("ThresholdedReLU", "ELU")
def with_alpha(node: Node, g: Operators) -> Value:
    """Apply an ELU, or a ReLU that is 0 up to theta."""
    type, name = {"ELU": ("Elu", "alpha")}.get(node.type, ("ThresholdedRelu", "theta"))
    return g(type, [as_float(g, only_input(node))], alpha=float(number_of(node, name, 1.0)))


@handler("PReLU", ignores=("shared_axes",))
def prelu(node: Node, g: Operators) -> Value:
    """Apply a PReLU; alpha has the shape of an example, 1 for shared axes."""
    return g("PRelu", [as_float(g, only_input(node)), required_weight(node, "alpha")])


@handler("Softmax")
def softmax_layer(node: Node, g: Operators) -> Value:
    """Apply a softmax along axes; masked elements are excluded."""
    x, mask = as_float(g, only_input(node)), argument(node, "mask")
    if mask is not None:
        x = g("Where", [mask, x, _EXCLUDED])
    return softmax(g, x, node.attr("axis", -1))
