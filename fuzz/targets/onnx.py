"""ONNX models, with weights beside them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from fuzz.targets import Files, Target
from fuzz.targets._steps import built, convert
from fuzz.targets._sweep import SHAPES, TYPES, array, value
from tests.support.onnx_models import build, node

W = np.ones((2, 3, 3, 3), np.float32) / 9
FLOAT, STRING = onnx.AttributeProto.FLOAT, onnx.AttributeProto.STRING


@cache
def schemas() -> list[Any]:
    """Return the operators of all domains and versions."""
    return sorted(onnx.defs.get_all_schemas_with_history(), key=lambda one: (one.name, one.since_version))


def network() -> Any:
    """Return a network with convolution, quantization and a loop."""
    loop = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["s", "s"], ["t"])],
        "body",
        [helper.make_tensor_value_info(*one) for one in (("i", 7, []), ("c", 9, []), ("s", 1, [1, 2, 4, 4]))],
        [helper.make_tensor_value_info(*one) for one in (("d", 9, []), ("t", 1, [1, 2, 4, 4]))],
    )
    nodes = [
        node("Conv", "x w b", "conv", pads=[1, 1, 1, 1]),
        node("MaxPool", "conv", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("QuantizeLinear", "pool s z", "q"),
        node("DequantizeLinear", "q s z", "dq"),
        helper.make_node("Loop", ["m", "k", "dq"], ["l"], body=loop),
        node("Reshape", "l shape", "y"),
    ]
    scale, size, zero = np.array(0.1, np.float32), np.array([1, -1]), np.array(128, np.uint8)
    constants: dict[str, Any] = {"w": W, "b": W[0, 0, 0, :2], "s": scale, "z": zero}
    constants |= {"m": np.array(2), "k": np.array(True), "shape": size}
    return build(nodes, {"x": np.ones((1, 3, 8, 8), np.float32)}, constants, ["y"], 17)


def operators(rng: random.Random) -> Files:
    """Return a model of a few operators with any inputs and attributes."""
    nodes: list[Any] = []
    feeds: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    shape, names = rng.choice(SHAPES), [""]
    for index in range(rng.choice((1, 2, 3, 5))):
        own = shape if rng.random() < 0.6 else rng.choice(SHAPES)
        (weights if rng.random() < 0.6 else feeds)[f"x{index}"] = array(rng, own, rng.choice(TYPES))
        names.append(f"x{index}")
    opset = rng.choice((7, 11, 13, 17, 18, 21))
    for index in range(rng.choice((1, 1, 2, 3))):
        schema = rng.choice(schemas())
        attributes: dict[str, Any] = {}
        for key, one in schema.attributes.items():
            if one.required or rng.random() < 0.4:
                made = value(rng, ("linear", "constant", "SAME_UPPER", "ij,jk->ik", "float"))
                made = float(made) if one.type == FLOAT and isinstance(made, int) else made
                attributes[key] = str(made) if one.type == STRING and rng.random() < 0.5 else made
        count = rng.choice((schema.min_input, schema.min_input, min(schema.max_input, 6), rng.randrange(5)))
        outputs = [f"n{index}_{number}" for number in range(rng.choice((1, 1, 1, 2, 3)))]
        inputs = [rng.choice(names) for _ in range(count)]
        try:
            nodes.append(helper.make_node(schema.name, inputs, outputs, domain=schema.domain, **attributes))
        except (TypeError, ValueError):  # an empty list has no type
            nodes.append(helper.make_node(schema.name, inputs, outputs, domain=schema.domain))
        names += outputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build(nodes, feeds, weights, [names[-1]], opset)
    return {"m.onnx": model.SerializeToString()}


def seeds() -> Iterator[Files]:
    """Iterate over a network with its weights inside and beside it."""
    yield {"m.onnx": network().SerializeToString()}
    beside: dict[str, Any] = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    yield built(lambda folder: onnx.save(network(), folder / "m.onnx", **beside))


def run(folder: Path, rng: random.Random) -> str:
    """Convert the model."""
    return convert(folder / "m.onnx", rng)


TARGETS = (Target("onnx", seeds, run, generate=operators),)
