"""Keras models: archives, and older files of HDF5."""

from __future__ import annotations

import random

from fuzz.targets import Files, Target
from fuzz.targets._steps import built, convert
from fuzz.targets._sweep import SHAPES, array, drawn
from tests.converter.keras.keras_files import archive, call, entry, functional, layer, legacy, ref
from tests.hostile.test_keras import HELD, plain
from xdlc.converter.keras.registry import handler


def layers(rng: random.Random) -> Files:
    """Return a model of a few layers with any options, inputs and weights."""
    entries, names = [entry("x", *rng.choice(SHAPES))], ["x"]
    weights = {}
    for index in range(rng.choice((1, 1, 2, 3))):
        type, config = drawn(rng, handler, "units", "filters", "kernel_size", "strides")
        config.pop("name", None)
        inputs = [rng.choice(names) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        inbound = call(*inputs) if rng.random() < 0.8 else call([*map(ref, inputs)])
        one = layer(type, f"l{index}", [inbound])
        one["config"] |= config
        entries.append(one)
        names.append(f"l{index}")
        arrays = [array(rng, rng.choice(SHAPES[1:]), "float32") for _ in range(rng.choice((0, 1, 2, 3)))]
        weights[f"layers/{type.lower()}{'_1' * (index > 0)}"] = arrays
    model = functional(entries, ["x"], [names[-1]])
    return built(lambda folder: archive(folder / "m.keras", model, weights))


def older() -> list[Files]:
    """Return a file of HDF5."""
    weights = {"d": dict(zip(("d/kernel:0", "d/bias:0"), HELD["layers/dense"], strict=True))}
    return [built(lambda folder: legacy(folder / "m.h5", plain(), weights))]


def archives() -> list[Files]:
    """Return an archive."""
    return [built(lambda folder: archive(folder / "m.keras", plain(), HELD))]


TARGETS = (
    Target(
        "keras", archives, lambda folder, rng: convert(folder / "m.keras", rng, {"x": [1, 4]}), (), layers
    ),
    Target("hdf5", older, lambda folder, rng: convert(folder / "m.h5", rng, {"x": [1, 4]})),
)
