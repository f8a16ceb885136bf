"""A corpus of ONNX models: each converted, written as a DLC, read back, run and compared.

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
of its own, quantized ones and those in half precision included.  Models that draw random numbers are
unchecked if onnxruntime does not meet its own reference a second time.

Ends with status 1 if any model is wrong, crashed or timed out.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm
from workers import grouped, run

import xdlc

VERDICTS = ("right", "wrong", "refused", "crashed", "timeout", "unchecked")
RELATIVE_L2 = 1e-3
RELATIVE, ABSOLUTE = 1e-3, 1e-4
GIGABYTE = 1 << 30
# Extents for open dimensions of models without reference inputs: the first set that onnxruntime takes.
EXTENTS = ((2, 3, 5, 7, 11, 13), (4,), (8,), (1,), (32,))


@dataclass(frozen=True)
class Row:
    """A model of the manifest."""

    name: str
    path: Path
    runs: bool

    @property
    def stored(self) -> Path:
        return self.path.with_suffix(".ortref.npz")


@dataclass
class Reference:
    """Inputs, and what onnxruntime gives for them; of a large output only every n-th element."""

    feeds: dict[str, Any]
    outputs: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    strides: dict[str, int]


class NoTensors(Exception):
    """A model whose inputs or outputs are not all tensors of numbers."""


def rows(corpus: Path) -> list[Row]:
    """Return the manifest's ONNX models."""
    with open(corpus / "MANIFEST.csv", newline="") as file:
        entries = [entry for entry in csv.DictReader(file) if entry["file"].endswith(".onnx")]
    return [
        Row(
            entry["file"].removesuffix(".onnx"),
            corpus / entry["file"],
            entry["run_check"].startswith("ORT CPU runs"),
        )
        for entry in entries
        if entry["framework"] == "onnx"
    ]


def stored_reference(path: Path) -> Reference:
    """Return reference data as the corpus keeps them: ``in::NAME``, ``out::NAME``."""
    found = Reference({}, {}, {}, {})
    with np.load(path) as arrays:
        for key in arrays.files:
            kind, _, name = key.partition("::")
            name = name.replace("|", "/")
            try:
                array = arrays[key]
            except ValueError as error:  # an array of Python objects
                raise NoTensors(f"{name!r} is a sequence, sparse or of strings") from error
            if kind == "in":
                found.feeds[name] = array
            elif kind == "outshape":
                found.shapes[name] = tuple(map(int, array))
            elif kind == "out":
                found.outputs[name] = array
                found.shapes[name] = array.shape
            elif every := re.fullmatch(r"outflat_every(\d+)", kind):
                found.outputs[name], found.strides[name] = array, int(every[1])
    return found


NUMPY_TYPES = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "bool": np.bool_,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def open_session(path: Path) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def live_reference(path: Path) -> Reference:
    """Return what onnxruntime makes of a model on seeded inputs."""
    session = open_session(path)
    for value in (*session.get_inputs(), *session.get_outputs()):
        if not value.type.startswith("tensor(") or value.type == "tensor(string)":
            raise NoTensors(f"{value.name!r} is a {value.type}")
    names = [value.name for value in session.get_outputs()]
    for extents in EXTENTS:
        feeds = made_inputs(session.get_inputs(), extents)
        try:
            results = session.run(names, feeds)
        except Exception as error:  # onnxruntime has no base class for its errors
            last = error
            continue
        outputs = dict(zip(names, results, strict=True))
        return Reference(feeds, outputs, {name: array.shape for name, array in outputs.items()}, {})
    raise last


def made_inputs(values: Sequence[Any], extents: Sequence[int]) -> dict[str, Any]:
    """Return normal numbers, small integers and booleans; each open dimension has its own extent."""
    rng = np.random.default_rng(0)
    symbols: dict[Any, int] = {}
    feeds = {}
    for value in values:
        shape = [
            extent
            if isinstance(extent, int)
            else symbols.setdefault(extent or (value.name, axis), extents[len(symbols) % len(extents)])
            for axis, extent in enumerate(value.shape)
        ]
        dtype = np.dtype(NUMPY_TYPES[value.type[7:-1]])
        array = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
        feeds[value.name] = np.asarray(array).astype(dtype)
    return feeds


def error_of(found: Any, expected: Any, shape: tuple[int, ...], stride: int) -> tuple[float, str]:
    """Return an output's relative L2 error, and what is wrong with it, if anything."""
    if found.shape != shape:
        return np.inf, f"shape {list(found.shape)} instead of {list(shape)}"
    if found.dtype != expected.dtype:
        return np.inf, f"dtype {found.dtype} instead of {expected.dtype}"
    if stride > 1:
        found = found.reshape(-1)[::stride]
    if expected.dtype.kind in "iub":
        off = np.flatnonzero(found.reshape(-1) != expected.reshape(-1))
        if not off.size:
            return 0.0, ""
        ours, theirs = found.reshape(-1)[off[0]], expected.reshape(-1)[off[0]]
        return 1.0, f"{off.size} of {expected.size} {expected.dtype} differ, as {ours} instead of {theirs}"
    return _float_error(found.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1))


def _float_error(found: Any, expected: Any) -> tuple[float, str]:
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return np.inf, "infinities or NaN differ"
    if not np.isfinite(found[finite]).all():
        return np.inf, "infinities or NaN where the reference is finite"
    difference = np.abs(found[finite] - expected[finite])
    norm = np.linalg.norm(expected[finite])
    error = float(np.linalg.norm(difference) / (norm or 1.0))
    if error <= RELATIVE_L2 or (difference <= ABSOLUTE + RELATIVE * np.abs(expected[finite])).all():
        return error, ""
    far = int((difference > ABSOLUTE + RELATIVE * np.abs(expected[finite])).sum())
    return error, f"relative L2 error {error:.2g}; {far} of {expected.size} elements are off"


