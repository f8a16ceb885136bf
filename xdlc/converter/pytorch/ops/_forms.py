"""Forms of arguments that handlers of ATen's operators share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.registry import AtenNode
from xdlc.converter.values import Value


def operand(node: AtenNode, g: Operators, value: Value | float) -> Value:
    """Return a tensor or a number in the data type of the node's result, as PyTorch promotes it."""
    if isinstance(value, Value):
        return g.builder.cast(value, node.dtype)
    return g.builder.const(np.asarray(value, node.dtype.numpy))


def spread(values: Sequence[int] | int, count: int) -> list[int]:
    """Return one number for each spatial axis: a single one is for all of them."""
    given = [values] if isinstance(values, int) else list(values)
    return given * count if len(given) == 1 else given
