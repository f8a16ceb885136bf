"""Forms of arguments that handlers of ATen's operators share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode
from xdlc.converter.values import Value
from xdlc.ir.data import Array


def operand(node: AtenNode, g: Operators, value: Value | float) -> Value:
    """Return a tensor or a number in the data type that the node's result has."""
    if isinstance(value, Value):
        return g.builder.cast(value, node.dtype)
    return g.builder.const(np.asarray(value, node.dtype.numpy))


def spread(values: Sequence[int] | int, count: int) -> list[int]:
    """Return one number for each spatial axis: a single one is for all of them."""
    given = [values] if isinstance(values, int) else list(values)
    return given * count if len(given) == 1 else given


def batched(g: Operators, x: Value, rank: int) -> Value:
    """Return a value with a batch axis of 1 if it lacks an axis to ``rank``."""
    return g("Unsqueeze", [x, vector(g, [0])]) if x.rank == rank - 1 else x


def unbatched(g: Operators, result: Value, x: Value, rank: int | None = None) -> Value:
    """Return a result without its first axis where ``batched`` added that to ``x``.

    Args:
        x: The value before ``batched``.
        rank: Number of axes that ``x`` has then; default: one less than the result.
    """
    rank = result.rank - 1 if rank is None else rank
    return g("Squeeze", [result, vector(g, [0])]) if x.rank == rank else result


def mixed(g: Operators, x: Value, axis: int, table: Array) -> Value:
    """Return a value with an axis replaced by shares [new, old] of its elements."""
    if np.array_equal(table, np.eye(len(table))):
        return x
    order = [*(held for held in range(x.rank) if held != axis), axis]
    shares = g.builder.const(np.ascontiguousarray(table.T.astype(x.dtype.numpy)))
    made = g("MatMul", [g("Transpose", [x], perm=order), shares])
    return g("Transpose", [made], perm=[order.index(held) for held in range(x.rank)])