def is_random(row: Row, reference: Reference) -> bool:
    """Return whether a model has nodes that draw numbers, and onnxruntime now draws others."""
    import onnx

    proto = onnx.load(row.path, load_external_data=False)
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    drawing = re.compile("Random|Bernoulli|Multinomial|Dropout")
    if not any(drawing.match(node.op_type) for body in bodies for node in body):
        return False
    session = open_session(row.path)
    names = [value.name for value in session.get_outputs()]
    again = dict(zip(names, session.run(names, reference.feeds), strict=True))
    return bool(differences(again, reference)[0])


def judge(job: tuple[Row, str]) -> dict[str, Any]:
    """Convert, save, load, run and compare one model; return the verdict and why."""
    row, bind = job
    started = time.monotonic()
    found: dict[str, Any] = {"verdict": "", "reason": "", "errors": {}, "packages": [], "ops": 0}
    try:
        with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
            found |= _verdict(row, bind, Path(folder) / "model.dlc")
    except xdlc.XdlcError as error:
        found |= {"verdict": "refused", "reason": reason_of(error)}
    return found | {"seconds": time.monotonic() - started}


def _verdict(row: Row, bind: str, target: Path) -> dict[str, Any]:
    try:
        reference = reference_of(row)
        unchecked = "" if reference else "onnxruntime does not run it"
    except NoTensors as why:
        reference, unchecked = None, f"not tensors of numbers: {why}"
    dims = None
    if reference and bind == "reference":
        dims = {name: array.shape for name, array in reference.feeds.items()}
    xdlc.convert(row.path, input_dims=dims).save(target)
    model = xdlc.load(target)
    ops = [op for graph in model.graphs.values() for op in graph.ops]
    found: dict[str, Any] = {"ops": len(ops), "packages": sorted({op.package for op in ops})}
    if reference is None:
        return found | {"verdict": "unchecked", "reason": unchecked}
    results = xdlc.run(model, reference.feeds, native=True, threads=1)
    problems, errors = differences(results, reference)
    if problems and is_random(row, reference):
        return found | {"verdict": "unchecked", "reason": "draws random numbers"}
    return found | {
        "verdict": "wrong" if problems else "right",
        "reason": "; ".join(problems),
        "errors": errors,
    }


def reference_of(row: Row) -> Reference | None:
    """Return a model's reference data, stored or made now; None if onnxruntime does not run the model."""
    if row.stored.is_file():
        return stored_reference(row.stored)
    return live_reference(row.path) if row.runs else None


def differences(results: Mapping[str, Any], reference: Reference) -> tuple[list[str], dict[str, float]]:
    """Return what is wrong with the outputs, and the relative L2 error of each."""
    problems, errors = [], {}
    if list(results) != list(reference.outputs):
        problems.append(f"outputs {list(results)} instead of {list(reference.outputs)}")
    for name in results.keys() & reference.outputs.keys():
        expected, stride = reference.outputs[name], reference.strides.get(name, 1)
        errors[name], problem = error_of(np.asarray(results[name]), expected, reference.shapes[name], stride)
        if problem:
            problems.append(f"{name!r}: {problem}")
    return problems, errors


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
    """Print counts, then what is neither right nor refused, then the refusals if asked."""
    print(f"\n{'':22}" + "".join(f"{verdict:>10}" for verdict in VERDICTS))
    for title, runs in (("onnxruntime runs", True), ("onnxruntime does not", False)):
        counts = Counter(entry["verdict"] for entry in entries if entry["runs"] == runs)
        print(f"{title:22}" + "".join(f"{counts[verdict]:>10}" for verdict in VERDICTS), end="")
        total = counts.total()
        print(
            f"   {counts['right']} of {total} right ({counts['right'] / total:.1%})" if runs and total else ""
        )
    for verdict in VERDICTS[1:]:
        if verdict in ("refused", "unchecked") and not reasons:
            continue
        which = {entry["name"]: entry["reason"].strip() for entry in entries if entry["verdict"] == verdict}
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
    parser.add_argument("--filter", default="", metavar="REGEX", help="only models whose name it is found in")
    parser.add_argument("--reasons", action="store_true", help="list the refused models, by reason")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts, one entry a model")
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one model (default: 60)")
    parser.add_argument("--memory", type=float, default=4.0, help="limit of one process in GB (default: 4)")
    given = parser.parse_args()
    corpus = given.corpus or os.environ.get("XDLC_CORPUS")
    if not corpus:
        parser.error("name the corpus, or set XDLC_CORPUS")
    models = [row for row in rows(Path(corpus)) if re.search(given.filter, row.name)]
    progress = tqdm(
        measure(
            models,
            given.bind,
            processes=given.processes,
            seconds=given.seconds,
            memory=int(given.memory * GIGABYTE),
        ),
        total=len(models),
        disable=None,
    )
    entries = sorted(progress, key=lambda entry: entry["name"])
    report(entries, reasons=given.reasons)
    if given.json:
        given.json.write_text(json.dumps(entries, indent=1) + "\n")
    return int(any(entry["verdict"] in ("wrong", "crashed", "timeout") for entry in entries))


if __name__ == "__main__":
    sys.exit(main())
