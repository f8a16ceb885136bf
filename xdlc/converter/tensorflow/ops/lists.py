"""Lists of tensors (by element while small and static), TensorList, TensorArray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.context import SEQUENCE_ELEMENTS
from xdlc.converter.session.node import Node, bind_dims
from xdlc.converter.tensorflow.registry import applied, handler
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
        raise node.problem(f"xdlc supports lists of at most {SEQUENCE_ELEMENTS} elements, not {count}")
    try:
        kind = np.dtype(dtype)
        element_type = from_numpy(kind)
    except TypeError as error:
        raise node.problem(f"a list has elements of type {dtype}, which a DLC cannot hold") from error
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
    """Return the shape of a list's elements by an input or attribute; -1 is unknown."""
    value, sizes = node.input(index), node.attr("element_shape")
    if value is None:
        return None if sizes is None else [-1 if size is None else size for size in sizes]
    if not value.is_static or value.numpy().ndim == 0:
        return None
    return [int(size) for size in value.numpy().reshape(-1)]


def stacked(node: Node, g: Operators, items: AnyValue, shape: Sequence[int] | None = None) -> Value:
    """Return a list as a tensor [length, ...].

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
        raise node.problem(f"xdlc supports lists of at most {LISTED} elements, not {count}")
    return [element_at(node, g, items, index) for index in range(count)]


def element_at(
    node: Node, g: Operators, items: AnyValue, index: int | Value, shape: Sequence[int] | None = None
) -> Value:
    """Return an element of a list; an unset element is zero."""
    if isinstance(index, Value) and index.is_static:
        index = int(index.numpy().reshape(-1)[0])
    if isinstance(items, SequenceValue) and isinstance(index, int):
        if not 0 <= index < len(items.elements):
            raise node.invalid(f"element {index} is outside a list of {len(items.elements)} elements")
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
        raise node.problem("the node reads an unset element of a list, whose shape is unknown")
    return g.builder.const(np.zeros(element_dims, items.elements[0].dtype.numpy), f"{g.builder.stem}_zero")


def with_element(node: Node, g: Operators, items: AnyValue, index: Value, item: Value) -> AnyValue:
    """Return a list with one element replaced."""
    if isinstance(items, SequenceValue) and index.is_static:
        position, elements = int(index.numpy().reshape(-1)[0]), list(items.elements)
        if not 0 <= position < len(elements):
            raise node.invalid(f"element {position} is outside a list of {len(elements)} elements")
        elements[position] = item
        return SequenceValue(tuple(elements))
    dims = item.dims
    tensor = stacked(node, g, items, None if dims is None or None in dims else item.shape)
    at = g("Reshape", [g("Cast", [index], to=7), np.asarray([1, 1], np.int64)])
    row = g("Unsqueeze", [item, np.zeros(1, np.int64)])
    return g("ScatterND", [tensor, at, row])


def indices(node: Node, index: int) -> Array | None:
    """Return an input with positions in a list; None if they are computed."""
    value = node.required(index)
    return value.numpy().reshape(-1).astype(np.int64) if value.is_static else None


_TYPES = """
clear_after_read dtype dynamic_size element_dtype element_shape element_shape_except0 identical_element_shapes
num_elements shape_type tensor_array_name
""".split()  # noqa: SIM905 - a list literal would be 12 lines


def _count(node: Node, index: int) -> int:
    value = node.static(index, "the length of a list")
    if value is None or value.size != 1:
        raise node.invalid("the length of a list is not a number")
    return int(value.reshape(-1)[0])


def _scalar(g: Operators, number: int) -> Value:
    return g.builder.const(np.asarray(number, np.int32))


# ---------------------------------------------------------------------- TensorList


@handler("TensorListReserve", ignores=_TYPES)
def _reserve(node: Node, g: Operators) -> AnyValue:
    count = _count(node, 1)
    return reserved(node, g, max(count, 0), node.attr("element_dtype", "float32"), element_shape(node, 0))


@handler("EmptyTensorList", ignores=_TYPES)
def _empty(_node: Node, _g: Operators) -> AnyValue:
    return SequenceValue(())


@handler("TensorListFromTensor", ignores=_TYPES)
def _from_tensor(node: Node, _g: Operators) -> AnyValue:
    return node.required(0)


@handler("TensorListGetItem", ignores=_TYPES)
def _get_item(node: Node, g: Operators) -> Value:
    return element_at(node, g, list_of(node, 0), node.required(1), element_shape(node, 2))


@handler("TensorListSetItem", ignores=_TYPES)
def _set_item(node: Node, g: Operators) -> AnyValue:
    items, at, item = list_of(node, 0), node.required(1), node.required(2)
    if node.attr("resize_if_index_out_of_bounds", False) and at.is_static:
        position = int(at.numpy().reshape(-1)[0])
        if isinstance(items, SequenceValue) and position == len(items.elements):
            return counted(node, g, [*items.elements, item])
    return with_element(node, g, items, at, item)


@handler("TensorListStack", ignores=_TYPES)
def _stack(node: Node, g: Operators) -> Value:
    return stacked(node, g, list_of(node, 0), element_shape(node, 1))


@handler("TensorListLength", ignores=_TYPES)
def _length(node: Node, g: Operators) -> Value:
    return _scalar(g, length(node, list_of(node, 0)))


@handler("TensorListElementShape", ignores=_TYPES)
def _element_shape(node: Node, g: Operators) -> Value:
    shape = stacked(node, g, list_of(node, 0)).shape[1:]
    return g.builder.const(np.asarray(shape, node.attr("shape_type", "int32")))


@handler("TensorListPushBack", ignores=_TYPES)
def _push_back(node: Node, g: Operators) -> AnyValue:
    held, item = list_of(node, 0), node.required(1)
    if isinstance(held, SequenceValue):
        return counted(node, g, [*held.elements, item])
    row = g("Unsqueeze", [item, np.zeros(1, np.int64)])
    return g("Concat", [stacked(node, g, held), row], axis=0)


@handler("TensorListPopBack", ignores=_TYPES)
def _pop_back(node: Node, g: Operators) -> list[AnyValue]:
    elements = listed(node, g, list_of(node, 0))
    if not elements:
        raise node.invalid("the node removes an element of an empty list")
    rest = SequenceValue(tuple(elements[:-1]))
    return [rest, element_at(node, g, SequenceValue(tuple(elements)), len(elements) - 1)]


@handler("TensorListResize", ignores=_TYPES)
def _resize(node: Node, g: Operators) -> AnyValue:
    elements, count = listed(node, g, list_of(node, 0)), _count(node, 1)
    if count > len(elements) and not elements:
        raise node.problem("the node extends an empty list, whose elements have no type")
    if count > len(elements):
        zero = np.zeros(elements[0].shape, elements[0].dtype.numpy)
        elements += [g.builder.const(zero, f"{g.builder.stem}_unset")] * (count - len(elements))
    return counted(node, g, elements[: max(count, 0)])


@handler("TensorListGather", ignores=_TYPES)
def _gather(node: Node, g: Operators) -> Value:
    items, at, shape = list_of(node, 0), indices(node, 1), element_shape(node, 2)
    if at is not None and isinstance(items, SequenceValue):
        if at.size and not 0 <= at.min() <= at.max() < len(items.elements):
            raise node.invalid(f"elements {at.tolist()} are outside a list of {len(items.elements)} elements")
        return stacked(node, g, SequenceValue(tuple(items.elements[int(position)] for position in at)), shape)
    tensor = stacked(node, g, items, shape)
    if at is not None and tensor.dims and at.tolist() == list(range(tensor.dims[0] or 0)):
        return tensor
    return g("Gather", [tensor, node.required(1)], axis=0)


@handler("TensorListScatter", "TensorListScatterV2", "TensorArrayScatterV3", ignores=_TYPES)
def _scatter(node: Node, g: Operators) -> AnyValue:
    is_array, at = node.type.startswith("TensorArray"), indices(node, 1)
    tensor = node.required(2 if is_array else 0)
    if at is None:
        raise node.problem(
            "xdlc does not support computed positions in a list", "make the positions constant"
        )
    if is_array:
        count = length(node, list_of(node, 3))
    else:
        count = max(int(at.max(initial=-1)) + 1, _count(node, 3) if len(node.inputs) > 3 else -1)
    if at.tolist() == list(range(count)):
        return tensor
    dtype, shape = tensor.dtype.numpy.name, tensor.shape[1:]
    items = list_of(node, 3) if is_array else reserved(node, g, count, dtype, shape)
    elements = listed(node, g, items)
    for row, position in enumerate(at.tolist()):
        if not 0 <= position < len(elements):
            raise node.invalid(f"element {position} is outside a list of {len(elements)} elements")
        elements[position] = element_at(node, g, tensor, row)
    return counted(node, g, elements)


@handler("TensorListConcat", "TensorListConcatV2", ignores=_TYPES)
def _concat(node: Node, g: Operators) -> list[AnyValue]:
    elements = listed(node, g, list_of(node, 0))
    if not elements:
        raise node.problem("the node joins the elements of an empty list")
    lengths = np.asarray([element.shape[0] for element in elements], np.int64)
    return [g("Concat", elements, axis=0), g.builder.const(lengths)]


@handler("TensorListSplit", ignores=_TYPES)
def _split(node: Node, g: Operators) -> AnyValue:
    tensor, lengths = node.required(0), indices(node, 2)
    if lengths is None:
        raise node.problem("xdlc does not support computed lengths of pieces", "make the lengths constant")
    if lengths.size < 2:
        return counted(node, g, [tensor] * lengths.size)
    return counted(node, g, g.apply("Split", [tensor, lengths], {"axis": 0}, lengths.size))


@handler("TensorListConcatLists", ignores=_TYPES)
def _concat_lists(node: Node, g: Operators) -> AnyValue:
    one, other = list_of(node, 0), list_of(node, 1)
    if isinstance(one, Value) and isinstance(other, Value):
        return g("Concat", [one, other], axis=0)
    return counted(node, g, [*listed(node, g, one), *listed(node, g, other)])


# ---------------------------------------------------------------------- TensorArray: its flow is the list


@handler("TensorArrayV3", ignores=_TYPES)
def _array(node: Node, g: Operators) -> list[AnyValue]:
    count, dtype = _count(node, 0), node.attr("dtype", "float32")
    return [_scalar(g, count), reserved(node, g, max(count, 0), dtype, element_shape(node, 1))]


_AS_LISTS: dict[str, tuple[str, Sequence[int]]] = {
    "TensorArrayConcatV3": ("TensorListConcat", (1,)),
    "TensorArrayGatherV3": ("TensorListGather", (2, 1)),
    "TensorArrayReadV3": ("TensorListGetItem", (2, 1)),
    "TensorArraySizeV3": ("TensorListLength", (1,)),
    "TensorArraySplitV3": ("TensorListSplit", (1, 3, 2)),
    "TensorArrayWriteV3": ("TensorListSetItem", (3, 1, 2)),
}
"""Operators of lists in place of those of arrays, and the positions of their inputs."""


@handler(*_AS_LISTS, ignores=_TYPES)
def _as_list(node: Node, g: Operators) -> Any:
    type, order = _AS_LISTS[node.type]
    inputs = [node.required(position) for position in order]
    return applied(node, g, type, inputs, resize_if_index_out_of_bounds=True)
