"""Models of a corpus compiled and emulated for one SoC, ours beside theirs.

    python bench/htp_coverage.py models/ rows.csv
    python bench/htp_coverage.py models/ rows.csv --ours --only 'silero|ocr'
    python bench/htp_coverage.py models/ rows.csv --summary

The models are those of the corpus that onnxruntime runs and that have reference inputs; open dimensions are
those of the inputs.  Ours: conversion, the whole graph compiled, one run on the emulation.  Theirs:
onnxruntime-qnn's execution provider, with the fallback to the CPU off.  Each runs in a process of its own.

    right    the relative L2 error of each output against onnxruntime on the CPU is at most 2e-2
    off      some output has a larger one, or infinities and NaN in other places
    refused  an error that states why
    died     a signal, or no result in time

The file of rows is appended to, one row a model and side; what it has is not done again, unless ``--again``
is given, and the last row counts.  Ends with status 1 if a model is right there and not here, or our error
is more than 1e-3 and more than 1.2 times theirs.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from references import NoTensors, Reference, Row, rows, stored_reference
from workers import run

import xdlc

RIGHT = 2e-2
WORSE = 1.2
NOISE = 1e-3  # half precision: which of two errors below it is larger, the order of sums decides
SIDES = ("ours", "theirs")
VERDICTS = ("right", "off", "refused", "died")
FIELDS = ("model", "side", "verdict", "error", "seconds", "reason")


def judge(job: tuple[Row, str, str]) -> dict[str, Any]:
    """Run one model on one side; return verdict, largest error and reason."""
    row, side, soc = job
    try:
        reference = stored_reference(row.stored)
    except NoTensors as why:
        return {"verdict": "refused", "reason": f"not tensors of numbers: {why}"}
    try:
        with np.errstate(all="ignore"):
            results = (_ours if side == "ours" else _theirs)(row, reference, soc)
    except xdlc.XdlcError as error:
        verdict = "died" if type(error).__name__ == "ChildDiedError" else "refused"
        return {"verdict": verdict, "reason": f"{type(error).__name__}: {error}"}
    except Exception as error:  # onnxruntime has no base class for its errors
        if side == "ours":
            raise
        return {"verdict": "refused", "reason": f"{type(error).__name__}: {error}"}
    worst = max((distance(results[name], reference, name) for name in reference.outputs), default=0.0)
    return {"verdict": "right" if worst <= RIGHT else "off", "error": worst}


def distance(result: Any, reference: Reference, name: str) -> float:
    """Return the relative L2 error; infinite if shapes, infinities or NaN differ."""
    if result.shape != reference.shapes[name]:
        return math.inf
    result = result.astype(np.float64).reshape(-1)[:: reference.strides.get(name, 1)]
    expected = reference.outputs[name].astype(np.float64).reshape(-1)
    finite = np.isfinite(expected)
    if (
        not np.array_equal(result[~finite], expected[~finite], equal_nan=True)
        or not np.isfinite(result[finite]).all()
    ):
        return math.inf
    norm = np.linalg.norm(expected[finite])
    return float(np.linalg.norm(result[finite] - expected[finite]) / (norm or 1.0))


def _ours(row: Row, reference: Reference, soc: str) -> dict[str, Any]:
    feeds, expected = reference.feeds, reference.outputs
    model = xdlc.convert(row.path, input_dims={name: array.shape for name, array in feeds.items()})
    with xdlc.session(model, "htp", soc=soc) as session:
        results = session.run(feeds)
        if any(name in expected and expected[name].dtype != own.dtype for name, own in results.items()):
            stored = session.run(feeds, native=True)
            results = {
                name: stored[name] if name in expected and stored[name].dtype == expected[name].dtype else own
                for name, own in results.items()
            }
    return {name: results[f"{name}:0" if name not in results else name] for name in expected}


def _theirs(row: Row, reference: Reference, soc: str) -> dict[str, Any]:
    feeds, expected = reference.feeds, reference.outputs
    import onnx
    import onnxruntime
    import onnxruntime_qnn

    from xdlc.targets import find_soc

    target = find_soc(soc)
    proto = onnx.load(row.path)
    for value in proto.graph.input:
        if value.name in feeds:
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, feeds[value.name].shape, strict=False):
                dim.dim_value = size
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "QNN"]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    choices = {
        "backend_path": onnxruntime_qnn.get_qnn_htp_path(),
        "soc_model": str(target.id),
        "htp_arch": str(target.capabilities.number),
        "offload_graph_io_quantization": "0",
    }
    options.add_provider_for_devices(devices, choices)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(proto, path)
        session = onnxruntime.InferenceSession(str(path), options)
    return dict(zip(expected, session.run(list(expected), dict(feeds)), strict=True))


def measure(jobs: Sequence[tuple[Row, str, str]], seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the row of each job; a process of its own runs it."""
    for job in jobs:
        begun = time.monotonic()
        (outcome,) = run(judge, [job], processes=1, seconds=seconds)
        if outcome.end == "crashed" and "Traceback" in outcome.reason:
            raise RuntimeError(f"{job[0].name}: {outcome.reason}")
        result = outcome.result or {"verdict": "died", "reason": outcome.reason}
        yield {
            "model": job[0].name,
            "side": job[1],
            "error": "",
            "seconds": f"{time.monotonic() - begun:.1f}",
            "reason": "",
            **result,
        }


