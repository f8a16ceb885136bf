"""Handlers of random draws."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.functions.elementwise import erfinv
from xdlc.converter.functions.shapes import cast, ints, positions
from xdlc.converter.functions.terms import Term
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
_SEEDS = (1 << 24) - 1  # the bits that a float seed holds


_EDGE = math.erf(math.sqrt(2))  # share of a normal distribution within two deviations


@handler(*_DRAWN, ignores=("Tseed",))
def _random(node: Node, g: Operators) -> Value:
    return cast(g, _floats(node, g, _DRAWN[node.type]), dtype_of(node, "dtype"))


@handler("TruncatedNormal", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2", ignores=("Tseed",))
def _truncated(node: Node, g: Operators) -> Value:
    shares = (Term(g, _floats(node, g, "RandomUniform")) - 0.5) * (2 * _EDGE)
    return (shares.via(erfinv) * math.sqrt(2)).to(dtype_of(node, "dtype")).value


@handler("Multinomial")
def _samples(node: Node, g: Operators, logits: Value, count: Value) -> Value:
    (size,) = ints(count, "the number of samples")
    drawn = g("Multinomial", [cast(g, logits, FLOAT32)], sample_size=size, dtype=_INT32, **_seeds(node, g))
    return cast(g, drawn, dtype_of(node, "output_dtype", "int64"))


@handler("RandomUniformInt", ignores=("Tout",))
def _random_integers(node: Node, g: Operators) -> Value:
    low, high = (Term(g, node.required(index)).to(FLOAT32) for index in (1, 2))
    shares = Term(g, _floats(node, g, "RandomUniform"))
    return (shares * (high - low) + low)("Floor").to(node.required(1).dtype).value


def _floats(node: Node, g: Operators, type: str) -> Value:
    shape, seeds = node.required(0), _seeds(node, g)
    if shape.is_static:
        return g(type, [], shape=ints(shape, "the shape"), dtype=_FLOAT, **seeds)
    zeros = g("ConstantOfShape", [positions(g, shape)], value=ir.ArrayData(np.zeros(1, np.float32)))
    return g(f"{type}Like", [zeros], dtype=_FLOAT, **seeds)


def _seeds(node: Node, g: Operators) -> dict[str, float]:
    """Return the seed of graph and node; note that other numbers are drawn."""
    if not g.random_inputs:
        g.context.diagnostics.notices.append(
            f"node {node.own_name!r} draws other random numbers than TensorFlow: {draw_outside()}"
        )
    seeds = [int(node.attr(name, 0)) for name in ("seed", "seed2")]
    return {"seed": float((seeds[0] ^ seeds[1]) & _SEEDS)} if any(seeds) else {}
