"""Small quantized networks in sections, and records that divide them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import xdlc
from xdlc.container.aip_record import OWN_FLAVOUR, OWN_RECORD, AipRecord, Engine, Section, write_aip
from xdlc.ir import ArrayData, Graph, Model, Param, ScaleOffset, Tensor, f32, make_op, static, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.graph import NATIVE_PACKAGE

RELU, SIGMOID, MULTIPLY, ADD = 4, 6, 13, 0


class Net:
    """A float network in the making; every verb adds an op and returns its result."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = Graph("net")
        self._rng = np.random.default_rng(seed)

    def input(self, *shape: int, name: str = "x") -> Tensor:
        return self.graph.add_input(Tensor(name, shape, FLOAT32))

    def op(self, type: str, inputs: Sequence[Tensor | None], shape: Sequence[int], **params: Param) -> Tensor:
        out = Tensor(f"t{len(self.graph)}", tuple(shape), FLOAT32)
        name = f"{type.lower()}{len(self.graph)}"
        self.graph.append(make_op(self.graph, type, inputs, [out], params, name=name, package=NATIVE_PACKAGE))
        return out

    def weights(self, *shape: int) -> Tensor:
        fan = np.sqrt(np.prod(shape[:-1]) or 1)
        values = (self._rng.normal(0, 1, shape) / fan).astype(np.float32)
        return static(f"w{len(self.graph)}_{len(shape)}", values)

    def conv(self, x: Tensor, units: int, *, taps: int = 1, stride: int = 1) -> Tensor:
        pad = [[taps // 2, (taps - 1) // 2]] * 2
        height, width = ((dim - 1) // stride + 1 for dim in x.shape[1:3])
        inputs = [x, self.weights(taps, taps, x.shape[3], units), self.weights(units)]
        return self.op("Conv2d", inputs, (x.shape[0], height, width, units), **window([stride] * 2, pad))

    def depthwise(self, x: Tensor) -> Tensor:
        inputs = [x, self.weights(3, 3, 1, x.shape[3]), self.weights(x.shape[3])]
        return self.op("DepthWiseConv2d", inputs, x.shape, **window([1, 1], [[1, 1], [1, 1]]))

    def neuron(self, x: Tensor, number: int) -> Tensor:
        return self.op("ElementWiseNeuron", [x], x.shape, operation=u32(number))

    def binary(self, x: Tensor, y: Tensor, number: int) -> Tensor:
        return self.op("ElementWiseBinary", [x, y], x.shape, operation=u32(number))

    def prelu(self, x: Tensor) -> Tensor:
        slope = static(f"slope{len(self.graph)}", np.array([0.2], np.float32))
        return self.op("Prelu", [x, slope], x.shape)

    def silu(self, x: Tensor) -> Tensor:
        return self.binary(x, self.neuron(x, SIGMOID), MULTIPLY)

    def transpose(self, x: Tensor, *perm: int) -> Tensor:
        shape = [x.shape[axis] for axis in perm]
        return self.op("Transpose", [x], shape, perm=static("perm", np.array(perm, np.uint32)))

    def concat(self, *parts: Tensor) -> Tensor:
        shape = (*parts[0].shape[:-1], sum(part.shape[-1] for part in parts))
        return self.op("Concat", parts, shape, axis=u32(parts[0].rank - 1))

    def quantized(self, *outputs: Tensor, **options: Any) -> Model:
        """Return the network with the encodings that the quantizer gives it."""
        for tensor in outputs:
            self.graph.add_output(tensor)
        model = Model({self.graph.name: self.graph})
        samples = [
            {
                tensor.name: self._rng.normal(0, 1, tensor.shape).astype(np.float32)
                for tensor in self.graph.inputs
            }
            for _ in range(2)
        ]
        return xdlc.quantize(model, samples, **options)


def window(stride: Sequence[int], pad: Sequence[Sequence[int]]) -> dict[str, Param]:
    return {
        "stride": static("stride", np.array(stride, np.uint32)),
        "pad_amount": static("pad_amount", np.array(pad, np.uint32)),
    }


@cache
def _residual(seed: int) -> Model:
    net = Net(seed)
    x = net.input(1, 8, 8, 3)
    stem = net.neuron(net.conv(x, 8, taps=3, stride=2), RELU)
    left = net.prelu(net.conv(stem, 8))
    right = net.silu(net.depthwise(net.silu(net.conv(stem, 8))))
    total = net.binary(left, right, ADD)
    back = net.transpose(net.transpose(total, 0, 3, 1, 2), 0, 2, 3, 1)
    both = net.concat(back, net.conv(total, 4, taps=3))
    flat = net.op("Reshape", [both], (1, 192))
    logits = net.op("FullyConnected", [flat, net.weights(10, 192), net.weights(10)], (1, 10))
    odds = net.op("Softmax", [logits], (1, 10), beta=f32(1.0))
    model = net.quantized(odds, total)
    # A product with a coarse encoding, of which the function behind it must read more than is stored.
    for op in model.main.ops:
        if op.type in ("Conv2d", "DepthWiseConv2d"):
            held = op.outputs[0].encoding
            assert isinstance(held, ScaleOffset)
            op.outputs[0].encoding = ScaleOffset(held.scale * 3, held.offset // 3 - 85)
    return model


def residual(seed: int = 0) -> Model:
    """Return a quantized network with branches and two layers that HTA lacks."""
    return _residual(seed).clone()


def feeds_of(model: Model, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random inputs."""
    rng = np.random.default_rng(seed)
    return {tensor.name: rng.normal(0, 1, tensor.shape).astype(np.float32) for tensor in model.main.inputs}


def with_record(model: Model, sections: Sequence[Section], name: str = OWN_RECORD) -> Model:
    """Return the model with an AIP record."""
    content = write_aip(AipRecord("1.2.0.0", "0.1.0.0", OWN_FLAVOUR, tuple(sections)))
    held = model.clone()
    held.records[name] = ArrayData(np.frombuffer(content, np.uint8))
    return held


def on_cpu(model: Model, cuts: Sequence[int]) -> Model:
    """Return the model with HNN sections that begin at 0 and the layers named."""
    edges = [0, *sorted(set(cuts)), len(model.main)]
    sections = [Section(Engine.HNN, one, other - 1, ()) for one, other in itertools.pairwise(edges)]
    return with_record(model, sections)
