"""MatMul and Gemm."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value, broadcast, identity
from xdlc.ir import Tensor
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY


@importer("MatMul")
def matmul(node: Node, b: Builder) -> Value:
    """Map onto MatMul, with numpy's rules for ranks."""
    return multiply(node, b, node.required(0), node.required(1))


def multiply(node: Node, b: Builder, x: Value, y: Value) -> Value:
    """Append a matrix product."""
    node.check_types(x, y)
    if not x.rank or not y.rank:
        raise node.problem("an input is a scalar")
    row, column = x.rank == 1, y.rank == 1
    if row:
        x = b.reshape(x, (1, *x.shape))
    if column:
        y = b.reshape(y, (*y.shape, 1))
    if x.shape[-1] != y.shape[-2]:
        raise node.problem(f"{list(x.shape)} times {list(y.shape)}: the inner dimensions differ")
    rank = max(x.rank, y.rank)
    batch = [
        broadcast(pair)
        for pair in zip(_padded(x.shape[:-2], rank - 2), _padded(y.shape[:-2], rank - 2), strict=True)
    ]
    if y.rank != 2 and x.rank != y.rank:
        x, y = b.with_rank(x, rank), b.with_rank(y, rank)
    left, transpose_left = _operand(b, x)
    right, transpose_right = _operand(b, y)
    params: dict[str, ir.Param] = {
        "transpose_in0": ir.b8(transpose_left),
        "transpose_in1": ir.b8(transpose_right),
    }
    shape = (*batch, x.shape[-2], y.shape[-1])
    product = Value(b.emit("MatMul", [left, right], shape, x.dtype, params), identity(rank))
    if row or column:
        rows = () if row else shape[-2:-1]
        columns = () if column else shape[-1:]
        return b.reshape(product, (*batch, *rows, *columns))
    return product


def _padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _operand(b: Builder, value: Value) -> tuple[Tensor, bool]:
    """Return an operand; one with its last two axes swapped is read transposed."""
    plain = identity(value.rank)
    swapped = (*plain[:-2], plain[-1], plain[-2])
    if value.order == swapped and not value.is_static:
        return value.tensor, True
    return b.source_order(value), False


@importer("Gemm", since=7)
def gemm(node: Node, b: Builder) -> Value:
    """Map onto FullyConnected for static weights, else onto MatMul and additions."""
    x, weight, bias = node.required(0), node.required(1), node.input(2)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    if x.rank != 2 or weight.rank != 2:
        raise node.problem(f"inputs of rank {x.rank} and {weight.rank} instead of 2")
    node.check_types(x, weight, bias)
    if node.flag("transA"):
        x = b.transpose(x, (1, 0))
    outer_first = weight if node.flag("transB") else b.transpose(weight, (1, 0))
    if x.shape[1] != outer_first.shape[1]:
        raise node.problem(
            f"{x.shape[1]} columns meet {outer_first.shape[1]} rows: the inner dimensions differ"
        )
    units = outer_first.shape[0]
    flat = bias is None or (bias.is_static and bias.size == units and bias.shape[-1:] in ((), (units,)))
    if not (outer_first.is_static and flat):
        product = multiply(node, b, x, b.transpose(outer_first, (1, 0)))
        product = scaled(b, product, alpha)
        return product if bias is None else b.binary(ADD, product, scaled(b, bias, beta))
    inputs = [b.source_order(x), b.source_order(scaled(b, outer_first, alpha))]
    if bias is not None:
        inputs.append(b.source_order(b.reshape(scaled(b, bias, beta), (units,))))
    params = {"keep_dims": ir.b8(False)}
    return Value(b.emit("FullyConnected", inputs, (x.shape[0], units), x.dtype, params), (0, 1))


def scaled(b: Builder, value: Value, factor: float) -> Value:
    """Return ``value`` times a constant."""
    if factor == 1.0:
        return value
    if value.tensor.data is not None:
        data = value.tensor.data
        return b.static_like(
            value,
            data.transform(lambda array: (array * factor).astype(data.dtype), by_rows=True, factors=factor),
        )
    import numpy

    return b.binary(MULTIPLY, value, b.const(numpy.asarray(factor, value.dtype.numpy)))
