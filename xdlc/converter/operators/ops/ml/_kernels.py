"""Kernel functions of support vector machines, between rows and the support vectors."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import reduced, unary
from xdlc.converter.operators.ops._formulas import fully_connected, times
from xdlc.converter.operators.ops.ml._features import numbers
from xdlc.converter.operators.ops.neuron import neuron
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import EXP, MULTIPLY, SUBTRACT, TANH


def kernel(node: Node, b: Builder, x: Value, vectors: Array) -> Value:
    """Return [N, S] for rows [N, F] and vectors [S, F].

    Raises:
        UnsupportedOp: If the kernel is a power with a broken exponent.
    """
    params = numbers(node, "kernel_params")
    gamma, coef0, degree = params.tolist() if params.size == 3 else (0.0, 0.0, 0.0)
    kind = node.attr("kernel_type", "LINEAR")
    if kind == "RBF":  # of differences: in float16 the form with squares cancels
        b.check_table(x.shape[0], *vectors.shape)
        wide = b.reshape(x, (x.shape[0], 1, x.shape[1]))
        away = b.binary(SUBTRACT, wide, b.const(vectors, f"{b.stem}_vectors"))
        square = reduced(b, "ReduceSum", b.binary(MULTIPLY, away, away), [2], keep=False)
        return unary(b, EXP, times(b, square, -gamma))
    if kind == "LINEAR":
        return fully_connected(b, x, b.const(vectors, f"{b.stem}_vectors"), None)
    bias = b.const(np.full(len(vectors), coef0, np.float32))
    line = fully_connected(b, x, b.const(vectors * np.float32(gamma), f"{b.stem}_vectors"), bias)
    if kind == "SIGMOID":
        return neuron(b, line, TANH)
    if kind != "POLY" or degree != int(degree) or not 1 <= degree <= 8:
        raise node.problem(f"kernel {kind!r} of degree {degree}")
    result = line
    for _ in range(int(degree) - 1):  # Power of HTP needs a base of 0 or more
        result = b.binary(MULTIPLY, result, line)
    return result
