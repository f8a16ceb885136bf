"""Handlers of linear algebra: inverses, determinants, factors."""

# ruff: noqa: N803 - the arguments have the names of the schemas

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.products import swapped
from xdlc.converter.nhwc.shapes import dims, number, positions, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops import _factors as factors
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32


def _is_read(node: AtenNode, g: Operators, index: int) -> bool:
    return len(node.outputs) > index and node.outputs[index] in g.read


def _first(g: Operators, flags: Value) -> Value:
    """Return the place of the first true flag along the last axis, int32, counted from 1; 0 for none."""
    held = g.builder.cast(flags, INT32)
    place = g.builder.cast(g("ArgMax", [held], axis=flags.rank - 1, keepdims=0), INT32)
    some = g("ReduceMax", [held, vector(g, [flags.rank - 1])], keepdims=0)
    return g("Mul", [g("Add", [place, number(g, place, 1)]), some])


def _diagonal(g: Operators, x: Value) -> Value:
    """Return the diagonal of square matrices, as their last axis."""
    *lead, rows, columns = dims(x)
    count = min(rows, columns)
    flat = reshape(g, x, (*lead, rows * columns))
    return g("Gather", [flat, vector(g, np.arange(count) * (columns + 1))], axis=len(lead))


def _singular(g: Operators, packed: Value) -> Value:
    """Return the place of the first zero on the diagonal of U."""
    diagonal = _diagonal(g, packed)
    return _first(g, g("Equal", [diagonal, number(g, diagonal, 0)]))


def _no_info(node: AtenNode, g: Operators, x: Value) -> Value:
    """Return the flag of success of matrices."""
    return g.builder.const(np.zeros(x.shape[:-2], np.int32))


# ---------------------------------------------------------------------------------------------- determinants


@aten("linalg_det", "det", "_linalg_det")
def _det(node: AtenNode, g: Operators, A: Value | None = None, self: Value | None = None) -> list[Value]:
    x = A if A is not None else self
    assert x is not None
    if node.type == "_linalg_det":
        found = factors.lu(g, x)
        return [g("Det", [x]), found.packed, _counted(g, found.pivots)]
    return [g("Det", [x])]


def _counted(g: Operators, pivots: Value) -> Value:
    """Return pivots as LAPACK has them: counted from 1, int32."""
    return g.builder.cast(g("Add", [pivots, number(g, pivots, 1)]), INT32)


def _sign_and_log(g: Operators, x: Value) -> tuple[Value, Value, factors.Factors]:
    found = factors.lu(g, x)
    diagonal = _diagonal(g, found.packed)
    axis = vector(g, [diagonal.rank - 1])
    count = diagonal.shape[-1]
    stayed = g("Equal", [found.pivots, vector(g, range(count))])
    one = number(g, x, 1)
    swaps = g("Where", [stayed, one, number(g, x, -1)])
    signs = g("Mul", [g("Sign", [diagonal]), swaps])
    sign = g("ReduceProd", [signs, axis], keepdims=0)
    logs = g("ReduceSum", [g("Log", [g("Abs", [diagonal])]), axis], keepdims=0)
    return sign, logs, found


@aten("linalg_slogdet", "slogdet", "_linalg_slogdet")
def _slogdet(node: AtenNode, g: Operators, A: Value | None = None, self: Value | None = None) -> list[Value]:
    x = A if A is not None else self
    assert x is not None
    sign, logs, found = _sign_and_log(g, x)
    more = [found.packed, _counted(g, found.pivots)] if node.type.startswith("_") else []
    return [sign, logs, *more]


@aten("logdet")
def _logdet(node: AtenNode, g: Operators, self: Value) -> Value:
    sign, logs, _ = _sign_and_log(g, self)
    return g("Where", [g("Less", [sign, number(g, sign, 0)]), number(g, logs, math.nan), logs])


# ---------------------------------------------------------------------------------------------- inverses


@aten("inverse", "linalg_inv", "linalg_inv_ex", ignores=("check_errors",))
def _inverse(node: AtenNode, g: Operators, A: Value | None = None, self: Value | None = None) -> list[Value]:
    x = A if A is not None else self
    assert x is not None
    made = [factors.inverse(g, x)]
    if _is_read(node, g, 1):
        made.append(_singular(g, factors.lu(g, x).packed))
    return made


def _solved(g: Operators, inverse: Value, right: Value, *, left: bool, is_vector: bool) -> Value:
    if is_vector:
        column = g("Unsqueeze", [right, vector(g, [-1])])
        return g("Squeeze", [g("MatMul", [inverse, column]), vector(g, [-1])])
    return g("MatMul", [inverse, right] if left else [right, inverse])


