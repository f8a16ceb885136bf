"""Operations that hand values on as they are, or cut them off, so that rounding passes through them."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op
from xdlc.opdefs.elementwise_enums import RELU, RELU_MIN_MAX

_NEAREST = 0
# Each result is a value of input 0.
_MOVES = frozenset(
    (
        "BatchToSpace",
        "ChannelShuffle",
        "DepthToSpace",
        "ExpandDims",
        "Gather",
        "GatherElements",
        "GatherNd",
        "PoolMax2d",
        "PoolMax3d",
        "ReduceMax",
        "ReduceMin",
        "Reshape",
        "ResizeNearestNeighbor",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "StridedSlice",
        "Tile",
        "Transpose",
        "UnPack",
    )
)
_CONVOLUTIONS = {
    "Conv1d": 2,
    "Conv2d": 3,
    "Conv3d": 4,
    "DepthWiseConv1d": 2,
    "DepthWiseConv2d": 3,
    "TransposeConv1d": 2,
    "TransposeConv2d": 3,
    "TransposeConv3d": 4,
}
_GATHERS = frozenset(("Concat", "Pack"))
_CLAMPS = frozenset(("Relu", "Relu1", "Relu6", "ReluMinMax"))


def moves(op: Op) -> tuple[int, ...]:
    """Return the inputs whose values make up the results of an op unchanged; none if it computes.

    Clamps count if what they cut off to is zero, which every encoding of a source holds, and so does
    padding with zero.  Of plain integers they do not: their zero stands for another real.
    """
    if op.package != ir.NATIVE_PACKAGE:
        return ()
    if op.type in _GATHERS:
        return tuple(range(len(op.inputs)))
    if op.type in _MOVES or (op.type == "Resize" and op.param("interpolation_mode", _NEAREST) == _NEAREST):
        return (0,)
    first = op.inputs[0] if op.inputs else None
    has_zero = first is not None and not first.dtype.is_integer
    if op.type == "Pad" and op.param("scheme", 0) != 0:
        return (0,)
    is_zero = op.type == "Pad" and not op.param("pad_constant_value", 0)
    return (0,) if has_zero and (is_zero or _is_relu(op)) else ()


def carried(op: Op) -> tuple[int, ...]:
    """Return the inputs that may be rounded first if the result is rounded in the same way.

    That holds for what ``moves`` names and for every clamp: cutting off keeps the order of values.
    """
    return (0,) if clamps(op) else moves(op)


def clamps(op: Op) -> bool:
    """Return whether an op only cuts values off."""
    if op.package != ir.NATIVE_PACKAGE:
        return False
    if op.type == "ElementWiseNeuron":
        return op.param("operation") in (RELU, RELU_MIN_MAX)
    return op.type in _CLAMPS


def weight_axes(op: Op) -> dict[int, int | None]:
    """Return which inputs are weights or a bias, each with the axis of its output channels, if it has one.

    A grouped transposed convolution has one scale: HTP's emulation (SDK 2.51, SM8650) is off by many
    steps where its weights have one for each channel.
    """
    if op.package != ir.NATIVE_PACKAGE:
        return {}
    if op.type == "FullyConnected":
        return {1: 0, 2: 0}
    if op.type == "MatMul":
        matrix = len(op.inputs) > 1 and op.inputs[1] is not None and op.inputs[1].rank == 2
        return {1: (0 if op.param("transpose_in1", False) else 1) if matrix else None}
    axis = _CONVOLUTIONS.get(op.type)
    if axis is None:
        return {}
    grouped = op.type.startswith("Transpose") and op.param("group", 1) != 1
    return {1: None if grouped else axis, 2: 0}


def _is_relu(op: Op) -> bool:
    return op.type == "Relu" or (op.type == "ElementWiseNeuron" and op.param("operation") == RELU)
