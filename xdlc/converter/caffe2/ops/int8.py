"""Handlers of Int8 operators: on floats, rounded to 8-bit encodings around them.

A fixed-point tensor stores the value of an Int8 blob (``converter.fixed_point``); its encoding is that of the
blob (offset = -zero point).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from xdlc.converter import fixed_point
from xdlc.converter.caffe2.registry import integer, number, operator
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import StoredValue, Value
from xdlc.ir import ScaleOffset
from xdlc.ir.derived_data import Dequantized
from xdlc.ir.dtype import INT32, UFIXED8
from xdlc.passes._static_fixed_point import Form

_STEMS = """
Add AveragePool ChannelShuffle Concat Conv ConvTranspose FC Flatten LeakyRelu MaxPool Relu Reshape
ResizeNearest RoIAlign Sigmoid Slice Softmax Split Sum Transpose
"""
_WITH_RELU = "Add AveragePool Conv ConvTranspose FC MaxPool Sum"
_TYPES = {f"Int8{stem}": stem for stem in _STEMS.split()}
_TYPES |= {f"Int8{stem}Relu": stem for stem in _WITH_RELU.split()}
"""Operators on floats by type."""
_WINDOWS = {"AveragePool", "Conv", "ConvTranspose", "MaxPool", "ResizeNearest", "RoIAlign"}
_ORDERED = _WINDOWS | {"ChannelShuffle", "Split"}
"""Operators with argument order, which is NHWC by default here."""
_PRODUCTS = {"Conv", "ConvTranspose", "FC"}
"""Operators of a value, weights and a bias whose scale is the product of theirs."""
_VARIADIC = {"Add", "Concat", "Sum"}
_KEEPING = "ChannelShuffle Concat Flatten MaxPool Relu Reshape ResizeNearest Slice Split Transpose"
"""Operators whose result has the encoding of their first input."""


def _encoding_of(node: Node, index: int) -> ScaleOffset:
    """Return the encoding of an input, which must be an Int8 value."""
    value = node.required(index)
    encoding: object = None
    if isinstance(value, StoredValue):
        _, encoding = cast("Form", value.source)
    elif isinstance(value.tensor.data, Dequantized):
        encoding = value.tensor.data.encoding
    if not isinstance(encoding, ScaleOffset):
        raise node.invalid(f"{node.names[index]!r} holds floats; insert Int8Quantize before {node.type}")
    return encoding


def _stated(node: Node, scale: float = 1.0, zero: int = 0) -> ScaleOffset:
    """Return the encoding of uint8 that arguments Y_scale and Y_zero_point state."""
    scale, zero = number(node, "Y_scale", scale), integer(node, "Y_zero_point", zero)
    if not 0 < scale < np.inf or not 0 <= zero <= 255:
        raise node.invalid(f"Y_scale {scale:g} and Y_zero_point {zero} are not an encoding of uint8")
    return ScaleOffset(float(np.float32(scale)), -zero)


def _constant(g: Operators, value: Value, encoding: ScaleOffset) -> Value:
    """Return the float values of stored integers, which stay stored as integers."""
    return fixed_point.constant(g.builder, value, fixed_point.FIXED[value.dtype], encoding)


@operator("Int8Quantize")
def _quantize(node: Node, g: Operators, x: Value, _encoding: Value | None = None) -> Value:
    return fixed_point.rounded(g.builder, x, (UFIXED8, _stated(node)))


@operator("Int8Dequantize")
def _dequantize(node: Node, g: Operators, x: Value) -> Value:
    _encoding_of(node, 0)
    return x


@operator("Int8GivenTensorFill", "Int8GivenIntTensorFill", ignores=("shape",))
def _fill(node: Node, g: Operators) -> Value:
    """Return the float values of stored integers, which stay stored as integers."""
    value = g.builder.const(node.attr("values"))
    encoding = _stated(node)
    if value.dtype is INT32 and encoding.offset:
        raise node.invalid(f"Y_zero_point {-encoding.offset} of int32 is not 0")
    return _constant(g, value, encoding)


def _bias(node: Node, g: Operators) -> None:
    """Scale a bias by the product of the operand scales; ignore the stated scale."""
    data = node.required(2).tensor.data
    if not isinstance(data, Dequantized):
        raise node.invalid(f"{node.names[2]!r} holds floats; the bias of {node.type} is int32")
    scale = _encoding_of(node, 0).scale * _encoding_of(node, 1).scale
    stored = g.builder.const(data.stored)
    node.inputs[2] = _constant(g, stored, ScaleOffset(scale))


@operator(*(type for type in _TYPES if _TYPES[type] not in _WINDOWS))
def _int8(node: Node, g: Operators) -> list[Value]:
    """Apply the operator on floats, then Relu if its name ends in Relu; round."""
    stem = _TYPES[node.type]
    count = 2 if stem in _PRODUCTS else max(1, len(node.inputs)) if stem in _VARIADIC else 1
    first, *_ = [_encoding_of(node, index) for index in range(count)]
    if stem in _PRODUCTS and len(node.inputs) > 2:
        _bias(node, g)
    own = {name: value for name, value in node.attributes.items() if not name.startswith("Y_")}
    if stem in _ORDERED:
        own.setdefault("order", "NHWC")
    if stem == "Concat" and "order" not in own:
        own.setdefault("axis", 0)
    handler = operator.find("", stem)
    assert handler is not None
    inputs = [value.real if isinstance(value, StoredValue) else value for value in node.inputs]
    on_reals = replace(node, type=stem, attributes=own, inputs=inputs)
    b = g.builder
    start = b.graph.last
    made = cast("Value | Sequence[Value]", handler.function(on_reals, g))
    results = [made] if isinstance(made, Value) else list(made)
    if not node.type.endswith(stem):
        results[0] = g("Relu", [results[0]])
    form = (UFIXED8, _result(node, g, stem, first))
    forms = [form if value.dtype.is_float else None for value in results]
    fixed_point.settle(b, start, results, node.outputs, forms)
    return [
        value if rounding is None else fixed_point.rounded(b, value, form)
        for value, rounding in zip(results, forms, strict=True)
    ]


operator(*(type for type in _TYPES if _TYPES[type] in _WINDOWS), layout=CHANNEL_LAST)(_int8)


def _result(node: Node, g: Operators, stem: str, first: ScaleOffset) -> ScaleOffset:
    """Return the encoding of a result; note a stated encoding that is not used."""
    if stem in ("Sigmoid", "Softmax"):
        return _stated(node, 1 / 256)
    if stem not in _KEEPING.split() and stem not in ("AveragePool", "LeakyRelu"):
        return _stated(node)
    stated = _stated(node, first.scale, -first.offset)
    if stem not in _KEEPING.split():
        return stated
    if stated.offset != first.offset or not np.isclose(stated.scale, first.scale, rtol=1e-3):
        g.context.diagnostics.notices.append(
            f"{g.context.source.describe(node)}: the result keeps the scale {first.scale:g} and zero point "
            f"{-first.offset} of the input, as in Caffe2, not {stated.scale:g} and {-stated.offset}"
        )
    return first
