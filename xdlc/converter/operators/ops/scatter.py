"""ScatterElements and ScatterND."""

from __future__ import annotations

from collections.abc import Mapping

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number, unary
from xdlc.converter.operators.ops.gather import index_value, tuple_value
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value, identity
from xdlc.opdefs.elementwise_enums import NEG, SUBTRACT

_REDUCTIONS = {"none": 0, "add": 1, "mul": 2, "max": 3}


@importer("ScatterElements", since=11)
@importer("Scatter", since=9)
def scatter_elements(node: Node, b: Builder) -> Value:
    """Map onto ScatterElements."""
    x, indices = node.required(0), node.required(1)
    axis = node.axis(node.attr("axis", 0), x.rank)
    positions = index_value(node, b, indices, x.shape[axis])
    return _scattered(node, b, "ScatterElements", positions, {"axis": ir.u32(axis)})


@importer("ScatterND", since=11)
def scatter_nd(node: Node, b: Builder) -> Value:
    """Map onto ScatterNd."""
    x, indices = node.required(0), node.required(1)
    dims = x.shape[: indices.shape[-1]]
    return _scattered(node, b, "ScatterNd", tuple_value(node, b, indices, dims), {})


def _scattered(node: Node, b: Builder, type: str, positions: Value, params: Mapping[str, ir.Param]) -> Value:
    """Append a scatter; a minimum is the negated maximum of negated values."""
    x, updates = node.required(0), node.required(2)
    if positions.rank == 1 and type == "ScatterNd":  # one update, of rank 0 where it is one element
        positions, updates = b.with_rank(positions, 2), b.reshape(updates, (1, *updates.shape))
    reduction = node.attr("reduction", "none")
    if reduction not in (*_REDUCTIONS, "min"):
        raise node.invalid(f"reduction {reduction!r} is unknown")
    turned = reduction == "min"
    if turned:
        x, updates, reduction = _upside_down(b, x), _upside_down(b, updates), "max"
    inputs = [b.source_order(value) for value in (x, positions, updates)]
    given = {**params, "reduction": ir.u32(_REDUCTIONS[reduction])}
    result = Value(b.emit(type, inputs, x.shape, x.dtype, given), identity(x.rank))
    return _upside_down(b, result) if turned else result


def _upside_down(b: Builder, x: Value) -> Value:
    """Return values in reverse order of size: integers so that none leaves its type."""
    if x.dtype.is_float:
        return unary(b, NEG, x)
    most = x.dtype.limits[1] if not x.dtype.is_signed else -1
    return b.binary(SUBTRACT, number(b, x, most), x)
