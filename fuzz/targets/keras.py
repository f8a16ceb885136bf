"""Keras models: archives, and older files of HDF5."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from fuzz.targets import Files, Target
from fuzz.targets._steps import built, convert
from fuzz.targets._sweep import SHAPES, array, drawn
from tests.converter.keras.keras_files import archive, call, entry, functional, layer, legacy, ref
from xdlc.converter.keras.handling import handler

HELD = {"layers/dense": [np.ones((4, 3), np.float32), np.ones(3, np.float32)]}


def layers(rng: random.Random) -> Files:
    """Return a model of a few layers: options, inputs and weights of any number and type."""
    made, names = [entry("x", *rng.choice(SHAPES))], ["x"]
    weights = {}
    for index in range(rng.choice((1, 1, 2, 3))):
        type, config = drawn(rng, handler, "units", "filters", "kernel_size", "strides")
        config.pop("name", None)
        inputs = [rng.choice(names) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        inbound = call(*inputs) if rng.random() < 0.8 else call([*map(ref, inputs)])
        one = layer(type, f"l{index}", [inbound])
        one["config"] |= config
        made.append(one)
        names.append(f"l{index}")
        arrays = [array(rng, rng.choice(SHAPES[1:]), "float32") for _ in range(rng.choice((0, 1, 2, 3)))]
        weights[f"layers/{type.lower()}{'_1' * (index > 0)}"] = arrays
    model = functional(made, ["x"], [names[-1]])
    return built(lambda folder: archive(folder / "m.keras", model, weights))


def plain() -> dict[str, object]:
    """Return a model with convolution, normalization and a product."""
    return functional(
        [
            entry("x", None, 4),
            layer("Dense", "d", [call("x")], units=3, activation="relu"),
            layer("Reshape", "r", [call("d")], target_shape=[3, 1]),
            layer("LayerNormalization", "n", [call("r")], axis=[2], epsilon=1e-3, center=False, scale=False),
            layer("Softmax", "s", [call("n")], axis=-1),
        ],
        ["x"],
        ["s"],
    )


def archives() -> Iterator[Files]:
    """Iterate over archives."""
    yield built(lambda folder: archive(folder / "m.keras", plain(), HELD))


def older() -> Iterator[Files]:
    """Iterate over files of HDF5."""
    weights = {"d": dict(zip(("d/kernel:0", "d/bias:0"), HELD["layers/dense"], strict=True))}
    yield built(lambda folder: legacy(folder / "m.h5", plain(), weights))


TARGETS = (
    Target(
        "keras", archives, lambda folder, rng: convert(folder / "m.keras", rng, {"x": [1, 4]}), (), layers
    ),
    Target("hdf5", older, lambda folder, rng: convert(folder / "m.h5", rng, {"x": [1, 4]})),
)
