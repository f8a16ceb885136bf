"""Handlers of activations."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.functions.elementwise import celu, silu
from xdlc.converter.functions.shapes import axis_of, reshape
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._terms import formula, formulas
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import SOFTPLUS


def _clipped(self: Term, min_val: float = 0, max_val: float = 6) -> Term:
    is_float = self.value.dtype.is_float
    return self("Clip", min_val, max_val) if is_float else self.most(min_val).least(max_val)


formulas({
    "celu": lambda self, alpha: celu(self, alpha),
    "gelu": lambda self, approximate: self("Gelu", approximate=approximate),
    "hardshrink": lambda self, lambd: ((self >= -lambd) & (self <= lambd)).where(0, self),
    "hardsigmoid": lambda self: self("HardSigmoid", alpha=1 / 6, beta=0.5),
    "hardtanh": _clipped,
    "leaky_relu": lambda self, negative_slope: self("LeakyRelu", alpha=float(negative_slope)),
    "relu6": lambda self: _clipped(self),
    "silu": lambda self: silu(self),
    "softshrink": lambda self, lambd: (
        (self > lambd).where(self - lambd, (self < -lambd).where(self + lambd, self * 0))
    ),
    "threshold": lambda self, threshold, value: (self <= threshold).where(value, self),
})  # fmt: skip


@formula("rrelu", "rrelu_with_noise", "rrelu_with_noise_functional", ignores=("noise",))
def _rrelu(self: Term, lower: float, upper: float) -> Term:
    """Map with the slope for inference, which is the mean of the training slopes."""
    return self("LeakyRelu", alpha=(lower + upper) / 2)


@aten("prelu", "_prelu_kernel", layout=ANY)
def _prelu(node: AtenNode, g: Operators, self: Value, weight: Value) -> Value:
    """Map slopes, shared or one per channel of axis 1."""
    if weight.size == 1:
        weight = reshape(g, weight, (1,) if self.rank else ())
    elif weight.rank == 1 and self.rank > 1:
        weight = reshape(g, weight, (weight.size, *[1] * (self.rank - 2)))
    return g("PRelu", [self, weight])


@formula("elu")
def _elu(self: Term, alpha: float, scale: float, input_scale: float) -> Term:
    """Map ``scale`` x above 0, ``scale alpha`` (exp(``input_scale`` x) - 1) below."""
    if input_scale == 1:
        bent = self("Elu", alpha=float(alpha))
        return bent if scale == 1 else bent * scale
    below = (self.least(0) * input_scale).expm1() * (alpha * scale)
    return (self > 0).where(self * scale, below)


@formula("softplus")
def _softplus(self: Term, beta: float, threshold: float) -> Term:
    """Map log(1 + exp(beta x)) / beta, and x where beta x exceeds the threshold."""
    is_usual = (beta, threshold) == (1, 20)  # log(1 + exp(20)) is 20 in single precision
    if is_usual or threshold <= 0 or self.value.is_static:  # QNN's threshold -1 denotes none
        bent = self("Softplus") if beta == 1 else (self * beta)("Softplus") / beta
        return bent if is_usual else (self * beta > threshold).where(self, bent)
    params = {"operation": ir.u32(SOFTPLUS), "beta": ir.f32(beta), "threshold": ir.f32(threshold)}
    return self.via(lambda g, x: g.builder.unary("ElementWiseNeuron", x, params))


@formula("log_sigmoid", "log_sigmoid_forward")
def _log_sigmoid(self: Term) -> list[Term]:
    """Map -log(1 + exp(-x)); the second result serves the gradient."""
    return [-(-self)("Softplus"), (-abs(self))("Exp")]


@aten("glu")
def _glu(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    if self.dims is not None and (self.dims[axis_of(dim, self.rank)] or 0) % 2:
        raise node.invalid(f"axis {dim} of shape {list(self.dims)} cannot be halved")
    first, second = g.apply("Split", [self], {"axis": axis_of(dim, self.rank), "num_outputs": 2}, 2)
    return g("Mul", [first, g("Sigmoid", [second])])
