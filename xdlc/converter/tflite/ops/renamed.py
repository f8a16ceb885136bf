"""Operators of TFLite that are TensorFlow's by other names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xdlc.converter.functions.shapes import dims, ints, known, permuted, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler as tensorflow
from xdlc.converter.tflite.flex import Inputs, renamed
from xdlc.converter.tflite.registry import dtype_of, handler
from xdlc.converter.values import Value

_NAMESAKES = """
ABS ADD ADD_N ATAN2 BATCH_MATMUL BATCH_TO_SPACE_ND BITWISE_XOR BROADCAST_ARGS BROADCAST_TO BUCKETIZE CEIL COS
CUMSUM DEPTH_TO_SPACE ELU EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD GATHER_ND GREATER GREATER_EQUAL
LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOG_SOFTMAX MATRIX_DIAG MATRIX_SET_DIAG
MAXIMUM MEAN MINIMUM MUL NEG NOT_EQUAL PAD PADV2 POW RANGE RELU RELU6 RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
REVERSE_SEQUENCE REVERSE_V2 RFFT2D RIGHT_SHIFT ROUND RSQRT SEGMENT_SUM SELECT SELECT_V2 SIGN SIN SLICE
SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPARSE_TO_DENSE SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE SUB SUM TANH TILE
TRANSPOSE UNPACK UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM WHERE
ZEROS_LIKE
"""
"""Operators with TensorFlow's names, in capitals and divided by underscores."""
_OTHER_NAMES = {
    "DIV": "RealDiv",
    "LOGISTIC": "Sigmoid",
    "REDUCE_ALL": "All",
    "REDUCE_ANY": "Any",
    "REDUCE_MAX": "Max",
    "REDUCE_MIN": "Min",
    "REDUCE_PROD": "Prod",
    "STABLEHLO_ABS": "Abs",
    "STABLEHLO_ADD": "Add",
    "STABLEHLO_AND": "BitwiseAnd",
    "STABLEHLO_COSINE": "Cos",
    "STABLEHLO_DIVIDE": "RealDiv",
    "STABLEHLO_EXPONENTIAL": "Exp",
    "STABLEHLO_FLOOR": "Floor",
    "STABLEHLO_LOG": "Log",
    "STABLEHLO_LOGISTIC": "Sigmoid",
    "STABLEHLO_MAXIMUM": "Maximum",
    "STABLEHLO_MINIMUM": "Minimum",
    "STABLEHLO_MULTIPLY": "Mul",
    "STABLEHLO_NEGATE": "Neg",
    "STABLEHLO_OR": "BitwiseOr",
    "STABLEHLO_POWER": "Pow",
    "STABLEHLO_REMAINDER": "TruncateMod",
    "STABLEHLO_RSQRT": "Rsqrt",
    "STABLEHLO_SELECT": "SelectV2",
    "STABLEHLO_SUBTRACT": "Sub",
    "STABLEHLO_TANH": "Tanh",
}
_LARGEST = 1 << 16
"""Height or width of a pool, at most."""
Option = Callable[[Node], Any]


# ------------------------------------------------------------------ options


def option(name: str) -> Option:
    """Return the reader of an option."""
    return lambda node: node.attr(name)


def choice(name: str, *meanings: str) -> Option:
    """Return the reader of an option that is a number with a meaning.

    The reader raises ``ModelError`` if the schema has no such number.
    """

    def read(node: Node) -> str:
        number: int = node.attr(name)
        if not 0 <= number < len(meanings):
            raise node.invalid(f"{name} {number} is unknown")
        return meanings[number]

    return read


def sizes(pattern: str, axes: str = "hw") -> Option:
    """Return the reader of options by axis, as TensorFlow lists them.

    Args:
        pattern: Names of the options, like ``stride_%s``.
    """
    return lambda node: [1, *(node.attr(pattern % axis) for axis in axes), 1]


PADDING = choice("padding", "SAME", "VALID")


