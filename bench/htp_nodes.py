"""Node tests of the onnx package on HTP's emulation.

    python bench/htp_nodes.py --json verdicts.json [--filter Regex]
    python bench/htp_nodes.py --json verdicts.json --figures docs/reference/htp-conformance.json

Counted are the tests that bench/conformance.py counts and that the host gets right.  A model is converted,
compiled whole for one SoC and run on the vendor's emulation, which computes floats in float16:

    right     outputs are the expected ones: integers and booleans equal, floats by the test's own rule or
              with a relative L2 error of at most 2e-2
    bound     right once integers that HTP wants to know while compiling (axes, sizes, starts, k, zero points
              and their scales) are constants of the model, as networks have them, instead of its inputs
    off       some output differs by more
    refused   an error that says why
    died      the vendor's library ended the process, or anything else
    timeout   no verdict within the time limit

A run with --json takes over the verdicts of an earlier file for tests that the filter omits; --figures writes
counts and reasons by operator; then scripts/supported_ops.py renews the page of operators.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import conformance
import numpy as np
import onnx
from conformance import array, reason_of
from tqdm import tqdm
from workers import run

import xdlc
from xdlc.runtime.htp.process import HtpWorker, WorkerSession
from xdlc.targets import find_soc

VERDICTS = ("right", "bound", "off", "refused", "died", "timeout")
RELATIVE_L2 = 2e-2
SEVERAL = "several"  # tests of more than one operator
SECONDS = 60.0


class Emulation:
    """A child with the vendor's library, which compiles one model after the other."""

    def __init__(self, soc: str) -> None:
        self.soc = find_soc(soc)
        self.worker = HtpWorker("model", self.soc.name)

    def open(self, path: Path) -> None:
        request = {"do": "open", "model": str(path), "graph": None, "soc_id": self.soc.id}
        self.worker.query(request, timeout=SECONDS)

    def run(self, feeds: Mapping[str, Any], *, native: bool) -> dict[str, Any]:
        return WorkerSession(self.worker).run(feeds, native=native, timeout=SECONDS)


EMULATIONS: dict[str, Emulation] = {}  # one in each worker process


CONSTANT = re.compile(r"\(input \d+, '([^']*)'\) must be constant")


def judge(item: tuple[str, str]) -> tuple[str, str, float]:
    """Return verdict, reason and largest relative error of a test."""
    name, soc = item
    if soc not in EMULATIONS:
        EMULATIONS[soc] = Emulation(soc)
    test, bound = conformance.TESTS[name], frozenset[str]()
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        while True:
            try:
                verdict, reason, error = run_test(test, bound, Path(folder), EMULATIONS[soc])
                return ("bound" if verdict == "right" and bound else verdict), reason, error
            except xdlc.XdlcError as problem:
                more = to_bind(test, reason_of(problem)) - bound
                if not more:
                    died = "ended with SIG" in str(problem)
                    return ("died" if died else "refused"), reason_of(problem), 0.0
                bound |= more


def to_bind(test: Any, reason: str) -> frozenset[str]:
    """Return the inputs that an error names, else all short lists of integers."""
    wanted = frozenset(CONSTANT.findall(reason))
    given = list(zip(test.model.graph.input, test.data_sets[0][0], strict=False))
    named = frozenset(value.name for value, _ in given) & wanted
    if named or not wanted:
        return named
    arrays = {value.name: array(data) for value, data in given}
    return frozenset(name for name, held in arrays.items() if held.ndim < 2 and held.dtype.kind in "iub")


def run_test(test: Any, bound: frozenset[str], folder: Path, emulation: Emulation) -> tuple[str, str, float]:
    source, target = folder / "model.onnx", folder / "model.dlc"
    proto = onnx.ModelProto()
    proto.CopyFrom(test.model)
    del proto.graph.input[:]
    for value, data in zip(test.model.graph.input, test.data_sets[0][0], strict=False):
        if value.name in bound:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array(data), value.name))
        else:
            proto.graph.input.append(value)
    source.write_bytes(proto.SerializeToString())
    xdlc.convert(source).save(target)
    emulation.open(target)
    worst, problem = 0.0, ""
    graph = xdlc.load(target).main
    renamed = dict(zip([value.name for value in test.model.graph.output], graph.outputs, strict=False))
    for inputs, outputs in test.data_sets:
        given = zip(test.model.graph.input, inputs, strict=False)
        feeds = {value.name: array(data) for value, data in given if value.name in graph.tensors}
        results = {native: emulation.run(feeds, native=native) for native in (False, True)}
        for value, data in zip(test.model.graph.output, outputs, strict=True):
            expected, name = array(data), renamed[value.name].name
            found = results[results[False][name].dtype != expected.dtype][name]
            error = error_of(test, expected, found)
            if error > worst:
                worst, problem = error, f"{value.name!r}: {difference(expected, found)}"
    return ("off" if worst > RELATIVE_L2 else "right"), problem if worst > RELATIVE_L2 else "", worst


