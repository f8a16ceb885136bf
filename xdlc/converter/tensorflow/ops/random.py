"""Handlers of random draws."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc.elementwise import erfinv
from xdlc.converter.nhwc.shapes import cast, ints, number, positions
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.random_inputs import draw_outside
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    dtype_of,
    handler,
)
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32

_DRAWN = {
    "RandomUniform": "RandomUniform",
    "RandomStandardNormal": "RandomNormal",
    "StatelessRandomUniform": "RandomUniform",
    "StatelessRandomUniformV2": "RandomUniform",
    "StatelessRandomNormal": "RandomNormal",
    "StatelessRandomNormalV2": "RandomNormal",
}
"""Canonical operators with the same distribution as TensorFlow's; the numbers differ."""
_FLOAT, _INT32 = 1, 6  # of TensorProto.DataType


_EDGE = math.erf(math.sqrt(2))  # share of a normal distribution within two deviations


@handler(*_DRAWN, ignores=("Tseed", "seed2"))
def _random(node: Node, g: Operators) -> Value:
    return cast(g, _floats(node, g, _DRAWN[node.type]), dtype_of(node, "dtype"))


@handler(
    "TruncatedNormal", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2", ignores=("Tseed", "seed2")
)
def _truncated(node: Node, g: Operators) -> Value:
    shares = _floats(node, g, "RandomUniform")
    shares = g("Mul", [g("Sub", [shares, number(g, shares, 0.5)]), number(g, shares, 2 * _EDGE)])
    return cast(g, g("Mul", [erfinv(g, shares), number(g, shares, math.sqrt(2))]), dtype_of(node, "dtype"))


@handler("Multinomial", ignores=("seed", "seed2"))
def _samples(node: Node, g: Operators) -> Value:
    _note(node, g)
    logits = cast(g, node.required(0), FLOAT32)
    (count,) = ints(node.required(1), "the number of samples")
    made = g("Multinomial", [logits], sample_size=count, dtype=_INT32)
    return cast(g, made, dtype_of(node, "output_dtype", "int64"))


@handler("RandomUniformInt", ignores=("Tout", "seed2"))
def _random_integers(node: Node, g: Operators) -> Value:
    low, high = (cast(g, node.required(index), FLOAT32) for index in (1, 2))
    wide = g("Mul", [_floats(node, g, "RandomUniform"), g("Sub", [high, low])])
    return cast(g, g("Floor", [g("Add", [wide, low])]), node.required(1).dtype)


def _floats(node: Node, g: Operators, type: str) -> Value:
    shape, seed = node.required(0), node.attr("seed", 0)
    seeds = {"seed": float(seed)} if seed else {}
    _note(node, g)
    if shape.is_static:
        return g(type, [], shape=ints(shape, "the shape"), dtype=_FLOAT, **seeds)
    zeros = g("ConstantOfShape", [positions(g, shape)], value=ir.ArrayData(np.zeros(1, np.float32)))
    return g(f"{type}Like", [zeros], dtype=_FLOAT, **seeds)


def _note(node: Node, g: Operators) -> None:
    if not g.random_inputs:
        g.context.diagnostics.notices.append(
            f"node {node.own_name!r} draws other random numbers than TensorFlow: {draw_outside()}"
        )
