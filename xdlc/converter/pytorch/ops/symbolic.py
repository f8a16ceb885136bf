"""Handlers of numbers that depend on open dimensions or on data, and of arithmetic with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from xdlc.converter.nhwc.elementwise import floor_div, floor_mod
from xdlc.converter.nhwc.shapes import dims, reshape
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import number, product, sizes_of, vector_of
from xdlc.converter.pytorch.registry import PYTHON, AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, FLOAT32, INT64

Number = bool | int | float | Value
_NUMBER_TYPES = {bool: BOOL8, int: INT64, float: FLOAT32}


def _operands(g: Operators, values: Sequence[Number]) -> list[Value]:
    """Return numbers as values of rank 0 of one type: the widest of theirs, truth values as integers."""
    dtypes = [each.dtype if isinstance(each, Value) else _NUMBER_TYPES[type(each)] for each in values]
    dtype = FLOAT32 if any(each.is_float for each in dtypes) else INT64
    found = [
        each if isinstance(each, Value) else g.builder.const(np.asarray(each, dtype.numpy)) for each in values
    ]
    return [g.builder.cast(reshape(g, each, ()) if each.rank else each, dtype) for each in found]


def _real(g: Operators, x: Value, y: Value, type: str) -> Value:
    return g(type, [g.builder.cast(x, FLOAT32), g.builder.cast(y, FLOAT32)])


def _canonical(type: str) -> Callable[[Operators, Value, Value], Value]:
    return lambda g, x, y: g(type, [x, y])


_BINARY: dict[str, Callable[[Operators, Value, Value], Value]] = {
    "add": _canonical("Add"),
    "eq": _canonical("Equal"),
    "floordiv": floor_div,
    "ge": _canonical("GreaterOrEqual"),
    "gt": _canonical("Greater"),
    "le": _canonical("LessOrEqual"),
    "lt": _canonical("Less"),
    "mod": floor_mod,
    "mul": _canonical("Mul"),
    "ne": lambda g, x, y: g("Not", [g("Equal", [x, y])]),
    "pow": _canonical("Pow"),
    "sub": _canonical("Sub"),
    "sym_max": _canonical("Max"),
    "sym_min": _canonical("Min"),
    "truediv": partial(_real, type="Div"),
}
"""Arithmetic of Python with two numbers, in the type of their common values."""


@aten(*(name for name in _BINARY if not name.startswith("sym_")), domain=PYTHON)
@aten("sym_max", "sym_min", domain="torch")
def _binary(node: AtenNode, g: Operators, a: Number, b: Number) -> Value:
    return _BINARY[node.type](g, *_operands(g, [a, b]))


@aten("neg", "pos", domain=PYTHON)
def _sign(node: AtenNode, g: Operators, a: Number) -> Value:
    (value,) = _operands(g, [a])
    return g("Neg", [value]) if node.type == "neg" else value


@aten("and_", "or_", domain=PYTHON)
def _logic(node: AtenNode, g: Operators, a: Number, b: Number) -> Value:
    pair = [g.builder.cast(value, BOOL8) for value in _operands(g, [a, b])]
    return g("And" if node.type == "and_" else "Or", pair)


@aten("sym_float", "sym_int", "sym_not", "_sym_sqrt", "sym_sqrt", domain="torch")
def _converted(node: AtenNode, g: Operators, a: Number) -> Value:
    (value,) = _operands(g, [a])
    if node.type == "sym_not":
        return g("Not", [g.builder.cast(value, BOOL8)])
    if node.type == "sym_int":  # a conversion cuts towards 0
        return g.builder.cast(value, INT64)
    real = g.builder.cast(value, FLOAT32)
    return real if node.type == "sym_float" else g("Sqrt", [real])


@aten("trunc", domain="math")
def _truncated(node: AtenNode, g: Operators, x: Number) -> Value:
    (value,) = _operands(g, [x])
    return g.builder.cast(value, INT64)


@aten("sym_ite", domain="torch")
def _chosen(node: AtenNode, g: Operators, b: Number, t: Number, f: Number) -> Value:
    (condition,) = _operands(g, [b])
    return g("Where", [g.builder.cast(condition, BOOL8), *_operands(g, [t, f])])


# ------------------------------------------------------------------ sizes and elements


@aten("sym_size.int", "size.int")
def _size(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    return number(g, sizes_of(g, self)[node.axis(dim, self.rank)])


@aten("sym_numel", "numel")
def _count(node: AtenNode, g: Operators, self: Value) -> Value:
    return number(g, product(g, sizes_of(g, self)))


@aten("_shape_as_tensor")
def _shape(node: AtenNode, g: Operators, self: Value) -> Value:
    return vector_of(g, sizes_of(g, self))


def _element(node: AtenNode, g: Operators, x: Value) -> Value:
    if not x.is_dynamic and x.size != 1:
        raise node.invalid(f"the number in a tensor of shape {list(dims(x))}")
    return reshape(g, x, ()) if x.rank else x


@aten("item", "_local_scalar_dense")
def _item(node: AtenNode, g: Operators, self: Value) -> Value:
    return _element(node, g, self)


@aten("Bool.Tensor", "Int.Tensor", "Float.Tensor", "IntImplicit", "FloatImplicit", "ScalarImplicit")
def _item_as(node: AtenNode, g: Operators, a: Value) -> Value:
    dtype = {"B": BOOL8, "I": INT64, "F": FLOAT32}.get(node.type[0])
    found = _element(node, g, a)
    return found if dtype is None else g.builder.cast(found, dtype)