def error_of(test: Any, expected: Any, result: Any) -> float:
    """Return an output's relative L2 error: 0 by the test's rule, or infinite."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return np.inf
    try:
        conformance.compare(test, [expected], [result])
        return 0.0
    except AssertionError:
        pass
    if expected.dtype.kind in "iub":
        return 1.0
    wide, ours = expected.astype(np.float64), result.astype(np.float64)
    finite = np.isfinite(wide)
    if not np.array_equal(wide[~finite], ours[~finite], equal_nan=True):
        return np.inf
    return float(np.linalg.norm((wide - ours)[finite]) / (np.linalg.norm(wide[finite]) or 1.0))


def difference(expected: Any, result: Any) -> str:
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"{result.dtype} {list(result.shape)} instead of {expected.dtype} {list(expected.shape)}"
    far = ~np.isclose(result.astype(np.float64), expected.astype(np.float64), rtol=2e-2, equal_nan=True)
    if not far.any():
        return "many small differences"
    at = tuple(int(index[0]) for index in np.nonzero(far)) if far.ndim else ()
    return f"{far.sum()} of {far.size} differ, as {result[at]} instead of {expected[at]}"


def measure(names: Sequence[str], soc: str, processes: int) -> dict[str, dict[str, Any]]:
    items = [(name, soc) for name in names]
    entries = {}
    outcomes = run(judge, items, processes=processes, seconds=2 * SECONDS)
    for outcome in tqdm(outcomes, total=len(items), disable=None):
        name = outcome.item[0]
        end = {"crashed": "died"}.get(outcome.end, outcome.end)
        verdict, reason, error = (end, outcome.reason, 0.0) if outcome.end else outcome.result
        ops = sorted({node.op_type for node in conformance.TESTS[name].model.graph.node})
        error = error if np.isfinite(error) else 9e9
        entries[name] = {"verdict": verdict, "reason": reason, "error": error, "ops": ops}
    return entries


def report(entries: Mapping[str, Mapping[str, Any]]) -> None:
    counts = Counter(entry["verdict"] for entry in entries.values())
    print("  ".join(f"{verdict} {counts[verdict]}" for verdict in VERDICTS))
    for verdict in VERDICTS[1:]:
        for name, entry in entries.items():
            if entry["verdict"] == verdict:
                print(f"{verdict:8} {name}: {entry['reason'].strip()[:200]}")


def shortened(reason: str) -> str:
    """Return the first problem of a verdict without names and types."""
    text = reason.strip().split("\n")[-1].split("; accepted:")[0].split("; the library logs")[0]
    text = text.split("; ConstraintError")[0].split("; UnsupportedOp")[0].split("(# LIBNATIVE")[0]
    text = re.sub(r"^\w*(Error|UnsupportedOp): |runs on the host only: |\s*\('[^']*'\)", "", text)
    text = re.sub(r"'[^']*': |'[^']*'|\(QNN error \d+\)", "", text)
    text = re.sub(r" failed with QNN error (\d+).*", r" fails (error \1)", re.sub(r"test_\w+ ", "", text))
    text = re.sub(r"\d+ of \d+ differ, as (\S+) instead of (\S+)", r"\1 instead of \2", text)
    return " ".join(text.replace("|", "/").split())[:100]


def figures(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the page of operators needs: verdicts and reasons by operator."""
    from importlib.metadata import version

    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries.values():
        ops = [op for op in entry["ops"] if op != "Constant"] or entry["ops"]
        kinds.setdefault(ops[0] if len(ops) == 1 else SEVERAL, []).append(entry)
    rows: dict[str, dict[str, Any]] = {}
    for kind in sorted(kinds, key=lambda name: (name == SEVERAL, name)):
        rows[kind] = dict(Counter(entry["verdict"] for entry in kinds[kind]))
        reasons = Counter(shortened(entry["reason"]) for entry in kinds[kind] if entry["reason"])
        if reasons:
            rows[kind]["why"] = [reason for reason, _ in reasons.most_common(2)]
    return {
        "onnx": onnx.__version__,
        "onnxruntime-qnn": version("onnxruntime-qnn"),
        "tests": dict(Counter(entry["verdict"] for entry in entries.values())),
        "operators": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--filter", default="", metavar="REGEX", help="only tests whose name it is found in")
    parser.add_argument("--json", type=Path, metavar="FILE", help="verdicts, read where they are and written")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="write the figures of the documentation")
    parser.add_argument("--soc", default="sm8650", help="SoC to emulate (default: sm8650)")
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default: 2)")
    options = parser.parse_args()
    tests = {name: test for name, test in conformance.all_tests().items() if conformance.is_plain(test)}
    conformance.TESTS.update(
        (name, test)
        for name, test in tests.items()
        if name not in conformance.DISPUTED and not conformance.is_random(test)
    )
    names = [name for name in conformance.TESTS if re.search(options.filter, name)]
    entries = json.loads(options.json.read_text()) if options.json and options.json.is_file() else {}
    verdicts = measure(names, options.soc, options.processes)
    report(verdicts)
    if options.json:
        entries = dict(sorted({**entries, **verdicts}.items()))
        options.json.write_text(json.dumps(entries, indent=1) + "\n")
    if options.figures:
        options.figures.write_text(json.dumps(figures(entries or verdicts), indent=1) + "\n")
    return int(any(entry["verdict"] in ("died", "timeout") for entry in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
