"""Archives of small models of one operator each, with recorded inputs and outputs."""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from xdlc.errors import XdlcError


@dataclass(frozen=True, slots=True)
class Case:
    """A model of the archive.

    Attributes:
        name: Its name.
        model: The file, or the folder of a SavedModel.
        tolerance: ``rtol`` and ``atol`` (a share of the largest element), or ``steps`` of integers and
            ``frac``, the share of elements that may be further off.
        inputs: Recorded inputs by name.
        outputs: Recorded outputs by name, in the model's order.
        encodings: Scale and zero point of outputs; scale 0 for none.
    """

    name: str
    model: Path
    tolerance: dict[str, float]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    encodings: dict[str, Any]


def cases(archive: Path, folder: Path) -> Iterator[Case]:
    """Unpack an archive into a folder and iterate over its cases."""
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    (index,) = folder.rglob("index.csv")
    with index.open(newline="") as table:
        rows = list(csv.DictReader(table))
    for row in rows:
        model, data = row["files"].split(";")[:2]
        kinds: dict[str, dict[str, Any]] = {"in": {}, "out": {}, "q": {}}
        with np.load(index.parent / data) as arrays:
            for key in arrays.files:
                kind, _, name = key.partition("::")
                kinds[kind][name.replace("|", "/")] = arrays[key]
        tolerance = dict(part.split("=") for part in row["tolerance"].split(";") if "=" in part)
        limits = {key: float(value) for key, value in tolerance.items()}
        yield Case(row["name"], index.parent / model, limits, kinds["in"], kinds["out"], kinds["q"])


def verdict(case: Case) -> str:
    """Return ``right``, ``refused``, or the fault in a converted model's outputs."""
    try:
        model = xdlc.convert(case.model)
    except XdlcError:
        return "refused"
    found = xdlc.run(model, case.inputs)
    for name, want in case.outputs.items():
        have = found.get(name, found.get(f"{name}:0"))
        if have is None:
            return f"there is no output {name!r}"
        problem = _difference(np.asarray(have), want, case.encodings.get(name), case.tolerance)
        if problem:
            return f"{name}: {problem}"
    return "right"


def _difference(have: Any, want: Any, encoding: Any, limits: dict[str, float]) -> str:
    if have.size != want.size or np.squeeze(have).shape != np.squeeze(want).shape:
        return f"shape {have.shape} for {want.shape}"
    have = have.reshape(want.shape)
    is_encoded = encoding is not None and len(encoding) == 2 and encoding[0] > 0
    if is_encoded and have.dtype.kind == "f" and want.dtype.kind in "iu":
        ends = np.iinfo(want.dtype)
        have = np.clip(np.round(have / encoding[0]) + encoding[1], ends.min, ends.max)
    if not want.size:
        return ""
    if want.dtype.kind in "iub":
        off = np.abs(have.astype(np.float64) - want.astype(np.float64)) > limits.get("steps", 0)
        return f"{off.sum()} of {off.size} differ" if off.mean() > limits.get("frac", 0) else ""
    have, want = have.astype(np.float64), want.astype(np.float64)
    odd = ~np.isfinite(want)
    if not np.array_equal(have[odd], want[odd], equal_nan=True):
        return "other infinities"
    largest = float(np.abs(want[~odd]).max(initial=0)) or 1.0
    allowed = limits.get("atol", 1e-5) * largest + limits.get("rtol", 1e-4) * np.abs(want[~odd])
    error = np.abs(have[~odd] - want[~odd])
    return "" if (error <= allowed).all() else f"an error of {error.max() / largest:.2g}"
