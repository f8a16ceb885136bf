"""Handlers of products of rows with one matrix per group: mixtures of experts.

Rows are sorted by group, and ``offs`` holds the end of each group.  Where there are at least as many rows as
groups, each row is written into the columns of its group in a wide matrix of zeros, [S, E * K], and one
product with all weights, [E * K, N], reads each weight once.  Where there are fewer rows, the weights of
their groups are gathered, and the other weights are not read.
"""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc.products import fully_connected, swapped
from xdlc.converter.nhwc.shapes import reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.node import bind_dims
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import INT32


@aten("grouped_mm_fallback", domain="transformers", names={"weight": "mat2", "input": "self"})
@aten("_grouped_mm", ignores=("out_dtype",))
def _grouped_mm(node: AtenNode, g: Operators, self: Value, mat2: Value, offs: Value | None = None) -> Value:
    """Return [S, N] of rows [S, K], weights [E, K, N]; rows of no group are 0."""
    if offs is None and self.rank == mat2.rank == 3:
        return g("MatMul", [self, mat2])
    if offs is None or (self.rank, mat2.rank) != (2, 3):
        raise node.problem(f"a grouped product of ranks {self.rank} and {mat2.rank}", "write it as bmm")
    if any(value.is_dynamic for value in (self, mat2, offs)):
        raise node.problem("dynamic rows or groups are not supported", bind_dims())
    rows, (groups, depth, width) = self.shape[0], mat2.shape
    if self.shape[1] != depth or offs.shape != (groups,):
        raise node.invalid(f"{list(self.shape)} times {list(mat2.shape)} by {list(offs.shape)}")
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
    after = g("Sub", [g.builder.const(np.int32(groups)), _total(g, g.builder.cast(before, INT32))])
    group = g("Min", [after, g.builder.const(np.int32(groups - 1))])
    product = g("MatMul", [g("Unsqueeze", [rows, vector(g, [1])]), g("Gather", [weights, group], axis=0)])
    is_inside = g("Less", [after, g.builder.const(np.int32(groups))])
    inside = reshape(g, g.builder.cast(is_inside, rows.dtype), (rows.shape[0], 1))
    return g("Mul", [reshape(g, product, (rows.shape[0], weights.shape[2])), inside])


def _total(g: Operators, x: Value) -> Value:
    return g("ReduceSum", [x, vector(g, [1])], keepdims=0)
