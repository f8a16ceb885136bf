"""Large graphs of cheap operators on small tensors.

python bench/graphs.py SHAPE SIZE FILE.onnx

chain    every node reads the one before; each fourth adds a constant of its own
conv     every node is a convolution with weights and bias of its own, and reads the one before
wide     a thousand chains side by side, summed up at the end
weights  every node adds a constant of its own
outputs  every node reads the input, and its result is an output
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 17
LANES = 1000
EXTENTS = (1, 4)
IMAGE = (1, 4, 2, 2)
Part = tuple[str, onnx.NodeProto | onnx.TensorProto | onnx.ValueInfoProto]


def chain(size: int) -> Iterator[Part]:
    """Yield the parts of a chain of ``size`` nodes."""
    yield from _lane("", "x", "y", size)
    yield from _ends("y")


def conv(size: int) -> Iterator[Part]:
    """Yield the parts of a chain of ``size`` convolutions with biases."""
    rng = np.random.default_rng(0)
    for index in range(size):
        name = f"n{index}"
        for suffix, shape in (("weight", (4, 4, 1, 1)), ("bias", (4,))):
            values = rng.uniform(-0.5, 0.5, shape).astype(np.float32)
            yield "initializer", numpy_helper.from_array(values, f"{name}_{suffix}")
        inputs = [_value(index, "x", "y", size), f"{name}_weight", f"{name}_bias"]
        yield "node", helper.make_node("Conv", inputs, [_value(index + 1, "x", "y", size)], name)
    yield from _ends("y", extents=IMAGE)


def wide(size: int) -> Iterator[Part]:
    """Yield the parts of ``size`` nodes in many chains, whose results are added up."""
    lanes = min(LANES, size // 4)
    length = size // lanes - 1
    total = "x"
    for lane in range(lanes):
        yield from _lane(f"lane{lane}/", "x", f"lane{lane}", length)
        result = "y" if lane == lanes - 1 else f"sum{lane}"
        yield "node", helper.make_node("Add", [total, f"lane{lane}"], [result])
        total = result
    yield from _ends("y")


def weights(size: int) -> Iterator[Part]:
    """Yield the parts of ``size`` nodes with as many initializers."""
    for index in range(size):
        yield from _add(f"n{index}", _value(index, "x", "y", size), _value(index + 1, "x", "y", size))
    yield from _ends("y")


def outputs(size: int) -> Iterator[Part]:
    """Yield the parts of ``size`` nodes with as many outputs."""
    names = [f"y{index}" for index in range(size)]
    for name in names:
        yield "node", helper.make_node("Relu", ["x"], [name], f"make_{name}")
    yield from _ends(*names)


SHAPES: dict[str, Callable[[int], Iterator[Part]]] = {
    "chain": chain,
    "conv": conv,
    "wide": wide,
    "weights": weights,
    "outputs": outputs,
}


def _lane(prefix: str, source: str, target: str, size: int) -> Iterator[Part]:
    """Yield ``size`` nodes that each read the one before."""
    types = ("Relu", "Tanh", "Sigmoid")
    for index in range(size):
        read = _value(index, source, target, size, prefix)
        written = _value(index + 1, source, target, size, prefix)
        if index % 4 == 3:
            yield from _add(f"{prefix}n{index}", read, written)
        else:
            yield "node", helper.make_node(types[index % 4], [read], [written], f"{prefix}n{index}")


def _value(index: int, source: str, target: str, size: int, prefix: str = "") -> str:
    return source if index == 0 else target if index == size else f"{prefix}t{index}"


def _add(name: str, source: str, target: str) -> Iterator[Part]:
    yield "initializer", numpy_helper.from_array(np.full(EXTENTS, 0.5, np.float32), f"{name}_bias")
    yield "node", helper.make_node("Add", [source, f"{name}_bias"], [target], name)


def _ends(*names: str, extents: tuple[int, ...] = EXTENTS) -> Iterator[Part]:
    yield "input", helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, extents)
    for name in names:
        yield "output", helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, extents)


def write(shape: str, size: int, path: Path) -> None:
    """Write a model of about ``size`` nodes."""
    graph = onnx.GraphProto(name="scale")
    for field, part in SHAPES[shape](size):
        getattr(graph, field).append(part)
    opsets = [helper.make_opsetid("", OPSET)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
