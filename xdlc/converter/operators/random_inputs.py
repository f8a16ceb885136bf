"""Random numbers as inputs of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc import ir
from xdlc.converter.operators.inference import infer
from xdlc.converter.session.boundary import add_input
from xdlc.converter.session.node import Node, bind_dims
from xdlc.errors import UnsupportedOp
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators

AS_INPUT = "as-input"
"""Value of option ``random`` for which random numbers become inputs."""


def draw_outside() -> str:
    """Return the fix of an operator whose result is random."""
    option = spell("random", "as-input")
    return f"make the numbers an input of the network with {option}, or export the model for inference"


_DISTRIBUTIONS = {
    "Multinomial": "classes, drawn by the logarithms of their weights",
    "RandomNormal": "normally distributed numbers of mean {mean:g} and deviation {scale:g}",
    "RandomNormalLike": "normally distributed numbers of mean {mean:g} and deviation {scale:g}",
    "RandomUniform": "evenly distributed numbers from {low:g} to below {high:g}",
    "RandomUniformLike": "evenly distributed numbers from {low:g} to below {high:g}",
}
_DEFAULTS = {"mean": 0.0, "scale": 1.0, "low": 0.0, "high": 1.0}


def is_random(node: Node) -> bool:
    """Return whether a canonical operator draws random numbers."""
    return not node.domain and node.type in _DISTRIBUTIONS


def import_random(operators: Operators, node: Node, where: str) -> None:
    """Bind the output of a random operator to a new input of the main graph.

    Args:
        node: A node that ``is_random``.
        where: Its place.

    Raises:
        UnsupportedOp: If its shape is not known, or it is in a branch or a loop.
    """
    context = operators.context
    spec = infer(node, dict)[0]
    if spec.shape is None or None in spec.shape:
        raise UnsupportedOp(
            "the random numbers that become an input have no known shape",
            fix=bind_dims(),
        )
    if context.builder.graph is not next(iter(context.graphs.values())):
        raise UnsupportedOp(
            "random numbers in a branch or a loop cannot be an input",
            fix=f"unroll the loop with {spell('unroll_loops')}, or move the random operators out of the loop",
        )
    owner = context.frame.owner
    own = node.name if context.frame.callers else node.outputs[0]
    source = own if owner is None else owner.own_name
    name = context.builder.graph.unique_name(source if "rand" in source.lower() else f"{source}_random")
    add_input(context, name, spec.shape, ir.dtype.from_numpy(spec.dtype))
    numbers = {key: node.attributes.get(key, number) for key, number in _DEFAULTS.items()}
    context.diagnostics.notices.append(
        f"the DLC needs input {name!r}, {list(spec.shape)}: {_DISTRIBUTIONS[node.type].format(**numbers)}, "
        f"which {(owner or node).type} {source!r} draws in the model"
    )
    node.read.update(node.attributes)
    context.accept(node, [context.values[name]], where)
