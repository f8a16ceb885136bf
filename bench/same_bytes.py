"""Digests of converted, quantized and prepared DLCs of a corpus, stored or compared with stored ones.

    python bench/same_bytes.py models/ --out before.json
    python bench/same_bytes.py models/ --compare before.json

Takes 60 ONNX models of the corpus that onnxruntime runs and that have at most 20 MB, spread evenly over
the manifest.  Each is converted for the shapes of its reference inputs, quantized with them as the only
sample (8-bit weights; 8-bit and 16-bit activations), and the 8-bit DLC is prepared for one SoC, twice: the
vendor's compiler does not return the same bytes for every network, which is recorded as "varies".  A stage
that refuses is recorded by the class of its error.  Ends with status 1 if a digest differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from references import NoTensors, Row, reference_of, rows
from tqdm import tqdm
from workers import run

import xdlc

COUNT, LARGEST = 60, 20_000_000
SOC = "sm8650"
STAGES = ("converted", "W8A8", "W8A16", "prepared")


def chosen(corpus: Path) -> list[Row]:
    """Return the models, spread evenly over the manifest."""
    small = [row for row in rows(corpus) if row.runs and row.path.stat().st_size <= LARGEST]
    return [small[number * len(small) // COUNT] for number in range(COUNT)]


def digests(row: Row) -> dict[str, str]:
    """Return the SHA-256 of each stage's DLC, or the class of the error that ended it."""
    stages = dict.fromkeys(STAGES, "-")
    try:
        reference = reference_of(row)
    except NoTensors:
        reference = None
    dims = {name: array.shape for name, array in reference.feeds.items()} if reference else None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.dlc"

        def store(stage: str, make: Any) -> Path | None:
            try:
                make().save(target.with_name(f"{stage}.dlc"))
            except xdlc.XdlcError as error:
                stages[stage] = type(error).__name__
                return None
            path = target.with_name(f"{stage}.dlc")
            stages[stage] = hashlib.sha256(path.read_bytes()).hexdigest()
            return path

        converted = store("converted", lambda: xdlc.convert(row.path, input_dims=dims))
        if converted is None or reference is None:
            return stages
        samples = [reference.feeds]
        eight = store("W8A8", lambda: xdlc.quantize(converted, samples))
        store("W8A16", lambda: xdlc.quantize(converted, samples, act_bitwidth=16))
        if eight is not None and store("prepared", lambda: xdlc.prepare(eight, [SOC], jobs=1)):
            first = stages["prepared"]
            store("prepared", lambda: xdlc.prepare(eight, [SOC], jobs=1))
            if stages["prepared"] != first:
                stages["prepared"] = "varies"
    return stages


def measure(models: list[Row], processes: int) -> dict[str, dict[str, str]]:
    """Return the digests of each model by name."""
    results: dict[str, dict[str, str]] = {}
    with tqdm(total=len(models), unit="model", disable=not sys.stderr.isatty()) as bar:
        for outcome in run(digests, models, processes=processes, seconds=600):
            results[outcome.item.name] = outcome.result or {"failed": f"{outcome.end}: {outcome.reason}"}
            bar.update()
    return dict(sorted(results.items()))


def differing(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """Return a line for each digest that differs."""
    lines = []
    for name in sorted({*before, *after}):
        one, other = before.get(name, {}), after.get(name, {})
        lines += [
            f"{name}: {stage}: {one.get(stage, 'none')[:16]} -> {other.get(stage, 'none')[:16]}"
            for stage in {**one, **other}
            if one.get(stage) != other.get(stage)
        ]
    return lines


def main() -> int:
    """Measure, store or compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, help="store the digests here")
    parser.add_argument("--compare", type=Path, help="digests stored before")
    parser.add_argument("--filter", default="", help="only models whose name contains this")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    models = [row for row in chosen(options.corpus) if options.filter in row.name]
    measured = measure(models, options.processes)
    files = sum(len(digest) == 64 for each in measured.values() for digest in each.values())
    print(f"{len(measured)} models, {files} files")
    if options.out is not None:
        options.out.write_text(json.dumps(measured, indent=1) + "\n")
    if options.compare is None:
        return 0
    before = json.loads(options.compare.read_text())
    lines = differing({name: each for name, each in before.items() if options.filter in name}, measured)
    print("\n".join(lines) or "all digests are equal")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
