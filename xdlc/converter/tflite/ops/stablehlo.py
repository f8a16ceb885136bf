"""Handlers of StableHLO: composites, and operators with simple sub-graphs.

Semantics: the StableHLO specification (openxla.org/stablehlo/spec).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from xdlc.converter.control_flow.sub_graph import inline
from xdlc.converter.functions import elementwise as formulas
from xdlc.converter.functions import slicing, windows
from xdlc.converter.functions.reduce import window_reduced
from xdlc.converter.functions.shapes import cast, dims, number, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Body, Node
from xdlc.converter.tflite.registry import dtype_of, handler, stated_dims
from xdlc.converter.values import AnyValue, Value
from xdlc.ir.dtype import BOOL8, INT64

_COMPARISONS = ("Equal", "", "GreaterOrEqual", "Greater", "LessOrEqual", "Less")
"""Operators of the directions of a comparison, by their number; the second one is "not equal"."""
_REDUCTIONS = {
    "Add": ("ReduceSum", 0),
    "Mul": ("ReduceProd", 1),
    "Max": ("ReduceMax", -math.inf),
    "Min": ("ReduceMin", math.inf),
}
"""Reductions of operators on two values, and their neutral elements."""
_PROBES = ((2, 3), (-1, 4))
_OUTCOMES = {(5, 3): "Add", (6, -4): "Mul", (3, 4): "Max", (2, -1): "Min"}


@handler("STABLEHLO_COMPOSITE", wraps=False, ignores=("name", "version", "composite_attributes"))
def _composite(node: Node, g: Operators, *values: Value) -> Sequence[AnyValue]:
    body = node.graph("decomposition_subgraph")
    if len(body.inputs) != len(values) or len(body.outputs) < len(node.outputs):
        raise node.invalid(f"a sub-graph of {len(body.inputs)} inputs is called with {len(values)} values")
    return inline(g.context, body, dict(zip(body.inputs, values, strict=True)))


@handler("STABLEHLO_CBRT")
def _cube_root(node: Node, g: Operators) -> Value:
    x = node.required(0)
    return g("Mul", [g("Sign", [x]), g("Pow", [g("Abs", [x]), 1 / 3])])


@handler("STABLEHLO_COMPARE", ignores=("compare_type",))
def _compare(node: Node, g: Operators, x: Value, y: Value) -> Value:
    direction = node.attr("comparison_direction")
    if not 0 <= direction < len(_COMPARISONS):
        raise node.invalid(f"comparison {direction} is unknown")
    if not _COMPARISONS[direction]:
        return formulas.not_equal(g, x, y)
    return g(_COMPARISONS[direction], [x, y])


# ------------------------------------------------------------------ shapes


def _stated(node: Node) -> Sequence[int]:
    shape = stated_dims(node)
    if shape is None:
        raise node.problem("the result has dynamic dimensions", "convert a model with fixed shapes")
    return shape


@handler("STABLEHLO_RESHAPE")
def _reshape(node: Node, g: Operators) -> Value:
    return reshape(g, node.required(0), _stated(node))


@handler("STABLEHLO_BROADCAST_IN_DIM")
def _broadcast(node: Node, g: Operators) -> Value:
    x, axes, shape = node.required(0), list(node.attr("broadcast_dimensions") or ()), _stated(node)
    if len(axes) != x.rank or len(set(axes)) != len(axes) or any(not 0 <= axis < len(shape) for axis in axes):
        raise node.invalid(f"an input {list(x.shape)} cannot be broadcast to axes {axes} of {list(shape)}")
    order = sorted(range(x.rank), key=axes.__getitem__)
    sizes = dict(zip(axes, dims(x), strict=True))
    x = reshape(g, permuted(g, x, order), [sizes.get(axis, 1) for axis in range(len(shape))])
    return g("Expand", [x, vector(g, shape)])


@handler("STABLEHLO_IOTA")
def _iota(node: Node, g: Operators) -> Value:
    shape, dtype = _stated(node), dtype_of(node)
    axis = node.axis(node.attr("iota_dimension"), len(shape))
    row = cast(
        g, g("Range", [g.builder.const(np.asarray(size, np.int64)) for size in (0, shape[axis], 1)]), dtype
    )
    found = reshape(g, row, [-1 if at == axis else 1 for at in range(len(shape))])
    return g("Expand", [found, vector(g, shape)])


@handler("STABLEHLO_SLICE")
def _slice(node: Node, g: Operators) -> Value:
    x = node.required(0)
    given = [list(node.attr(name) or ()) for name in ("start_indices", "limit_indices", "strides")]
    given[2] = given[2] or [1] * x.rank
    if any(len(each) != x.rank for each in given) or min(given[2], default=1) < 1:
        raise node.invalid(f"a slice {given} does not fit rank {x.rank}")
    first, last, steps = (vector(g, each) for each in given)
    return g("Slice", [x, first, last, range(x.rank), steps]) if x.rank else x


def _starts(g: Operators, values: Sequence[Value]) -> Value:
    return g("Concat", [reshape(g, cast(g, value, INT64), (1,)) for value in values], axis=0)


@handler("STABLEHLO_DYNAMIC_SLICE")
def _dynamic_slice(node: Node, g: Operators, x: Value, *starts: Value) -> Value:
    whole, sizes = dims(x), list(node.attr("slice_sizes") or ())
    if (
        len(sizes) != x.rank
        or len(starts) != x.rank
        or any(not 0 <= n <= m for n, m in zip(sizes, whole, strict=True))
    ):
        raise node.invalid(f"a slice of {sizes} does not fit {list(whole)}")
    if not x.rank:
        return x
    room = [many - few for many, few in zip(whole, sizes, strict=True)]
    first = g("Min", [g("Max", [_starts(g, starts), [0] * x.rank]), vector(g, room)])
    return slicing.sliced(g, x, first, vector(g, sizes))


@handler("STABLEHLO_DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(node: Node, g: Operators, x: Value, update: Value, *starts: Value) -> Value:
    if len(starts) != x.rank:
        raise node.invalid(f"{len(starts)} positions do not fit rank {x.rank}")
    return slicing.updated(g, x, update, _starts(g, starts)) if starts else update


@handler("STABLEHLO_PAD")
def _pad(node: Node, g: Operators, x: Value, fill: Value) -> Value:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, inner = (list(node.attr(name) or [0] * x.rank) for name in names)
    if any(len(each) != x.rank for each in (low, high, inner)) or min(inner, default=0) < 0:
        raise node.invalid(f"paddings {low}, {high}, {inner} do not fit rank {x.rank}")
    if any(inner):
        x = slicing.spread(g, x, [1 + count for count in inner], fill)
    pads = vector(g, [*low, *high])  # negative ones crop
    return g("Pad", [x, pads, reshape(g, fill, ())]) if any(low + high) else x


# ------------------------------------------------------------------ products and reductions


@handler("STABLEHLO_DOT_GENERAL", ignores=("precision_config",))
def _dot_general(node: Node, g: Operators, x: Value, y: Value) -> Value:

    def axes(name: str) -> tuple[list[int], list[int]]:
        return list(node.attr(f"lhs_{name}") or ()), list(node.attr(f"rhs_{name}") or ())

    shared, summed = axes("batching_dimensions"), axes("contracting_dimensions")
    for side, value in enumerate((x, y)):
        used = [*shared[side], *summed[side]]
        if len(set(used)) != len(used) or any(not 0 <= axis < value.rank for axis in used):
            raise node.invalid(f"axes {used} do not fit rank {value.rank}")
    if len(shared[0]) != len(shared[1]) or len(summed[0]) != len(summed[1]) or x.rank + y.rank > 26:
        raise node.invalid(f"batch axes {shared} and summed axes {summed} do not fit")
    first = list(ascii_letters[: x.rank])
    second = list(ascii_letters[26 : 26 + y.rank])
    for pair in (shared, summed):
        for left, right in zip(*pair, strict=True):
            second[right] = first[left]
    free = [name for axis, name in enumerate(first) if axis not in (*shared[0], *summed[0])]
    free += [name for axis, name in enumerate(second) if axis not in (*shared[1], *summed[1])]
    result = "".join([*(first[axis] for axis in shared[0]), *free])
    return g("Einsum", [x, y], equation=f"{''.join(first)},{''.join(second)}->{result}")


@handler("STABLEHLO_CONVOLUTION", ignores=("precision_config", "feature_group_count"))
def _convolution(node: Node, g: Operators, x: Value, weight: Value) -> Value:
    count = x.rank - 2

    def order(kind: str, *ends: str) -> list[int]:
        names = [f"{kind}_{name}_dimension" for name in ends]
        entries = [
            node.attr(names[0], 0),
            *(node.attr(f"{kind}_spatial_dimensions") or ()),
            node.attr(names[1], 0),
        ]
        if sorted(entries) != list(range(x.rank)) or weight.rank != x.rank:
            raise node.invalid(f"dimensions {entries} do not fit rank {x.rank}")
        return entries

    def numbers(name: str, default: int, size: int = count) -> list[Any]:
        entries = list(node.attr(name) or [default] * size)
        if len(entries) != size:
            raise node.invalid(f"{name} {entries} do not fit {count} spatial dimensions")
        return entries

    data, result = order("input", "batch", "feature"), order("output", "batch", "feature")
    kernel = order("kernel", "input_feature", "output_feature")
    if any(numbers("window_reversal", 0)) or node.attr("batch_group_count") > 1:
        raise node.problem("xdlc does not support convolutions with reversed windows or batch groups")
    if set(numbers("lhs_dilation", 1)) - {1}:
        x = slicing.spread(g, permuted(g, x, data), [1, *numbers("lhs_dilation", 1), 1], number(g, x, 0))
        data = list(range(x.rank))
    pads = numbers("padding", 0, 2 * count)
    convolved = windows.conv(
        g,
        permuted(g, x, data),
        permuted(g, weight, [*kernel[1:-1], kernel[0], kernel[-1]]),
        strides=numbers("window_strides", 1),
        padding=list(zip(pads[::2], pads[1::2], strict=True)),
        dilations=numbers("rhs_dilation", 1),
    )
    return permuted(g, convolved, [result.index(axis) for axis in range(x.rank)])


@handler("STABLEHLO_REDUCE")
def _reduce(node: Node, g: Operators, *values: Value) -> Value:
    x, start = _reduced(node, g, values)
    axes = sorted(node.axis(axis, x.rank) for axis in node.attr("dimensions") or ())
    operator = _operator_of(node, g, node.graph("body_subgraph"), x)
    reduction, neutral = _REDUCTIONS[operator]
    found = g(reduction, [x, vector(g, axes)], keepdims=0) if axes else x
    if start.is_static and start.dtype.is_float and float(start.numpy()) == neutral:
        return found
    return g(operator, [found, start])


@handler("STABLEHLO_REDUCE_WINDOW")
def _reduce_window(node: Node, g: Operators, *values: Value) -> Value:
    x, start = _reduced(node, g, values)
    operator = _operator_of(node, g, node.graph("body_subgraph"), x)
    names = ("window_dimensions", "window_strides", "window_dilations", "base_dilations")
    kernel, strides, dilations, base = (list(node.attr(name) or [1] * x.rank) for name in names)
    pads = list(node.attr("padding") or [0] * (2 * x.rank))
    if len(pads) != 2 * x.rank:
        raise node.invalid(f"paddings {pads} do not fit rank {x.rank}")
    x = slicing.spread(g, x, base, start) if set(base) - {1} else x
    x = g("Pad", [x, [*pads[::2], *pads[1::2]], start]) if any(pads) else x
    return window_reduced(g, operator, x, start, kernel, strides, dilations)


def _reduced(node: Node, g: Operators, values: Sequence[Value]) -> tuple[Value, Value]:
    """Return the value that a node reduces, and the start as a scalar."""
    if len(values) != 2:
        raise node.problem(f"xdlc does not support a reduction of {len(values) // 2} values at once")
    return values[0], reshape(g, values[1], ())


def _operator_of(node: Node, g: Operators, body: Body, like: Value) -> str:
    """Return the operator of a sub-graph on two scalars, identified by its results."""
    outcome = []
    for pair in _PROBES if body.size == 1 and len(body.inputs) == 2 and len(body.outputs) == 1 else ():
        given = [g.builder.const(np.asarray(value, like.dtype.numpy)) for value in pair]
        (found,) = inline(g.context, body, dict(zip(body.inputs, given, strict=True)))
        if isinstance(found, Value) and found.is_static:
            outcome.append(found.numpy().reshape(()).item())
    operator = _OUTCOMES.get(tuple(outcome))
    if operator is None or like.dtype is BOOL8 or not (like.dtype.is_float or like.dtype.is_signed):
        raise node.problem("xdlc supports only the reductions sum, product, maximum and minimum")
    return str(operator)
