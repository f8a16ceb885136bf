"""Rules of fixed point: commutation with rounding, and support by HTP."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op
from xdlc.ir.dtype import SFIXED8
from xdlc.opdefs import verify_op
from xdlc.opdefs.traits import operation_name, traits, value_sources

_NEAREST = 0


def moves(op: Op) -> tuple[int, ...]:
    """Return the inputs whose values an op passes on unchanged; () if it computes.

    Clamps count if what they clip to is zero, which every encoding of a source holds, and so does padding
    with zero.  Those of plain integers do not: their zero is another float value.
    """
    if op.package != ir.NATIVE_PACKAGE:
        return ()
    if not traits(op).fills and len({out.dtype for out in op.outputs}) == 1:
        found = value_sources(op)
        if found:
            return found
    if op.type == "Resize" and op.param("interpolation_mode", _NEAREST) == _NEAREST:
        return (0,)
    first = op.inputs[0] if op.inputs else None
    has_zero = first is not None and not first.dtype.is_integer
    if op.type == "Pad" and op.param("scheme", 0) != 0:
        return (0,)
    is_zero = op.type == "Pad" and not op.param("pad_constant_value", 0)
    return (0,) if has_zero and (is_zero or operation_name(op) == "Relu") else ()


def carried(op: Op) -> tuple[int, ...]:
    """Return the inputs that may be rounded before an op instead of its result.

    That holds for what ``moves`` names and for every clamp: clipping keeps the order of values.
    """
    return (0,) if traits(op).clamps else moves(op)


def weight_axes(op: Op) -> dict[int, int | None]:
    """Return the axis of the output channels of each weight and bias that has one.

    A grouped transposed convolution has one scale: HTP's emulation (SDK 2.51, SM8650) is off by many
    steps where its weights have one for each channel.
    """
    row = traits(op)
    if op.type == "MatMul" and row.weight is not None:
        matrix = len(op.inputs) > 1 and op.inputs[1] is not None and op.inputs[1].rank == 2
        return {1: (0 if op.param("transpose_in1", False) else 1) if matrix else None}
    if row.weight is None or row.bias is None:
        return {}
    grouped = row.macs == "transposed" and op.param("group", 1) != 1
    return {row.weight: None if grouped else row.channel_axis, row.bias: 0}


def suits_fixed_point(fixed: Op, real: Op) -> bool:
    """Return whether HTP supports an op on fixed point as well as on floats.

    Args:
        fixed: The op with fixed-point operands and results; need not be part of a graph.
        real: The same op on floats.
    """
    held = (tensor.dtype for tensor in fixed.inputs if tensor is not None)
    if traits(fixed).unsigned and SFIXED8 in held:
        return False
    return len(verify_op(fixed, backend="htp")) <= len(verify_op(real, backend="htp"))
