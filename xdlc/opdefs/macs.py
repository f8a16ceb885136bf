"""Multiply-accumulates of operations."""

from __future__ import annotations

from xdlc.ir import NATIVE_PACKAGE, Op
from xdlc.ir.graph import is_custom

_CONVOLUTIONS = ("Convolutional", "Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d")
_TRANSPOSED = ("TransposeConv1d", "TransposeConv2d", "TransposeConv3d")


def macs(op: Op) -> int:
    """Return the multiply-accumulates of convolutions, fully connected layers and matrix products."""
    inputs, outputs = op.inputs, op.outputs
    if is_custom(op) or len(inputs) < 2 or inputs[0] is None or inputs[1] is None or not outputs:
        return 0
    data, weight, result = inputs[0], inputs[1], outputs[0]
    if not data.shape or not weight.shape:
        return 0
    if op.type in _CONVOLUTIONS:
        return result.size * weight.size // max(weight.shape[-1], 1)
    if op.type in _TRANSPOSED and weight.rank >= 2:
        return data.size * weight.size // max(weight.shape[-2], 1)
    if op.type == "FullyConnected" and op.package == NATIVE_PACKAGE:
        return result.size * weight.shape[-1]
    if op.type == "MatMul":
        transposed = bool(op.param("transpose_in0", False)) and data.rank >= 2
        return result.size * data.shape[-2 if transposed else -1]
    return 0
