"""Handlers of activation functions."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.nhwc.shapes import axis_of, reshape
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, operator, term
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import SOFTPLUS

_PLAIN = {"hardswish": "HardSwish", "mish": "Mish", "selu": "Selu"}


@aten(*_PLAIN, layout=ANY)
def _plain(node: AtenNode, g: Operators, self: Value) -> Value:
    return g(_PLAIN[operator(node)], [self])


@aten("relu6", layout=ANY)
def _relu6(node: AtenNode, g: Operators, self: Value) -> Value:
    x = term(node, g, self)
    return (x("Clip", 0, 6) if self.dtype.is_float else x("Relu").least(6)).value


@aten("hardsigmoid", layout=ANY)
def _hardsigmoid(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("HardSigmoid", [self], alpha=1 / 6, beta=0.5)


@aten("silu", layout=ANY)
def _silu(node: AtenNode, g: Operators, self: Value) -> Value:
    x = term(node, g, self)
    return (x * x("Sigmoid")).value


@aten("gelu", layout=ANY)
def _gelu(node: AtenNode, g: Operators, self: Value, approximate: str) -> Value:
    return g("Gelu", [self], approximate=approximate)


@aten("leaky_relu", layout=ANY)
def _leaky_relu(node: AtenNode, g: Operators, self: Value, negative_slope: float) -> Value:
    return g("LeakyRelu", [self], alpha=float(negative_slope))


@aten("rrelu", "rrelu_with_noise", "rrelu_with_noise_functional", layout=ANY, ignores=("noise",))
def _rrelu(node: AtenNode, g: Operators, self: Value, lower: float, upper: float) -> Value:
    """Map the slope of inference, the mean of the random ones of training."""
    return g("LeakyRelu", [self], alpha=(lower + upper) / 2)


@aten("prelu", "_prelu_kernel", layout=ANY)
def _prelu(node: AtenNode, g: Operators, self: Value, weight: Value) -> Value:
    """Map slopes, one for all channels or one for each, of axis 1."""
    if weight.size == 1:
        weight = reshape(g, weight, (1,) if self.rank else ())
    elif weight.rank == 1 and self.rank > 1:
        weight = reshape(g, weight, (weight.size, *[1] * (self.rank - 2)))
    return g("PRelu", [self, weight])


@aten("elu", layout=ANY)
def _elu(node: AtenNode, g: Operators, self: Value, alpha: float, scale: float, input_scale: float) -> Value:
    """Map ``scale`` times x above 0, and times ``alpha`` (exp(``input_scale`` x) - 1) below."""
    x = term(node, g, self)
    if input_scale == 1:
        bent = x("Elu", alpha=float(alpha))
        return (bent if scale == 1 else bent * scale).value
    below = (x.least(0) * input_scale).expm1() * (alpha * scale)
    return (x > 0).where(x * scale, below).value


@aten("celu", layout=ANY)
def _celu(node: AtenNode, g: Operators, self: Value, alpha: float) -> Value:
    return g("Celu", [self], alpha=float(alpha))


@aten("hardtanh", layout=ANY)
def _hardtanh(node: AtenNode, g: Operators, self: Value, min_val: float, max_val: float) -> Value:
    x = term(node, g, self)
    if not node.dtype.is_float:
        return x.most(min_val).least(max_val).value
    return x("Clip", min_val, max_val).value


@aten("hardshrink", layout=ANY)
def _hardshrink(node: AtenNode, g: Operators, self: Value, lambd: float) -> Value:
    x = term(node, g, self)
    return ((x >= -lambd) & (x <= lambd)).where(0, x).value


@aten("softshrink", layout=ANY)
def _softshrink(node: AtenNode, g: Operators, self: Value, lambd: float) -> Value:
    x = term(node, g, self)
    return (x > lambd).where(x - lambd, (x < -lambd).where(x + lambd, x * 0)).value


@aten("threshold", layout=ANY)
def _threshold(node: AtenNode, g: Operators, self: Value, threshold: float, value: float) -> Value:
    x = term(node, g, self)
    return (x <= threshold).where(value, x).value


@aten("softplus", layout=ANY)
def _softplus(node: AtenNode, g: Operators, self: Value, beta: float, threshold: float) -> Value:
    """Map log(1 + exp(beta x)) / beta, and x where beta x is above the threshold, as QNN has it."""
    if (beta, threshold) == (1, 20) or self.is_static:  # log(1 + exp(20)) is 20 in single precision
        x = term(node, g, self)
        bent = x("Softplus") if beta == 1 else (x * beta)("Softplus") / beta
        return bent.value if threshold == 20 else (x * beta > threshold).where(x, bent).value
    params = {"operation": ir.u32(SOFTPLUS), "beta": ir.f32(beta), "threshold": ir.f32(threshold)}
    return g.builder.unary("ElementWiseNeuron", self, params)


@aten("log_sigmoid", "log_sigmoid_forward", layout=ANY)
def _log_sigmoid(node: AtenNode, g: Operators, self: Value) -> list[Value]:
    """Map -log(1 + exp(-x)); the second result serves the gradient."""
    x = term(node, g, self)
    return [(-(-x)("Softplus")).value, (-abs(x))("Exp").value][: len(node.outputs)]


@aten("glu")
def _glu(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    first, second = g.apply("Split", [self], {"axis": axis_of(dim, self.rank), "num_outputs": 2}, 2)
    return g("Mul", [first, g("Sigmoid", [second])])


@aten("logit", "special_logit", layout=ANY)
def _logit(node: AtenNode, g: Operators, self: Value, eps: float | None) -> Value:
    x = term(node, g, self)
    if eps is not None and eps >= 0:
        x = x.most(eps).least(1 - eps)
    return (x / (1.0 - x))("Log").value


_NO_EFFECT = "alpha_dropout dropout feature_alpha_dropout feature_dropout"


@aten(*_NO_EFFECT.split(), layout=ANY)
def _dropout(node: AtenNode, g: Operators, input: Value, p: float, train: bool) -> Value:
    if train and p:
        raise node.problem("dropout of training is random", "call model.eval() before the export")
    return g("Identity", [input])


@aten("native_dropout", layout=ANY)
def _native_dropout(node: AtenNode, g: Operators, input: Value, p: float, train: bool | None) -> list[Value]:
    if train and p:
        raise node.problem("dropout of training is random", "call model.eval() before the export")
    x = Term(g, input)
    return [x("Identity").value, x.same(x).value]
