"""Constants and nodes that an importer adds to those of the source."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.operators.control_flow.interface import Importer
from xdlc.converter.operators.control_flow.sub_graph import boundary
from xdlc.converter.values import AnyValue, Value
from xdlc.ir import Tensor


def ints(importer: Importer, *values: int) -> Value:
    """Return known integers, [count], int64."""
    import numpy

    return importer.builder.const(numpy.asarray(values, numpy.int64))


def scalar(importer: Importer, value: int | bool) -> Value:
    """Return a known number, int64, or truth value, of rank 0."""
    import numpy

    dtype = numpy.bool_ if isinstance(value, bool) else numpy.int64
    return importer.builder.const(numpy.asarray(value, dtype))


def known(value: AnyValue | None) -> int | None:
    """Return a number or truth value that is known, else None."""
    if not isinstance(value, Value) or not value.is_static or value.size != 1:
        return None
    return int(value.numpy().reshape(-1)[0])


def as_condition(importer: Importer, value: Value) -> Tensor:
    """Return a condition as a tensor of shape [1]."""
    if value.rank > 1 or value.is_dynamic:
        value = importer.apply("Reshape", [value, ints(importer, 1)])
    return boundary(importer.builder, value)


def stacked(importer: Importer, pieces: Sequence[Value], axis: int, backwards: bool) -> Value:
    """Return values side by side along a new axis."""
    rows = [importer.apply("Unsqueeze", [piece, ints(importer, axis)]) for piece in pieces]
    if backwards:
        rows.reverse()
    return rows[0] if len(rows) == 1 else importer.apply("Concat", rows, axis=axis)
