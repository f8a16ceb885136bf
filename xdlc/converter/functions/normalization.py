"""Softmax, and normalizations of values of any rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import (
    cast,
    channel_first,
    channel_last,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.dtype import BFLOAT16, FLOAT32


def softmax(g: Operators, x: Value, *, beta: float = 1.0, log: bool = False, axis: int = -1) -> Value:
    """Return the softmax, or its logarithm, of ``beta`` times ``x`` along an axis.

    That of bfloat16 is computed with float32, as frameworks do; ONNX rounds each partial sum.
    """
    scaled = x if beta == 1.0 else g("Mul", [x, beta])
    wide = cast(g, scaled, FLOAT32) if x.dtype is BFLOAT16 else scaled
    return cast(g, g("LogSoftmax" if log else "Softmax", [wide], axis=axis), x.dtype)


def l2_normalized(g: Operators, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """Return x / max(sqrt(sum of squares along axes), sqrt(epsilon))."""
    squares = reduced(g, "Sum", g("Mul", [x, x]), axes, keep=True)
    return g("Div", [x, g("Sqrt", [g("Max", [squares, epsilon])])])


def lrn(g: Operators, x: Value, *, radius: int, bias: float, alpha: float, beta: float) -> Value:
    """Return x / (bias + alpha * sum of squares of 2 radius + 1 channels)^beta.

    Raises:
        ModelError: If a parameter is infinite or NaN, or the radius negative.
        UnsupportedOp: If alpha or beta is negative, which Lrn does not have.
    """
    problem = (
        f"radius {radius}, bias {bias}, alpha {alpha} and beta {beta} of the normalization are not all valid"
    )
    if not all(map(math.isfinite, (bias, alpha, beta))) or radius < 0:
        raise ModelError(problem, fix="use finite numbers, and a radius of 0 or more")
    if not beta:
        return x
    if not alpha:
        with np.errstate(all="ignore"):
            return g("Mul", [x, float(np.float32(bias) ** np.float32(-beta))])
    if alpha < 0 or beta < 0:
        raise UnsupportedOp(problem, fix="use an alpha and a beta of 0 or more")
    size = 2 * radius + 1
    given = {"size": size, "bias": bias, "alpha": alpha * size, "beta": beta}
    return channel_last(g, g("LRN", [channel_first(g, x)], **given))


def batch_norm(
    g: Operators, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, epsilon: float
) -> Value:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + offset, by channel [C]."""
    given = [channel_first(g, x), scale, offset, mean, variance]
    return channel_last(g, g("BatchNormalization", given, epsilon=epsilon))
