"""Steps of control flow: constants, conditions, joined types of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.control_flow.sub_graph import boundary
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, Dims, Value, identity
from xdlc.ir import HOST_PACKAGE, DType, Tensor

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


def ints(importer: Operators, *values: int) -> Value:
    """Return known integers, [count], int64."""
    import numpy

    return importer.builder.const(numpy.asarray(values, numpy.int64))


def scalar(importer: Operators, value: int | bool) -> Value:
    """Return a known number, int64, or truth value, of rank 0."""
    import numpy

    dtype = numpy.bool_ if isinstance(value, bool) else numpy.int64
    return importer.builder.const(numpy.asarray(value, dtype))


def known(value: AnyValue | None) -> int | None:
    """Return a number or truth value that is known, else None."""
    if not isinstance(value, Value) or not value.is_static or value.size != 1:
        return None
    return int(value.numpy().reshape(-1)[0])


def as_condition(importer: Operators, value: Value) -> Tensor:
    """Return a condition as a tensor of shape [1]."""
    if value.rank > 1 or value.is_dynamic:
        value = importer("Reshape", [value, ints(importer, 1)])
    return boundary(importer.builder, value)


def stacked(importer: Operators, pieces: Sequence[Value], axis: int, backwards: bool) -> Value:
    """Return values side by side along a new axis."""
    rows = [importer("Unsqueeze", [piece, ints(importer, axis)]) for piece in pieces]
    if backwards:
        rows.reverse()
    return rows[0] if len(rows) == 1 else importer("Concat", rows, axis=axis)


Kind = tuple[Dims | None, DType, ir.Encoding | None]
"""Shape (None if the rank is open), data type and encoding."""


def kind_of(value: Value) -> Kind:
    """Return what is known of a value."""
    return value.dims, value.dtype, value.tensor.encoding


def joined(node: Node, values: Sequence[Value]) -> Kind:
    """Return what is known of a value that is one of ``values``.

    Raises:
        ModelError: If they are of different types.
    """
    kinds = [kind_of(value) for value in values]
    if len({(dtype, encoding) for _, dtype, encoding in kinds}) > 1:
        names = " and ".join(dict.fromkeys(str(dtype) for _, dtype, _ in kinds))
        raise node.invalid(f"a value is of type {names}, depending on the branch or the iteration")
    shape = kinds[0][0]
    for other, _, _ in kinds[1:]:
        shape = wider(shape, other)
    return shape, kinds[0][1], kinds[0][2]


def wider(one: Dims | None, other: Dims | None) -> Dims | None:
    """Return a shape that both shapes fit, open where they differ."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def grown(shape: Dims | None, axis: int, extent: int | None) -> Dims:
    """Return a shape with one more axis."""
    held = list(shape or ())
    held.insert(axis if axis >= 0 else axis + len(held) + 1, extent)
    return tuple(held)


def emit(
    builder: Builder,
    type: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Kind],
    params: Mapping[str, ir.Param],
) -> list[Value]:
    """Append an op that runs graphs; return its results of the kinds ``outputs``."""
    shapes: list[Dims] = [(None,) if shape is None else shape or (1,) for shape, _, _ in outputs]
    specs = [
        (tuple(1 if extent is None else extent for extent in shape), dtype)
        for shape, (_, dtype, _) in zip(shapes, outputs, strict=True)
    ]
    encodings = [encoding for _, _, encoding in outputs]
    made = builder.emit_many(type, inputs, specs, params, encodings=encodings, package=HOST_PACKAGE)
    values = []
    for tensor, held, (shape, _, _) in zip(made, shapes, outputs, strict=True):
        tensor.dynamic_axes = tuple(axis for axis, extent in enumerate(held) if extent is None)
        order = () if shape == () else identity(tensor.rank)
        values.append(Value(tensor, order, ranked=shape is not None))
    return values
