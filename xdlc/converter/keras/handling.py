"""Readers of nodes for layer handlers: weights, arguments, sizes, data formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xdlc.converter.keras.layers import EXPORT
from xdlc.converter.nhwc.shapes import cast, channel_first, channel_last, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handler, Handlers
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32, from_numpy


def _refuse(node: Node, _g: Operators) -> Value:
    """Refuse a layer.

    Raises:
        UnsupportedOp: Always.
    """
    if node.domain:
        raise node.problem(f"operation {node.type} has no handler", EXPORT)
    raise node.problem(f"layer class {node.type} is unknown or custom", EXPORT)


_REFUSING = Handler(_refuse, SOURCE, frozenset())


class _KerasHandlers(Handlers):
    def find(self, domain: str, type: str) -> Handler | None:
        """Return the handler of a layer class, or the one that refuses unknown classes."""
        return super().find(domain, type) or _REFUSING

    def knows(self, domain: str, type: str) -> bool:
        """Return whether there is a handler of a layer class."""
        return super().find(domain, type) is not None


handler = _KerasHandlers("xdlc.converter.keras.ops")


DTYPES = dict.fromkeys(("float16", "bfloat16", "float32", "float64"), FLOAT32) | {
    name: from_numpy(np.dtype(name))
    for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
"""Types of a DLC by their names in Keras; floats are float32."""


class Operand(NamedTuple):
    """A tensor among the arguments of a call.

    Attributes:
        place: Its position among the inputs of the node.
    """

    place: int


def weight(node: Node, role: str) -> Value | None:
    """Return a weight of a layer, or None if it has none of this role."""
    index = node.attr("weights", {}).get(role)
    return None if index is None else node.required(index)


def required_weight(node: Node, role: str, rank: int | None = None) -> Value:
    """Return a weight of a layer.

    Raises:
        ModelError: If it is missing or has another rank.
    """
    value = weight(node, role)
    if value is None:
        raise node.invalid(f"has no weight {role!r}")
    if rank is not None and value.rank != rank:
        raise node.invalid(f"weight {role!r} has shape {list(value.shape)} instead of rank {rank}")
    return value


def argument(node: Node, name: str) -> Value | None:
    """Return an argument of a call that is a tensor, or None."""
    argument = node.attr(name)
    if argument is None:
        return None
    if not isinstance(argument, Operand):
        raise node.problem(f"argument {name} is {argument!r:.40}, not a tensor")
    return node.required(argument.place)


def inputs(node: Node) -> list[Value]:
    """Return the tensors of the first argument of a call."""
    given = node.attr("inputs", [Operand(0)])
    if not all(isinstance(each, Operand) for each in given):
        raise node.problem("an input is not a tensor of the model")
    return [node.required(each.place) for each in given]


def only_input(node: Node) -> Value:
    """Return the one tensor that a layer is called with."""
    return node.required(0)


def as_float(g: Operators, x: Value) -> Value:
    """Return a value as float32, as layers convert their inputs."""
    return x if x.dtype.is_float else cast(g, x, FLOAT32)


def sizes(node: Node, name: str, count: int, default: Any = None) -> list[int]:
    """Return an option of one integer for each of some axes.

    Raises:
        ModelError: If it has another form.
    """
    given = node.attr(name)
    given = default if given is None else given
    found = [given] * count if type(given) is int else given
    if not isinstance(found, list) or len(found) != count or not all(type(each) is int for each in found):
        raise node.invalid(f"{name} is {given!r:.60} for {count} axes")
    return found


def number_of(node: Node, name: str, default: float | None = None) -> float:
    """Return an option that is a number.

    Raises:
        ModelError: If it is not a number.
    """
    number = node.attr(name, default)
    number = default if number is None else number
    if isinstance(number, dict):  # an array of numpy
        number = (number.get("config") or {}).get("value")
    if isinstance(number, bool) or not isinstance(number, int | float) or math.isnan(number):
        raise node.invalid(f"{name} is {number!r:.60}, not a number")
    return number


def is_channel_first(node: Node) -> bool:
    """Return whether a layer is channel-first.

    Raises:
        ModelError: If the data format is unknown.
    """
    given = node.attr("data_format", "channels_last")
    if given not in ("channels_last", "channels_first", None):
        raise node.invalid(f"data_format is {given!r:.40}")
    return bool(given == "channels_first")


def in_last(node: Node, g: Operators, x: Value, function: Callable[[Value], Value]) -> Value:
    """Apply a channel-last function; return the result in the layer's data format."""
    if not is_channel_first(node):
        return function(x)
    return channel_first(g, function(channel_last(g, x)))


def moved(g: Operators, x: Value, axes: Sequence[int], places: Sequence[int]) -> tuple[Value, list[int]]:
    """Return a value with axes moved, and the permutation that moves them back.

    Args:
        places: Their places in the result.
    """
    rest = [axis for axis in range(x.rank) if axis not in axes]
    there = dict(zip(places, axes, strict=True))
    left = iter(rest)
    order = [there[place] if place in there else next(left) for place in range(x.rank)]
    back = [order.index(axis) for axis in range(x.rank)]
    return (x if order == list(range(x.rank)) else g("Transpose", [x], perm=order)), back


def batched(g: Operators, x: Value, shape: Sequence[int]) -> Value:
    """Return a value reshaped after its first dimension; one may be -1."""
    return g("Reshape", [x, vector(g, [0, *shape])])


def const(g: Operators, value: Any, like: Value | None = None) -> Value:
    """Return a constant, float32 or of the type of another value."""
    return g.builder.const(np.asarray(value, np.float32 if like is None else like.dtype.numpy))
