"""Handlers of scatters, segments, diagonals, indices and window reductions."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc import scatter
from xdlc.converter.nhwc.gathering import places, unique
from xdlc.converter.nhwc.reduce import window_reduced
from xdlc.converter.nhwc.shapes import cast, ints
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.ops._forms import dtype_of, values_of
from xdlc.converter.tflite.registry import handler
from xdlc.converter.tflite.tensors import reals
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

_SEGMENTS = ("SUM", "PROD", "MAX", "MIN")
_WINDOWS = {1: "Add", 2: "Mul", 3: "Min", 4: "Max", 5: "And", 6: "Or"}


@handler("SCATTER_ND")
def _scatter_nd(node: Node, g: Operators) -> Value:
    indices, updates, shape = values_of(node)
    given, sizes = node.message.outputs[0].quantization, ints(shape, "the shape")
    if given is not None and given.scales.size == 1 and indices.is_static and indices.rank and indices.size:
        places = indices.numpy().reshape(-1, indices.shape[-1])
        if len(np.unique(places, axis=0)) == len(places):  # LiteRT's kernel fills with the integer 0
            base = scatter.full(g, sizes, reals(np.zeros((), np.int8), given).item(), updates.dtype)
            return scatter.scatter_nd(g, base, indices, updates)
    base = scatter.full(g, sizes, 0, updates.dtype)
    return scatter.scatter_nd(g, base, indices, updates, "none" if updates.dtype is BOOL8 else "add")


@handler("SPARSE_TO_DENSE", ignores=("validate_indices",))
def _sparse_to_dense(node: Node, g: Operators) -> Value:
    indices, shape, values, fill = values_of(node)
    return scatter.sparse_to_dense(g, indices, ints(shape, "the shape"), values, fill)


@handler(*(f"UNSORTED_SEGMENT_{name}" for name in _SEGMENTS))
def _unsorted_segments(node: Node, g: Operators) -> Value:
    x, ids, count = values_of(node)
    (number,) = ints(count, "the number of segments")
    return scatter.segments(g, x, ids, number, node.type.removeprefix("UNSORTED_SEGMENT_").capitalize())


@handler("SEGMENT_SUM")
def _segment_sum(node: Node, g: Operators) -> Value:
    x, ids = values_of(node)
    return scatter.segments(g, x, ids, scatter.segment_count(ids), "Sum")


@handler("MATRIX_DIAG")
def _matrix_diag(node: Node, g: Operators) -> Value:
    return scatter.matrix_diagonals(g, node.required(0))


@handler("MATRIX_SET_DIAG")
def _matrix_set_diag(node: Node, g: Operators) -> Value:
    return scatter.set_diagonals(g, node.required(0), node.required(1))


@handler("WHERE")
def _places(node: Node, g: Operators) -> Value:
    return places(g, node.required(0))


@handler("UNIQUE", ignores=("idx_out_type",))
def _unique(node: Node, g: Operators) -> list[Value]:
    values, places, _ = unique(g, node.required(0))
    return [values, cast(g, places, dtype_of(node, 1))]


@handler("REDUCE_WINDOW")
def _reduce_window(node: Node, g: Operators) -> Value:
    x, start, *given = values_of(node)
    function = node.attr("reduce_function", 0)
    if function not in _WINDOWS or len(given) != 3:
        raise node.problem(f"reduction {function} of windows")
    kernel, strides, dilations = (ints(value, "the window") for value in given)
    return window_reduced(g, _WINDOWS[function], x, start, kernel, strides, dilations)
