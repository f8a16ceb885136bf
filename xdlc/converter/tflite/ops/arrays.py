"""Handlers of operators on shapes: reshapes, joins, slices, paddings, scatters."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xdlc.converter.nhwc import diagonals, gathering, scatter, shapes, slicing
from xdlc.converter.nhwc.elementwise import one_hot
from xdlc.converter.nhwc.gathering import unique
from xdlc.converter.nhwc.reduce import window_reduced
from xdlc.converter.nhwc.shapes import (
    axis_of,
    cast,
    ints,
    known,
    positions,
    reshape,
    vector,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import dtype_of, handler, stated_dims
from xdlc.converter.tflite.tensors import reals
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

_FORMULAS: dict[str, Callable[..., Value]] = {
    "BROADCAST_ARGS": shapes.broadcast_shape,
    "BROADCAST_TO": shapes.broadcast_to,
    "DYNAMIC_UPDATE_SLICE": slicing.updated,
    "EMBEDDING_LOOKUP": lambda g, ids, table: g("Gather", [table, ids], axis=0),
    "EXPAND_DIMS": shapes.with_axes,
    "FILL": shapes.filled,
    "MATRIX_DIAG": diagonals.matrix_diagonals,
    "MATRIX_SET_DIAG": diagonals.set_diagonals,
    "SLICE": slicing.sliced,
    "SPARSE_TO_DENSE": scatter.sparse_to_dense,
    "TILE": shapes.tiled,
    "TRANSPOSE": shapes.transposed,
    "WHERE": gathering.places,
}


@handler(*_FORMULAS, ignores=("validate_indices",))
def _formula(node: Node, g: Operators, *values: Value) -> Value:
    return _FORMULAS[node.type](g, *values)


@handler("RESHAPE")
def _reshape(node: Node, g: Operators) -> Value:
    x, shape = node.required(0), node.input(1)
    option = node.attr("new_shape")
    if shape is None:
        shape = vector(g, option if option is not None else stated_dims(node) or ())
    if shape.is_static:
        dims = ints(shape, "the shape")
        if dims == [0] and not x.is_dynamic and x.size == 1:  # as old files have scalars
            dims = []
        product = math.prod(size for size in dims if size != -1)
        if not x.is_dynamic and (x.size % max(product, 1) if -1 in dims else x.size != product):
            raise node.invalid(
                f"an input {list(x.shape)} and the constant shape {dims} differ in the number of elements"
            )
        return g("Reshape", [x, vector(g, dims)], allowzero=int(not x.is_dynamic))
    stated = stated_dims(node)
    if stated is not None and not x.is_dynamic and math.prod(stated) == x.size:
        return reshape(g, x, stated)
    return g("Reshape", [x, positions(g, shape)], allowzero=int(not x.is_dynamic))


@handler("SQUEEZE")
def _squeeze(node: Node, g: Operators) -> Value:
    x, axes = node.required(0), node.attr("squeeze_dims")
    return g("Squeeze", [x, vector(g, axes)] if axes else [x])


@handler("SHAPE", ignores=("out_type",), wraps=False)
def _shape(node: Node, g: Operators, x: Value) -> Value:
    return cast(g, g("Shape", [x]), dtype_of(node))


@handler("RANK", wraps=False)
def _rank(node: Node, g: Operators, x: Value) -> Value:
    return g.builder.const(np.asarray(x.rank, np.int32))


@handler("RANGE")
def _range(node: Node, g: Operators, start: Value, stop: Value, step: Value) -> Value:
    bounds = [reshape(g, value, ()) for value in (start, stop, step)]
    if bounds[2].is_static and not bounds[2].numpy():
        raise node.invalid("the step of the range must not be 0")
    return g("Range", bounds)


@handler("CONCATENATION")
def _concat(node: Node, g: Operators, *values: Value) -> Value:
    axis = axis_of(node.attr("axis", 0), values[0].rank)
    return g("Concat", values, axis=axis) if len(values) > 1 else values[0]


@handler("SPLIT")
def _split(node: Node, g: Operators, axis: Value, x: Value) -> list[Value]:
    _check_count(node, "num_splits", len(node.outputs))
    (place,) = ints(axis, "the axis")
    return gathering.split_evenly(g, x, len(node.outputs), place)


@handler("SPLIT_V")
def _split_v(node: Node, g: Operators, x: Value, sizes: Value, axis: Value) -> list[Value]:
    _check_count(node, "num_splits", len(node.outputs))
    (place,) = ints(axis, "the axis")
    return gathering.split(g, x, ints(sizes, "the sizes"), place)


def _check_count(node: Node, name: str, count: int) -> None:
    if int(node.attr(name, 0)) != count:
        raise node.invalid(f"{name} is {node.attr(name, 0)}, but the op has {count} tensors")


@handler("PACK")
def _pack(node: Node, g: Operators, *values: Value) -> Value:
    _check_count(node, "values_count", len(node.inputs))
    return gathering.stack(g, values, node.attr("axis", 0))


@handler("UNPACK")
def _unpack(node: Node, g: Operators) -> list[Value]:
    _check_count(node, "num", len(node.outputs))
    return gathering.unstack(g, node.required(0), len(node.outputs), node.attr("axis", 0))


@handler("STRIDED_SLICE")
def _strided_slice(node: Node, g: Operators, x: Value, begin: Value, end: Value, strides: Value) -> Value:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = slicing.Masks(*(int(node.attr(name, 0)) for name in names))
    steps = np.asarray(ints(strides, "the strides"))
    if masks.new_axis >> len(steps):  # LiteRT would drop elements
        raise node.invalid(f"new_axis_mask {masks.new_axis} does not fit {len(steps)} entries")
    if not steps.all():
        raise node.invalid("a stride must not be 0")
    ignored = masks.begin & masks.shrink & ~masks.new_axis
    masked = np.asarray([ignored >> entry & 1 for entry in range(len(steps))], bool)
    if masked.any():  # unlike TensorFlow's, a dropped axis may ignore its begin
        ends = g.builder.const(np.where(steps < 0, -1, 0).astype(begin.dtype.numpy))
        begin = g("Where", [g.builder.const(masked), ends, begin])
    is_offset = bool(node.attr("offset", False))
    return slicing.strided_slice(g, x, begin, end, strides, masks, end_is_offset=is_offset)


@handler("PAD", "PADV2")
def _pad(node: Node, g: Operators, x: Value, pads: Value, *fill: Value) -> Value:
    return slicing.padded(g, x, pads, fill=fill[0] if fill else None)


@handler("MIRROR_PAD")
def _mirror_pad(node: Node, g: Operators, x: Value, pads: Value) -> Value:
    mode = int(node.attr("mode", 0))
    if mode not in (0, 1):
        raise node.invalid(f"mode {mode} is unknown")
    return slicing.padded(g, x, pads, "symmetric" if mode else "reflect")


@handler("DILATE")
def _dilate(node: Node, g: Operators, x: Value, steps: Value, fill: Value) -> Value:
    return slicing.spread(g, x, ints(steps, "the dilations"), fill)


@handler("REVERSE_V2")
def _reverse(node: Node, g: Operators, x: Value, axes: Value) -> Value:
    return slicing.reversed_axes(g, x, ints(axes, "the axes"))


@handler("REVERSE_SEQUENCE")
def _reverse_sequence(node: Node, g: Operators, x: Value, lengths: Value) -> Value:
    time, batch = node.attr("seq_dim", 0), node.attr("batch_dim", 0)
    if min(time, batch) < 0:
        raise node.invalid(f"axis {min(time, batch)} is not valid")
    return gathering.reverse_sequence(g, x, lengths, time=time, batch=batch)


def _check_indices(node: Node, indices: Value) -> None:
    if indices.is_static and (indices.numpy() < 0).any():
        raise node.invalid("an index must be 0 or more")


@handler("GATHER")
def _gather(node: Node, g: Operators, x: Value, indices: Value) -> Value:
    _check_indices(node, indices)
    batch = node.attr("batch_dims", 0)
    pairs = zip((x.dims or ())[: max(batch, 0)], indices.dims or (), strict=False)
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        raise node.invalid(
            f"{batch} batch axes do not fit {list(x.dims or ())} and {list(indices.dims or ())}"
        )
    return gathering.gather(g, x, indices, node.attr("axis", 0), batch)


@handler("GATHER_ND")
def _gather_nd(node: Node, g: Operators, x: Value, indices: Value) -> Value:
    _check_indices(node, indices)
    return gathering.gather_nd(g, x, indices)


@handler("ONE_HOT", wraps=False)  # the integers of on and off are those of the result, whatever their scales
def _one_hot(node: Node, g: Operators, indices: Value, depth: Value, on: Value, off: Value) -> Value:
    count, axis = int(known(depth, "the depth").reshape(())), node.attr("axis", 0)
    if count < 0 or not -1 <= axis <= indices.rank:
        raise node.invalid(f"a depth of {count} does not fit axis {axis} of {indices.rank + 1}")
    return one_hot(g, indices, count, on, off, axis)


_SEGMENTS = ("SUM", "PROD", "MAX", "MIN")
_WINDOWS = {1: "Add", 2: "Mul", 3: "Min", 4: "Max", 5: "And", 6: "Or"}


@handler("SCATTER_ND")
def _scatter_nd(node: Node, g: Operators, indices: Value, updates: Value, shape: Value) -> Value:
    given, sizes = node.message.outputs[0].quantization, ints(shape, "the shape")
    if given is not None and given.scales.size == 1 and indices.is_static and indices.rank and indices.size:
        places = indices.numpy().reshape(-1, indices.shape[-1])
        if len(np.unique(places, axis=0)) == len(places):  # LiteRT's kernel fills with the integer 0
            base = scatter.full(g, sizes, reals(np.zeros((), np.int8), given).item(), updates.dtype)
            return scatter.scatter_nd(g, base, indices, updates)
    base = scatter.full(g, sizes, 0, updates.dtype)
    return scatter.scatter_nd(g, base, indices, updates, "none" if updates.dtype is BOOL8 else "add")


@handler(*(f"UNSORTED_SEGMENT_{name}" for name in _SEGMENTS))
def _unsorted_segments(node: Node, g: Operators, x: Value, ids: Value, count: Value) -> Value:
    (number,) = ints(count, "the number of segments")
    return scatter.segments(g, x, ids, number, node.type.removeprefix("UNSORTED_SEGMENT_").capitalize())


@handler("SEGMENT_SUM")
def _segment_sum(node: Node, g: Operators, x: Value, ids: Value) -> Value:
    return scatter.segments(g, x, ids, scatter.segment_count(ids), "Sum")


@handler("UNIQUE", ignores=("idx_out_type",))
def _unique(node: Node, g: Operators) -> list[Value]:
    values, places, _ = unique(g, node.required(0))
    return [values, cast(g, places, dtype_of(node, 1))]


@handler("REDUCE_WINDOW")
def _reduce_window(node: Node, g: Operators, x: Value, start: Value, *given: Value) -> Value:
    function = node.attr("reduce_function", 0)
    if function not in _WINDOWS or len(given) != 3:
        raise node.problem(f"xdlc does not support the reduction {function} of windows")
    kernel, strides, dilations = (ints(value, "the window") for value in given)
    return window_reduced(g, _WINDOWS[function], x, start, kernel, strides, dilations)
