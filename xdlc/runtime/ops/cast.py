"""Changes of the datatype: Cast, Quantize, Dequantize and Convert."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import is_uint64, lowering
from xdlc.runtime.ops.reinterpret import keep_stored, keeps_stored


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
