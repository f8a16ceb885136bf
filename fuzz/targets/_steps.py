"""Steps that targets share."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from fuzz.targets import Files


def built(write: Callable[[Path], object]) -> Files:
    """Return the files that a function writes to a folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def convert(path: Path, rng: random.Random, *dims: Any, **options: Any) -> str:
    """Convert, save, read and sometimes run a model; return the last stage."""
    model = xdlc.convert(path, *dims, notify=lambda _: None, **options)
    if rng.random() < 0.4:
        return "converted"
    return keep(model, path.parent / "out.dlc", rng)


def keep(model: xdlc.Model, path: Path, rng: random.Random) -> str:
    """Save a model, read it again and sometimes run it; return how far this came.

    Raises:
        AssertionError: If what was saved cannot be read.
    """
    xdlc.save(model, path, version=rng.choice(("4.1", "4.1", "4.0")))
    try:
        again = xdlc.load(path)
    except xdlc.XdlcError as error:
        raise AssertionError(f"a saved model is refused: {error}") from error
    return (run(again, rng) if rng.random() < 0.1 else "") or "saved"


def run(model: xdlc.Model, rng: random.Random) -> str:
    """Run a model on small inputs; return "ran", or "" if they are too large."""
    feeds = {}
    for tensor in model.main.inputs:
        shape = [2 if axis in tensor.dynamic_axes else size for axis, size in enumerate(tensor.shape)]
        if np.prod([float(size) for size in shape]) > 1 << 16:
            return ""
        kind = np.float32 if tensor.dtype.is_fixed else tensor.dtype.numpy
        feeds[tensor.name] = np.full(shape, rng.choice((0, 1)), kind)
    xdlc.run(model, feeds)
    return "ran"