@aten("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex", ignores=("check_errors",))
def _solve(node: AtenNode, g: Operators, A: Value, B: Value, left: bool) -> list[Value]:
    is_vector = B.rank == 1 or (A.rank - 1 == B.rank and dims(A)[:-1] == dims(B))
    made = [_solved(g, factors.inverse(g, A), B, left=left, is_vector=is_vector)]
    if any(_is_read(node, g, index) for index in (1, 2, 3)):
        found = factors.lu(g, A)
        info = _singular(g, found.packed)
        more = [found.packed, _counted(g, found.pivots)] if node.type.startswith("_") else []
        made += [*more, info]
    return made


@aten("linalg_solve_triangular")
def _solve_triangular(
    node: AtenNode, g: Operators, self: Value, B: Value, upper: bool, left: bool, unitriangular: bool
) -> Value:
    inverse = factors.inverse(g, factors.triangle(g, self, upper=upper, unit=unitriangular))
    return _solved(g, inverse, B, left=left, is_vector=False)


@aten("triangular_solve")
def _triangular_solve(
    node: AtenNode, g: Operators, self: Value, A: Value, upper: bool, transpose: bool, unitriangular: bool
) -> list[Value]:
    inverse = factors.inverse(g, factors.triangle(g, A, upper=upper, unit=unitriangular))
    made = g("MatMul", [swapped(g, inverse) if transpose else inverse, self])
    lead = made.shape[:-2]
    return [made, g("Expand", [A, vector(g, [*lead, *A.shape[-2:]])]) if lead != A.shape[:-2] else A]


@aten("linalg_tensorinv")
def _tensorinv(node: AtenNode, g: Operators, self: Value, ind: int) -> Value:
    shape = dims(self)
    size = math.prod(shape[ind:])
    return reshape(g, factors.inverse(g, reshape(g, self, (size, size))), (*shape[ind:], *shape[:ind]))


