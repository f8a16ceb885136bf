"""What the quantizer knows of each operation: fixed-point widths, shared encodings, weights, fixed ranges.

Widths are those of HTP's datatype table (opset 1.24, QNN operation documents); the rows of
ElementWiseBinary, ElementWiseUnary and ElementWiseNeuron are those of the single operations they
stand for.  An operation that is not listed has no fixed-point kernel and stays float.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdlc.ir import NATIVE_PACKAGE, Op, Tensor
from xdlc.ir.graph import is_udo
from xdlc.opdefs.elementwise_enums import RELU, RELU_MIN_MAX

_NEURON = {
    0: "Elu", 1: "Gelu", 2: "HardSigmoid", 3: "HardSwish", RELU: "Relu", RELU_MIN_MAX: "ReluMinMax",
    6: "Sigmoid", 7: "ElementWiseSoftplus", 8: "Tanh",
}  # fmt: skip
_BINARY = {
    0: "Add", 2: "Divide", 3: "Equal", 4: "FloorDiv", 6: "Greater", 7: "GreaterEqual", 8: "Less",
    9: "LessEqual", 10: "Maximum", 11: "Minimum", 13: "Multiply", 14: "NotEqual", 16: "Power",
    17: "SquaredDifference", 18: "Subtract",
}  # fmt: skip
_UNARY = {
    0: "Abs", 1: "Asin", 2: "Atan", 3: "Ceil", 4: "Cos", 5: "Exp", 6: "Floor", 7: "Log", 8: "Neg",
    10: "Reciprocal", 11: "Round", 12: "Rsqrt", 13: "Sign", 14: "Sin", 15: "SquareRoot",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpRule:
    """How one operation is quantized.

    Attributes:
        widths: Activation bit widths that have a kernel.
        selects: Results are values of input 0, so both share one encoding.
        gathers: Inputs whose values all go unchanged into output 0, such as those of Concat; empty: none.
        weight: Whether input 1, if static, is a weight (signed, symmetric) and input 2 a bias.
        channel_axis: Axis of a weight's output channels; None: one scale for the tensor.
        scale_input: Whether input 1, if static, is a factor per channel and input 2 a bias of any scale.
        clamps: Whether the op only cuts off values, which saturation of the producer's result does too.
        clamped_by_range: Whether a clamp that follows may hand its range to this op's result.
        unit_low: Lower end of a result that always lies in [low, 1]; None: depends on the data.
        centred_16: Inputs that HTP takes at 16 bits only with the zero in the middle, and only from v73 on.
    """

    widths: tuple[int, ...] = (8, 16)
    selects: bool = False
    gathers: tuple[int, ...] = ()
    weight: bool = False
    channel_axis: int | None = None
    scale_input: bool = False
    clamps: bool = False
    clamped_by_range: bool = True
    unit_low: int | None = None
    centred_16: tuple[int, ...] = ()


_PLAIN = OpRule()
_SELECTS = OpRule(selects=True, clamped_by_range=False)
_ONLY_8 = OpRule((8,))
_ALL_INPUTS = tuple(range(1 << 10))


def _table() -> dict[str, OpRule]:
    table: dict[str, OpRule] = {}

    def put(rule: OpRule, *types: str) -> None:
        for name in types:
            table[name] = rule

    put(_PLAIN, "PoolAvg2d", "PoolAvg3d", "Resize", "ResizeBilinear", "GridSample", "ReduceMean", "ReduceSum")
    put(_PLAIN, "L2Norm", "GroupNorm", "LogSoftmax", "CumulativeSum", "RoiAlign")
    put(_PLAIN, "Cast", "Argmax", "Argmin", "Prelu", "Elu", "Gelu", "HardSwish")
    put(OpRule(scale_input=True, centred_16=(1,)), "LayerNorm", "Batchnorm")
    put(OpRule(scale_input=True), "InstanceNorm")
    put(_ONLY_8, "Lrn", "ExtractPatches")
    put(
        _SELECTS,
        "Reshape",
        "Transpose",
        "Squeeze",
        "ExpandDims",
        "PoolMax2d",
        "StridedSlice",
        "Split",
        "Tile",
    )
    put(
        _SELECTS,
        "Gather",
        "GatherElements",
        "GatherNd",
        "ResizeNearestNeighbor",
        "DepthToSpace",
        "Pad",
        "TopK",
    )
    put(_SELECTS, "SpaceToDepth", "BatchToSpace", "SpaceToBatch", "ChannelShuffle", "UnPack")
    put(_SELECTS, "ReduceMax", "ReduceMin")
    put(OpRule(gathers=_ALL_INPUTS, clamped_by_range=False), "Concat", "Pack")
    put(OpRule(gathers=(1, 2), clamped_by_range=False), "ElementWiseSelect")
    put(OpRule(gathers=(0, 2), clamped_by_range=False), "ScatterElements", "ScatterNd")
    convolution = OpRule(weight=True, channel_axis=3)
    put(convolution, "Conv2d", "DepthWiseConv2d", "TransposeConv2d")
    put(replace(convolution, channel_axis=4), "Conv3d", "TransposeConv3d")
    put(OpRule(weight=True, channel_axis=0), "FullyConnected")
    put(OpRule(weight=True, centred_16=(1,)), "MatMul")
    put(OpRule(clamps=True), "Relu", "Relu1", "Relu6", "ReluMinMax")
    put(OpRule(unit_low=0), "Sigmoid", "Softmax", "HardSigmoid")
    put(OpRule(unit_low=-1), "Tanh")
    for name in (*_BINARY.values(), *_UNARY.values()):
        put(_PLAIN, f"ElementWise{name}")
    del table["ElementWiseReciprocal"]  # HTP refuses it in fixed point
    for name in ("Asin", "Cos", "Sin", "SquaredDifference"):
        put(_ONLY_8, f"ElementWise{name}")
    return table


RULES = _table()


def single_name(op: Op) -> str:
    """Return the name of the single operation that a many-in-one op stands for, else its type.

    The type of a user's op, which may be that of an op of QNN, stands behind its package.
    """
    if is_udo(op):
        return f"{op.package}::{op.type}"
    kind = op.param("operation")
    if op.type == "ElementWiseNeuron":
        return _NEURON.get(kind, op.type)
    if op.type in ("ElementWiseBinary", "ElementWiseUnary"):
        short = (_BINARY if op.type == "ElementWiseBinary" else _UNARY).get(kind)
        return f"ElementWise{short}" if short else op.type
    return op.type


def rule_of(op: Op) -> OpRule | None:
    """Return the rule of an op, or None if it has no fixed-point kernel."""
    if op.package != NATIVE_PACKAGE:
        return None
    return RULES.get(single_name(op))


def float_tensors(op: Op) -> list[Tensor]:
    """Return the inputs and outputs of an op that hold reals, quantized already or not."""
    return [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None and is_real(tensor)]


def is_real(tensor: Tensor) -> bool:
    """Return whether a tensor holds reals: floats, or integers that stand for reals."""
    return tensor.dtype.is_float or tensor.dtype.is_fixed


def pad_value(op: Op) -> float:
    """Return the value that a Pad adds, 0.0 where it repeats values of its input."""
    return float(op.param("pad_constant_value", 0.0)) if op.param("scheme", 0) == 0 else 0.0


def crosses(op: Op) -> bool:
    """Return whether an op is a Cast between reals and integers.

    HTP's Cast between fixed point and integers hands stored integers on, whatever the encoding (emulation of
    SDK 2.51), so that these go through floats; every generation takes a Cast between Quantize or Dequantize
    and integers, those without float kernels too.
    """
    return op.type == "Cast" and op.package == NATIVE_PACKAGE and not _is_of_reals(op)


def _is_of_reals(op: Op) -> bool:
    return all(tensor is not None and is_real(tensor) for tensor in (*op.inputs, *op.outputs))


def why_float(op: Op, act_bits: int) -> str | None:
    """Return why an op cannot be quantized, or None if it can."""
    rule = rule_of(op)
    if rule is None:
        return f"{single_name(op)} of package {op.package} has no fixed-point kernel"
    if act_bits not in rule.widths:
        return f"{single_name(op)} has no {act_bits}-bit fixed-point kernel"
    if crosses(op):
        return "HTP's Cast between fixed point and integers hands stored integers on"
    if op.type == "Pad" and not abs(pad_value(op)) < 1e30:
        return "it pads with an infinite value"
    return None
