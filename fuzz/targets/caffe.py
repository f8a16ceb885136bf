"""Caffe nets as text with weights; Caffe2 nets with nets of weights."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fuzz.targets import Files, Target
from fuzz.targets._steps import built, convert
from fuzz.targets._sweep import SHAPES, array, drawn
from tests.converter.caffe.nets import blob, caffemodel, data, double_blob, layer, old_blob
from tests.converter.caffe2.nets import FILLS, TinyNet
from xdlc.converter.caffe.registry import layer as registry
from xdlc.converter.caffe2.registry import operator

ARRAYS: dict[str, list[np.ndarray]] = {
    "conv": [np.ones((2, 3, 3, 3), np.float32), np.ones(2, np.float32)],
    "fc": [np.ones((4, 128), np.float32)],
}
NET = (
    'name: "n"\n'
    + data(1, 3, 8, 8)
    + layer("Convolution", "convolution_param { num_output: 2 kernel_size: 3 pad: 1 }", top="conv")
    + layer("ReLU", bottom="conv", top="conv", name="relu")
    + layer("Pooling", "pooling_param { pool: MAX kernel_size: 2 stride: 1 }", bottom="conv", top="pool")
    + layer("Split", bottom="conv", top="a b")
    + layer("Eltwise", "eltwise_param { operation: SUM coeff: 0.5 coeff: 2 }", bottom="a b", top="sum")
    + layer("InnerProduct", "inner_product_param { num_output: 4 bias_term: false }", bottom="sum", top="fc")
    + layer("Softmax", "softmax_param { axis: -1 }", bottom="fc", top="y")
)
OLD = (
    'name: "old" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n'
    'layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" '
    "convolution_param { num_output: 2 kernel_size: 3 } }\n"
    'layers { layer { name: "relu" type: "relu" } bottom: "conv" top: "y" }\n'
)


def layers(rng: random.Random) -> Files:
    """Return a net of a few layers: bottoms and parameters of any number and type."""
    text, tops = data(*rng.choice(SHAPES)), ["data"]
    if rng.random() < 0.5:
        text, tops = text + data(*rng.choice(SHAPES), name="more"), ["data", "more"]
    for index in range(rng.choice((1, 1, 2, 3))):
        type, given = drawn(rng, registry, "MAX", "SUM", "true")
        message, fields = "param", ""
        for name, held in given.items():
            message = name if name.endswith("_param") else message
            fields += "".join(f"{name}: {one} " for one in (held if isinstance(held, list) else [held]))
        params = f"{message} {{ {fields} }}" if rng.random() < 0.8 else fields
        bottoms = " ".join(rng.choice(tops) for _ in range(rng.choice((0, 1, 1, 1, 2, 3))))
        made = " ".join(f"t{index}_{number}" for number in range(rng.choice((1, 1, 1, 2, 3))))
        name = rng.choice(("conv", "fc", f"l{index}"))
        text += layer(type, params, bottoms, made, name)
        tops += made.split()
    return {"net.prototxt": text.encode(), "net.caffemodel": caffemodel(ARRAYS)}


def seeds() -> Iterator[Files]:
    """Iterate over nets of both forms of text with weights of all forms."""
    for version in (0, 1, 2):
        for one in (blob, old_blob, double_blob):
            yield {
                "net.prototxt": (NET, OLD)[version == 0].encode(),
                "net.caffemodel": caffemodel(ARRAYS, version, one),
            }


def run(folder: Path, rng: random.Random) -> str:
    """Convert the net with its weights."""
    return convert(folder / "net.prototxt", rng, weights=folder / "net.caffemodel")


RESERVED = ("self", "type", "inputs", "outputs", "name")
"""Arguments of the function that adds an operator."""


def operators(rng: random.Random) -> Files:
    """Return a net of a few operators: inputs and arguments of any number and type."""
    net, names = TinyNet(), ["data"]
    for index in range(rng.choice((0, 1, 2, 3))):
        names.append(net.fill(f"w{index}", array(rng, rng.choice(SHAPES), rng.choice(sorted(FILLS)))))
    net.init("ConstantFill", ["c"], shape=[2, 3], value=0.5)
    for index in range(rng.choice((1, 1, 2, 3))):
        type, args = drawn(rng, operator)
        inputs = [rng.choice((*names, "c")) for _ in range(rng.choice((0, 1, 1, 2, 3, 5)))]
        outputs = [f"y{index}{end}" for end in ("", "b", "c")[: rng.choice((1, 1, 1, 2, 3))]]
        net.op(
            type,
            inputs,
            outputs,
            **{key: one for key, one in args.items() if one != [] and key not in RESERVED},
        )
        names += outputs
    return built(lambda folder: net.write(folder, ("data",), (names[-1],)))


TEXT = """name: "n"
op { input: "data" input: "w" input: "b" output: "conv" type: "Conv" arg { name: "kernel" i: 3 }
     arg { name: "pads" ints: 1 ints: 1 ints: 1 ints: 1 } arg { name: "order" s: "NCHW" } }
op { input: "conv" output: "y" type: "Selu" arg { name: "scale" f: 1.5 } device_option { device_type: 1 } }
external_input: "data" external_output: "y"
"""


def nets() -> Iterator[Files]:
    """Iterate over a network, its predict net binary or text."""
    net = TinyNet()
    net.fill("w", np.ones((2, 3, 3, 3), np.float32), packed=True)
    net.fill("b", np.ones(2, np.float32))
    net.op("Conv", ["data", "w", "b"], ["conv"], kernel=3, stride=1, pad=1, order="NCHW", name="conv")
    net.op("Relu", ["conv"], ["conv"]).op("MaxPool", ["conv"], ["p"], kernels=[2, 2]).op(
        "Softmax", ["p"], ["y"]
    )
    files = built(net.write)
    yield files
    yield {"predict_net.pbtxt": TEXT.encode(), "init_net.pb": files["init_net.pb"]}


def run_net(folder: Path, rng: random.Random) -> str:
    """Convert the net with its weights, for a shape of its input."""
    shape = rng.choice(SHAPES[1:]) if rng.random() < 0.7 else (1, 3, 8, 8)
    (net,) = folder.glob("predict_net.*")
    return convert(net, rng, {"data": shape}, weights=folder / "init_net.pb")


TARGETS = (
    Target("prototxt", seeds, run, ("net.caffemodel",), layers),
    Target("caffemodel", lambda: list(seeds())[:9], run, ("net.prototxt",)),
    Target("netdef", nets, run_net, generate=operators),
)
