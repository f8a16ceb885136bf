"""Experimental ONNX operators of before 2018, which onnxruntime still runs."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.ops._compose import neuron, number, part
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, SOFTPLUS, TANH


@importer("Affine", "Scale", layout=ANY, dynamic=True)
def affine(node: Node, b: Builder, x: Value) -> Value:
    """Write alpha * x + beta; Scale has one number."""
    if node.type == "Scale":
        return b.binary(MULTIPLY, x, number(b, x, node.attr("scale", 1.0)))
    scaled = b.binary(MULTIPLY, x, number(b, x, node.attr("alpha", 1.0)))
    return b.binary(ADD, scaled, number(b, x, node.attr("beta", 0.0)))


@importer("ScaledTanh", "ParametricSoftplus", layout=ANY, dynamic=True)
def scaled_function(node: Node, b: Builder, x: Value) -> Value:
    """Write alpha * f(beta * x)."""
    alpha, beta = node.attr("alpha"), node.attr("beta")
    if alpha is None or beta is None:
        raise node.invalid("attribute alpha or beta is missing")
    inner = b.binary(MULTIPLY, x, number(b, x, beta))
    is_tanh = node.type == "ScaledTanh"
    made = neuron(b, inner, TANH) if is_tanh else neuron(b, inner, SOFTPLUS, {"beta": ir.f32(1.0)})
    return b.binary(MULTIPLY, made, number(b, x, alpha))


@importer("ImageScaler", layout=ANY)
def image_scaler(node: Node, b: Builder, x: Value) -> Value:
    """Write scale * x + bias, with a bias for each channel."""
    bias = node.attr("bias", [])
    if x.rank != 4 or len(bias) != x.shape[1]:
        raise node.invalid(f"{len(bias)} biases do not fit shape {list(x.shape)}")
    scaled = b.binary(MULTIPLY, x, number(b, x, node.attr("scale", 1.0)))
    return b.binary(ADD, scaled, b.const(np.asarray(bias, x.dtype.numpy).reshape(1, -1, 1, 1)))


@importer("Crop", layout=ANY)
def crop(node: Node, b: Builder, x: Value) -> Value:
    """Crop by left, top, right and bottom border, or by left, top and size."""
    border, size = node.attr("border", []), node.attr("scale", [])
    if x.rank != 4 or len(border) != 4 or len(size) not in (0, 2):
        raise node.invalid(f"border {border} and scale {size} do not fit shape {list(x.shape)}")
    left, top, right, bottom = border
    for axis, first, after in ((2, top, bottom), (3, left, right)):
        last = first + size[axis - 2] if size else x.shape[axis] - after
        if not 0 <= first < last <= x.shape[axis]:
            raise node.invalid(f"positions {first} to {last} are outside {x.shape[axis]} elements")
        x = part(b, x, axis, first, last)
    return x
