"""MatMul with optional transposition of its operands and an optional bias."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import UFIXED16
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic.products import are_rounded
from xdlc.runtime.htp_arithmetic.u16 import is_centred, write_wide
from xdlc.runtime.ops import lowering


@lowering("MatMul")
def matmul(op: Op, b: Builder) -> None:
    """Lower to MatMul, transposed operands read in that axis order."""
    first, second, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    orders = [_order(op, index, tensor) for index, tensor in enumerate((first, second))]
    target = args.result(op)
    if bias is None and _are_wide(b, first, second, target) and is_centred(second):
        write_wide(b, first, second, target, orders)
        return
    value = b.node("MatMul", [b.read(first, orders[0]), b.read(second, orders[1])])
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