@aten("linalg_tensorsolve")
def _tensorsolve(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    shape, size = dims(self), other.size
    made = factors.inverse(g, reshape(g, self, (size, size)))
    return reshape(g, g("MatMul", [made, reshape(g, other, (size, 1))]), shape[other.rank :])


# ---------------------------------------------------------------------------------------------- factors


@aten("linalg_lu")
def _lu(node: AtenNode, g: Operators, A: Value, pivot: bool) -> list[Value]:
    _check_pivot(node, pivot)
    found = factors.lu(g, A)
    return [factors.permutation(g, found.order, A), *_unpacked(g, found.packed)]


def _check_pivot(node: AtenNode, pivot: bool) -> None:
    if not pivot:
        raise node.problem("a factorization without pivots, which runs on GPUs only", "set pivot=True")


def _unpacked(g: Operators, packed: Value) -> tuple[Value, Value]:
    rows, columns = packed.shape[-2:]
    count = min(rows, columns)
    lower = factors.block(g, packed, (0, rows), (0, count))
    upper = factors.block(g, packed, (0, count), (0, columns))
    return factors.triangle(g, lower, upper=False, unit=True), factors.triangle(g, upper, upper=True)


@aten("linalg_lu_factor", "linalg_lu_factor_ex", "_lu_with_info", ignores=("check_errors",))
def _lu_factor(
    node: AtenNode, g: Operators, pivot: bool, A: Value | None = None, self: Value | None = None
) -> list[Value]:
    _check_pivot(node, pivot)
    x = A if A is not None else self
    assert x is not None
    found = factors.lu(g, x)
    return [found.packed, _counted(g, found.pivots), _singular(g, found.packed)]


def _order(g: Operators, pivots: Value, rows: int) -> Value:
    counted = positions(g, pivots)
    return factors.order_of(g, g("Sub", [counted, number(g, counted, 1)]), rows)


@aten("lu_unpack")
def _lu_unpack(
    node: AtenNode, g: Operators, LU_data: Value, LU_pivots: Value, unpack_data: bool, unpack_pivots: bool
) -> list[Value]:
    empty = g.builder.const(np.zeros(0, LU_data.dtype.numpy))
    rows, _ = factors.check(LU_data)
    first = empty
    if unpack_pivots:
        first = factors.permutation(g, _order(g, LU_pivots, rows), LU_data)
    return [first, *(_unpacked(g, LU_data) if unpack_data else (empty, empty))]


def _lu_solved(
    g: Operators, packed: Value, pivots: Value, right: Value, *, left: bool, adjoint: bool
) -> Value:
    rows, _ = factors.check(packed)
    lower, upper = (
        factors.inverse(g, factors.triangle(g, packed, upper=up, unit=not up)) for up in (False, True)
    )
    swaps = factors.permutation(g, _order(g, pivots, rows), packed)
    whole = g("MatMul", [g("MatMul", [upper, lower]), swapped(g, swaps)])
    whole = swapped(g, whole) if adjoint else whole
    return g("MatMul", [whole, right] if left else [right, whole])


@aten("linalg_lu_solve")
def _linalg_lu_solve(
    node: AtenNode, g: Operators, LU: Value, pivots: Value, B: Value, left: bool, adjoint: bool
) -> Value:
    return _lu_solved(g, LU, pivots, B, left=left, adjoint=adjoint)


@aten("lu_solve")
def _lu_solve(node: AtenNode, g: Operators, self: Value, LU_data: Value, LU_pivots: Value) -> Value:
    return _lu_solved(g, LU_data, LU_pivots, self, left=True, adjoint=False)


@aten("cholesky", "linalg_cholesky", "linalg_cholesky_ex", ignores=("check_errors",))
def _cholesky(node: AtenNode, g: Operators, self: Value, upper: bool) -> list[Value]:
    x = swapped(g, self) if upper else self
    made, squares = factors.cholesky(g, x)
    good = g("Greater", [squares, number(g, squares, 0)])
    return [swapped(g, made) if upper else made, _first(g, g("Not", [good]))]


def _of_triangle(g: Operators, x: Value, *, upper: bool) -> Value:
    """Return the inverse of L Lᵀ for a triangle L, or of Lᵀ L for an upper one."""
    inverse = factors.inverse(g, factors.triangle(g, x, upper=upper))
    pair = (inverse, swapped(g, inverse)) if upper else (swapped(g, inverse), inverse)
    return g("MatMul", pair)


@aten("cholesky_inverse")
def _cholesky_inverse(node: AtenNode, g: Operators, self: Value, upper: bool) -> Value:
    return _of_triangle(g, self, upper=upper)


@aten("cholesky_solve")
def _cholesky_solve(node: AtenNode, g: Operators, self: Value, input2: Value, upper: bool) -> Value:
    return g("MatMul", [_of_triangle(g, input2, upper=upper), self])


def _eye(g: Operators, lead: Sequence[int], rows: int, columns: int, like: Value) -> Value:
    made = np.eye(rows, columns, dtype=like.dtype.numpy)
    return g.builder.const(np.broadcast_to(made, (*lead, rows, columns)).copy())


@aten("linalg_qr", "qr")
def _qr(
    node: AtenNode,
    g: Operators,
    A: Value | None = None,
    mode: str = "reduced",
    self: Value | None = None,
    some: bool = True,
) -> list[Value]:
    x = A if A is not None else self
    assert x is not None
    found = factors.reflections(g, x)
    rows, columns = x.shape[-2:]
    lead, count = x.shape[:-2], min(rows, columns)
    if mode == "r":
        return [g.builder.const(np.zeros(0, x.dtype.numpy)), found.upper]
    whole = mode == "complete" or not some
    identity = _eye(g, lead, rows, rows if whole else count, x)
    made = factors.reflected(g, found.vectors, found.factors, identity)
    upper = factors.padded(g, found.upper, (0, rows - count), (0, 0)) if whole else found.upper
    return [made, upper]


@aten("geqrf")
def _geqrf(node: AtenNode, g: Operators, self: Value) -> list[Value]:
    rows, columns = factors.check(self)
    found, count = factors.reflections(g, self), min(rows, columns)
    upper = factors.padded(g, found.upper, (0, rows - count), (0, 0))
    lower = factors.padded(g, found.vectors, (0, 0), (0, columns - count))
    return [g("Add", [upper, lower]), found.factors]


@aten("linalg_householder_product", "orgqr")
def _householder(
    node: AtenNode,
    g: Operators,
    input: Value | None = None,
    tau: Value | None = None,
    self: Value | None = None,
    input2: Value | None = None,
) -> Value:
    vectors, scales = input if input is not None else self, tau if tau is not None else input2
    assert vectors is not None
    assert scales is not None
    *lead, rows, columns = dims(vectors)
    return factors.reflected(g, vectors, scales, _eye(g, lead, rows, columns, vectors))


@aten("ormqr")
def _ormqr(
    node: AtenNode, g: Operators, self: Value, input2: Value, input3: Value, left: bool, transpose: bool
) -> Value:
    if left:
        return factors.reflected(g, self, input2, input3, transpose=transpose)
    turned = factors.reflected(g, self, input2, swapped(g, input3), transpose=not transpose)
    return swapped(g, turned)
