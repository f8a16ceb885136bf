"""Handlers of products of matrices and vectors, one matrix per group included.

Rows are sorted by group, and ``offs`` holds the end of each group.  Where there are at least as many rows as
groups, each row is written into the columns of its group in a wide matrix of zeros, [S, E * K], and one
product with all weights, [E * K, N], reads each weight once.  Where there are fewer rows, the weights of
their groups are gathered, and the other weights are not read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.products import fully_connected, swapped
from xdlc.converter.functions.shapes import axis_of, dims, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import operand
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.node import bind_dims
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import INT32

Number = int | float


@aten("linear")
def _linear(node: AtenNode, g: Operators, input: Value, weight: Value, bias: Value | None) -> Value:
    known = weight.is_static and (bias is None or bias.is_static)
    if known and weight.rank == 2 and input.rank and not input.is_dynamic:
        return fully_connected(g, input, weight, bias, keep_dims=True)
    made = g("MatMul", [input, swapped(g, weight) if weight.rank > 1 else weight])
    return made if bias is None else g("Add", [made, bias])


@aten(
    *("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "linalg_matmul"),
    ignores=("out_dtype",),
    names={"mat2": "other", "vec": "other", "tensor": "other"},
)
def _matmul(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    x, y = operand(node, g, self), operand(node, g, other)
    if node.type == "inner":
        if not x.rank or not y.rank:
            return g("Mul", [x, y])
        lead = [*dims(x)[:-1], *dims(y)[:-1]]
        rows, columns = (reshape(g, each, (math.prod(dims(each)[:-1]), each.shape[-1])) for each in (x, y))
        return reshape(g, g("MatMul", [rows, swapped(g, columns)]), lead)
    if y.rank == 2 and y.is_static and x.rank > 1 and y.dtype.is_float and not x.is_dynamic:
        return fully_connected(g, x, swapped(g, y), None, keep_dims=True)
    return g("MatMul", [x, y])


def _plus(g: Operators, product: Value, alpha: Number, addend: Value, beta: Number) -> Value:
    """Return alpha * product + beta * addend; with beta 0 the addend is ignored."""
    if alpha != 1:
        product = g("Mul", [product, alpha])
    if not beta:
        return product
    if beta != 1:
        addend = g("Mul", [addend, beta])
    return g("Add", [product, addend])


@aten("addmm", ignores=("out_dtype",))
def _addmm(
    node: AtenNode, g: Operators, self: Value, mat1: Value, mat2: Value, beta: Number, alpha: Number
) -> Value:
    bias, x, y = (operand(node, g, each) for each in (self, mat1, mat2))
    if y.is_static and y.dtype.is_float and not x.is_dynamic:
        operands = [x, swapped(g, y), bias] if beta else [x, swapped(g, y)]
        return g("Gemm", operands, transB=1, alpha=float(alpha), beta=float(beta))
    return _plus(g, g("MatMul", [x, y]), alpha, bias, beta)


@aten(
    *("baddbmm", "addbmm", "addmv", "addr"),
    ignores=("out_dtype",),
    names={
        "batch1": "left",
        "mat": "left",
        "vec1": "left",
        "batch2": "right",
        "vec": "right",
        "vec2": "right",
    },
)
def _plus_product(
    node: AtenNode, g: Operators, self: Value, left: Value, right: Value, beta: Number, alpha: Number
) -> Value:
    bias, x, y = (operand(node, g, each) for each in (self, left, right))
    product = _outer_product(g, x, y) if node.type == "addr" else g("MatMul", [x, y])
    if node.type.startswith("addbmm"):
        product = g("ReduceSum", [product, [0]], keepdims=0)
    return _plus(g, product, alpha, bias, beta)


def _outer_product(g: Operators, x: Value, y: Value) -> Value:
    return g("Mul", [g("Unsqueeze", [x, [1]]), g("Unsqueeze", [y, [0]])])


@aten("outer", "ger")
def _outer(node: AtenNode, g: Operators, self: Value, vec2: Value) -> Value:
    return _outer_product(g, operand(node, g, self), operand(node, g, vec2))


@aten("einsum", ignores=("path",))
def _einsum(node: AtenNode, g: Operators, equation: str, tensors: Sequence[Value]) -> Value:
    given = [operand(node, g, each) for each in tensors]
    return g("Einsum", given, equation=equation.replace(" ", ""))


@aten("tensordot")
def _tensordot(
    node: AtenNode,
    g: Operators,
    self: Value,
    other: Value,
    dims_self: Sequence[int],
    dims_other: Sequence[int],
) -> Value:
    x, y = operand(node, g, self), operand(node, g, other)
    left, right = (
        [axis_of(axis, each.rank) for axis in axes] for each, axes in ((x, dims_self), (y, dims_other))
    )
    sizes = [(x.shape[at], y.shape[to]) for at, to in zip(left, right, strict=False)]
    if not len(set(left)) == len(left) == len(right) == len(set(right)) or any(
        first != second and 1 not in (first, second) for first, second in sizes
    ):
        raise node.invalid(f"axes {left} of shape {list(x.shape)} do not fit axes {right} of {list(y.shape)}")
    for at, to in zip(left, right, strict=True):  # an axis of size 1 is repeated
        if x.shape[at] != y.shape[to] and x.shape[at] == 1:
            y = g("ReduceSum", [y, [to]], keepdims=1)
        elif x.shape[at] != y.shape[to] and y.shape[to] == 1:
            x = g("ReduceSum", [x, [at]], keepdims=1)
    rows = [axis for axis in range(x.rank) if axis not in left]
    columns = [axis for axis in range(y.rank) if axis not in right]
    shape = [*(dims(x)[axis] for axis in rows), *(dims(y)[axis] for axis in columns)]
    inner = int(np.prod([x.shape[axis] for axis in left], dtype=np.int64))
    flat_x = reshape(g, permuted(g, x, [*rows, *left]), (x.size // max(inner, 1), inner))
    flat_y = reshape(g, permuted(g, y, [*right, *columns]), (inner, y.size // max(inner, 1)))
    return reshape(g, g("MatMul", [flat_x, flat_y]), shape)


@aten("kron")
def _kron(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    x, y = operand(node, g, self), operand(node, g, other)
    rank = max(x.rank, y.rank)
    first, second = ([1] * (rank - each.rank) + list(dims(each)) for each in (x, y))
    apart = [reshape(g, x, [item for size in first for item in (size, 1)])]
    apart.append(reshape(g, y, [item for size in second for item in (1, size)]))
    return reshape(g, g("Mul", apart), [a * b for a, b in zip(first, second, strict=True)])


@aten("cross", "linalg_cross")
def _cross(node: AtenNode, g: Operators, self: Value, other: Value, dim: int | None) -> Value:
    x, y = operand(node, g, self), operand(node, g, other)
    rank = max(x.rank, y.rank)
    shape = np.broadcast_shapes(dims(x), dims(y))
    axis = shape.index(3) if dim is None else axis_of(dim, rank)
    x, y = (reshape(g, each, (1,) * (rank - each.rank) + each.shape) for each in (x, y))

    def turned(value: Value, by: int) -> Value:
        return g("Gather", [value, [(place + by) % 3 for place in range(3)]], axis=axis)

    return g("Sub", [g("Mul", [turned(x, 1), turned(y, 2)]), g("Mul", [turned(x, 2), turned(y, 1)])])


@aten("linalg_vecdot")
def _vecdot(node: AtenNode, g: Operators, x: Value, y: Value, dim: int) -> Value:
    product = g("Mul", [operand(node, g, x), operand(node, g, y)])
    return g("ReduceSum", [product, [axis_of(dim, product.rank)]], keepdims=0)


@aten("chain_matmul", "linalg_multi_dot", names={"matrices": "tensors"})
def _chain(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    first, *others = [operand(node, g, each) for each in tensors]
    for other in others:
        first = g("MatMul", [first, other])
    return first


@aten("matrix_power", "linalg_matrix_power")
def _matrix_power(node: AtenNode, g: Operators, self: Value, n: int) -> Value:
    power = g.apply("Inverse", [self], domain="com.microsoft")[0] if n < 0 else self
    product: Value | None = None
    for bit in reversed(bin(abs(n))[2:]):
        if bit == "1":
            product = power if product is None else g("MatMul", [product, power])
        power = g("MatMul", [power, power])
    if product is not None:
        return product
    check_table(*dims(self)[-1:] * 2)
    eye = np.eye(dims(self)[-1], dtype=self.dtype.numpy)
    return g("Expand", [eye, vector(g, self.shape)])


@aten("bilinear")
def _bilinear(
    node: AtenNode, g: Operators, input1: Value, input2: Value, weight: Value, bias: Value | None
) -> Value:
    lead, (units, first, second) = dims(input1)[:-1], dims(weight)
    rows = input1.size // first if first else 0
    x, y = reshape(g, input1, (1, rows, first)), reshape(g, input2, (1, rows, second))
    mixed = g("Mul", [g("MatMul", [x, weight]), y])  # [units, rows, second]
    made = permuted(g, g("ReduceSum", [mixed, [2]], keepdims=0), (1, 0))
    made = made if bias is None else g("Add", [made, bias])
    return reshape(g, made, (*lead, units))


@aten("grouped_mm_fallback", domain="transformers", names={"weight": "mat2", "input": "self"})
@aten("_grouped_mm", ignores=("out_dtype",))
def _grouped_mm(node: AtenNode, g: Operators, self: Value, mat2: Value, offs: Value | None = None) -> Value:
    """Return [S, N] of rows [S, K], weights [E, K, N]; rows of no group are 0."""
    if offs is None and self.rank == mat2.rank == 3:
        return g("MatMul", [self, mat2])
    if offs is None or (self.rank, mat2.rank) != (2, 3):
        raise node.problem(
            f"xdlc does not support inputs of ranks {self.rank} and {mat2.rank}", "write the product as bmm"
        )
    if any(value.is_dynamic for value in (self, mat2, offs)):
        raise node.problem("xdlc does not support dynamic rows or groups", bind_dims())
    rows, (groups, depth, width) = self.shape[0], mat2.shape
    if self.shape[1] != depth or offs.shape != (groups,):
        raise node.invalid(f"{list(self.shape)} times {list(mat2.shape)} does not fit {list(offs.shape)}")
    check_table(rows, groups)
    row = g.builder.const(np.arange(rows, dtype=np.int32).reshape(-1, 1))
    ends = reshape(g, g.builder.cast(offs, INT32), (1, groups))
    before = g("Less", [row, ends])  # of the row's own group and all after it
    if rows < groups:
        return _gathered(g, self, mat2, before)
    from_here = g.builder.cast(before, self.dtype)
    earlier = g("Slice", [from_here, *(vector(g, [number]) for number in (0, groups - 1, 1))])
    zeros = g.builder.const(np.zeros((rows, 1), self.dtype.numpy))
    member = g("Sub", [from_here, g("Concat", [zeros, earlier], axis=1)]) if groups > 1 else from_here
    wide = g("Mul", [reshape(g, self, (rows, 1, depth)), reshape(g, member, (rows, groups, 1))])
    flat, weight = reshape(g, wide, (rows, groups * depth)), reshape(g, mat2, (groups * depth, width))
    if weight.is_static:
        return fully_connected(g, flat, swapped(g, weight), None, keep_dims=True)
    return g("MatMul", [flat, weight])


def _gathered(g: Operators, rows: Value, weights: Value, before: Value) -> Value:
    """Return the product of each row with the weights of its group, gathered."""
    groups = weights.shape[0]
    after = g("Sub", [np.int32(groups), _total(g, g.builder.cast(before, INT32))])
    group = g("Min", [after, np.int32(groups - 1)])
    product = g("MatMul", [g("Unsqueeze", [rows, [1]]), g("Gather", [weights, group], axis=0)])
    is_inside = g("Less", [after, np.int32(groups)])
    inside = reshape(g, g.builder.cast(is_inside, rows.dtype), (rows.shape[0], 1))
    return g("Mul", [reshape(g, product, (rows.shape[0], weights.shape[2])), inside])


def _total(g: Operators, x: Value) -> Value:
    return g("ReduceSum", [x, [1]], keepdims=0)
