"""The vendor's verdicts on a corpus's DLCs, for ``corpus.py --vendor``."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from references import NoTensors, Reference, Row, reference_of
from workers import run

import xdlc

ROOT = Path(__file__).parents[1]
SOC = "SM8650"  # computes floats in half precision
RELATIVE_L2 = 1e-2
NATIVE = "qti.aisw"


def check(*words: object) -> dict[str, Any]:
    """Return what the checker answers; its path is in XDLC_VENDOR_CHECK."""
    command = [sys.executable, os.environ["XDLC_VENDOR_CHECK"], *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return dict(json.loads(done.stdout))


def vendor_compare() -> Any:
    """Return the module of the tests that compares our IR with the checker's answers."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module("tests.support.vendor_compare")


def judge(job: tuple[Row, str]) -> dict[str, Any]:
    """Return what the vendor's libraries make of one model.

    ``read`` is what its reader finds otherwise than we meant; ``accepted`` whether HTP takes every op;
    ``agreement`` the largest relative L2 error of an output of the emulation.  Each is absent if the
    step before failed, and all are if the model is refused or has ops that only the host runs.
    """
    row, bind = job
    try:
        reference = reference_of(row)
    except NoTensors:
        reference = None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.dlc"
        dims = {name: array.shape for name, array in reference.feeds.items()} if reference else None
        try:
            xdlc.convert(row.path, input_dims=dims if bind == "reference" else None).save(target)
        except xdlc.XdlcError:
            return {}
        model = xdlc.load(target)
        if any(op.package != NATIVE for graph in model.graphs.values() for op in graph.ops):
            return {}
        fields: dict[str, Any] = {"ops": len(list(model.main.ops)), "read": read_differences(target, model)}
        if reference and not fields["read"]:
            fields |= emulated(target, model, reference)
        if "agreement" not in fields:
            answer = check("validate", target, "--soc", SOC)
            fields |= {"accepted": answer["ok"], "refusal": answer["reason"]}
        return fields


def read_differences(path: Path, model: xdlc.Model) -> list[str]:
    """Return where the vendor's reader and our IR differ."""
    answer = check("read", path)
    if not answer["ok"]:
        return [answer["reason"]]
    theirs = {graph["name"]: graph for graph in answer["graphs"]}
    found: list[str] = []
    for name, graph in model.graphs.items():
        shown = theirs.get(re.sub(r"\W", "_", name)) or (answer["graphs"][0] if len(theirs) == 1 else None)
        found += vendor_compare().differences(graph, shown) if shown else [f"graph {name!r} is not there"]
    return found


def emulated(path: Path, model: xdlc.Model, reference: Reference) -> dict[str, Any]:
    """Return the emulation's error of each output, or why it failed."""
    given, taken = path.with_name("in.npz"), path.with_name("out.npz")
    names = vendor_compare().vendor_names(model.main)
    np.savez(given, **{names[tensor]: reference.feeds[tensor.name] for tensor in model.main.inputs})
    answer = check("run", path, "--soc", SOC, "--inputs", given, "--out", taken, "--float")
    if not answer["ok"]:
        return {"failure": answer["reason"]}
    errors = {}
    with np.load(taken) as arrays:
        for tensor, shown in zip(model.main.outputs, answer["outputs"], strict=True):
            errors[tensor.name] = _error(arrays[shown["name"]], reference, tensor.name)
    return {"accepted": True, "errors": errors, "agreement": max(errors.values(), default=0.0)}


def _error(found: Any, reference: Reference, name: str) -> float:
    expected, stride = reference.outputs[name].astype(np.float64).reshape(-1), reference.strides.get(name, 1)
    values = np.asarray(found, np.float64).reshape(-1)[::stride]
    if values.shape != expected.shape or not np.isfinite(values).all():
        return float("inf")
    return float(np.linalg.norm(values - expected) / (np.linalg.norm(expected) or 1.0))


def measure(
    models: Sequence[Row], bind: str, *, processes: int, seconds: float, memory: int
) -> Iterator[dict[str, Any]]:
    """Yield each model's name and what the vendor's libraries make of it."""
    jobs = [(row, bind) for row in models]
    for outcome in run(judge, jobs, processes=processes, seconds=seconds, memory=memory):
        failure = {"failure": f"{outcome.end}: {outcome.reason}"} if outcome.end else {}
        yield {"name": outcome.item[0].name, **failure, **(outcome.result or {})}


def agrees(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("agreement", float("inf")) <= RELATIVE_L2)


def report(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Print the figures and differences; return whether all files were read right."""
    native = [entry for entry in entries if "read" in entry]
    same = [entry for entry in native if not entry["read"]]
    accepted = [
        entry for entry in native if entry["accepted"] and ("agreement" in entry or "failure" in entry)
    ]
    close = [entry for entry in accepted if agrees(entry)]
    print(f"\nDLCs of {NATIVE} ops only: {len(native)} of {len(entries)} models")
    print(f"  read by the vendor's library and equal to ours: {_share(len(same), len(native))}")
    print(f"  every op accepted by HTP of {SOC}: {_share(sum(e['accepted'] for e in native), len(native))}")
    print(f"  and run with reference data, relative L2 error <= {RELATIVE_L2:g}: ", end="")
    print(_share(len(close), len(accepted)))
    for entry in native:
        if entry["read"]:
            print(f"\nread otherwise: {entry['name']}")
            print("\n".join(f"    {line}" for line in entry["read"][:5]))
    for entry in accepted:
        if not agrees(entry):
            why = entry.get("failure") or ", ".join(f"{n} {e:.3g}" for n, e in entry["errors"].items())
            print(f"\ndisagrees: {entry['name']}: {why}")
    for entry in entries:
        if "failure" in entry and "read" not in entry:
            print(f"\nfailed: {entry['name']}: {entry['failure']}")
    print("\nnot accepted by HTP:")
    for reason, count in Counter(_brief(e["refusal"]) for e in native if not e["accepted"]).most_common():
        print(f"{count:5}  {reason}")
    return len(same) == len(native)


def _brief(reason: str) -> str:
    return re.sub(r"'[^']*'", "'...'", " ".join(reason.split()))[:160]


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "0 of 0"
