"""BatchNormalization at inference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number, reduced, unary
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last
from xdlc.ir import Transform
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, MULTIPLY, SQRT, SUBTRACT


@importer("BatchNormalization", since=7, layout=CHANNEL_LAST, ignores=("is_test",))
def batch_normalization(node: Node, b: Builder) -> Value | list[Value]:
    """Map onto Batchnorm, which holds static statistics; write out computed ones.

    A value of rank 1 has one channel.  A column with as many elements as there are statistics is a row to
    onnxruntime, which moves the node in front of the Transpose that made the column.
    """
    x, count = node.required(0), node.required(1).size
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
            raise node.invalid("it has no outputs for running statistics in training mode")
        return _training(node, b, x, statistics, momentum)
    if len(node.outputs) > 1 and node.outputs[1]:
        raise node.problem("training mode is not supported", "export the model for inference")
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
    """Return values normalized by the batch's statistics, and updated running ones."""
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
