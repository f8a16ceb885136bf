"""Networks as ONNX files with random weights, and their samples; made anew, the same each time.

python bench/networks.py NAME FILE.onnx [--layers N]

mobilenetv2, resnet50   images of 224 x 224 pixels
bert                    BERT-base, 128 tokens
decoder                 blocks of a language model of 2,048 channels, with external data of 0.2 GB each
small                   a Conv and a Relu
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
TOKENS, WORDS = 128, 30522
EXTERNAL_FROM = 1024
"""Bytes of the smallest tensor that becomes external data."""

Array = Any  # numpy.ndarray


class Network:
    """Nodes and initializers of a graph under way.

    Args:
        data: File that receives large initializers; None: all are in the model.
    """

    def __init__(self, data: IO[bytes] | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._data = data
        self._rng = np.random.default_rng(7)
        self._count = 0

    def constant(self, array: Array) -> str:
        """Add an initializer; return its name."""
        name, array = self._name("w"), np.ascontiguousarray(array)
        if self._data is None or array.nbytes < EXTERNAL_FROM:
            self.initializers.append(numpy_helper.from_array(array, name))
            return name
        proto = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        proto.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        entries = {
            "location": Path(self._data.name).name,
            "offset": self._data.tell(),
            "length": array.nbytes,
        }
        for key, value in entries.items():
            proto.external_data.add(key=key, value=str(value))
        self._data.write(array.data)
        self.initializers.append(proto)
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        output = self._name(kind.lower())
        self.nodes.append(helper.make_node(kind, inputs, [output], f"n_{output}", **attributes))
        return output

    def weights(self, *shape: int, gain: float = 1.0) -> str:
        """Add normal weights that keep the size of values."""
        fan = np.prod(shape[1:]) if len(shape) > 1 else shape[0]
        values = self._rng.standard_normal(shape, dtype=np.float32)
        values *= np.float32(gain * (2.0 / fan) ** 0.5)
        return self.constant(values)

    def uniform(self, size: int, low: float, high: float) -> str:
        """Add a vector of uniform numbers."""
        return self.constant(self._rng.uniform(low, high, size).astype(np.float32))

    def model(
        self, inputs: dict[str, tuple[int, list[int]]], output: str, shape: list[int]
    ) -> onnx.ModelProto:
        """Return the model."""
        graph = helper.make_graph(
            self.nodes,
            "main",
            [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"


def _convolution(
    net: Network, x: str, inner: int, outer: int, size: int, stride: int = 1, *, groups: int = 1,
    gain: float = 1.0, act: str = "",
) -> str:  # fmt: skip
    """Add a convolution with its normalization and activation."""
    kernel = net.weights(outer, inner // groups, size, size, gain=gain)
    window = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4, "group": groups}
    x = net.op("Conv", x, kernel, **window)
    statistics = [net.uniform(outer, low, low + 0.2) for low in (0.9, -0.1, -0.1, 0.9)]
    x = net.op("BatchNormalization", x, *statistics)
    if act == "relu6":
        return net.op("Clip", x, net.constant(np.float32(0)), net.constant(np.float32(6)))
    return net.op("Relu", x) if act else x


def _classes(net: Network, x: str, channels: int) -> onnx.ModelProto:
    """Add the head of a classifier of images; return the model."""
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    y = net.op("Gemm", x, net.weights(1000, channels), net.constant(np.zeros(1000, np.float32)), transB=1)
    return net.model({"input": (TensorProto.FLOAT, [1, 3, 224, 224])}, y, [1, 1000])


def resnet50(net: Network, layers: int) -> onnx.ModelProto:
    x = _convolution(net, "input", 3, 64, 7, 2, act="relu")
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inner = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        middle = 64 << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = _convolution(net, x, inner, middle, 1, act="relu")
            y = _convolution(net, y, middle, middle, 3, stride, act="relu")
            y = _convolution(net, y, middle, 4 * middle, 1, gain=0.3)
            shortcut = x if block else _convolution(net, x, inner, 4 * middle, 1, stride)
            x, inner = net.op("Relu", net.op("Add", y, shortcut)), 4 * middle
    return _classes(net, x, inner)


def mobilenetv2(net: Network, layers: int) -> onnx.ModelProto:
    x, inner = _convolution(net, "input", 3, 32, 3, 2, act="relu6"), 32
    stages = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for wider, outer, count, first in stages:
        for block in range(count):
            stride, middle = 1 if block else first, inner * wider
            y = _convolution(net, x, inner, middle, 1, act="relu6") if wider > 1 else x
            y = _convolution(net, y, middle, middle, 3, stride, groups=middle, act="relu6")
            y = _convolution(net, y, middle, outer, 1)
            x, inner = net.op("Add", x, y) if block else y, outer
    return _classes(net, _convolution(net, x, inner, 1280, 1, act="relu6"), 1280)


def _linear(net: Network, x: str, inner: int, outer: int) -> str:
    product = net.op("MatMul", x, net.weights(inner, outer, gain=0.7))
    return net.op("Add", product, net.constant(np.zeros(outer, np.float32)))


def _normalized(net: Network, x: str, width: int) -> str:
    scale, shift = net.constant(np.ones(width, np.float32)), net.constant(np.zeros(width, np.float32))
    return net.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)


def _block(net: Network, x: str, width: int, heads: int, is_causal: bool) -> str:
    """Add a block of a transformer."""
    size = width // heads

    def split(value: str) -> str:
        parts = net.op("Reshape", value, net.constant(np.array([1, TOKENS, heads, size])))
        return net.op("Transpose", parts, perm=[0, 2, 1, 3])

    y = _normalized(net, x, width)
    query, key, value = (split(_linear(net, y, width, width)) for _ in range(3))
    scores = net.op("MatMul", query, net.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = net.op("Mul", scores, net.constant(np.float32(size**-0.5)))
    if is_causal:
        mask = np.triu(np.full((1, 1, TOKENS, TOKENS), -1e4, np.float32), 1)
        scores = net.op("Add", scores, net.constant(mask))
    y = net.op("Transpose", net.op("MatMul", net.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    y = net.op("Reshape", y, net.constant(np.array([1, TOKENS, width])))
    x = net.op("Add", x, _linear(net, y, width, width))
    y = _linear(net, _normalized(net, x, width), width, 4 * width)
    error = net.op("Erf", net.op("Div", y, net.constant(np.float32(2**0.5))))
    y = net.op(
        "Mul",
        net.op("Mul", y, net.op("Add", error, net.constant(np.float32(1)))),
        net.constant(np.float32(0.5)),
    )
    return net.op("Add", x, _linear(net, y, 4 * width, width))


def _transformer(net: Network, layers: int, width: int, heads: int, is_causal: bool) -> onnx.ModelProto:
    x = net.op("Gather", net.weights(WORDS, width), "ids", axis=0)
    x = net.op("Add", x, net.weights(1, TOKENS, width))
    for _ in range(layers):
        x = _block(net, x, width, heads, is_causal)
    return net.model(
        {"ids": (TensorProto.INT64, [1, TOKENS])}, _normalized(net, x, width), [1, TOKENS, width]
    )


def bert(net: Network, layers: int) -> onnx.ModelProto:
    return _transformer(net, layers, 768, 12, False)


def decoder(net: Network, layers: int) -> onnx.ModelProto:
    return _transformer(net, layers, 2048, 16, True)


def small(net: Network, layers: int) -> onnx.ModelProto:
    y = net.op("Relu", net.op("Conv", "input", net.weights(4, 3, 3, 3), pads=[1] * 4))
    return net.model({"input": (TensorProto.FLOAT, [1, 3, 8, 8])}, y, [1, 4, 8, 8])


NETWORKS: dict[str, Callable[[Network, int], onnx.ModelProto]] = {
    "mobilenetv2": mobilenetv2,
    "resnet50": resnet50,
    "bert": bert,
    "decoder": decoder,
    "small": small,
}


def samples(path: Path, count: int, seed: int = 1) -> list[dict[str, Array]]:
    """Return seeded random samples of a network of this module."""
    rng = np.random.default_rng(seed)
    if path.stem in ("bert", "decoder"):
        return [{"ids": rng.integers(0, WORDS, (1, TOKENS))} for _ in range(count)]
    size = 8 if path.stem == "small" else 224
    return [{"input": rng.standard_normal((1, 3, size, size), np.float32)} for _ in range(count)]


def write(name: str, path: Path, layers: int = 12) -> None:
    """Write a network."""
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(open(f"{path}.data", "wb")) if name == "decoder" else None
        path.write_bytes(NETWORKS[name](Network(data), layers).SerializeToString())


def write_samples(path: Path, count: int, folder: Path) -> None:
    """Write samples of a network as files, and the list ``samples.txt`` of them."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, feeds in enumerate(samples(path, count)):
        ((name, array),) = feeds.items()
        np.save(folder / f"{number}.npy", array)
        lines.append(f"{name}:={folder / f'{number}.npy'}")
    (folder / "samples.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--layers", type=int, default=12, help="of bert and decoder (default: 12)")
    options = parser.parse_args()
    write(options.name, options.file, options.layers)
