"""Reinterpret: quantized values as plain integers, and the reverse."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import HOST_PACKAGE, DType, Op, Tensor
from xdlc.opdefs import args
from xdlc.runtime import qdq
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Reinterpret", package=HOST_PACKAGE)
def reinterpret(op: Op, b: Builder) -> None:
    """Lower to the QuantizeLinear or DequantizeLinear that undoes the access."""
    source, target = args.operand(op, 0), args.result(op)
    if not keeps_stored(source.dtype, target.dtype):
        raise ModelError(f"turns {source.dtype} into {target.dtype}, not integers into fixed point or back")
    keep_stored(source, target, b)


def keeps_stored(source: DType, target: DType) -> bool:
    """Return whether one type is fixed point and the other its plain integers."""
    kinds = {source.kind, target.kind}
    return source.bits == target.bits and kinds in ({"sfixed", "int"}, {"ufixed", "uint"})


def keep_stored(source: Tensor, target: Tensor, b: Builder) -> None:
    """Write the quantized values of ``source`` to ``target``."""
    order = b.orders(source)[0]
    if not source.dtype.is_fixed:
        value = b.read(source, order, dtype=target.dtype.numpy)
        if b.is_rounded(target) and qdq.has_form(target):
            b.write_stored(target, value, order)
        else:
            b.write(target, qdq.dequantize(b, value, target, order), order)
    elif not qdq.has_form(source):
        raise ModelError(f"{source.name!r} has an encoding that onnxruntime cannot round to")
    elif b.is_rounded(source):
        value, order = b.read_stored(source)
        b.write(target, value, order, dtype=source.dtype.numpy)
    else:
        value = qdq.quantize(b, b.read(source, order), source, order)
        b.write(target, value, order, dtype=source.dtype.numpy)
