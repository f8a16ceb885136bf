"""A corpus of ONNX models, each converted, stored, read back, run and compared.

    python bench/corpus.py models/
    python bench/corpus.py --bind none --filter 'silero|ocr' --reasons --json out.json

The corpus is a folder with a MANIFEST.csv: its columns ``file`` and ``run_check`` name the models and
say whether onnxruntime runs them.  Reference data are those beside the model (``NAME.ortref.npz``); where
there are none and onnxruntime runs the model, it does so here, on seeded inputs.

    right      every output is the reference's
    wrong      it runs, but some output differs
    refused    an error that says why
    crashed    anything else: a traceback, a dead process, more memory than allowed
    timeout    not done within the time limit
    unchecked  converted; onnxruntime does not run it, so that nothing can be compared

Open dimensions are bound to those of the reference inputs, or left open (``--bind none``).

Outputs must have the reference's names, order, shapes and dtypes, and infinities and NaN in the same
places.  Floats are right if the relative L2 error of an output is at most 1e-3, or if each element is
within 1e-4 + 1e-3 times the reference; integers and booleans if they are equal.  No model has a tolerance
of its own, quantized ones and those in half precision included.  An output that the DLC holds in fixed
point is read as the model gives it: as stored integers, or as the numbers that they stand for.  Models
that draw random numbers are unchecked if onnxruntime does not meet its own reference a second time.

Ends with status 1 if any model is wrong, crashed or timed out.

With --vendor, the DLCs that hold only QNN's own ops go to the vendor's libraries (XDLC_VENDOR_CHECK names
the checker): do they read what we meant, does HTP take every op, and does its emulation, which computes
in half precision, give onnxruntime's numbers with a relative L2 error of at most 1e-2.  Status 1 then says
that something was read otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import corpus_vendor
import numpy as np
from references import NoTensors, Reference, Row, differences, is_random, reference_of, rows, run_as
from tqdm import tqdm
from workers import grouped, run

import xdlc

VERDICTS = ("right", "wrong", "refused", "crashed", "timeout", "unchecked")
GIGABYTE = 1 << 30


def judge(job: tuple[Row, str]) -> dict[str, Any]:
    """Convert, save, load, run and compare one model; return the verdict and why."""
    row, bind = job
    started = time.monotonic()
    entry: dict[str, Any] = {"why_not": ""}
    try:
        reference = reference_of(row)
        entry["why_not"] = "" if reference else "onnxruntime does not run it"
    except NoTensors as why:
        reference, entry["why_not"] = None, f"not tensors of numbers: {why}"
    try:
        with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
            entry |= _verdict(row, reference, bind, Path(folder) / "model.dlc")
    except xdlc.XdlcError as error:
        entry |= {"verdict": "refused", "reason": reason_of(error)}
    return entry | {"seconds": time.monotonic() - started}


def _verdict(row: Row, reference: Reference | None, bind: str, target: Path) -> dict[str, Any]:
    dims = None
    if reference and bind == "reference":
        dims = {name: array.shape for name, array in reference.feeds.items()}
    xdlc.convert(row.path, input_dims=dims).save(target)
    model = xdlc.load(target)
    ops = [op for graph in model.graphs.values() for op in graph.ops]
    fields: dict[str, Any] = {"ops": len(ops), "packages": sorted({op.package for op in ops})}
    if reference is None:
        return fields | {"verdict": "unchecked", "reason": ""}
    dtypes = {name: array.dtype for name, array in reference.outputs.items()}
    results = run_as(model, reference.feeds, dtypes)
    problems, errors = differences(results, reference)
    if problems and is_random(row, reference):
        return fields | {"verdict": "unchecked", "reason": "", "why_not": "draws random numbers"}
    return fields | {
        "verdict": "wrong" if problems else "right",
        "reason": "; ".join(problems),
        "errors": errors,
    }


def reason_of(error: xdlc.XdlcError) -> str:
    """Return the problems that an error lists, without the places where they are."""
    problems = getattr(error, "problems", None) or [error]
    return "; ".join(dict.fromkeys(f"{type(each).__name__}: {each.problem}" for each in problems))


def measure(
    models: Sequence[Row], bind: str, *, processes: int, seconds: float, memory: int
) -> Iterator[dict[str, Any]]:
    """Yield each model's name, whether onnxruntime runs it, and the verdict."""
    jobs = [(row, bind) for row in models]
    for outcome in run(judge, jobs, processes=processes, seconds=seconds, memory=memory):
        row = outcome.item[0]
        result = outcome.result or {"verdict": outcome.end, "reason": outcome.reason, "seconds": None}
        yield {"name": row.name, "runs": row.runs, **result}