def pool_sizes(node: Node) -> list[int]:
    """Return height and width of a pool, as TensorFlow lists them."""
    kernel = [node.attr("filter_height"), node.attr("filter_width")]
    if max(kernel) > _LARGEST:
        raise node.invalid(f"the window {kernel} is too large; LiteRT supports at most {_LARGEST}")
    return [1, *kernel, 1]


# ------------------------------------------------------------------ inputs


def then(name: str) -> Inputs:
    """Return the reader of the inputs, and of an option as a further one."""
    return lambda node, g: [*node.inputs, g.builder.const(np.asarray(node.attr(name, ()), np.int32))]


def order(*positions: int) -> Inputs:
    """Return the reader of a node's inputs in another order."""
    return lambda node, _g: [node.required(position) for position in positions]


def _scalar_first(node: Node, g: Operators) -> list[Value | None]:
    condition = node.required(0)
    return [reshape(g, condition, ()) if condition.rank else condition, *node.inputs[1:]]


def _overlap_inclusive(node: Node, g: Operators) -> list[Value | None]:
    # LiteRT drops boxes at the limit too, TensorFlow those above it only: at 0 it keeps the best box alone.
    overlap = known(node.required(3), "a limit").reshape(-1)[0]
    below = np.nextafter(np.float32(overlap), np.float32(-1)) if overlap > 0 else np.float32(-1)
    return [*node.inputs[:3], g.builder.const(below), *node.inputs[4:]]


def _slice_inputs(node: Node, g: Operators) -> list[Value | None]:
    x, begin, end, strides = node.operands(4, 4)
    steps = np.asarray(ints(strides, "the strides"))
    inserted = int(node.attr("new_axis_mask"))
    if inserted >> len(steps):  # LiteRT would drop elements
        raise node.invalid(f"new_axis_mask {inserted} does not fit {len(steps)} entries")
    ignored = int(node.attr("begin_mask")) & int(node.attr("shrink_axis_mask")) & ~inserted
    masked = np.asarray([ignored >> entry & 1 for entry in range(len(steps))], bool)
    if masked.any():  # unlike TensorFlow's, a dropped axis may ignore its begin
        ends = g.builder.const(np.where(steps < 0, -1, 0).astype(begin.dtype.numpy))
        begin = g("Where", [masked, ends, begin])
    return [x, begin, g("Add", [begin, end]) if node.attr("offset") else end, strides]


def _conv_inputs(node: Node, g: Operators) -> list[Value | None]:
    x, weight = node.required(0), node.required(1)
    if node.type == "CONV_2D":
        weight = permuted(g, weight, (1, 2, 3, 0))  # [O, H, W, I]
    elif node.type == "DEPTHWISE_CONV_2D":
        shape = dims(weight)  # [1, H, W, O]; the shapes count, not the stated multiplier
        if len(shape) != 4 or shape[0] != 1:
            raise node.invalid(f"depthwise weights {list(shape)} are not valid")
        weight = reshape(g, weight, (*shape[1:3], 1, shape[3]))
    return [x, weight, *filter(None, node.inputs[2:])]


# ------------------------------------------------------------------ table

