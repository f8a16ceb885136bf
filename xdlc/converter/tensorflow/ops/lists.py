"""Handlers of TensorList and TensorArray."""

from __future__ import annotations

import numpy as np

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.lists import (
    counted,
    element_at,
    element_shape,
    indices,
    length,
    list_of,
    listed,
    reserved,
    stacked,
    with_element,
)
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import AnyValue, SequenceValue, Value

_TYPES = ("element_dtype", "shape_type", "dtype", "num_elements", "element_shape")
_ARRAY = (
    "dtype",
    "element_shape",
    "dynamic_size",
    "clear_after_read",
    "identical_element_shapes",
    "tensor_array_name",
    "element_shape_except0",
)


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
    row = g("Unsqueeze", [item, g.builder.const(np.zeros(1, np.int64))])
    return g("Concat", [stacked(node, g, held), row], axis=0)


@handler("TensorListPopBack", ignores=_TYPES)
def _pop_back(node: Node, g: Operators) -> list[AnyValue]:
    elements = listed(node, g, list_of(node, 0))
    if not elements:
        raise node.invalid("removes an element of an empty list")
    rest = SequenceValue(tuple(elements[:-1]))
    return [rest, element_at(node, g, SequenceValue(tuple(elements)), len(elements) - 1)]


@handler("TensorListResize", ignores=_TYPES)
def _resize(node: Node, g: Operators) -> AnyValue:
    elements, count = listed(node, g, list_of(node, 0)), _count(node, 1)
    if count > len(elements) and not elements:
        raise node.problem("extends an empty list, whose elements have no type")
    if count > len(elements):
        zero = np.zeros(elements[0].shape, elements[0].dtype.numpy)
        elements += [g.builder.const(zero, f"{g.builder.stem}_unset")] * (count - len(elements))
    return counted(node, g, elements[: max(count, 0)])


@handler("TensorListGather", ignores=_TYPES)
def _gather(node: Node, g: Operators) -> Value:
    return _gathered(node, g, list_of(node, 0), 1, element_shape(node, 2))


def _gathered(node: Node, g: Operators, items: AnyValue, index: int, shape: list[int] | None) -> Value:
    at = indices(node, index)
    if at is not None and isinstance(items, SequenceValue):
        if at.size and not 0 <= at.min() <= at.max() < len(items.elements):
            raise node.invalid(f"elements {at.tolist()} of a list of {len(items.elements)}")
        return stacked(node, g, SequenceValue(tuple(items.elements[int(position)] for position in at)), shape)
    tensor = stacked(node, g, items, shape)
    if at is not None and tensor.dims and at.tolist() == list(range(tensor.dims[0] or 0)):
        return tensor
    return g("Gather", [tensor, node.required(index)], axis=0)


@handler("TensorListScatter", "TensorListScatterV2", ignores=_TYPES)
def _scatter(node: Node, g: Operators) -> AnyValue:
    at, tensor = indices(node, 1), node.required(0)
    if at is None:
        raise node.problem("computed positions in a list are not supported", "make them constant")
    wanted = _count(node, 3) if len(node.inputs) > 3 else -1
    count = max(int(at.max(initial=-1)) + 1, wanted)
    if at.tolist() == list(range(count)):
        return tensor
    held = reserved(node, g, count, tensor.dtype.numpy.name, tensor.shape[1:])
    return _scattered(node, g, held, at.tolist(), tensor)


def _scattered(node: Node, g: Operators, held: AnyValue, at: list[int], tensor: Value) -> AnyValue:
    elements = listed(node, g, held)
    for row, position in enumerate(at):
        if not 0 <= position < len(elements):
            raise node.invalid(f"element {position} of a list of {len(elements)}")
        elements[position] = element_at(node, g, tensor, row)
    return counted(node, g, elements)


