"""Handlers of reductions, argmax and top-k."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.caffe2.registry import flag, integer, integers, operator, wants
from xdlc.converter.nhwc.reduce import reduced
from xdlc.converter.nhwc.shapes import cast, dims, ints, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT64

_KINDS = ("Max", "Mean", "Min", "Sum", "L1", "L2")
_ENDS = {f"Reduce{end}{kind}": (end, kind) for end in ("Front", "Back") for kind in ("Max", "Mean", "Sum")}


@operator(*(f"Reduce{kind}" for kind in _KINDS), layout=ANY)
def _reduce(node: Node, g: Operators, x: Value) -> Value:
    axes = [node.axis(axis, x.rank) for axis in integers(node, "axes") or range(x.rank)]
    if len(set(axes)) != len(axes):
        raise node.invalid(f"axes {axes} repeat an axis")
    return reduced(g, node.type, x, axes, keep=flag(node, "keepdims", True))


@operator(*_ENDS, layout=ANY)
def _reduce_ends(node: Node, g: Operators, x: Value) -> Value:
    """Return a reduction of the first or of the last axes, which are dropped."""
    if len(node.inputs) == 2:
        raise node.problem("xdlc does not support lengths (input 1)", "mask the values before the reduction")
    end, kind = _ENDS[node.type]
    count = integer(node, "num_reduce_dim", 1, 0)
    if count > x.rank:
        raise node.invalid(f"num_reduce_dim {count} does not fit an input of rank {x.rank}")
    axes = range(count) if end == "Front" else range(x.rank - count, x.rank)
    return reduced(g, kind, x, axes, keep=False)


@operator("ArgMax", "ArgMin", layout=ANY)
def _arg(node: Node, g: Operators, x: Value) -> Value:
    axis = node.axis(integer(node, "axis", -1), x.rank)
    return g(node.type, [x], axis=axis, keepdims=int(flag(node, "keepdims", True)))


@operator("TopK")
def _top_k(node: Node, g: Operators, x: Value, count: Value | None = None) -> list[Value]:
    """Return the k greatest elements of an axis, their indices and int64 flat ones."""
    k = integers(node, "k") if count is None else ints(count, "k")
    axis = node.axis(integer(node, "axis", -1), x.rank)
    if len(k) != 1 or not 0 < k[0] <= dims(x, [axis])[0]:
        raise node.invalid(f"k is {k}, but axis {axis} of the input has only {x.shape[axis]} elements")
    values, places = g.apply("TopK", [x, vector(g, k)], {"axis": axis}, 2)
    if not wants(node, 2):
        return [values, places]
    shape = dims(x)
    g.builder.check_table(*shape)
    first = g.builder.const(np.take(np.arange(x.size).reshape(shape), [0], axis))
    step = g.builder.const(np.asarray(math.prod(shape[axis + 1 :]), np.int64))
    flat = g("Add", [g("Mul", [places, step]), first])
    return [values, places, cast(g, reshape(g, flat, (flat.size,)), INT64)]
