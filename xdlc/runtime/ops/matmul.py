"""MatMul with optional transposition of its operands and an optional bias."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.runtime import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.registry import lowering


@lowering("MatMul")
def matmul(op: Op, b: Builder) -> None:
    """Lower to MatMul, transposed operands read in that axis order."""
    values = []
    for index in (0, 1):
        tensor = args.operand(op, index)
        order = list(range(tensor.rank))
        if op.param(f"transpose_in{index}", False) and tensor.rank > 1:
            order[-2:] = order[-1], order[-2]
        values.append(b.read(tensor, order))
    value = b.node("MatMul", values)
    bias = args.optional(op, 2)
    if bias is not None:
        value = b.node("Add", [value, b.read(bias)])
    b.write(args.result(op), value)
