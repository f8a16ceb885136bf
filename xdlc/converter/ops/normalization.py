"""Normalizations and softmaxes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.registry import ANY, CHANNEL_LAST, Node, importer
from xdlc.converter.ops._compose import (
    compare,
    joined,
    neuron,
    number,
    part,
    reduced,
    reversed_along,
    select,
    unary,
)
from xdlc.converter.ops.shapes import tiled
from xdlc.converter.values import Value, channel_last, check_table, identity
from xdlc.ir import Transform
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import (
    ABS,
    ADD,
    DIVIDE,
    EQUAL,
    MULTIPLY,
    POWER,
    RSQRT,
    SIGMOID,
    SQRT,
    SUBTRACT,
)

_WIDEST = 256  # channels whose squares are added up one by one


# Tools of onnxruntime misspell epsilon; onnxruntime passes over what it does not know.
@importer("LayerNormalization", ignores=("epsion",))
def layer_normalization(
    node: Node, b: Builder, x: Value, scale: Value, bias: Value | None = None
) -> list[Value]:
    """Map onto LayerNorm from ``axis`` on; write out its statistics if used.

    The result has the type of the scale: tools fuse it from half inputs and float weights, and onnxruntime
    computes that in float.
    """
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
        raise node.invalid(f"the scale or bias is larger than the input {list(x.shape)}")
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
def instance_normalization(node: Node, b: Builder, x: Value) -> Value:
    """Map onto InstanceNorm."""
    inputs = [b.channel_last(x), b.source_order(node.required(1)), b.source_order(node.required(2))]
    order = channel_last(x.rank)
    params = {"epsilon": ir.f32(node.attr("epsilon", 1e-5))}
    return Value(
        b.emit("InstanceNorm", inputs, tuple(x.shape[axis] for axis in order), x.dtype, params), order
    )


@importer("LpNormalization", layout=ANY)
def lp_normalization(node: Node, b: Builder, x: Value) -> Value:
    """Map onto L2Norm; the L1 norm is written out, with 0 where the norm is 0."""
    p = node.attr("p", 2)
    axis = node.axis(node.attr("axis", -1), x.rank)
    if p not in (1, 2):
        raise node.invalid(f"p must be 1 or 2, but is {p}")
    if p == 2:
        params = {"axis": ir.u32(x.axis(axis)), "epsilon": ir.f32(1e-12)}
        return b.unary("L2Norm", x, params)
    size = reduced(b, "ReduceSum", unary(b, ABS, x), [axis])
    nothing = compare(b, EQUAL, size, number(b, size, 0))
    return b.binary(DIVIDE, x, select(b, nothing, number(b, size, 1), size))


@importer("LRN", layout=CHANNEL_LAST)
def lrn(node: Node, b: Builder, x: Value) -> Value:
    """Map onto Lrn across channels; QNN's alpha is per element, ONNX's per window."""
    size = node.attr("size")
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    if not size or x.rank < 3:
        raise node.invalid(f"size {size} does not fit an input {list(x.shape)}")
    if size % 2 == 0:
        if size > _WIDEST:
            raise node.problem(f"xdlc does not support even windows of more than {_WIDEST} channels")
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


@importer("BatchNormalization", since=7, layout=CHANNEL_LAST, ignores=("is_test",))
def batch_normalization(node: Node, b: Builder, x: Value) -> Value | list[Value]:
    """Map onto Batchnorm if statistics are static; write out computed ones.

    A value of rank 1 has one channel.  A column with as many elements as there are statistics is a row to
    onnxruntime, which moves the node in front of the Transpose that made the column.
    """
    count = node.required(1).size
    lies = (x.rank == 1 and count == 1) or (x.rank == 2 and x.shape[1] == 1 < count == x.size)
    if not lies or node.flag("training_mode"):
        return _normalized(node, b, x)
    result = _normalized(node, b, b.reshape(x, (x.size // count, count)))
    return b.reshape(result, x.shape) if isinstance(result, Value) else result


def _normalized(node: Node, b: Builder, x: Value) -> Value | list[Value]:
    momentum, spatial = node.attr("momentum", 0.9), node.attr("spatial", 1)
    statistics = [node.required(index) for index in range(1, 5)]
    dims = x.shape[1:] if spatial == 0 else x.shape[1:2]
    for index, value in enumerate(statistics, 1):
        if value.shape != dims:
            raise node.invalid(f"input {index} has shape {list(value.shape)} for {list(dims)} channels")
    if node.flag("training_mode"):
        if len(node.outputs) < 3:
            raise node.invalid("the node has no outputs for running statistics in training mode")
        return _training(node, b, x, statistics, momentum)
    if len(node.outputs) > 1 and node.outputs[1]:
        raise node.problem("xdlc does not support training mode", "export the model for inference")
    if spatial == 0 or not all(value.is_static for value in statistics):
        return _written_out(node, b, x, statistics)
    data = [value.tensor.data for value in statistics if value.tensor.data is not None]
    epsilon = node.attr("epsilon", 1e-5)

    def weight(gamma: Array, variance: Array) -> Array:
        scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
        return scale.astype(gamma.dtype)

    def bias(gamma: Array, beta: Array, mean: Array, variance: Array) -> Array:
        scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
        return (beta - mean * scale).astype(gamma.dtype)

    gamma, beta, mean, variance = data
    scales = b.const(Transform([gamma, variance], weight, gamma.shape, gamma.dtype), f"{b.stem}_weight")
    shifts = b.const(
        Transform([gamma, beta, mean, variance], bias, gamma.shape, gamma.dtype), f"{b.stem}_bias"
    )
    inputs = [b.channel_last(x), b.source_order(scales), b.source_order(shifts)]
    order = channel_last(x.rank)
    return Value(b.emit("Batchnorm", inputs, tuple(x.shape[axis] for axis in order), x.dtype), order)


def _written_out(node: Node, b: Builder, x: Value, statistics: Sequence[Value]) -> Value:
    """Return (x - mean) / sqrt(variance + epsilon) * gamma + beta."""
    shape = (1, *statistics[0].shape, *(1,) * (x.rank - 1 - statistics[0].rank))
    gamma, beta, mean, variance = (b.cast(b.reshape(value, shape), x.dtype) for value in statistics)
    shifted = b.binary(ADD, variance, number(b, x, node.attr("epsilon", 1e-5)))
    scale = b.binary(DIVIDE, gamma, unary(b, SQRT, shifted))
    return b.binary(ADD, b.binary(MULTIPLY, b.binary(SUBTRACT, x, mean), scale), beta)


def _training(node: Node, b: Builder, x: Value, statistics: Sequence[Value], momentum: float) -> list[Value]:
    """Return values normalized by batch statistics, and the updated running ones."""
    gamma, beta, mean, variance = statistics
    axes = [axis for axis in range(x.rank) if axis != 1]
    own_mean = reduced(b, "ReduceMean", x, axes)
    centred = b.binary(SUBTRACT, x, own_mean)
    own_variance = reduced(b, "ReduceMean", b.binary(MULTIPLY, centred, centred), axes)
    flat = [b.reshape(value, (x.shape[1],)) for value in (own_mean, own_variance)]
    result = _written_out(node, b, x, [gamma, beta, *flat])
    moved = [
        b.binary(
            ADD,
            b.binary(MULTIPLY, old, number(b, old, momentum)),
            b.binary(MULTIPLY, b.cast(new, old.dtype), number(b, old, 1 - momentum)),
        )
        for old, new in zip((mean, variance), flat, strict=True)
    ]
    return [result, *moved]


@importer("GroupNormalization", since=18, layout=CHANNEL_LAST, ignores=("stash_type",))
def group_normalization(node: Node, b: Builder) -> Value:
    """Map onto GroupNorm; before opset 21, scale and bias are per group."""
    x, scale, bias = (node.required(index) for index in range(3))
    groups = node.attr("num_groups")
    if node.opset < 21 and groups and x.shape[1] % groups == 0 and scale.shape == (groups,):
        scale, bias = (_per_channel(b, value, x.shape[1] // groups) for value in (scale, bias))
    if not groups or x.shape[1] % groups or scale.shape != (x.shape[1],):
        raise node.invalid(f"{groups} groups and scale {list(scale.shape)} do not fit {x.shape[1]} channels")
    order = channel_last(x.rank)
    params = {"epsilon": ir.f32(node.attr("epsilon", 1e-5)), "group": ir.u32(groups)}
    inputs = [b.channel_last(x), b.source_order(scale), b.source_order(bias)]
    return Value(b.emit("GroupNorm", inputs, tuple(x.shape[axis] for axis in order), x.dtype, params), order)


def _per_channel(b: Builder, value: Value, width: int) -> Value:
    """Return the values of groups repeated for each channel."""
    count = value.size
    return b.reshape(tiled(b, b.reshape(value, (count, 1)), [1, width]), (count * width,))


@importer("RMSNormalization", since=23, ignores=("stash_type",))
def rms_normalization(node: Node, b: Builder) -> Value:
    """Map onto RmsNorm over the axes from ``axis`` on.

    They are joined to one: backends support the last axis only.
    """
    x, scale = node.required(0), node.required(1)
    axis = node.axis(node.attr("axis", -1), x.rank)
    features = math.prod(x.shape[axis:])
    flat = b.reshape(x, (*x.shape[:axis], features))
    whole = scale.shape == x.shape[axis:]
    check_table(1 if whole else features)
    factor = b.reshape(scale, (features,)) if whole else b.const(np.ones(features, x.dtype.numpy))
    params: dict[str, ir.Param] = {
        "axes": ir.u32s([axis]),
        "epsilon": ir.f32(node.attr("epsilon", 1e-5)),
    }
    inputs = [b.source_order(flat), b.source_order(factor)]
    made = b.reshape(
        Value(b.emit("RmsNorm", inputs, flat.shape, x.dtype, params), identity(axis + 1)), x.shape
    )
    return made if whole else b.binary(MULTIPLY, made, scale)


_TYPES = {"Softmax": "Softmax", "LogSoftmax": "LogSoftmax"}


@importer(*_TYPES, since=13)
def softmax(node: Node, b: Builder, value: Value) -> Value:
    """Map along one axis, moved to the end, as backends require."""
    return along(b, _TYPES[node.type], value, node.axis(node.attr("axis", -1), value.rank))


@importer(*_TYPES, since=1)
def flattening_softmax(node: Node, b: Builder, value: Value) -> Value:
    """Map the form before opset 13: softmax over all axes from ``axis`` on together."""
    axis = node.axis(node.attr("axis", 1), value.rank)
    if math.prod(value.shape[axis + 1 :]) == 1:
        return along(b, _TYPES[node.type], value, axis)
    flat = b.reshape(value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))
    return b.reshape(along(b, _TYPES[node.type], flat, 1), value.shape)


def along(b: Builder, type: str, value: Value, axis: int) -> Value:
    """Append a softmax along a source axis, or a sigmoid of differences for a pair."""
    if axis != value.rank - 1 and math.prod(value.shape[axis + 1 :]) == 1:
        rest = [dim for position, dim in enumerate(value.shape) if position != axis]
        moved = b.reshape(value, (*rest, value.shape[axis]))
        return b.reshape(along(b, type, moved, value.rank - 1), value.shape)
    if type == "Softmax" and value.shape[axis] == 2 and value.order[-1] != axis:
        return neuron(b, b.binary(SUBTRACT, value, reversed_along(b, value, axis)), SIGMOID)
    order = (*(held for held in value.order if held != axis), axis)
    tensor = b.to_layout(value, order, why=f"{b.node} works along the last axis")
    params = {"axis": ir.u32(len(order) - 1), "beta": ir.f32(1.0)}
    return Value(b.emit(type, [tensor], tensor.shape, value.dtype, params), order)
