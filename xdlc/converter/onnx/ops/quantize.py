"""QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.ops._quantized import encoding, fixed, static_quantized, zero_dtype
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("QuantizeLinear", since=10, layout=ANY, ignores=("saturate", "precision"))
def quantize_linear(node: Node, b: Builder) -> Value:
    """Map onto Quantize; the parameters become the encoding of the result."""
    x = node.required(0)
    made = encoding(node, 1, 2, x.axis(node.attr("axis", 1)) if x.rank > 1 else 0)
    return b.unary("Quantize", x, dtype=zero_dtype(node, 2), encoding=made)


@importer("DequantizeLinear", since=10, layout=ANY)
def dequantize_linear(node: Node, b: Builder) -> Value:
    """Map onto Dequantize; the parameters become the encoding of the input."""
    x = node.required(0)
    made = encoding(node, 1, 2, x.axis(node.attr("axis", 1)) if x.rank > 1 else 0)
    if x.is_static:
        x = static_quantized(node, x, made)
    elif x.tensor.encoding is None or x.tensor.encoding != made:
        if x.tensor.encoding is not None or not x.dtype.is_integer:
            raise node.problem(f"its parameters differ from those of {x.tensor.name!r}")
        x.tensor.dtype, x.tensor.encoding = fixed(node, x.dtype), made
    return b.unary("Dequantize", x, dtype=ir.dtype.FLOAT32)
