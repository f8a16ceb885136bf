"""An Inception-like classifier of 216 layers, channel-first and small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

SHAPE = (1, 3, 12, 12)
LAYERS = 216


class _Net:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.channels = {"image": 3}

    def node(self, op: str, reads: list[str], channels: int, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, reads, [name], name, **attributes))
        self.channels[name] = channels
        return name

    def conv(self, x: str, units: int, taps: int = 1) -> str:
        taken = self.channels[x]
        kernel = self.rng.normal(0, np.sqrt(2 / (taken * taps**2)), (units, taken, taps, taps))
        name = f"w{len(self.nodes)}"
        self.weights.append(numpy_helper.from_array(kernel.astype(np.float32), name))
        made = self.node("Conv", [x, name], units, kernel_shape=[taps, taps], pads=[taps // 2] * 4)
        return self.node("Relu", [made], units)

    def block(self, x: str) -> str:
        pooled = self.node("MaxPool", [x], self.channels[x], kernel_shape=[3, 3], pads=[1] * 4)
        parts = [self.conv(x, 2), self.conv(self.conv(x, 2), 2, 3), self.conv(pooled, 2)]
        return self.node("Concat", parts, 6, axis=1)


def save(path: Path) -> Path:
    """Write the network: a stem, 20 blocks of 10 layers, and a classifier."""
    net = _Net()
    x = net.conv(net.conv("image", 4, 3), 6)
    for _ in range(20):
        x = net.block(x)
    for _ in range(4):
        x = net.conv(x, 6)
    pooled = net.node("GlobalAveragePool", [x], 6)
    flat = net.node("Flatten", [pooled], 6)
    net.weights.append(numpy_helper.from_array(net.rng.normal(0, 1, (6, 5)).astype(np.float32), "dense"))
    net.node("Softmax", [net.node("Gemm", [flat, "dense"], 5)], 5, axis=1)
    graph = helper.make_graph(
        net.nodes,
        "inception",
        [helper.make_tensor_value_info("image", 1, SHAPE)],
        [helper.make_tensor_value_info(net.nodes[-1].output[0], 1, (1, 5))],
        net.weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
