"""Handlers of operators that work element by element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xdlc.converter.nhwc import elementwise as formulas
from xdlc.converter.nhwc.normalization import softmax
from xdlc.converter.nhwc.quantization import fake_quant, rounded
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.quantized import is_stored
from xdlc.converter.tflite.registry import dtype_of, handler
from xdlc.converter.tflite.tensors import PACKED
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

_SAME = {
    "ABS": "Abs",
    "ADD": "Add",
    "BITWISE_XOR": "BitwiseXor",
    "CEIL": "Ceil",
    "COS": "Cos",
    "DIV": "Div",
    "ELU": "Elu",
    "EQUAL": "Equal",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "HARD_SWISH": "HardSwish",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOG": "Log",
    "LOGICAL_AND": "And",
    "LOGICAL_NOT": "Not",
    "LOGICAL_OR": "Or",
    "LOGISTIC": "Sigmoid",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "MUL": "Mul",
    "NEG": "Neg",
    "POW": "Pow",
    "PRELU": "PRelu",
    "RELU": "Relu",
    "ROUND": "Round",
    "SELECT_V2": "Where",
    "SIGN": "Sign",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "SUB": "Sub",
    "TANH": "Tanh",
}
"""Canonical operators by operator."""

_FORMULAS: dict[str, Callable[..., Value]] = {
    "ADD_N": lambda g, *values: formulas.total(g, values),
    "ATAN2": formulas.atan2,
    "FLOOR_DIV": formulas.floor_div,
    "FLOOR_MOD": formulas.floor_mod,
    "LOG_SOFTMAX": lambda g, x: softmax(g, x, log=True),
    "NOT_EQUAL": formulas.not_equal,
    "RELU6": lambda g, x: formulas.clipped(g, x, 0, 6),
    "RELU_0_TO_1": lambda g, x: formulas.clipped(g, x, 0, 1),
    "RELU_N1_TO_1": lambda g, x: formulas.clipped(g, x, -1, 1),
    "RSQRT": formulas.rsqrt,
    "SELECT": formulas.select_rows,
    "SQUARE": formulas.square,
    "SQUARED_DIFFERENCE": formulas.squared_difference,
}


@handler(*_SAME, ignores=("pot_scale_int16",))
def same(node: Node, g: Operators, *values: Value) -> Value:
    """Apply the canonical operator."""
    if node.type == "BITWISE_XOR" and values[0].dtype is BOOL8:
        return g("Xor", values)
    return g(_SAME[node.type], values)


@handler(*_FORMULAS)
def formula(node: Node, g: Operators, *values: Value) -> Value:
    """Apply the formula."""
    return _FORMULAS[node.type](g, *values)


@handler("QUANTIZE", "DEQUANTIZE")
def recode(node: Node, g: Operators) -> Value:
    """Apply 2- and 4-bit encodings here; the registry applies others."""
    value = node.required(0)
    if not (value.dtype.is_float and value.dtype.bits == 32):
        value = g("Cast", [value], to=1)
    info = node.message.outputs[0]
    bits, given = PACKED.get(info.dtype.name), info.quantization
    if bits is None or given is None or given.scales.size > 1:
        return value
    least = -(1 << bits - 1) if info.dtype.name.startswith("int") else 0
    scale, zero = given.scales.reshape(()), given.zero_points.reshape(())
    ends = [float((end - zero) * scale) for end in (least, least + (1 << bits) - 1)]
    held = np.int8 if least else np.uint8
    return rounded(g, formulas.clipped(g, value, *ends), scale, zero.astype(held))


@handler("CAST", ignores=("in_data_type", "out_data_type"), wraps=False)
def _cast(node: Node, g: Operators) -> Value:
    return formulas.converted(g, node.required(0), dtype_of(node))


@handler("BITCAST")
def _bitcast(node: Node, g: Operators) -> Value:
    return formulas.bits_as(g, node.required(0), dtype_of(node))


@handler("LEAKY_RELU")
def _leaky_relu(node: Node, g: Operators) -> Value:
    return g("LeakyRelu", [node.required(0)], alpha=node.attr("alpha", 0.0))


_GELU_APART = 1e-3
"""Least step of an encoding to which both forms of Gelu, 5e-4 apart, are rounded alike, or one step apart."""


@handler("GELU")
def _gelu(node: Node, g: Operators) -> Value:
    result = node.message.outputs[0]
    rounds = is_stored(result) and result.quantization.scales[0] > _GELU_APART  # QNN has the exact form
    form = "tanh" if node.attr("approximate", False) and not rounds else "none"
    return g("Gelu", [node.required(0)], approximate=form)


@handler("ZEROS_LIKE")
def _zeros_like(node: Node, g: Operators) -> Value:
    return formulas.filled_like(g, node.required(0), 0)


@handler("RIGHT_SHIFT")
def _right_shift(node: Node, g: Operators, x: Value, count: Value) -> Value:
    return g("BitShift", [x, count], direction="RIGHT")


@handler("BUCKETIZE")
def _bucketize(node: Node, g: Operators) -> Value:
    limits = [float(limit) for limit in node.attr("boundaries") or ()]
    return formulas.bucketize(g, node.required(0), limits)


@handler("FAKE_QUANT")
def _fake_quant(node: Node, g: Operators) -> Value:
    ends = [g.builder.const(np.asarray(node.attr(name, 0.0), np.float32)) for name in ("min", "max")]
    bits, narrow = int(node.attr("num_bits", 0)), bool(node.attr("narrow_range", False))
    return fake_quant(g, node.required(0), ends[0], ends[1], bits=bits, narrow=narrow)
