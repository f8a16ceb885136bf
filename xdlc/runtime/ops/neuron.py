"""Activation functions: ElementWiseNeuron, Prelu and others."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.elementwise_enums import NEURON as OPERATIONS
from xdlc.runtime import fixed_point_functions, htp_fusion
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

Function = Callable[[Op, Builder, Tensor, str], str]

# Numbers of parameter `operation`: OpDef of ElementWiseNeuron.


def _plain(type: str) -> Function:
    return lambda op, b, source, x: b.node(type, [x])


def _relu(op: Op, b: Builder, source: Tensor, x: str) -> str:
    if source.dtype.is_integer:  # onnxruntime's Relu knows few integers
        return b.node("Max", [x, b.like(source, 0)])
    return b.node("Relu", [x])


def _elu(op: Op, b: Builder, source: Tensor, x: str) -> str:
    return b.node("Elu", [x], alpha=float(op.param("alpha", 1.0)))


def _hard_sigmoid(op: Op, b: Builder, source: Tensor, x: str) -> str:
    return b.node("HardSigmoid", [x], alpha=float(op.param("alpha", 0.2)), beta=float(op.param("beta", 0.5)))


def _relu_min_max(op: Op, b: Builder, source: Tensor, x: str) -> str:
    low, high = op.param("min_value"), op.param("max_value")
    return _clip(b, source, x, low, high)


def _clip(b: Builder, source: Tensor, x: str, low: float | None, high: float | None) -> str:
    inputs = [x, "" if low is None else b.like(source, low), "" if high is None else b.like(source, high)]
    return b.node("Clip", inputs)


def _softplus(op: Op, b: Builder, source: Tensor, x: str) -> str:
    beta, threshold = float(op.param("beta", 1.0)), float(op.param("threshold", -1.0))
    factor = b.like(source, beta)
    scaled = x if beta == 1.0 else b.node("Mul", [x, factor])
    value = b.node("Softplus", [scaled])
    if beta != 1.0:
        value = b.node("Div", [value, factor])
    if threshold > 0:  # the identity above it
        value = b.node("Where", [b.node("Greater", [scaled, b.like(source, threshold)]), x, value])
    return value


FUNCTIONS: dict[str, Function] = {
    "Elu": _elu,
    "Gelu": _plain("Gelu"),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain("HardSwish"),
    "Relu": _relu,
    "Relu1": lambda op, b, source, x: _clip(b, source, x, -1, 1),
    "Relu6": lambda op, b, source, x: _clip(b, source, x, 0, 6),
    "ReluMinMax": _relu_min_max,
    "Sigmoid": _plain("Sigmoid"),
    "Softplus": _softplus,
    "Tanh": _plain("Tanh"),
}


def _lower(op: Op, b: Builder, function: str) -> None:
    source = args.operand(op, 0)
    target = args.result(op)
    if fixed_point_functions.lowered(b, source, target, function):
        return
    order = b.orders(source)[0] if b.orders(source) else None
    rounded = source.encoding == target.encoding or not htp_fusion.with_producer(source, function)
    value = b.read(source, order, rounded=rounded)
    b.write(target, FUNCTIONS[function](op, b, source, value), order)


@lowering("ElementWiseNeuron")
def neuron(op: Op, b: Builder) -> None:
    """Lower the function that parameter ``operation`` names."""
    _lower(op, b, args.operation(op, OPERATIONS))


@lowering(*(name for name in FUNCTIONS if name != "Softplus"), "ElementWiseSoftplus")
def named(op: Op, b: Builder) -> None:
    """Lower a function that has an op type of its own."""
    _lower(op, b, op.type.removeprefix("ElementWise"))


@lowering("Prelu")
def prelu(op: Op, b: Builder) -> None:
    """Lower to PRelu; the slope broadcasts against the input's last axes."""
    source, slope = args.operand(op, 0), args.operand(op, 1)
    orders = b.orders(source)
    rounded = not htp_fusion.with_producer(source, "Prelu")
    if (
        orders
        and slope.is_static
        and slope.size in (1, source.shape[-1])
        and slope.shape[-1:] == (slope.size,)
    ):
        order = orders[0]
        along = [slope.size if axis == source.rank - 1 else 1 for axis in order]
        value = b.node("PRelu", [b.read(source, order, rounded=rounded), b.reshape(b.read(slope), along)])
        b.write(args.result(op), value, order)
        return
    b.write(args.result(op), b.node("PRelu", [b.read(source, rounded=rounded), b.read(slope)]))
