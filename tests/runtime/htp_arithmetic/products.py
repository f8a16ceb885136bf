"""Products of stored integers: models of one, and their exact sums."""

import numpy as np

from tests.support.single_ops import op_graph
from xdlc.ir import AxisScaleOffset, Model, Tensor, static, u32, u32s
from xdlc.ir import dtype as dt

FIXED = {
    "uint8": dt.UFIXED8,
    "uint16": dt.UFIXED16,
    "int8": dt.SFIXED8,
    "int16": dt.SFIXED16,
    "int32": dt.SFIXED32,
}


def shapes_of(kind, taps, channels, units, rows):
    """Return the shapes of the input and of the weights of a product."""
    if kind == "FullyConnected":
        return (rows, channels), (units, channels)
    return (1, rows, rows, channels), (taps, taps, 1 if kind.startswith("Depth") else channels, units)


def model_of(kind, x, weights, bias, scales, source, result, *, stride=1):
    """Return a model of a product, and its multipliers.

    Args:
        kind: Type of the op.
        x: What goes in, stored.
        weights: Stored weights.
        bias: Stored biases, int32.
        scales: Scales of the weights by output channel.
        source: Encoding of the input.
        result: Encoding of the output.
        stride: Of the windows, which have no padding.
    """
    matrix = kind == "FullyConnected"
    size = 0 if matrix else (x.shape[1] - len(weights)) // stride + 1
    per_channel = AxisScaleOffset(0 if matrix else 3, tuple(map(float, scales)))
    steps = AxisScaleOffset(0, tuple(float(source.scale * scale) for scale in scales))
    inputs = [
        Tensor("x", x.shape, FIXED[x.dtype.name], source),
        static("w", weights, FIXED[weights.dtype.name], per_channel),
        static("b", bias, dt.SFIXED32, steps),
    ]
    y = Tensor("y", (len(x), len(bias)) if matrix else (1, size, size, len(bias)), inputs[0].dtype, result)
    windows = {"stride": [stride] * 2, "pad_amount": [[0, 0]] * 2, "dilation": [1, 1]}
    params = {} if matrix else {name: u32s(values) for name, values in windows.items()}
    params |= {"group": u32(1)} if kind == "Conv2d" else {}
    multipliers = scales.astype(np.float64) * (source.scale / result.scale)
    return Model({"g": op_graph(kind, inputs, [y], params)}), multipliers


def sums_of(x, weights, stride=1):
    """Return the sums of weights times ``x``."""
    x = x.astype(np.int64)
    if x.ndim == 2:
        return x @ weights.T
    taps, total = len(weights), 0
    reach = x.shape[1] - taps + 1
    for row in range(taps):
        for column in range(taps):
            part = x[:, row : row + reach : stride, column : column + reach : stride]
            tap = weights[row, column]
            total = total + (part * tap[0] if len(tap) == 1 else part @ tap)
    return total
