"""Handlers of linear algebra on matrices of static sizes, unrolled by column."""

# ruff: noqa: N803 - the arguments have the names of the schemas

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.functions.products import swapped
from xdlc.converter.functions.shapes import dims, number, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table
from xdlc.errors import UnsupportedOp
from xdlc.ir.data import Array
from xdlc.ir.dtype import INT32

_MOST = 32
"""Columns of a factorization that is written out; each takes about ten operations."""


def _inverted(g: Operators, x: Value) -> Value:
    return g.apply("Inverse", [x], domain="com.microsoft")[0]


def _sizes(x: Value) -> tuple[int, int]:
    """Return rows and columns of matrices whose factors are to be written out."""
    rows, columns = dims(x)[-2:]
    if not 0 < min(rows, columns) <= _MOST:
        raise UnsupportedOp(
            f"a factorization of [{rows}, {columns}] is not supported: QNN has none, and xdlc unrolls "
            f"1 to {_MOST} columns",
            fix="compute this part outside the model",
        )
    return rows, columns


def _block(g: Operators, x: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
    starts, ends = zip(rows, columns, strict=True)
    return g("Slice", [x, vector(g, starts), vector(g, ends), [-2, -1]])


def _first(g: Operators, flags: Value) -> Value:
    """Return the 1-based position of the first true flag per row, int32; 0 for none."""
    held, axis = g.builder.cast(flags, INT32), flags.rank - 1
    place = g.builder.cast(g("ArgMax", [held], axis=axis, keepdims=0), INT32)
    some = g("ReduceMax", [held, [axis]], keepdims=0)
    return g("Mul", [g("Add", [place, 1]), some])


def _joined(g: Operators, parts: list[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else g("Concat", parts, axis=parts[0].rank + axis)


def _grid(x: Value) -> tuple[Array, Array]:
    """Return the numbers of rows [m, 1] and columns [n] of matrices."""
    check_table(*x.shape[-2:])
    return np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])


def _chosen(g: Operators, mask: Array, yes: Value, no: Value) -> Value:
    return g("Where", [mask, yes, no])


def _triangle(g: Operators, x: Value, *, upper: bool, unit: bool = False) -> Value:
    """Return the upper or lower triangle, with a diagonal of ones if ``unit``."""
    rows, columns = _grid(x)
    inside = rows <= columns if upper else rows >= columns
    made = _chosen(g, inside, x, number(g, x, 0))
    return _chosen(g, rows == columns, number(g, x, 1), made) if unit else made


def _diagonal(g: Operators, x: Value) -> Value:
    *lead, rows, columns = dims(x)
    check_table(min(rows, columns))
    flat = reshape(g, x, (*lead, rows * columns))
    return g("Gather", [flat, vector(g, np.arange(min(rows, columns)) * (columns + 1))], axis=len(lead))


# ---------------------------------------------------------------------------------------------- LU factors


def _lu(g: Operators, x: Value) -> tuple[Value, Value]:
    """Return U with L below its diagonal, and the 0-based pivot rows."""
    (rows, columns), pivots = _sizes(x), []
    place, across = _grid(x)
    for step in range(min(rows, columns)):
        column = g("Abs", [_block(g, x, (step, rows), (step, step + 1))])
        best = g("ArgMax", [column], axis=x.rank - 2, keepdims=0)
        pivots.append(g("Add", [best, step]))
        moved = g("Unsqueeze", [_exchanged(g, rows, step, pivots[-1]), [-1]])
        x = g("GatherElements", [x, g("Expand", [moved, vector(g, x.shape)])], axis=x.rank - 2)
        divisor = _block(g, x, (step, step + 1), (step, step + 1))
        divisor = g("Where", [g("Equal", [divisor, 0]), 1, divisor])
        factor = g("Div", [_block(g, x, (0, rows), (step, step + 1)), divisor])
        rest = g("Sub", [x, g("Mul", [factor, _block(g, x, (step, step + 1), (0, columns))])])
        rest = _chosen(g, (place > step) & (across > step), rest, x)
        x = _chosen(g, (place > step) & (across == step), factor, rest)
    return x, _joined(g, pivots, -1)


def _exchanged(g: Operators, rows: int, step: int, pivot: Value) -> Value:
    """Return row indices with a step's row and its pivot [..., 1] exchanged."""
    places, here = g.builder.const(np.arange(rows)), number(g, pivot, step)
    moved = g("Where", [g("Equal", [places, pivot]), here, places])
    return g("Where", [g("Equal", [places, here]), pivot, moved])


def _permutation(g: Operators, pivots: Value, like: Value) -> Value:
    """Return matrices P with P L U = A for pivots of ``_lu``."""
    rows = like.shape[-2]
    order = g.builder.const(np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy())
    for step in range(pivots.shape[-1]):
        pivot = g("Gather", [pivots, [step]], axis=pivots.rank - 1)
        order = g("GatherElements", [order, _exchanged(g, rows, step, pivot)], axis=order.rank - 1)
    places = g.builder.const(np.arange(rows)[:, None])
    return g.builder.cast(g("Equal", [places, g("Unsqueeze", [order, [-2]])]), like.dtype)


def _unpacked(g: Operators, packed: Value) -> list[Value]:
    (rows, columns), count = packed.shape[-2:], min(packed.shape[-2:])
    lower, upper = (
        _block(g, packed, *ends) for ends in (((0, rows), (0, count)), ((0, count), (0, columns)))
    )
    return [_triangle(g, lower, upper=False, unit=True), _triangle(g, upper, upper=True)]


def _singular(g: Operators, packed: Value) -> Value:
    """Return the index of the first pivot that is 0."""
    return _first(g, g("Equal", [_diagonal(g, packed), 0]))


@aten("linalg_lu")
def _linalg_lu(node: AtenNode, g: Operators, A: Value) -> list[Value]:
    packed, pivots = _lu(g, A)
    return [_permutation(g, pivots, A), *_unpacked(g, packed)]


@aten(
    "linalg_lu_factor", "linalg_lu_factor_ex", "_lu_with_info", ignores=("check_errors",), names={"self": "A"}
)
def _lu_factor(node: AtenNode, g: Operators, A: Value) -> list[Value]:
    packed, pivots = _lu(g, A)
    counted = g.builder.cast(g("Add", [pivots, 1]), INT32)
    return [packed, counted, _singular(g, packed)]


@aten("lu_unpack")
def _lu_unpack(node: AtenNode, g: Operators, LU_data: Value, LU_pivots: Value) -> list[Value]:
    _sizes(LU_data)
    pivots = positions(g, LU_pivots)
    return [_permutation(g, g("Sub", [pivots, 1]), LU_data), *_unpacked(g, LU_data)]


@aten("linalg_lu_solve", "lu_solve", names={"self": "B", "LU_data": "LU", "LU_pivots": "pivots"})
def _lu_solve(
    node: AtenNode, g: Operators, LU: Value, pivots: Value, B: Value, left: bool = True, adjoint: bool = False
) -> Value:
    swaps, *factors = _lu_unpack(node, g, LU, pivots)
    lower, upper = (_inverted(g, part) for part in factors)
    whole = g("MatMul", [g("MatMul", [upper, lower]), swapped(g, swaps)])
    return _times(g, swapped(g, whole) if adjoint else whole, B, left=left)


# ---------------------------------------------------------------------------------------------- determinants


@aten("linalg_det", "det", "_linalg_det", names={"self": "A"})
def _det(node: AtenNode, g: Operators, A: Value) -> Value:
    return g("Det", [A])


def _sign_and_log(g: Operators, x: Value) -> tuple[Value, Value]:
    packed, pivots = _lu(g, x)
    diagonal, axis = _diagonal(g, packed), vector(g, [-1])
    stayed = g("Equal", [pivots, range(pivots.shape[-1])])
    signs = g("Where", [stayed, number(g, x, 1), number(g, x, -1)])
    sign = g("ReduceProd", [g("Mul", [g("Sign", [diagonal]), signs]), axis], keepdims=0)
    return sign, g("ReduceSum", [g("Log", [g("Abs", [diagonal])]), axis], keepdims=0)


@aten("linalg_slogdet", "slogdet", "_linalg_slogdet", names={"self": "A"})
def _slogdet(node: AtenNode, g: Operators, A: Value) -> list[Value]:
    return list(_sign_and_log(g, A))


@aten("logdet")
def _logdet(node: AtenNode, g: Operators, self: Value) -> Value:
    sign, logs = _sign_and_log(g, self)
    return g("Where", [g("Less", [sign, 0]), math.nan, logs])


# ---------------------------------------------------------------------------------------------- inverses


def _is_read(node: AtenNode, g: Operators) -> bool:
    return any(name in g.read for name in node.outputs[1:])


@aten("inverse", "linalg_inv", "linalg_inv_ex", ignores=("check_errors",), names={"self": "A"})
def _inverse(node: AtenNode, g: Operators, A: Value) -> list[Value]:
    return [_inverted(g, A), *([_singular(g, _lu(g, A)[0])] if _is_read(node, g) else [])]


def _times(g: Operators, inverse: Value, right: Value, *, left: bool) -> Value:
    return g("MatMul", [inverse, right] if left else [right, inverse])


@aten("linalg_solve", "linalg_solve_ex", ignores=("check_errors",))
def _solve(node: AtenNode, g: Operators, A: Value, B: Value, left: bool) -> list[Value]:
    is_vector = B.rank == 1 or (A.rank - 1 == B.rank and dims(A)[:-1] == dims(B))
    right = g("Unsqueeze", [B, [-1]]) if is_vector else B
    made = _times(g, _inverted(g, A), right, left=left or is_vector)
    made = g("Squeeze", [made, [-1]]) if is_vector else made
    return [made, *([_singular(g, _lu(g, A)[0])] if _is_read(node, g) else [])]


@aten("_linalg_solve_ex", ignores=("check_errors",))
def _solve_alone(node: AtenNode, g: Operators, A: Value, B: Value, left: bool) -> Value:
    return _solve(node, g, A, B, left)[0]


@aten("linalg_solve_triangular")
def _solve_triangular(
    node: AtenNode, g: Operators, self: Value, B: Value, upper: bool, left: bool, unitriangular: bool
) -> Value:
    return _times(g, _inverted(g, _triangle(g, self, upper=upper, unit=unitriangular)), B, left=left)


@aten("triangular_solve")
def _triangular_solve(
    node: AtenNode, g: Operators, self: Value, A: Value, upper: bool, transpose: bool, unitriangular: bool
) -> list[Value]:
    """Return the solution, and the matrices broadcast to all right-hand sides."""
    inverse = _inverted(g, _triangle(g, A, upper=upper, unit=unitriangular))
    made = _times(g, swapped(g, inverse) if transpose else inverse, self, left=True)
    return [made, g("Expand", [A, [*dims(made)[:-2], *dims(A)[-2:]]])]


@aten("linalg_tensorinv")
def _tensorinv(node: AtenNode, g: Operators, self: Value, ind: int) -> Value:
    shape, size = dims(self), math.prod(dims(self)[ind:])
    return reshape(g, _inverted(g, reshape(g, self, (size, size))), (*shape[ind:], *shape[:ind]))


# ---------------------------------------------------------------------------------------------- Cholesky


@aten("cholesky", "linalg_cholesky", "linalg_cholesky_ex", ignores=("check_errors",))
def _cholesky(node: AtenNode, g: Operators, self: Value, upper: bool) -> list[Value]:
    x, size = swapped(g, self) if upper else self, _sizes(self)[0]
    columns, squares = [], []
    for step in range(size):
        square = _block(g, x, (step, step + 1), (step, step + 1))
        squares.append(g("Squeeze", [square, [-1]]))
        column = g("Div", [_block(g, x, (0, size), (step, step + 1)), g("Sqrt", [square])])
        columns.append(_chosen(g, np.arange(size)[:, None] >= step, column, number(g, x, 0)))
        x = g("Sub", [x, g("MatMul", [columns[-1], swapped(g, columns[-1])])])
    made, found = _joined(g, columns, -1), _joined(g, squares, -1)
    bad = g("Not", [g("Greater", [found, 0])])
    return [swapped(g, made) if upper else made, _first(g, bad)]


@aten("cholesky_inverse", "cholesky_solve")
def _by_cholesky(
    node: AtenNode, g: Operators, self: Value, upper: bool, input2: Value | None = None
) -> Value:
    inverse = _inverted(g, _triangle(g, self if input2 is None else input2, upper=upper))
    pair = (inverse, swapped(g, inverse)) if upper else (swapped(g, inverse), inverse)
    made = g("MatMul", pair)
    return made if input2 is None else g("MatMul", [made, self])


# ---------------------------------------------------------------------------------------------- reflections


def _reflections(g: Operators, x: Value) -> tuple[Value, Value]:
    """Return R with the reflectors below its diagonal, and their factors (geqrf)."""
    (rows, columns), factors = _sizes(x), []
    place, across = _grid(x)
    zero, unit = number(g, x, 0), number(g, x, 1)
    for step in range(min(rows, columns)):
        column = _block(g, x, (0, rows), (step, step + 1))
        alpha = _block(g, column, (step, step + 1), (0, 1))
        tail = _chosen(g, place > step, column, zero)
        rest = g("ReduceSum", [g("Mul", [tail, tail]), [-2]], keepdims=1)
        size = g("Sqrt", [g("Add", [g("Mul", [alpha, alpha]), rest])])
        none = g("Equal", [rest, zero])
        beta = g("Where", [g("Less", [alpha, zero]), size, g("Neg", [size])])
        gap, divisor = g("Sub", [beta, alpha]), g("Where", [none, unit, beta])
        factor = g("Where", [none, zero, g("Div", [gap, divisor])])
        tail = g("Div", [tail, g("Where", [none, unit, g("Neg", [gap])])])
        reflector = _chosen(g, place == step, unit, tail)
        share = g("Mul", [g("MatMul", [swapped(g, reflector), x]), factor])
        head = _chosen(g, place == step, g("Where", [none, alpha, beta]), column)
        head = _chosen(g, place > step, tail, head)
        rest = _chosen(g, across > step, g("Sub", [x, g("Mul", [reflector, share])]), x)
        x = _chosen(g, across == step, head, rest)
        factors.append(g("Squeeze", [factor, [-1]]))
    return x, _joined(g, factors, -1)


def _reflected(g: Operators, vectors: Value, factors: Value, x: Value, *, transpose: bool = False) -> Value:
    """Return Q x, or Qᵀ x, for Q the product of reflections of ``_reflections``."""
    rows, _ = _sizes(vectors)
    lower = _triangle(g, vectors, upper=False, unit=True)
    count = dims(factors)[-1]
    for step in range(count) if transpose else reversed(range(count)):
        column = _block(g, lower, (0, rows), (step, step + 1))
        factor = g("Gather", [factors, [step]], axis=factors.rank - 1)
        share = g("MatMul", [swapped(g, column), x])
        x = g("Sub", [x, g("Mul", [column, g("Mul", [share, g("Unsqueeze", [factor, [-1]])])])])
    return x


def _orthogonal(g: Operators, vectors: Value, factors: Value, columns: int) -> Value:
    *lead, rows, _ = dims(vectors)
    eye = np.broadcast_to(np.eye(rows, columns, dtype=vectors.dtype.numpy), (*lead, rows, columns))
    return _reflected(g, vectors, factors, g.builder.const(eye.copy()))


@aten("linalg_qr", "qr", names={"self": "A"})
def _qr(node: AtenNode, g: Operators, A: Value, mode: str = "reduced", some: bool = True) -> list[Value]:
    packed, factors = _reflections(g, A)
    rows, columns = A.shape[-2:]
    count = rows if mode == "complete" or not some else min(rows, columns)
    upper = _triangle(g, _block(g, packed, (0, count), (0, columns)), upper=True)
    if mode == "r":
        return [g.builder.const(np.zeros(0, A.dtype.numpy)), upper]
    return [_orthogonal(g, packed, factors, count), upper]


@aten("geqrf")
def _geqrf(node: AtenNode, g: Operators, self: Value) -> list[Value]:
    return list(_reflections(g, self))


@aten("linalg_householder_product", "orgqr", names={"self": "input", "input2": "tau"})
def _householder(node: AtenNode, g: Operators, input: Value, tau: Value) -> Value:
    return _orthogonal(g, input, tau, dims(input)[-1])


@aten("ormqr")
def _ormqr(
    node: AtenNode, g: Operators, self: Value, input2: Value, input3: Value, left: bool, transpose: bool
) -> Value:
    if left:
        return _reflected(g, self, input2, input3, transpose=transpose)
    return swapped(g, _reflected(g, self, input2, swapped(g, input3), transpose=not transpose))
