"""Lists of tensors: by element while small and static, else [length, ...]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.context import SEQUENCE_ELEMENTS
from xdlc.converter.session.node import Node, bind_dims
from xdlc.converter.values import AnyValue, SequenceValue, Value, check_shape, check_table
from xdlc.ir.data import Array
from xdlc.ir.dtype import from_numpy

LISTED = 1024
"""Longest list that is held element by element."""


def reserved(node: Node, g: Operators, count: int, dtype: str, shape: Sequence[int] | None) -> AnyValue:
    """Return a list of unset elements, which read as zeros.

    Args:
        count: Its length.
        dtype: Type of its elements, in TensorFlow's words.
        shape: Shape of its elements, None or -1 for what is not known.
    """
    if not 0 <= count <= SEQUENCE_ELEMENTS:
        raise node.problem(f"a list of {count} elements is not supported; at most {SEQUENCE_ELEMENTS} are")
    try:
        kind = np.dtype(dtype)
        element_type = from_numpy(kind)
    except TypeError as error:
        raise node.problem(f"a list of {dtype}, which a DLC cannot hold") from error
    is_known = shape is not None and min(shape, default=0) >= 0
    if shape is not None and is_known:
        check_shape(node.own_name, (count, *shape), element_type)
    if count > LISTED and shape is not None and is_known:
        check_table(count, *shape)
        return g.builder.const(np.zeros((count, *shape), kind), f"{g.builder.stem}_list")
    element = g.builder.const(np.zeros(shape if is_known else 0, kind), f"{g.builder.stem}_unset")
    return counted(node, g, [element] * count)


def counted(node: Node, g: Operators, elements: Sequence[Value]) -> SequenceValue:
    """Return a list of elements, which are counted.

    Raises:
        UnsupportedOp: If the lists of the model hold too many.
    """
    if not g.context.budget.sequence_elements.take(len(elements)):
        raise node.problem(f"the lists of the model hold more than {SEQUENCE_ELEMENTS} elements")
    return SequenceValue(tuple(elements))


def is_unset(element: Value) -> bool:
    """Return whether an element of a list is unset and has no shape."""
    return element.is_static and element.shape == (0,)


def list_of(node: Node, index: int) -> AnyValue:
    """Return an input that is a list."""
    return node.required(index)


def length(node: Node, items: AnyValue) -> int:
    """Return the length of a list.

    Raises:
        UnsupportedOp: If it is not known.
    """
    if isinstance(items, SequenceValue):
        return len(items.elements)
    dims = items.dims if isinstance(items, Value) else None
    if not dims or dims[0] is None:
        raise node.problem(
            "the length of a list depends on data", f"make its length a constant: {bind_dims()}"
        )
    return dims[0]


def element_shape(node: Node, index: int) -> list[int] | None:
    """Return the shape that an input states of a list's elements; -1 denotes unknown."""
    value = node.input(index)
    if value is None or not value.is_static:
        return None
    array = value.numpy()
    return None if array.ndim == 0 else [int(size) for size in array.reshape(-1)]


def stacked(node: Node, g: Operators, items: AnyValue, shape: Sequence[int] | None = None) -> Value:
    """Return a list as one tensor [length, ...].

    Args:
        shape: Shape of its elements if nothing has set any, None or -1 for what is not known.

    Raises:
        UnsupportedOp: If the shape of the elements is not known.
    """
    if isinstance(items, Value):
        return items
    elements = list(items.elements) if isinstance(items, SequenceValue) else []
    made = [element for element in elements if not is_unset(element)]
    if made and made[0].dims is not None and None not in made[0].dims:
        shape = made[0].shape
    if len(made) < len(elements) or not elements:
        if shape is None or min(shape, default=0) < 0 or not elements:
            raise node.problem(
                "the shape of a list's elements is unknown",
                f"{bind_dims()}, or set an element first",
            )
        filler = g.builder.const(np.zeros(shape, elements[0].dtype.numpy), f"{g.builder.stem}_unset")
        elements = [filler if is_unset(element) else element for element in elements]
    if all(element.is_static for element in elements):
        return g.builder.const(np.stack([element.numpy() for element in elements]), f"{g.builder.stem}_list")
    axis = g.builder.const(np.zeros(1, np.int64))
    return g("Concat", [g("Unsqueeze", [element, axis]) for element in elements], axis=0)


def listed(node: Node, g: Operators, items: AnyValue) -> list[Value]:
    """Return the elements of a list."""
    if isinstance(items, SequenceValue):
        return list(items.elements)
    count = length(node, items)
    if count > LISTED:
        raise node.problem(f"a list of {count} elements is not supported here; at most {LISTED} are")
    return [element_at(node, g, items, index) for index in range(count)]


def element_at(
    node: Node, g: Operators, items: AnyValue, index: int | Value, shape: Sequence[int] | None = None
) -> Value:
    """Return an element of a list; an unset one is zero."""
    if isinstance(index, Value) and index.is_static:
        index = int(index.numpy().reshape(-1)[0])
    if isinstance(items, SequenceValue) and isinstance(index, int):
        if not 0 <= index < len(items.elements):
            raise node.invalid(f"element {index} of a list of {len(items.elements)}")
        element = items.elements[index]
        if is_unset(element):
            return stacked_row(node, g, items, shape)
        return element
    if isinstance(index, int):
        index = g.builder.const(np.asarray(index, np.int64))
    return g("Gather", [stacked(node, g, items, shape), index], axis=0)


def stacked_row(node: Node, g: Operators, items: SequenceValue, shape: Sequence[int] | None) -> Value:
    """Return zeros of the shape of the elements of a list."""
    set_ones = [element for element in items.elements if not is_unset(element)]
    element_dims = set_ones[0].shape if set_ones else shape
    if element_dims is None or min(element_dims, default=0) < 0:
        raise node.problem("reads an unset element of a list, whose shape is unknown")
    return g.builder.const(np.zeros(element_dims, items.elements[0].dtype.numpy), f"{g.builder.stem}_zero")


def with_element(node: Node, g: Operators, items: AnyValue, index: Value, item: Value) -> AnyValue:
    """Return a list with one element replaced."""
    if isinstance(items, SequenceValue) and index.is_static:
        position, elements = int(index.numpy().reshape(-1)[0]), list(items.elements)
        if not 0 <= position < len(elements):
            raise node.invalid(f"element {position} of a list of {len(elements)}")
        elements[position] = item
        return SequenceValue(tuple(elements))
    dims = item.dims
    tensor = stacked(node, g, items, None if dims is None or None in dims else item.shape)
    at = g("Reshape", [g("Cast", [index], to=7), g.builder.const(np.asarray([1, 1], np.int64))])
    row = g("Unsqueeze", [item, g.builder.const(np.zeros(1, np.int64))])
    return g("ScatterND", [tensor, at, row])


def indices(node: Node, index: int) -> Array | None:
    """Return an input that holds positions in a list, None if they are computed."""
    value = node.required(index)
    return value.numpy().reshape(-1).astype(np.int64) if value.is_static else None
