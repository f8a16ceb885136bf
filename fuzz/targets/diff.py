"""Differences of damaged DLCs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import xdlc
from fuzz.targets import Finding, Target
from fuzz.targets.dlc import files, models
from xdlc.diff import diff


def compare(folder: Path, rng: random.Random) -> str:
    """Compare a container with itself, and with a model."""
    path = folder / "m.dlc"
    model = xdlc.load(path)
    itself = diff(model, xdlc.load(path))
    if not itself.is_equal:
        kinds = itself.summary[-1]
        raise Finding("not equal to itself", kinds.partition(" ")[0], kinds)
    pair = [model, rng.choice(models())]
    rng.shuffle(pair)
    result = diff(*pair)
    json.dumps([result.as_dict(), result.for_page(), [*result.lines()], [*result.rows()]])
    return "equal" if result.is_equal else "different"


TARGETS = [Target("diff-dlc", files, compare)]