_TYPES = {type.lower(): type for _, type in tensorflow.all()}
_STRIDES, _RATES = sizes("stride_%s"), sizes("dilation_%sfactor")
_POOL: dict[str, Option] = {"ksize": pool_sizes, "strides": _STRIDES, "padding": PADDING}
_CONV: dict[str, Option] = {
    "strides": _STRIDES,
    "dilations": _RATES,
    "padding": PADDING,
    "fused_ops": lambda node: ["BiasAdd"] * (node.input(2) is not None),
}
_CONV_3D = _CONV | {"strides": sizes("stride_%s", "dhw"), "dilations": sizes("dilation_%sfactor", "dhw")}
_PADDED: dict[str, Option] = {"pad_to_max_output_size": lambda _: True}
_RENAMED = {
    **{name: renamed(_TYPES[name.replace("_", "").lower()]) for name in _NAMESAKES.split()},
    **{name: renamed(type) for name, type in _OTHER_NAMES.items()},
    "ARG_MAX": renamed("ArgMax", output_type=dtype_of),
    "ARG_MIN": renamed("ArgMin", output_type=dtype_of),
    "AVERAGE_POOL_2D": renamed("AvgPool", **_POOL),
    "BITCAST": renamed("Bitcast", type=dtype_of),
    "CONCATENATION": renamed("ConcatV2", then("axis")),
    "CONV_2D": renamed("_FusedConv2D", _conv_inputs, **_CONV),
    "CONV_3D": renamed("_FusedConv3D", _conv_inputs, **_CONV_3D),
    "DEPTHWISE_CONV_2D": renamed("_FusedConv2D", _conv_inputs, **_CONV),
    "EMBEDDING_LOOKUP": renamed("Gather", order(1, 0)),
    "FAKE_QUANT": renamed("FakeQuantWithMinMaxArgs"),
    "GATHER": renamed("GatherV2", then("axis")),
    "LOCAL_RESPONSE_NORMALIZATION": renamed("LRN", depth_radius=option("radius")),
    "MAX_POOL_2D": renamed("MaxPool", **_POOL),
    "MIRROR_PAD": renamed("MirrorPad", mode=choice("mode", "REFLECT", "SYMMETRIC")),
    "MULTINOMIAL": renamed("Multinomial", output_dtype=dtype_of),
    "NON_MAX_SUPPRESSION_V4": renamed("NonMaxSuppressionV4", _overlap_inclusive, **_PADDED),
    "NON_MAX_SUPPRESSION_V5": renamed("NonMaxSuppressionV5", _overlap_inclusive, **_PADDED),
    "PACK": renamed("Pack", N=option("values_count")),
    "RANDOM_STANDARD_NORMAL": renamed("RandomStandardNormal", dtype=dtype_of),
    "RANDOM_UNIFORM": renamed("RandomUniform", dtype=dtype_of),
    "SPLIT": renamed("Split", num_split=option("num_splits")),
    "SPLIT_V": renamed("SplitV", num_split=option("num_splits")),
    "STRIDED_SLICE": renamed("StridedSlice", _slice_inputs),
    "STABLEHLO_CLAMP": renamed("ClipByValue", order(1, 0, 2)),
    "STABLEHLO_CONCATENATE": renamed("ConcatV2", then("dimension")),
    "STABLEHLO_CONVERT": renamed("Cast", DstT=dtype_of),
    "STABLEHLO_TRANSPOSE": renamed("Transpose", then("permutation")),
    "TOPK_V2": renamed("TopKV2", index_type=lambda node: dtype_of(node, 1)),
    "UNIQUE": renamed("Unique", out_idx=lambda node: dtype_of(node, 1)),
}
_LOOP: dict[str, Option] = {"cond": option("cond_subgraph"), "body": option("body_subgraph")}
_BRANCHES: dict[str, Option] = {
    "then_branch": option("then_subgraph"),
    "else_branch": option("else_subgraph"),
}
_ON_STORED = {
    "CAST": renamed("Cast", DstT=dtype_of),
    "COMPLEX_ABS": renamed("ComplexAbs"),
    "DENSIFY": renamed("Identity"),  # the reader makes sparse constants dense
    "IF": renamed("If", _scalar_first, **_BRANCHES),
    "IMAG": renamed("Imag"),
    "ONE_HOT": renamed("OneHot"),  # on and off have the result's type, whatever their scales
    "RANK": renamed("Rank"),
    "READ_VARIABLE": renamed("ReadVariableOp"),
    "REAL": renamed("Real"),
    "SHAPE": renamed("Shape", out_type=dtype_of),
    "STABLEHLO_WHILE": renamed("While", **_LOOP),
    "WHILE": renamed("While", **_LOOP),
}
"""Operators on integers as the file stores them."""

for _table, _wraps in ((_RENAMED, True), (_ON_STORED, False)):
    for _type, _row in _table.items():
        handler(_type, ignores=tuple(_row.ignores), wraps=_wraps)(_row.function)
