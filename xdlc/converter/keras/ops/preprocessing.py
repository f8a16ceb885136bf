"""Layers that preprocess numbers and categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdlc.converter.functions.elementwise import bucketize, one_hot
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import axis_of, cast
from xdlc.converter.keras.registry import (
    as_float,
    batched,
    const,
    handler,
    number_of,
    only_input,
    weight,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32, INT64


@handler("Rescaling")
def rescaling(node: Node, g: Operators) -> Value:
    """Apply x * scale + offset; both may be lists."""
    scale, offset = _numbers(node, "scale"), _numbers(node, "offset")
    x = g("Mul", [as_float(g, only_input(node)), scale])
    return x if not np.any(offset) else g("Add", [x, offset])


def _numbers(node: Node, name: str) -> Any:
    stated = node.attr(name, 0.0)
    if isinstance(stated, dict):  # an array of numpy
        config = stated.get("config")
        stated = config.get("value") if isinstance(config, dict) else None
    try:
        if not isinstance(stated, int | float | list | np.ndarray):
            raise TypeError("not a number")
        return np.asarray(stated, np.float32)
    except (TypeError, ValueError) as error:
        raise node.invalid(f"{name} is {stated!r:.60}, not numbers") from error


@handler("Normalization")
def normalization(node: Node, g: Operators) -> Value:
    """Apply (x - mean) / max(sqrt(variance), 1e-7), or its inverse."""
    x = as_float(g, only_input(node))
    given = node.attr("axis", -1)
    listed = given if isinstance(given, list) else [] if given is None else [given]
    axes = {axis_of(int(axis), x.rank) for axis in listed}
    shape = [x.shape[axis] if axis in axes else 1 for axis in range(x.rank)]

    def numbers(name: str) -> Any:
        held = weight(node, name)
        stored = _numbers(node, name) if held is None else held.numpy()
        return np.broadcast_to(stored.reshape(-1), shape) if stored.size == 1 else stored.reshape(shape)

    mean, spread = numbers("mean"), np.maximum(np.sqrt(numbers("variance")), np.float32(1e-7))
    node.attr("mean"), node.attr("variance")
    if node.attr("invert", False):
        return g("Add", [g("Mul", [x, spread]), mean])
    return g("Div", [g("Sub", [x, mean]), spread])


@handler("Discretization", ignores=("num_bins", "epsilon", "sparse"))
def discretization(node: Node, g: Operators) -> Value:
    """Return the number of boundaries at or below each element."""
    boundaries, mode = node.attr("bin_boundaries"), node.attr("output_mode", "int")
    if not isinstance(boundaries, list):
        raise node.invalid("the layer has no bin_boundaries")
    found = bucketize(g, as_float(g, only_input(node)), [float(each) for each in boundaries])
    return cast(g, found, INT64) if mode == "int" else _encoded(node, g, found, len(boundaries) + 1, mode)


@handler("CategoryEncoding", ignores=("sparse",))
def category_encoding(node: Node, g: Operators) -> Value:
    """Return categories as vectors."""
    count, mode = int(number_of(node, "num_tokens")), node.attr("output_mode", "multi_hot")
    return _encoded(node, g, cast(g, only_input(node), INT32), count, mode)


def _encoded(node: Node, g: Operators, x: Value, count: int, mode: Any) -> Value:
    if mode not in ("one_hot", "multi_hot", "count"):
        raise node.problem(f"xdlc does not support output_mode {mode!r:.40}")
    if mode == "one_hot" and x.rank > 1 and x.shape[-1] == 1:
        x = batched(g, x, x.shape[1:-1])
    made = one_hot(g, x, count, const(g, 1), const(g, 0), -1)
    if mode == "one_hot":
        return made
    # Keras reduces the second axis of any rank.
    return reduced(g, "Max" if mode == "multi_hot" else "Sum", made, [min(1, x.rank - 1)], keep=False)