@handler("TensorListConcat", "TensorListConcatV2", ignores=_TYPES)
def _concat(node: Node, g: Operators) -> list[AnyValue]:
    return _concatenated(node, g, listed(node, g, list_of(node, 0)))


def _concatenated(node: Node, g: Operators, elements: list[Value]) -> list[AnyValue]:
    if not elements:
        raise node.problem("joins the elements of an empty list")
    lengths = np.asarray([element.shape[0] for element in elements], np.int64)
    return [g("Concat", elements, axis=0), g.builder.const(lengths)]


@handler("TensorListSplit", ignores=_TYPES)
def _split(node: Node, g: Operators) -> AnyValue:
    return _pieces(node, g, node.required(0), 2)


def _pieces(node: Node, g: Operators, tensor: Value, index: int) -> AnyValue:
    lengths = indices(node, index)
    if lengths is None:
        raise node.problem("computed lengths of pieces are not supported", "make them constant")
    if lengths.size < 2:
        return counted(node, g, [tensor] * lengths.size)
    return counted(node, g, g.apply("Split", [tensor, g.builder.const(lengths)], {"axis": 0}, lengths.size))


@handler("TensorListConcatLists", ignores=_TYPES)
def _concat_lists(node: Node, g: Operators) -> AnyValue:
    one, other = list_of(node, 0), list_of(node, 1)
    if isinstance(one, Value) and isinstance(other, Value):
        return g("Concat", [one, other], axis=0)
    return counted(node, g, [*listed(node, g, one), *listed(node, g, other)])


# ---------------------------------------------------------------------- TensorArray: its flow is the list


@handler("TensorArrayV3", ignores=_ARRAY)
def _array(node: Node, g: Operators) -> list[AnyValue]:
    shape = node.attr("element_shape")
    known = None if shape is None else [-1 if size is None else size for size in shape]
    count = _count(node, 0)
    return [_scalar(g, count), reserved(node, g, max(count, 0), node.attr("dtype", "float32"), known)]


@handler("TensorArrayReadV3", ignores=_ARRAY)
def _read(node: Node, g: Operators) -> Value:
    return element_at(node, g, list_of(node, 2), node.required(1))


@handler("TensorArrayWriteV3", ignores=_ARRAY)
def _write(node: Node, g: Operators) -> AnyValue:
    items, at, item = list_of(node, 3), node.required(1), node.required(2)
    if isinstance(items, SequenceValue) and at.is_static:
        position = int(at.numpy().reshape(-1)[0])
        if position == len(items.elements):
            return counted(node, g, [*items.elements, item])  # dynamic_size
    return with_element(node, g, items, at, item)


@handler("TensorArrayGatherV3", ignores=_ARRAY)
def _array_gather(node: Node, g: Operators) -> Value:
    shape = node.attr("element_shape")
    known = None if shape is None else [-1 if size is None else size for size in shape]
    return _gathered(node, g, list_of(node, 2), 1, known)


@handler("TensorArrayScatterV3", ignores=_ARRAY)
def _array_scatter(node: Node, g: Operators) -> AnyValue:
    at, tensor, items = indices(node, 1), node.required(2), list_of(node, 3)
    if at is None:
        raise node.problem("computed positions in an array are not supported", "make them constant")
    if at.tolist() == list(range(length(node, items))):
        return tensor
    return _scattered(node, g, items, at.tolist(), tensor)


@handler("TensorArraySizeV3", ignores=_ARRAY)
def _size(node: Node, g: Operators) -> Value:
    return _scalar(g, length(node, list_of(node, 1)))


@handler("TensorArrayConcatV3", ignores=_ARRAY)
def _array_concat(node: Node, g: Operators) -> list[AnyValue]:
    return _concatenated(node, g, listed(node, g, list_of(node, 1)))


@handler("TensorArraySplitV3", ignores=_ARRAY)
def _array_split(node: Node, g: Operators) -> AnyValue:
    return _pieces(node, g, node.required(1), 2)
