"""Layers of format 3, as models in text form, and their translation."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

from fuzz.targets import Files, Target
from fuzz.targets._steps import keep
from fuzz.targets._sweep import SHAPES, array, value, words
from tests.converter.snpe.test_layers import Net, window
from xdlc import ir
from xdlc.api import executable
from xdlc.converter.snpe.registry import load_all


def layers(rng: random.Random) -> Files:
    """Return a net of a few layers: attributes and weights of any number and type."""
    net = Net(*rng.choice(SHAPES[1:]))
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind, function = rng.choice(sorted(load_all().items()))
        known = words(function.__module__)
        given = {rng.choice(known): value(rng, known) for _ in range(rng.choice((0, 2, 5, 9)))}
        given |= window() if rng.random() < 0.3 else {}
        held = {
            name: array(rng, rng.choice(SHAPES[1:]), "float32")
            for name in rng.choice(((), ("weights", "bias")))
        }
        with contextlib.suppress(TypeError, ValueError, OverflowError, IndexError):  # values without a form
            net.layer(kind, [rng.choice(SHAPES[1:]) for _ in range(rng.choice((1, 1, 2)))], given, **held)
    return {"m.txt": ir.to_text(net.model(), data="inline").encode()}


def run(folder: Path, rng: random.Random) -> str:
    """Translate the layers, and save what they become."""
    model = ir.parse((folder / "m.txt").read_bytes().decode("utf-8", "surrogatepass"))
    made = executable(model)
    return keep(made, folder / "m.dlc", rng) if made.main.ops else "translated"


TARGETS = (Target("snpe", list, run, generate=layers),)
