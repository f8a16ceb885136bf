"""QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.ops._quantized import encoding, fixed, zero_dtype
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir import AxisScaleOffset, Encoding, ScaleOffset, TensorData


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
    if x.tensor.data is not None:
        return b.const(_real_data(x.tensor.data, made), node.outputs[0])
    if x.tensor.encoding is None or x.tensor.encoding != made:
        if x.tensor.encoding is not None or not x.dtype.is_integer:
            raise node.problem(f"its parameters differ from those of {x.tensor.name!r}")
        x.tensor.dtype, x.tensor.encoding = fixed(node, x.dtype), made
    return b.unary("Dequantize", x, dtype=ir.dtype.FLOAT32)


def _real_data(data: TensorData, encoding: Encoding) -> TensorData:
    """Return what stored integers stand for, worked out when it is needed."""
    extents = [1] * len(data.shape)
    if isinstance(encoding, AxisScaleOffset):
        extents[encoding.axis] = -1
        scales, offsets = encoding.scales, encoding.offsets
    elif isinstance(encoding, ScaleOffset):
        scales, offsets = (encoding.scale,), (encoding.offset,)
    else:
        raise TypeError(f"{encoding} is no encoding of ONNX")
    scale = np.asarray(scales, np.float32).reshape(extents if data.shape else ())
    offset = np.asarray(offsets, np.int64).reshape(extents if data.shape else ())
    return data.transform(
        lambda array: (array.astype(np.int64) + offset).astype(np.float32) * scale, dtype=np.float32
    )
