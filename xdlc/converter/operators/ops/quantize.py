"""QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops import _quantized
from xdlc.converter.operators.registry import ANY, MICROSOFT, Node, importer
from xdlc.converter.values import Value
from xdlc.ir import DType

_FLOAT = 1  # TensorProto.DataType
_INTEGERS = {
    2: ir.dtype.UINT8,
    3: ir.dtype.INT8,
    4: ir.dtype.UINT16,
    5: ir.dtype.INT16,
}


@importer("QuantizeLinear", since=10, layout=ANY, ignores=("saturate",), dynamic=True)
@importer("QuantizeLinear", domain=MICROSOFT, layout=ANY, dynamic=True)
def quantize_linear(node: Node, b: Builder) -> Value:
    """Map onto Quantize; the parameters become the encoding of the result."""
    x, axis = node.required(0), node.attr("axis", 1)
    if node.attr("block_size", 0):
        raise node.problem("block_size for computed values is not supported")
    if node.attr("precision", 0) not in (0, _FLOAT):
        raise node.problem(f"precision {node.attr('precision')} is not supported; QNN divides in float32")
    dtype = _quantized.zero_dtype(node, 2, _asked(node))
    return _quantized.quantized(node, b, x, dtype, _quantized.encoding(node, 1, 2, x, axis))


def _asked(node: Node) -> DType:
    """Return the type that attribute ``output_dtype`` names; uint8 without it."""
    number = node.attr("output_dtype", 0) or 2
    if number not in _INTEGERS:
        raise node.problem(f"output_dtype {number}; QNN has 8 and 16 bits")
    return _INTEGERS[number]


@importer("DequantizeLinear", since=10, layout=ANY, dynamic=True)
@importer("DequantizeLinear", domain=MICROSOFT, layout=ANY, dynamic=True)
def dequantize_linear(node: Node, b: Builder) -> Value:
    """Map onto Dequantize; the parameters become the encoding of the input."""
    x, axis, block_size = node.required(0), node.attr("axis", 1), node.attr("block_size", 0)
    if node.attr("output_dtype", 0) not in (0, _FLOAT):
        raise node.problem(f"output_dtype {node.attr('output_dtype')} is not supported; QNN has float32")
    if block_size:
        return _quantized.real(node, b, x, _quantized.block_encoding(node, x, axis, block_size))
    return _quantized.real(node, b, x, _quantized.encoding(node, 1, 2, x, axis))
