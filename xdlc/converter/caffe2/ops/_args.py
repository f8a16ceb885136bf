"""Arguments of operators, checked: numbers, lists, words, the storage order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdlc.converter.nhwc.shapes import channel_first, channel_last
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

_MOST = (1 << 31) - 1


def integers(node: Node, name: str) -> list[int] | None:
    """Return an argument that is integers, a single one as a list of one; None without it.

    Raises:
        ModelError: If it is something else, or beyond 32 bits.
    """
    given = node.attr(name)
    if given is None:
        return None
    listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    for each in listed:
        if not isinstance(each, int | float) or not math.isfinite(each) or each != int(each):
            raise node.invalid(f"argument {name} is {given!r:.60}, no integer")
        if abs(each) > _MOST:
            raise node.invalid(f"argument {name} is {given!r:.60}, beyond 32 bits")
    return [int(each) for each in listed]


def integer(node: Node, name: str, default: int, least: int = -_MOST) -> int:
    """Return an argument that is one integer.

    Raises:
        ModelError: If it is something else, or below ``least``.
    """
    given = integers(node, name)
    if given is None:
        return default
    if len(given) != 1:
        raise node.invalid(f"argument {name} has {len(given)} numbers instead of 1")
    if given[0] < least:
        raise node.invalid(f"argument {name} is {given[0]}; it must be at least {least}")
    return given[0]


def number(node: Node, name: str, default: float) -> float:
    """Return an argument that is one number.

    Raises:
        ModelError: If it is something else, or NaN.
    """
    given = node.attr(name, default)
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if not isinstance(given, int | float) or math.isnan(given):
        raise node.invalid(f"argument {name} is {given!r:.60}, no number")
    return float(given)


def numbers(node: Node, name: str) -> list[float]:
    """Return an argument that is numbers, none without it.

    Raises:
        ModelError: If it is something else, or not finite.
    """
    given = node.attr(name, [])
    listed = given if isinstance(given, list) else [given]
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in listed):
        raise node.invalid(f"argument {name} is {given!r:.60}")
    return [float(each) for each in listed]


def flag(node: Node, name: str, default: bool = False) -> bool:
    """Return an argument that is 0 or another integer."""
    return bool(integer(node, name, int(default)))


def word(node: Node, name: str, known: Sequence[str], default: str) -> str:
    """Return an argument that is one of some words.

    Raises:
        ModelError: If it is none of them.
    """
    given = node.attr(name, default)
    if given not in known:
        raise node.invalid(f"argument {name} is {given!r:.60}; {' and '.join(known)} are known")
    return str(given)


def is_channel_last(node: Node) -> bool:
    """Return whether argument order puts the channels at the end: NHWC, for any number of axes."""
    return word(node, "order", ("NCHW", "NHWC"), "NCHW") == "NHWC"


def planes(node: Node, g: Operators, x: Value) -> Value:
    """Return a value of the node's storage order with its channels in axis 1."""
    return channel_first(g, x) if is_channel_last(node) else x


def stored(node: Node, g: Operators, x: Value) -> Value:
    """Return a value with its channels in axis 1 in the node's storage order."""
    return channel_last(g, x) if is_channel_last(node) else x


def inputs(node: Node, least: int, most: int | None = None) -> list[Value]:
    """Return the inputs.

    Raises:
        ModelError: If there are fewer or more than the operator takes.
    """
    count = len(node.inputs)
    if not least <= count <= (least if most is None else most):
        wanted = f"{least}" if most in (None, least) else f"{least} to {most}"
        raise node.invalid(f"{count} inputs instead of {wanted}")
    return [node.required(index) for index in range(count)]


def vector_of(node: Node, x: Value, count: int, what: str) -> Value:
    """Return an input that must have one number for each of ``count`` elements.

    Raises:
        ModelError: If it has another shape.
    """
    if x.shape != (count,):
        raise node.invalid(f"{what} {x.tensor.name!r} has shape {list(x.shape)} instead of {[count]}")
    return x


def wants(node: Node, output: int) -> bool:
    """Return whether something reads an output."""
    return len(node.outputs) > output and bool(node.outputs[output])
