"""Random graphs with mixed axis orders output what onnxruntime does."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import xdlc
from tests.support.differences import differences
from xdlc.opdefs.verify import verify_graph

GRAPHS, STEPS = 60, 12


class Random:
    """Builds a graph step by step; every value is [1, C, H, W] or a view."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.shapes = [], [], {"x": (1, 4, 6, 6)}

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def constant(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, *shape):
        return self.constant((self.rng.standard_normal(shape) * 0.5).astype(np.float32))

    def add(self, type, inputs, shape, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(type, inputs, [name], f"n{len(self.nodes)}", **attributes))
        self.shapes[name] = tuple(shape)

    def step(self):
        value = self.pick(list(self.shapes))
        shape = self.shapes[value]
        options = [self.unary, self.constant_operand, self.transpose, self.reshape, self.concat, self.reduce]
        options += [self.slice, self.softmax, self.pair, self.pair, self.matmul]
        if len(shape) == 4:
            options += [self.conv, self.conv, self.conv, self.pool, self.resize, self.norm, self.global_pool]
        self.pick(options)(value, shape)

    def unary(self, value, shape):
        self.add(self.pick(["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Floor"]), [value], shape)

    def constant_operand(self, value, shape):
        rank = self.rng.integers(len(shape) + 1)
        dims = [self.pick([1, dim]) for dim in shape[len(shape) - rank :]]
        operand = self.floats(*dims)
        inputs = [value, operand] if self.rng.random() < 0.5 else [operand, value]
        self.add(self.pick(["Add", "Mul", "Sub", "Max"]), inputs, shape)

    def pair(self, value, shape):
        others = [name for name, dims in self.shapes.items() if dims == shape or 0 < len(dims) < len(shape)]
        second = self.pick(others)
        try:
            result = np.broadcast_shapes(shape, self.shapes[second])
        except ValueError:
            return
        self.add(self.pick(["Add", "Mul", "Min"]), [value, second], result)

    def transpose(self, value, shape):
        perm = self.rng.permutation(len(shape)).tolist()
        self.add("Transpose", [value], [shape[axis] for axis in perm], perm=perm)

    def reshape(self, value, shape):
        size = int(np.prod(shape))
        target, rest = [], size
        for _ in range(self.rng.integers(1, 5)):
            dim = int(self.pick([n for n in range(1, 13) if rest % n == 0]))
            target.append(dim)
            rest //= dim
        target.insert(int(self.rng.integers(len(target) + 1)), rest)
        if len(target) <= 4:
            self.add("Reshape", [value, self.constant(np.asarray(target))], target)

    def concat(self, value, shape):
        axis = int(self.rng.integers(len(shape)))
        others = [
            name
            for name, dims in self.shapes.items()
            if len(dims) == len(shape)
            and all(a == b or i == axis for i, (a, b) in enumerate(zip(shape, dims, strict=True)))
        ]
        second = self.pick(others)
        joined = list(shape)
        joined[axis] += self.shapes[second][axis]
        if np.prod(joined) < 5000:
            self.add("Concat", [value, second], joined, axis=axis)

    def reduce(self, value, shape):
        axes = sorted(
            self.rng.choice(len(shape), self.rng.integers(1, len(shape) + 1), replace=False).tolist()
        )
        keep = int(self.rng.integers(2)) if len(axes) < len(shape) else 1
        result = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]
        self.add(self.pick(["ReduceMean", "ReduceMax"]), [value], result, axes=axes, keepdims=keep)

    def slice(self, value, shape):
        axis = int(self.rng.integers(len(shape)))
        if shape[axis] < 2:
            return
        start = int(self.rng.integers(shape[axis] - 1))
        step = int(self.pick([1, 2]))
        bounds = [self.constant(np.asarray([n])) for n in (start, shape[axis], axis, step)]
        result = list(shape)
        result[axis] = len(range(start, shape[axis], step))
        self.add("Slice", [value, *bounds], result)

    def softmax(self, value, shape):
        self.add("Softmax", [value], shape, axis=int(self.rng.integers(len(shape))))

    def matmul(self, value, shape):
        if len(shape) >= 2:
            columns = int(self.rng.integers(1, 6))
            self.add("MatMul", [value, self.floats(shape[-1], columns)], (*shape[:-1], columns))

    def conv(self, value, shape):
        out = int(self.pick([2, 4, shape[1]]))
        group = shape[1] if out == shape[1] and self.rng.random() < 0.5 else 1
        weight = self.floats(out, shape[1] // group, 3, 3)
        self.add("Conv", [value, weight], (shape[0], out, *shape[2:]), pads=[1] * 4, group=group)

    def pool(self, value, shape):
        self.add(self.pick(["MaxPool", "AveragePool"]), [value], shape, kernel_shape=[3, 3], pads=[1] * 4)

    def resize(self, value, shape):
        if np.prod(shape) < 1200:
            scales = self.constant(np.asarray([1, 1, 2, 2], np.float32))
            result = (*shape[:2], shape[2] * 2, shape[3] * 2)
            mode = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            self.add("Resize", [value, "", scales], result, **mode)

    def norm(self, value, shape):
        channels = shape[1]
        variance = self.constant(np.full(channels, 0.7, np.float32))
        inputs = [value, *(self.floats(channels) for _ in range(3)), variance]
        self.add("BatchNormalization", inputs, shape)

    def global_pool(self, value, shape):
        self.add("GlobalAveragePool", [value], (*shape[:2], 1, 1))

    def model(self):
        while len(self.nodes) < STEPS:
            self.step()
        read = {name for node in self.nodes for name in node.input}
        outputs = [name for name in self.shapes if name not in read and name != "x"]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shapes["x"])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name]) for name in outputs],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_graph(models, seed):
    path = models.save(Random(seed).model())
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {"x": np.random.default_rng(seed).standard_normal((1, 4, 6, 6)).astype(np.float32)}
    expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))

    model = xdlc.convert(path)
    assert verify_graph(model.main) == []
    target = path.with_suffix(".dlc")
    model.save(target)
    loaded = xdlc.load(target)
    assert differences(model.main, loaded.main) == []
    found = xdlc.run(loaded, feeds)
    for name, values in expected.items():
        assert found[name].shape == values.shape
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-4)
