"""A small transformer encoder with random weights, as exporters write one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class _Net:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, *shape: int) -> str:
        values = self.rng.standard_normal(shape) * (1.0 / shape[0]) ** 0.5
        return self.constant(values.astype(np.float32))

    def op(self, type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(type, list(inputs), [name], name=f"n_{name}", **attributes))
        return name

    def linear(self, x: str, size_in: int, size_out: int) -> str:
        bias = self.constant((self.rng.standard_normal(size_out) * 0.1).astype(np.float32))
        return self.op("Add", self.op("MatMul", x, self.weight(size_in, size_out)), bias)

    def norm(self, x: str, size: int) -> str:
        scale = self.constant(self.rng.uniform(0.5, 1.5, size).astype(np.float32))
        shift = self.constant((self.rng.standard_normal(size) * 0.1).astype(np.float32))
        return self.op("LayerNormalization", x, scale, shift, axis=-1)

    def split(self, x: str, tokens: int, heads: int, size: int, order: tuple[int, ...]) -> str:
        shape = self.constant(np.array([1, tokens, heads, size // heads], np.int64))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=list(order))

    def gelu(self, x: str) -> str:
        inner = self.op("Erf", self.op("Div", x, self.constant(np.float32(2**0.5))))
        half = self.op("Mul", x, self.constant(np.float32(0.5)))
        return self.op("Mul", half, self.op("Add", inner, self.constant(np.float32(1.0))))


def transformer(*, tokens: int = 16, size: int = 64, heads: int = 4, layers: int = 2, seed: int = 0) -> Any:
    """Return an ``onnx.ModelProto`` from x to y [1, tokens, size], float32."""
    net = _Net(seed)
    x = "x"
    for _ in range(layers):
        query = net.split(net.linear(x, size, size), tokens, heads, size, (0, 2, 1, 3))
        key = net.split(net.linear(x, size, size), tokens, heads, size, (0, 2, 3, 1))
        value = net.split(net.linear(x, size, size), tokens, heads, size, (0, 2, 1, 3))
        root = net.constant(np.float32((size // heads) ** 0.5))
        scores = net.op("Softmax", net.op("Div", net.op("MatMul", query, key), root), axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", scores, value), perm=[0, 2, 1, 3])
        joined = net.op("Reshape", mixed, net.constant(np.array([1, tokens, size], np.int64)))
        x = net.norm(net.op("Add", x, net.linear(joined, size, size)), size)
        x = net.norm(
            net.op("Add", x, net.linear(net.gelu(net.linear(x, size, 4 * size)), 4 * size, size)), size
        )
    net.nodes.append(helper.make_node("Identity", [x], ["y"], name="n_y"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, tokens, size]) for name in ("x", "y")]
    graph = helper.make_graph(net.nodes, "transformer", ports[:1], ports[1:], net.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
