"""Handlers of operators that draw random numbers."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc.shapes import cast, ints, positions
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.ops._forms import dtype_of
from xdlc.converter.tensorflow.registry import handler
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
"""Canonical operators of those with the same distribution; the numbers differ."""
_FLOAT = 1  # TensorProto.FLOAT


@handler(*_DRAWN, ignores=("Tseed", "seed2"))
def _random(node: Node, g: Operators) -> Value:
    return cast(g, _floats(node, g, _DRAWN[node.type]), dtype_of(node, "dtype"))


@handler("RandomUniformInt", ignores=("Tout", "seed2"))
def _random_integers(node: Node, g: Operators) -> Value:
    low, high = (cast(g, node.required(index), FLOAT32) for index in (1, 2))
    wide = g("Mul", [_floats(node, g, "RandomUniform"), g("Sub", [high, low])])
    return cast(g, g("Floor", [g("Add", [wide, low])]), node.required(1).dtype)


def _floats(node: Node, g: Operators, type: str) -> Value:
    shape, seed = node.required(0), node.attr("seed", 0)
    seeds = {"seed": float(seed)} if seed else {}
    g.context.diagnostics.notices.append(
        f"node {node.own_name!r} draws random numbers, which differ from those of TensorFlow: export the "
        "model for inference if it is a part of training, like a dropout"
    )
    if shape.is_static:
        return g(type, [], shape=ints(shape, "the shape"), dtype=_FLOAT, **seeds)
    zeros = g("ConstantOfShape", [positions(g, shape)], value=ir.ArrayData(np.zeros(1, np.float32)))
    return g(f"{type}Like", [zeros], dtype=_FLOAT, **seeds)
