"""What is known of the values that go into an op that runs graphs, and out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.inference import extents
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Extents, Value, identity
from xdlc.ir import HOST_PACKAGE, DType, Tensor

Kind = tuple[Extents | None, DType, ir.Encoding | None]
"""Shape (None if the rank is open), data type and encoding."""


def kind_of(value: Value) -> Kind:
    """Return what is known of a value."""
    return extents(value), value.dtype, value.tensor.encoding


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


def wider(one: Extents | None, other: Extents | None) -> Extents | None:
    """Return a shape that both shapes fit, open where they differ."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def grown(shape: Extents | None, axis: int, extent: int | None) -> Extents:
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
    """Append an op that runs graphs; return its results, of which so much is known as ``outputs`` says."""
    shapes: list[Extents] = [(None,) if shape is None else shape or (1,) for shape, _, _ in outputs]
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
