"""Operators of onnxruntime's older quantized form: integers in, integers out."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.ops._quantized import encoding, static_quantized, zero_dtype
from xdlc.converter.onnx.ops.binary import ADD, MULTIPLY
from xdlc.converter.onnx.ops.conv import convolve
from xdlc.converter.onnx.ops.pool import pooled, whole
from xdlc.converter.onnx.registry import ANY, CHANNEL_LAST, MICROSOFT, Node, importer
from xdlc.converter.values import Value, identity
from xdlc.ir import AxisScaleOffset, Encoding, ScaleOffset


@importer("QLinearConv", since=10, layout=CHANNEL_LAST)
def qlinear_conv(node: Node, b: Builder) -> Value:
    """Map onto a convolution of quantized tensors; the bias scale is input times weight scale."""
    x = _encoded(node, 0, 1, 2)
    weights = encoding(node, 4, 5, axis=0)
    bias = node.input(8)
    if bias is not None:
        bias = static_quantized(node, bias, _bias_encoding(node, x.tensor.encoding, weights))
    return convolve(
        node,
        b,
        x,
        static_quantized(node, node.required(3), weights),
        bias,
        dtype=zero_dtype(node, 7),
        encoding=encoding(node, 6, 7),
    )


def _bias_encoding(node: Node, x: Encoding | None, weight: Encoding) -> Encoding:
    if not isinstance(x, ScaleOffset):
        raise node.problem("its input has no scale")
    if isinstance(weight, AxisScaleOffset):
        return AxisScaleOffset(0, tuple(x.scale * scale for scale in weight.scales))
    if not isinstance(weight, ScaleOffset):
        raise node.problem("its weights have no scale")
    return ScaleOffset(x.scale * weight.scale)


@importer("QLinearAdd", "QLinearMul", domain=MICROSOFT, layout=ANY)
def qlinear_binary(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseBinary of quantized tensors."""
    values = [_encoded(node, 0, 1, 2), _encoded(node, 3, 4, 5)]
    operation = ADD if node.type == "QLinearAdd" else MULTIPLY
    return b.elementwise(
        "ElementWiseBinary",
        values,
        {"operation": ir.u32(operation)},
        dtype=zero_dtype(node, 7),
        encoding=encoding(node, 6, 7),
    )


@importer("QLinearGlobalAveragePool", domain=MICROSOFT, layout=CHANNEL_LAST)
def qlinear_global_average_pool(node: Node, b: Builder) -> Value:
    """Map onto PoolAvg2d of quantized tensors."""
    if node.attr("channels_last", 0):
        raise node.problem("channels_last = 1", "export channel-first")
    x = _encoded(node, 0, 1, 2)
    return pooled(node, b, x, whole(x), "PoolAvg", encoding=encoding(node, 3, 4))


@importer("QLinearMatMul", since=10)
def qlinear_matmul(node: Node, b: Builder) -> Value:
    """Map onto FullyConnected for known rank-2 weights, else onto MatMul, of quantized tensors."""
    x, y = _encoded(node, 0, 1, 2), node.required(3)
    given = encoding(node, 4, 5, axis=y.rank - 1)
    out = encoding(node, 6, 7)
    dtype = zero_dtype(node, 7)
    if y.is_static and y.rank == 2 and x.rank == 2:
        weight = b.transpose(static_quantized(node, y, given), (1, 0))
        shape = (x.shape[0], y.shape[1])
        tensors = [b.source_order(x), b.source_order(weight)]
        params = {"keep_dims": ir.b8(False)}
        return Value(b.emit("FullyConnected", tensors, shape, dtype, params, encoding=out), (0, 1))
    right = static_quantized(node, y, given) if y.is_static else _encoded(node, 3, 4, 5)
    shape = (*np.broadcast_shapes(x.shape[:-2], right.shape[:-2]), x.shape[-2], right.shape[-1])
    params = {"transpose_in0": ir.b8(False), "transpose_in1": ir.b8(False)}
    tensors = [b.source_order(x), b.source_order(right)]
    made = b.emit("MatMul", tensors, shape, dtype, params, encoding=out)
    return Value(made, identity(made.rank))


def _encoded(node: Node, index: int, scale: int, zero: int) -> Value:
    """Return a quantized input whose tensor carries the encoding that the node states."""
    value = node.required(index)
    given = encoding(node, scale, zero)
    if value.is_static:
        return static_quantized(node, value, given)
    if value.tensor.encoding is None and value.dtype.is_integer:
        value.tensor.dtype, value.tensor.encoding = zero_dtype(node, zero), given
    if value.tensor.encoding != given:
        raise node.problem(f"the scale of input {index} differs from the one it was made with")
    return value
