"""Handlers of random draws."""

from __future__ import annotations

from xdlc.converter.nhwc.shapes import cast, ints
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.random_inputs import draw_outside
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import dtype_of, handler
from xdlc.converter.values import Value


@handler("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL")
def _random(node: Node, g: Operators, *operands: Value) -> Value:
    seeds = [int(node.attr(name, 0)) for name in ("seed", "seed2")]
    seed = {"seed": float(seeds[0] ^ seeds[1])} if any(seeds) else {}
    if not g.random_inputs:
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} draws other random numbers than TensorFlow Lite: {draw_outside()}"
        )
    if node.type == "MULTINOMIAL":
        (count,) = ints(operands[1], "the number of samples")
        return cast(g, g("Multinomial", [operands[0]], sample_size=count, dtype=6, **seed), dtype_of(node))
    type = "RandomUniform" if node.type == "RANDOM_UNIFORM" else "RandomNormal"
    return g(type, [], shape=ints(operands[0], "the shape"), dtype=1, **seed)
