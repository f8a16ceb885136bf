"""TensorFlow Lite models."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.targets import Files, Target
from fuzz.targets._steps import convert
from tests.converter.tflite.flexbuffer_writer import flexbuffer
from tests.converter.tflite.models import TinyModel
from tests.hostile.tflite_cases import small_bytes
from xdlc.container.flatbuffer_encode import encode
from xdlc.converter.tflite.file import NAMES, options_of

SHAPES = ((4,), (2, 3), (1, 4, 4, 2), (1, 2, 2, 2, 2))
CUSTOM = (
    "TFLite_Detection_PostProcess",
    "Convolution2DTransposeBias",
    "MaxPoolingWithArgmax2D",
    "FlexErf",
    "Mine",
)


def operator(rng: random.Random) -> Files:
    """Return a model of one operator with any inputs, some constant."""
    model, name = TinyModel(), rng.choice((*NAMES, *CUSTOM))
    options: dict[str, Any] = {}
    shape = rng.choice(SHAPES)
    inputs, outputs, fed = [], [], []
    for index in range(rng.choice((1, 1, 2, 2, 3, 3, 4, 5))):
        dtype = rng.choice((np.float32,) * 6 + (np.int32, np.int32, np.int8, np.uint8, np.int64, np.bool_))
        scale = 0.1 if np.dtype(dtype).itemsize == 1 and rng.random() < 0.8 else None
        own = shape if rng.random() < 0.7 else rng.choice(((), (1,), (2,), (shape[-1],), (4,), *SHAPES))
        if index and rng.random() < 0.6:
            data = np.random.default_rng(index).integers(0, 3, own)
            inputs.append(model.tensor(f"c{index}", data=data, dtype=dtype, scale=scale))
        else:
            inputs.append(model.tensor(f"x{index}", own, dtype, scale=scale))
            fed.append(inputs[-1])
    inputs = [-1 if rng.random() < 0.05 else each for each in inputs]
    for index in range(rng.choice((1, 1, 1, 2, 4))):
        outputs.append(
            model.tensor(f"y{index}", rng.choice((shape, shape, *SHAPES)), rng.choice((np.float32, np.int32)))
        )
    found = options_of(name)
    for field in found.FIELDS if found else ():
        if field.kind in ("int", "byte", "ubyte", "uint") and rng.random() < 0.8:
            options[field.name] = rng.choice((0, 1, 1, 2, 3))
    blob = flexbuffer({"axis": 1, "num_classes": 2, "max_detections": 3}) if name in CUSTOM else None
    model.op(name, inputs, outputs, blob, **options)
    model.graphs[0].inputs, model.graphs[0].outputs = fed, outputs
    for _ in range(2):  # branches and bodies
        model.begin()
        x = model.tensor("a", shape)
        model.op("RELU", [x], [y := model.tensor("b", shape)])
        model.graph.inputs, model.graph.outputs = [x], [y]
    return {"m.tflite": bytes(encode(model.build()))}


def seeds() -> Iterator[Files]:
    """Iterate over a network."""
    yield {"m.tflite": small_bytes()}


def run(folder: Path, rng: random.Random) -> str:
    """Convert the model."""
    return convert(folder / "m.tflite", rng)


TARGETS = (Target("tflite", seeds, run, generate=operator),)