def report(entries: Sequence[Mapping[str, Any]], *, reasons: bool) -> None:
    """Print counts, what is wrong, then the refusals if requested."""
    print(f"\n{'':22}" + "".join(f"{verdict:>10}" for verdict in VERDICTS))
    for title, runs in (("onnxruntime runs", True), ("onnxruntime does not", False)):
        counts = Counter(entry["verdict"] for entry in entries if entry["runs"] == runs)
        print(f"{title:22}" + "".join(f"{counts[verdict]:>10}" for verdict in VERDICTS))
    running = [entry for entry in entries if entry["runs"]]
    comparable = [entry for entry in running if not entry.get("why_not")]
    right = sum(entry["verdict"] == "right" for entry in comparable)
    for title, whole in (
        ("all that onnxruntime runs", running),
        ("those of tensors, without random numbers", comparable),
    ):
        if whole:
            print(f"{title}: {right} of {len(whole)} right ({right / len(whole):.1%})")
    for verdict in VERDICTS[1:]:
        if verdict in ("refused", "unchecked") and not reasons:
            continue
        which = {
            entry["name"]: (entry["reason"] or entry["why_not"]).strip()
            for entry in entries
            if entry["verdict"] == verdict
        }
        for reason, names in grouped(which):
            print(f"\n{verdict}: {len(names)} of {len(which)}")
            print(textwrap.indent(reason, "    "))
            print(textwrap.indent("\n".join(names), "        "))
    slow = sorted((entry for entry in entries if entry["seconds"]), key=lambda entry: -entry["seconds"])
    print(
        "\nslowest: "
        + ", ".join(f"{Path(entry['name']).name} {entry['seconds']:.1f} s" for entry in slow[:5])
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", nargs="?", type=Path, help="folder of the corpus (default: $XDLC_CORPUS)")
    parser.add_argument("--bind", choices=("reference", "none"), default="reference")
    parser.add_argument("--vendor", action="store_true", help="ask the vendor's libraries instead")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only models whose name it is found in")
    parser.add_argument("--reasons", action="store_true", help="list the refused models, by reason")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts, one entry a model")
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one model (default: 60)")
    parser.add_argument("--memory", type=float, default=4.0, help="limit of one process in GB (default: 4)")
    options = parser.parse_args()
    corpus = options.corpus or os.environ.get("XDLC_CORPUS")
    if not corpus:
        parser.error("name the corpus, or set XDLC_CORPUS")
    models = [row for row in rows(Path(corpus)) if re.search(options.filter, row.name)]
    if options.vendor and "XDLC_VENDOR_CHECK" not in os.environ:
        parser.error("--vendor needs the checker's path in XDLC_VENDOR_CHECK")
    progress = tqdm(
        (corpus_vendor.measure if options.vendor else measure)(
            models,
            options.bind,
            processes=options.processes,
            seconds=options.seconds,
            memory=int(options.memory * GIGABYTE),
        ),
        total=len(models),
        disable=None,
    )
    entries = sorted(progress, key=lambda entry: entry["name"])
    if options.json:
        options.json.write_text(json.dumps(entries, indent=1) + "\n")
    if options.vendor:
        return int(not corpus_vendor.report(entries))
    report(entries, reasons=options.reasons)
    return int(any(entry["verdict"] in ("wrong", "crashed", "timeout") for entry in entries))


if __name__ == "__main__":
    sys.exit(main())
