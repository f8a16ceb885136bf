"""Handlers of Int8 operators: those on floats, between values that are rounded to encodings of 8 bits.

The value of an Int8 blob is made by a Dequantize of a fixed-point tensor, whose encoding is that of the blob
(offset = -zero point); ``fold_quantize_dequantize`` makes operations on fixed point of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from xdlc import ir
from xdlc.converter.caffe2.ops._args import inputs, integer, number
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value
from xdlc.ir import ScaleOffset
from xdlc.ir.dequantized_data import Dequantized

_STEMS = """
Add AveragePool ChannelShuffle Concat Conv ConvTranspose FC Flatten LeakyRelu MaxPool Relu Reshape
ResizeNearest RoIAlign Sigmoid Slice Softmax Split Sum Transpose
""".split()  # noqa: SIM905 - a list literal would be 19 lines
_TYPES = {f"Int8{stem}": stem for stem in _STEMS} | {
    f"Int8{stem}Relu": stem
    for stem in ("Add", "AveragePool", "Conv", "ConvTranspose", "FC", "MaxPool", "Sum")
}
"""Operators on floats by type."""
_WINDOWS = {"AveragePool", "Conv", "ConvTranspose", "MaxPool", "ResizeNearest", "RoIAlign"}
_ORDERED = _WINDOWS | {"ChannelShuffle", "Split"}
"""Operators with argument order, which is NHWC by default here."""
_PRODUCTS = {"Conv", "ConvTranspose", "FC"}
"""Operators of a value, weights and a bias whose scale is the product of theirs."""
_VARIADIC = {"Add", "Concat", "Sum"}
_KEEPING = {"ChannelShuffle", "Concat", "Flatten", "MaxPool", "Relu", "Reshape", "ResizeNearest", "Slice"}
_KEEPING |= {"Split", "Transpose"}
"""Operators whose result has the encoding of their first input."""
_NARROW = {"Sigmoid": 1 / 256, "Softmax": 1 / 256}
"""Default scales of operators whose results lie between 0 and 1."""
_ENCODING = ("Y_scale", "Y_zero_point")


def encoding_of(node: Node, index: int) -> ScaleOffset:
    """Return the encoding of an Int8 input.

    Raises:
        ModelError: If the input holds floats.
    """
    value = node.required(index)
    data, maker = value.tensor.data, value.tensor.producer
    found: object = data.encoding if isinstance(data, Dequantized) else None
    if maker is not None and maker.type == "Dequantize" and maker.inputs[0] is not None:
        found = maker.inputs[0].encoding
    if not isinstance(found, ScaleOffset):
        raise node.invalid(f"{node.names[index]!r} holds floats; {node.type} reads what Int8Quantize makes")
    return found


def stated(node: Node, scale: float = 1.0, zero: int = 0) -> ScaleOffset:
    """Return the encoding that arguments Y_scale and Y_zero_point state.

    Raises:
        ModelError: If it is none of uint8.
    """
    scale, zero = number(node, "Y_scale", scale), integer(node, "Y_zero_point", zero)
    if not 0 < scale < np.inf or not 0 <= zero <= 255:
        raise node.invalid(f"Y_scale {scale:g} and Y_zero_point {zero} are no encoding of uint8")
    return ScaleOffset(float(np.float32(scale)), -zero)


def rounded(g: Operators, value: Value, encoding: ScaleOffset) -> Value:
    """Return floats that are rounded to an encoding of uint8."""
    given = [
        g.builder.const(np.asarray(encoding.scale, np.float32)),
        g.builder.const(np.asarray(-encoding.offset, np.uint8)),
    ]
    return g("DequantizeLinear", [g("QuantizeLinear", [value, *given]), *given])


@operator("Int8Quantize")
def _quantize(node: Node, g: Operators) -> Value:
    x, *_ = inputs(node, 1, 2)
    return rounded(g, x, stated(node))


@operator("Int8Dequantize")
def _dequantize(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    encoding_of(node, 0)
    return x


@operator("Int8GivenTensorFill", "Int8GivenIntTensorFill", ignores=("shape",))
def _fill(node: Node, g: Operators) -> Value:
    """Return the floats that stored integers denote; the integers stay stored as they are."""
    data, wide = node.attr("values"), node.type == "Int8GivenIntTensorFill"
    wanted = np.int32 if wide else np.uint8
    if not isinstance(data, ir.TensorData) or data.dtype != wanted:
        raise node.invalid(f"its values are no {np.dtype(wanted)}")
    if wide:
        scale, zero = number(node, "Y_scale", 1.0), integer(node, "Y_zero_point", 0)
        if not 0 < scale < np.inf or zero:
            raise node.invalid(f"Y_scale {scale:g} and Y_zero_point {zero} of int32")
        return _stored(g, g.builder.const(data), ScaleOffset(scale, 0))
    return _stored(g, g.builder.const(data), stated(node))


def _stored(g: Operators, value: Value, encoding: ScaleOffset) -> Value:
    scale = g.builder.const(np.asarray(encoding.scale, np.float32))
    zero = g.builder.const(np.asarray(-encoding.offset, value.dtype.numpy))
    return g("DequantizeLinear", [value, scale, zero])


def _bias(node: Node, g: Operators) -> None:
    """Let the integers of a bias count in the product of the other two scales, whatever the file states."""
    if len(node.inputs) < 3:
        return
    data, name = node.required(2).tensor.data, node.names[2]
    if not isinstance(data, Dequantized):
        raise node.invalid(f"{name!r} holds floats; the bias of {node.type} is int32")
    scale = encoding_of(node, 0).scale * encoding_of(node, 1).scale
    node.inputs[2] = _stored(g, g.builder.const(data.stored), ScaleOffset(scale, 0))


@operator(*(type for type in _TYPES if _TYPES[type] not in _WINDOWS))
def _int8(node: Node, g: Operators) -> list[Value]:
    """Apply the operator on floats, and Relu where the name ends so, and round the result."""
    stem = _TYPES[node.type]
    count = 2 if stem in _PRODUCTS else len(node.inputs) if stem in _VARIADIC else 1
    encodings = [encoding_of(node, index) for index in range(count)]
    if stem in _PRODUCTS:
        _bias(node, g)
    own = {name: value for name, value in node.attributes.items() if name not in _ENCODING}
    if stem in _ORDERED:
        own.setdefault("order", "NHWC")
    if stem == "Concat" and "order" not in own:
        own.setdefault("axis", 0)
    handler = operator.find("", stem)
    assert handler is not None
    made = cast("Value | Sequence[Value]", handler.function(replace(node, type=stem, attributes=own), g))
    results = [made] if isinstance(made, Value) else list(made)
    if node.type.endswith("Relu") and stem not in ("Relu", "LeakyRelu"):
        results[0] = g("Relu", [results[0]])
    given = stated(node, *_default(stem, encodings[0]))
    if stem in _KEEPING and not np.isclose(given.scale, encodings[0].scale, rtol=1e-3):
        g.context.diagnostics.notices.append(
            f"{g.context.source.describe(node)}: its result keeps the encoding of its input, "
            f"scale {encodings[0].scale:g}, as in Caffe2, and not its Y_scale {given.scale:g}"
        )
    kept = encodings[0] if stem in _KEEPING else given
    for value, name in zip(results, node.outputs, strict=False):
        maker = value.tensor.producer
        is_own = maker is not None and maker.origin.nodes[-1:] == (g.builder.node,)
        if is_own and name and name not in g.builder.graph.tensors:
            g.builder.graph.rename(value.tensor, name)  # what becomes fixed point
    return [rounded(g, value, kept) if value.dtype.is_float else value for value in results]


operator(*(type for type in _TYPES if _TYPES[type] in _WINDOWS), layout=CHANNEL_LAST)(_int8)


def _default(stem: str, first: ScaleOffset) -> tuple[float, int]:
    """Return the scale and zero point of a result without arguments."""
    if stem in _KEEPING or stem in ("AveragePool", "LeakyRelu"):
        return first.scale, -first.offset
    return _NARROW.get(stem, 1.0), 0
