"""Arguments of operators, checked: numbers, lists, words, the storage order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdlc.converter.nhwc.shapes import channel_first, channel_last
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

_MOST = (1 << 31) - 1


def numbers(node: Node, name: str) -> list[float]:
    """Return a numeric argument as a list, of one for a number; empty if missing.

    Raises:
        ModelError: If it is something else, or NaN.
    """
    given = node.attr(name, [])
    listed = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not all(isinstance(each, int | float) and not math.isnan(each) for each in listed):
        raise node.invalid(f"argument {name} is {given!r:.60}, not a number")
    return list(listed)


def number(node: Node, name: str, default: float) -> float:
    """Return an argument that is one number; else as ``numbers``."""
    found = numbers(node, name) or [default]
    if len(found) != 1:
        raise node.invalid(f"argument {name} has {len(found)} numbers instead of 1")
    return float(found[0])


def integers(node: Node, name: str) -> list[int]:
    """Return an integer argument as a list, of one for an integer; empty if missing.

    Raises:
        ModelError: If it is something else, or beyond 32 bits.
    """
    found = numbers(node, name)
    if not all(abs(each) <= _MOST and each == int(each) for each in found):
        raise node.invalid(f"argument {name} is {found!r:.60}, not 32-bit integers")
    return [int(each) for each in found]


def integer(node: Node, name: str, default: int, least: int = -_MOST) -> int:
    """Return an argument that is one integer.

    Raises:
        ModelError: If it is something else, or below ``least``.
    """
    found = integers(node, name) or [default]
    if len(found) != 1 or found[0] < least:
        wanted = f", at least {least}" if least > -_MOST else ""
        raise node.invalid(f"argument {name} is {found!r:.60} instead of one number{wanted}")
    return found[0]


def flag(node: Node, name: str, default: bool = False) -> bool:
    """Return an argument that is 0 or another integer."""
    return bool(integer(node, name, int(default)))


def word(node: Node, name: str, *words: str) -> str:
    """Return an argument that is one of some words, by default the first.

    Raises:
        ModelError: If it is another word.
    """
    stated = node.attr(name, words[0])
    if stated not in words:
        raise node.invalid(f"argument {name} is {stated!r:.60}; {' and '.join(words)} are supported")
    return str(stated)


def is_channel_last(node: Node) -> bool:
    """Return whether argument order puts channels last: NHWC, for any rank."""
    return word(node, "order", "NCHW", "NHWC") == "NHWC"


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
    count, most = len(node.inputs), least if most is None else most
    if not least <= count <= most:
        raise node.invalid(f"{count} inputs instead of {least if most == least else f'{least} to {most}'}")
    return [node.required(index) for index in range(count)]


def vectors(node: Node, count: int, **values: Value) -> list[Value]:
    """Return inputs that must hold ``count`` numbers each, by their roles.

    Raises:
        ModelError: If one has another shape.
    """
    for what, x in values.items():
        if x.shape != (count,):
            raise node.invalid(f"{what} {x.tensor.name!r} has shape {list(x.shape)} instead of {[count]}")
    return list(values.values())


def wants(node: Node, *outputs: int) -> bool:
    """Return whether something reads one of some outputs."""
    return any(node.outputs[output] for output in outputs if output < len(node.outputs))
