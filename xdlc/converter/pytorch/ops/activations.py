"""Handlers of activation functions."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.nhwc.shapes import axis_of, reshape
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, formula
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import SOFTPLUS


@formula("relu6")
def _relu6(self: Term) -> Term:
    return self("Clip", 0, 6) if self.value.dtype.is_float else self("Relu").least(6)


@formula("hardsigmoid")
def _hardsigmoid(self: Term) -> Term:
    return self("HardSigmoid", alpha=1 / 6, beta=0.5)


@formula("silu")
def _silu(self: Term) -> Term:
    return self * self("Sigmoid")


@formula("gelu")
def _gelu(self: Term, approximate: str) -> Term:
    return self("Gelu", approximate=approximate)


@formula("leaky_relu")
def _leaky_relu(self: Term, negative_slope: float) -> Term:
    return self("LeakyRelu", alpha=float(negative_slope))


@formula("rrelu", "rrelu_with_noise", "rrelu_with_noise_functional", ignores=("noise",))
def _rrelu(self: Term, lower: float, upper: float) -> Term:
    """Map the slope of inference, the mean of the random ones of training."""
    return self("LeakyRelu", alpha=(lower + upper) / 2)


@aten("prelu", "_prelu_kernel", layout=ANY)
def _prelu(node: AtenNode, g: Operators, self: Value, weight: Value) -> Value:
    """Map slopes, one for all channels or one for each, of axis 1."""
    if weight.size == 1:
        weight = reshape(g, weight, (1,) if self.rank else ())
    elif weight.rank == 1 and self.rank > 1:
        weight = reshape(g, weight, (weight.size, *[1] * (self.rank - 2)))
    return g("PRelu", [self, weight])


@formula("elu")
def _elu(self: Term, alpha: float, scale: float, input_scale: float) -> Term:
    """Map ``scale`` times x above 0, and times ``alpha`` (exp(``input_scale`` x) - 1) below."""
    if input_scale == 1:
        bent = self("Elu", alpha=float(alpha))
        return bent if scale == 1 else bent * scale
    below = (self.least(0) * input_scale).expm1() * (alpha * scale)
    return (self > 0).where(self * scale, below)


@formula("celu")
def _celu(self: Term, alpha: float) -> Term:
    return self("Celu", alpha=float(alpha))


@formula("hardtanh")
def _hardtanh(self: Term, min_val: float, max_val: float) -> Term:
    is_float = self.value.dtype.is_float
    return self("Clip", min_val, max_val) if is_float else self.most(min_val).least(max_val)


@formula("hardshrink")
def _hardshrink(self: Term, lambd: float) -> Term:
    return ((self >= -lambd) & (self <= lambd)).where(0, self)


@formula("softshrink")
def _softshrink(self: Term, lambd: float) -> Term:
    return (self > lambd).where(self - lambd, (self < -lambd).where(self + lambd, self * 0))


@formula("threshold")
def _threshold(self: Term, threshold: float, value: float) -> Term:
    return (self <= threshold).where(value, self)


@formula("softplus")
def _softplus(self: Term, beta: float, threshold: float) -> Term:
    """Map log(1 + exp(beta x)) / beta, and x where beta x is above the threshold, as QNN has it."""
    if (beta, threshold) == (1, 20) or self.value.is_static:  # log(1 + exp(20)) is 20 in single precision
        bent = self("Softplus") if beta == 1 else (self * beta)("Softplus") / beta
        return bent if threshold == 20 else (self * beta > threshold).where(self, bent)
    params = {"operation": ir.u32(SOFTPLUS), "beta": ir.f32(beta), "threshold": ir.f32(threshold)}
    return self.via(lambda g, x: g.builder.unary("ElementWiseNeuron", x, params))


@formula("log_sigmoid", "log_sigmoid_forward")
def _log_sigmoid(self: Term) -> list[Term]:
    """Map -log(1 + exp(-x)); the second result serves the gradient."""
    return [-(-self)("Softplus"), (-abs(self))("Exp")]


@aten("glu")
def _glu(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    first, second = g.apply("Split", [self], {"axis": axis_of(dim, self.rank), "num_outputs": 2}, 2)
    return g("Mul", [first, g("Sigmoid", [second])])


@formula("logit", "special_logit")
def _logit(self: Term, eps: float | None) -> Term:
    x = self if eps is None or eps < 0 else self.most(eps).least(1 - eps)
    return (x / (1.0 - x))("Log")


@aten("alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout", "native_dropout", layout=ANY)
def _dropout(node: AtenNode, g: Operators, input: Value, p: float, train: bool | None) -> list[Value]:
    """Return the input, and, for the native form, that all of it is kept."""
    if train and p:
        raise node.problem("dropout of training is random", "call model.eval() before the export")
    x = Term(g, input)
    return [x("Identity").value, *(x.same(x).value for _ in node.outputs[1:])]
