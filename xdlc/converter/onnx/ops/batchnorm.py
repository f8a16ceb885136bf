"""BatchNormalization at inference."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.onnx.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last
from xdlc.ir import Transform
from xdlc.ir.data import Array


@importer("BatchNormalization", since=7, layout=CHANNEL_LAST, ignores=("momentum", "is_test"))
def batch_normalization(node: Node, b: Builder) -> Value:
    """Map onto Batchnorm, whose weight and bias hold the statistics."""
    x = node.required(0)
    if node.attr("training_mode", 0) or (len(node.outputs) > 1 and node.outputs[1]):
        raise node.problem("works in training mode", "export the model for inference")
    if node.attr("spatial", 1) != 1:
        raise node.problem("spatial = 0", "export with statistics per channel")
    statistics = [node.required(index) for index in range(1, 5)]
    for index, value in enumerate(statistics, 1):
        node.static(index, "a statistic")
        if value.shape != (x.shape[1],):
            raise node.invalid(f"input {index} has shape {list(value.shape)} for {x.shape[1]} channels")
    data = [value.tensor.data for value in statistics if value.tensor.data is not None]
    epsilon = node.attr("epsilon", 1e-5)

    def weight(gamma: Array, variance: Array) -> Array:
        scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
        return scale.astype(gamma.dtype)

    def bias(gamma: Array, beta: Array, mean: Array, variance: Array) -> Array:
        scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
        return (beta - mean * scale).astype(gamma.dtype)

    gamma, beta, mean, variance = data
    scales = b.const(Transform([gamma, variance], weight, gamma.shape, gamma.dtype), f"{node.name}_weight")
    shifts = b.const(
        Transform([gamma, beta, mean, variance], bias, gamma.shape, gamma.dtype), f"{node.name}_bias"
    )
    inputs = [b.channel_last(x), b.source_order(scales), b.source_order(shifts)]
    order = channel_last(x.rank)
    return Value(b.emit("Batchnorm", inputs, tuple(x.shape[axis] for axis in order), x.dtype), order)
