"""LayerNormalization, InstanceNormalization, LpNormalization and LRN."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.ops._compose import compare, joined, number, part, reduced, select, unary
from xdlc.converter.operators.registry import ANY, CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last, identity
from xdlc.opdefs.elementwise_enums import ABS, ADD, DIVIDE, EQUAL, MULTIPLY, POWER, RSQRT, SUBTRACT

_WIDEST = 256  # channels whose squares are added up one by one


# Tools of onnxruntime misspell epsilon; onnxruntime passes over what it does not know.
@importer("LayerNormalization", ignores=("epsion",))
def layer_normalization(node: Node, b: Builder) -> list[Value]:
    """Map onto LayerNorm from ``axis`` on; write out its statistics if used.

    The result has the type of the scale: tools fuse it from half inputs and float weights, and onnxruntime
    computes that in float.
    """
    x, scale, bias = node.required(0), node.required(1), node.input(2)
    if x.dtype.is_float and x.dtype.bits < scale.dtype.bits:
        x = b.cast(x, scale.dtype)
    axis = node.axis(node.attr("axis", -1), x.rank)
    features = math.prod(x.shape[axis:])
    flat = b.reshape(x, (*x.shape[:axis], features))  # backends take the last axis only
    later: list[tuple[int, Value]] = []
    if any(value is not None and value.size != features for value in (scale, bias)):  # they broadcast
        b.check_table(features)
        later = [(MULTIPLY, scale), *([(ADD, bias)] if bias is not None else [])]
        scale, bias = b.const(np.ones(features, scale.dtype.numpy), f"{b.stem}_ones"), None
    inputs = [b.source_order(flat), b.source_order(b.reshape(scale, (features,)))]
    if bias is not None:
        inputs.append(b.source_order(b.reshape(bias, (features,))))
    params: dict[str, ir.Param] = {
        "axes": ir.u32s([axis]),
        "epsilon": ir.f32(node.attr("epsilon", 1e-5)),
    }
    out = b.emit("LayerNorm", inputs, flat.shape, x.dtype, params)
    result = b.cast(b.reshape(Value(out, identity(flat.rank)), x.shape), scale.dtype)
    for operation, value in later:
        result = b.binary(operation, result, value)
    if result.shape != x.shape:
        raise node.invalid(f"its scale or bias is larger than its input {list(x.shape)}")
    stash = node.attr("stash_type", 1)
    return [result, *_statistics(node, b, x, axis, stash)] if any(node.outputs[1:]) else [result]


def _statistics(node: Node, b: Builder, x: Value, axis: int, stash: int) -> tuple[Value, Value]:
    """Return the mean over the axes from ``axis`` on, and one over the deviation."""
    x = b.cast(x, ir.dtype.from_numpy(protobuf.numpy_dtype(stash)))
    axes = range(axis, x.rank)
    mean = reduced(b, "ReduceMean", x, axes)
    centred = b.binary(SUBTRACT, x, mean)
    variance = reduced(b, "ReduceMean", b.binary(MULTIPLY, centred, centred), axes)
    shifted = b.binary(ADD, variance, number(b, x, node.attr("epsilon", 1e-5)))
    return mean, unary(b, RSQRT, shifted)


@importer("InstanceNormalization", since=6, layout=CHANNEL_LAST)
def instance_normalization(node: Node, b: Builder) -> Value:
    """Map onto InstanceNorm."""
    x = node.required(0)
    inputs = [b.channel_last(x), b.source_order(node.required(1)), b.source_order(node.required(2))]
    order = channel_last(x.rank)
    params = {"epsilon": ir.f32(node.attr("epsilon", 1e-5))}
    return Value(
        b.emit("InstanceNorm", inputs, tuple(x.shape[axis] for axis in order), x.dtype, params), order
    )


@importer("LpNormalization", layout=ANY)
def lp_normalization(node: Node, b: Builder) -> Value:
    """Map onto L2Norm; the L1 norm is written out, with 0 where the norm is 0."""
    x, p = node.required(0), node.attr("p", 2)
    axis = node.axis(node.attr("axis", -1), x.rank)
    if p not in (1, 2):
        raise node.invalid(f"p = {p}; ONNX has 1 and 2")
    if p == 2:
        params = {"axis": ir.u32(x.axis(axis)), "epsilon": ir.f32(1e-12)}
        return b.unary("L2Norm", x, params)
    size = reduced(b, "ReduceSum", unary(b, ABS, x), [axis])
    nothing = compare(b, EQUAL, size, number(b, size, 0))
    return b.binary(DIVIDE, x, select(b, nothing, number(b, size, 1), size))


@importer("LRN", layout=CHANNEL_LAST)
def lrn(node: Node, b: Builder) -> Value:
    """Map onto Lrn across channels; QNN's alpha is per element, ONNX's per window."""
    x = node.required(0)
    size = node.attr("size")
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    if not size or x.rank < 3:
        raise node.invalid(f"size {size} for {list(x.shape)}")
    if size % 2 == 0:
        if size > _WIDEST:
            raise node.problem(f"even windows of more than {_WIDEST} channels are not supported")
        return _even_lrn(b, x, size, alpha, beta, bias)
    params = {
        "alpha": ir.f32(alpha / size),
        "beta": ir.f32(beta),
        "bias": ir.f32(bias),
        "radius": ir.i32(size // 2),
    }
    order = channel_last(x.rank)
    return Value(
        b.emit("Lrn", [b.channel_last(x)], tuple(x.shape[axis] for axis in order), x.dtype, params), order
    )


def _even_lrn(b: Builder, x: Value, size: int, alpha: float, beta: float, bias: float) -> Value:
    """Write x / (bias + alpha / size * sum)^beta, as QNN's Lrn requires odd windows."""
    squares = b.binary(MULTIPLY, x, x)
    before, after = (size - 1) // 2, size // 2
    b.check_table(x.shape[0], size, *x.shape[2:])
    edges = [np.zeros((x.shape[0], count, *x.shape[2:]), x.dtype.numpy) for count in (before, after)]
    padded = joined(b, [b.const(edges[0]), squares, b.const(edges[1])], 1)
    total = part(b, padded, 1, 0, x.shape[1])
    for start in range(1, size):
        total = b.binary(ADD, total, part(b, padded, 1, start, start + x.shape[1]))
    scaled = b.binary(MULTIPLY, total, number(b, x, alpha / size))
    divisor = b.binary(POWER, b.binary(ADD, scaled, number(b, x, bias)), number(b, x, beta))
    return b.binary(DIVIDE, x, divisor)
