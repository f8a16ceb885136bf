"""Matrix products: MatMul, and FullyConnected with weights [out, in]."""

from __future__ import annotations

import math

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import SFIXED8, UFIXED8, UFIXED16
from xdlc.opdefs import args
from xdlc.runtime import qdq
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic import Product, are_rounded, unsigned_weights
from xdlc.runtime.htp_arithmetic.u8 import u8_results
from xdlc.runtime.htp_arithmetic.u16 import is_centred, u16_results, write_u16_matmul
from xdlc.runtime.ops import lowering


@lowering("MatMul")
def matmul(op: Op, b: Builder) -> None:
    """Lower to MatMul, transposed operands read in that axis order."""
    first, second, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    orders = [_order(op, index, tensor) for index, tensor in enumerate((first, second))]
    target = args.result(op)
    if bias is None and _are_wide(b, first, second, target) and is_centred(second):
        write_u16_matmul(b, first, second, target, orders)
        return
    factors = b.read(first, orders[0]), b.read(second, orders[1])
    if first.dtype is UFIXED8 and second.dtype is SFIXED8 and not second.is_static and not b.native:
        # onnxruntime makes one kernel of the three, which saturates on CPUs without VNNI.
        value = b.node("Neg", [b.node("MatMul", [factors[0], b.node("Neg", [factors[1]])])])
    else:
        value = b.node("MatMul", factors)
    if bias is not None:
        value = b.node("Add", [value, b.read(bias)])
    b.write(target, value)


def _order(op: Op, index: int, tensor: Tensor) -> tuple[int, ...]:
    order = list(range(tensor.rank))
    if op.param(f"transpose_in{index}", False) and tensor.rank > 1:
        order[-2:] = order[-1], order[-2]
    return tuple(order)


def _are_wide(b: Builder, *tensors: Tensor) -> bool:
    return are_rounded(b, *tensors) and all(tensor.dtype is UFIXED16 for tensor in tensors)


@lowering("FullyConnected")
def fully_connected(op: Op, b: Builder) -> None:
    """Lower to Gemm; the input becomes rows as long as the rows of the weights.

    The input is taken as [elements / n, n] for weights [m, n], whatever its rank; the output has
    the shape that the graph states: [batch, m], or the input's with ``keep_dims``.
    """
    source, weight, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    target = args.result(op)
    if weight.rank != 2 or not source.rank or source.size % max(weight.shape[1], 1):
        raise ModelError(f"weights of shape {list(weight.shape)} do not fit input {list(source.shape)}")
    units, width = weight.shape
    flat = target.rank == 2 and target.shape[1] == units
    if not flat and math.prod(target.shape) != source.size // width * units:
        raise ModelError(f"output {list(target.shape)} does not hold {units} numbers in each row")
    shape = (-1 if 0 in target.dynamic_axes else target.shape[0], *target.shape[1:])
    is_matrix = source.rank == 2 and source.shape[1] == width
    product = Product(source, weight, bias, target)
    bits = product.bits(b)
    if bits is not None:
        rows, middle = unsigned_weights(b, weight, (1, 0))

        def multiply(value: str, zero: str, part: int = 0) -> str:
            return b.node("MatMulInteger", [value, rows[part], zero, middle])

        stored = b.read_stored_as(source, tuple(range(source.rank)))
        results = u16_results if bits == 16 else u8_results
        made = results(b, product, stored if is_matrix else b.reshape(stored, (-1, width)), multiply)
        b.write_stored(target, made if flat else b.reshape(made, shape), tuple(range(target.rank)))
        return
    if not is_matrix and qdq.multiplies_bytes(b, op):  # the integer kernel wants DequantizeLinear beside it
        order = tuple(range(source.rank))
        value = qdq.dequantize(b, b.reshape(b.read_stored_as(source, order), (-1, width)), source, order)
    else:
        value = b.read(source) if is_matrix else b.reshape(b.read(source), (-1, width))
    inputs = [value, b.read(weight)]
    if bias is not None:
        inputs.append(qdq.bias(b, bias, source, weight, axis=0))
    value = b.node("Gemm", inputs, transB=1)
    if flat:
        b.write(target, value)
    else:
        b.write_reshaped(target, value, shape)