def read(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows by model and side, the last one of each."""
    if not path.is_file():
        return {}
    with open(path, newline="") as file:
        return {(entry["model"], entry["side"]): entry for entry in csv.DictReader(file)}


def report(verdicts: Mapping[tuple[str, str], Mapping[str, str]]) -> bool:
    """Print counts, and what is worse here; return whether nothing is."""
    print(f"{'':10}" + "".join(f"{verdict:>9}" for verdict in VERDICTS))
    for side in SIDES:
        counts = Counter(entry["verdict"] for (_, of), entry in verdicts.items() if of == side)
        print(f"{side:10}" + "".join(f"{counts[verdict]:>9}" for verdict in VERDICTS))
    only_theirs, worse = [], []
    for (name, side), ours in sorted(verdicts.items()):
        theirs = verdicts.get((name, "theirs"))
        if side != "ours" or theirs is None:
            continue
        line = f"  {name}: {ours['verdict']} {ours['error']} {ours['reason'][:160]}; theirs {theirs['error']}"
        if theirs["verdict"] == "right" and ours["verdict"] != "right":
            only_theirs.append(line)
        elif "" not in (ours["error"], theirs["error"]) and float(ours["error"]) > max(
            WORSE * float(theirs["error"]), NOISE
        ):
            worse.append(line)
    print("\nright there, not here:", *only_theirs or ["  none"], sep="\n")
    print(f"\nerror more than {WORSE} times theirs, and than {NOISE}:", *worse or ["  none"], sep="\n")
    return not only_theirs and not worse


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder of the corpus")
    parser.add_argument("rows", type=Path, help="CSV file of the rows, which is appended to")
    parser.add_argument("--soc", default="sm8650", help="SoC to compile for (default: sm8650)")
    parser.add_argument("--ours", action="store_true", help="run our side only")
    parser.add_argument("--theirs", action="store_true", help="run their side only")
    parser.add_argument("--only", default="", metavar="REGEX", help="only models whose name it is found in")
    parser.add_argument(
        "--not-right", action="store_true", help="only models that the rows have as not right"
    )
    parser.add_argument("--again", action="store_true", help="repeat what the file has")
    parser.add_argument("--summary", action="store_true", help="print what the file has, run nothing")
    parser.add_argument("--seconds", type=float, default=300.0, help="limit of one run (default: 300)")
    options = parser.parse_args()
    sides = [side for side in SIDES if getattr(options, side)] or SIDES
    verdicts = read(options.rows)
    jobs = [
        (row, side, options.soc)
        for side in sides
        for row in rows(options.corpus)
        if row.runs
        and row.stored.is_file()
        and re.search(options.only, row.name)
        and (options.again or (row.name, side) not in verdicts)
        and not (options.not_right and verdicts.get((row.name, side), {}).get("verdict") == "right")
    ]
    if not options.summary:
        with open(options.rows, "a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            if file.tell() == 0:
                writer.writeheader()
            for entry in measure(jobs, options.seconds):
                entry["reason"] = " ".join(str(entry["reason"]).split())[:600]
                writer.writerow(entry)
                file.flush()
                os.fsync(file.fileno())
    return int(not report(read(options.rows)))


if __name__ == "__main__":
    sys.exit(main())
