"""Handlers of arithmetic with numbers that depend on open dimensions or data."""

from __future__ import annotations

import numpy as np

from xdlc.converter.functions.elementwise import floor_div, floor_mod, not_equal
from xdlc.converter.functions.shapes import dims, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.registry import PYTHON, AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, FLOAT32, INT64

Number = bool | int | float | Value

_ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "pow": "Pow"}
_COMPARISONS = {"eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "lt": "Less"}
_BINARY = _ARITHMETIC | _COMPARISONS | {"and_": "And", "or_": "Or", "sym_max": "Max", "sym_min": "Min"}
_UNARY = {"neg": "Neg", "sym_not": "Not", "_sym_sqrt": "Sqrt", "sym_sqrt": "Sqrt"}
_FUNCTIONS = {"floordiv": floor_div, "mod": floor_mod, "ne": not_equal}
_TYPES = dict.fromkeys(("and_", "or_", "sym_not"), BOOL8)
_TYPES |= dict.fromkeys(("truediv", "sym_float", "_sym_sqrt", "sym_sqrt"), FLOAT32)
"""Types of the operands of those that have one; those of others are integers, or floats if any is one."""


def _operands(g: Operators, type: str, *numbers: Number) -> list[Value]:
    """Return numbers as values of rank 0 of one type."""
    reals = [x.dtype.is_float if isinstance(x, Value) else isinstance(x, float) for x in numbers]
    dtype = _TYPES.get(type, FLOAT32 if any(reals) else INT64)
    operands = [x if isinstance(x, Value) else g.builder.const(np.asarray(x, dtype.numpy)) for x in numbers]
    return [g.builder.cast(reshape(g, x, ()) if x.rank else x, dtype) for x in operands]


@aten("and_", "or_", *_ARITHMETIC, *_COMPARISONS, *_FUNCTIONS, domain=PYTHON)
@aten("sym_max", "sym_min", domain="torch")
def _binary(node: AtenNode, g: Operators, a: Number, b: Number) -> Value:
    x, y = _operands(g, node.type, a, b)
    return _FUNCTIONS[node.type](g, x, y) if node.type in _FUNCTIONS else g(_BINARY[node.type], [x, y])


@aten("neg", "pos", domain=PYTHON)
@aten("sym_float", "sym_not", "_sym_sqrt", "sym_sqrt", domain="torch")
def _unary(node: AtenNode, g: Operators, a: Number) -> Value:
    (x,) = _operands(g, node.type, a)
    return g(_UNARY[node.type], [x]) if node.type in _UNARY else x


@aten("sym_int", domain="torch")
@aten("trunc", domain="math", names={"x": "a"})
def _truncated(node: AtenNode, g: Operators, a: Number) -> Value:
    return g.builder.cast(_operands(g, node.type, a)[0], INT64)  # which cuts towards 0


@aten("sym_ite", domain="torch")
def _chosen(node: AtenNode, g: Operators, b: Number, t: Number, f: Number) -> Value:
    return g("Where", [*_operands(g, "sym_not", b), *_operands(g, node.type, t, f)])


# ------------------------------------------------------------------ sizes and elements


@aten("sym_size.int", "size.int")
def _size(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    return shapes.number(g, shapes.sizes_of(g, self)[node.axis(dim, self.rank)])


@aten("sym_numel", "numel")
def _count(node: AtenNode, g: Operators, self: Value) -> Value:
    return shapes.number(g, shapes.product(g, shapes.sizes_of(g, self)))


@aten("_shape_as_tensor")
def _shape(node: AtenNode, g: Operators, self: Value) -> Value:
    return shapes.vector_of(g, shapes.sizes_of(g, self))


@aten("item", "_local_scalar_dense")
@aten("IntImplicit", "FloatImplicit", "ScalarImplicit", names={"a": "self"})
@aten("Bool.Tensor", "Int.Tensor", "Float.Tensor", names={"a": "self"})
def _item(node: AtenNode, g: Operators, self: Value) -> Value:
    if not self.is_dynamic and self.size != 1:
        raise node.invalid(f"a tensor of shape {list(dims(self))} is not a single number")
    dtype = {"B": BOOL8, "I": INT64, "F": FLOAT32}.get(node.type[0], self.dtype)
    return g.builder.cast(reshape(g, self, ()) if self.rank else self, dtype)
