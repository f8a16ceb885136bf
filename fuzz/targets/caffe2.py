"""Caffe2 nets with the nets that fill their weights."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fuzz.targets import Files, Target
from fuzz.targets._steps import built, convert
from fuzz.targets._sweep import SHAPES, array, drawn
from tests.converter.caffe2.nets import FILLS, TinyNet
from xdlc.converter.caffe2.registry import operator

RESERVED = ("self", "type", "inputs", "outputs", "name")
"""Arguments of the function that adds an operator."""


def operators(rng: random.Random) -> Files:
    """Return a net of a few operators: inputs and arguments of any number and type."""
    made, names = TinyNet(), ["data"]
    for index in range(rng.choice((0, 1, 2, 3))):
        names.append(made.fill(f"w{index}", array(rng, rng.choice(SHAPES), rng.choice(sorted(FILLS)))))
    made.init("ConstantFill", ["c"], shape=[2, 3], value=0.5)
    for index in range(rng.choice((1, 1, 2, 3))):
        type, args = drawn(rng, operator)
        inputs = [rng.choice((*names, "c")) for _ in range(rng.choice((0, 1, 1, 2, 3, 5)))]
        outputs = [f"y{index}{end}" for end in ("", "b", "c")[: rng.choice((1, 1, 1, 2, 3))]]
        made.op(
            type,
            inputs,
            outputs,
            **{key: one for key, one in args.items() if one != [] and key not in RESERVED},
        )
        names += outputs
    return built(lambda folder: made.write(folder, ("data",), (names[-1],)))


TEXT = """name: "n"
op { input: "data" input: "w" input: "b" output: "conv" type: "Conv" arg { name: "kernel" i: 3 }
     arg { name: "pads" ints: 1 ints: 1 ints: 1 ints: 1 } arg { name: "order" s: "NCHW" } }
op { input: "conv" output: "y" type: "Selu" arg { name: "scale" f: 1.5 } device_option { device_type: 1 } }
external_input: "data" external_output: "y"
"""


def seeds() -> Iterator[Files]:
    """Iterate over a network, its predict net binary or text."""
    made = TinyNet()
    made.fill("w", np.ones((2, 3, 3, 3), np.float32), packed=True)
    made.fill("b", np.ones(2, np.float32))
    made.op("Conv", ["data", "w", "b"], ["conv"], kernel=3, stride=1, pad=1, order="NCHW", name="conv")
    made.op("Relu", ["conv"], ["conv"]).op("MaxPool", ["conv"], ["p"], kernels=[2, 2]).op(
        "Softmax", ["p"], ["y"]
    )
    files = built(made.write)
    yield files
    yield {"predict_net.pbtxt": TEXT.encode(), "init_net.pb": files["init_net.pb"]}


def run(folder: Path, rng: random.Random) -> str:
    """Convert the net with its weights, for a shape of its input."""
    shape = rng.choice(SHAPES[1:]) if rng.random() < 0.7 else (1, 3, 8, 8)
    (net,) = folder.glob("predict_net.*")
    return convert(net, rng, {"data": shape}, weights=folder / "init_net.pb")


TARGETS = (Target("netdef", seeds, run, generate=operators),)
