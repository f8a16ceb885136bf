"""Products of matrices, and of rows with weights."""

from __future__ import annotations

from xdlc.converter.functions.shapes import (
    dims,
    permuted,
    reshape,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value
from xdlc.errors import ModelError


def swapped(g: Operators, x: Value) -> Value:
    """Return ``x`` with its last two axes swapped."""
    return permuted(g, x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


def matmul(g: Operators, x: Value, y: Value, *, swap_x: bool = False, swap_y: bool = False) -> Value:
    """Return the matrix product over the last two axes; the other axes broadcast.

    Raises:
        ModelError: If an operand is not a matrix.
    """
    if x.rank < 2 or y.rank < 2:
        raise ModelError(
            f"a matrix product cannot have inputs of ranks {x.rank} and {y.rank}", fix="correct the model"
        )
    return g("MatMul", [swapped(g, x) if swap_x else x, swapped(g, y) if swap_y else y])


def dense(g: Operators, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """Return x * weightᵀ + bias.

    Args:
        x: [rows, I].
        weight: [O, I], constant or computed.
        bias: [O], or None.
    """
    return g("Gemm", [x, weight, bias] if bias is not None else [x, weight], transB=1)


def fully_connected(g: Operators, x: Value, weight: Value, bias: Value | None, *, keep_dims: bool) -> Value:
    """Return rows of ``x``, viewed as [-1, I], times TensorFlow Lite's weights.

    Args:
        x: Any shape whose number of elements is a multiple of I.
        weight: [O, I].
        bias: [O], or None.
        keep_dims: Whether the result is [leading axes of x..., O] instead of [rows, O].
    """
    shape, (units, inner) = dims(x), dims(weight)
    if not inner or x.size % inner or (keep_dims and shape[-1] != inner):
        raise ModelError(
            f"an input {list(shape)} does not fit weights {[units, inner]}", fix="correct the model"
        )
    rows = x if len(shape) == 2 and shape[1] == inner else reshape(g, x, (x.size // inner, inner))
    made = dense(g, rows, weight, bias)
    return reshape(g, made, (*shape[:-1], units)) if keep_dims and len(shape) != 2 else made
