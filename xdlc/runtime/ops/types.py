"""Changes of the datatype: Cast, Quantize, Dequantize, Convert and Reinterpret."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import HOST_PACKAGE, DType, Op, Tensor
from xdlc.opdefs import args
from xdlc.runtime import qdq
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import is_uint64, lowering


@lowering("Cast")
def cast(op: Op, b: Builder) -> None:
    """Lower to Cast; narrow integers wrap around, float16 is rounded.

    Between fixed point and integers of the same width the quantized values stay, as on HTP (emulation of
    SDK 2.51, SM8650).
    """
    source, target = args.operand(op, 0), args.result(op)
    if keeps_stored(source.dtype, target.dtype):
        keep_stored(source, target, b)
        return
    order = b.orders(source)[0] if b.orders(source) else None
    have = b.held(source)
    value = b.read(source, order, dtype=have)
    if is_uint64(source) and target.dtype.is_float:
        value, have = b.cast(value, source.dtype.numpy), source.dtype.numpy
    if target.dtype.is_integer and target.dtype.numpy != b.held(target) and target.dtype != source.dtype:
        value, have = b.cast(value, target.dtype.numpy), target.dtype.numpy
    if target.dtype.name == "float16" and have != target.dtype.numpy:
        value, have = b.cast(value, target.dtype.numpy), target.dtype.numpy
    b.write(target, value, order, dtype=have)


@lowering("Quantize", "Dequantize", "Convert")
def convert(op: Op, b: Builder) -> None:
    """Pass the real numbers on; each write rounds to the output's encoding."""
    source = args.operand(op, 0)
    order = b.orders(source)[0] if b.orders(source) else None
    target = args.result(op)
    b.write(target, b.read(source, order), order, dtype=b.dtype(source))
    if op.type == "Quantize" and b.is_rounded(target):
        b.round(target)


@lowering("Reinterpret", package=HOST_PACKAGE)
def reinterpret(op: Op, b: Builder) -> None:
    """Lower to the QuantizeLinear or DequantizeLinear that undoes the access."""
    source, target = args.operand(op, 0), args.result(op)
    if not keeps_stored(source.dtype, target.dtype):
        raise ModelError(
            f"the op casts {source.dtype} to {target.dtype}, but supports only integer to fixed point or back"
        )
    keep_stored(source, target, b)


def keeps_stored(source: DType, target: DType) -> bool:
    """Return whether one type is fixed point and the other its plain integer type."""
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
