"""Post-training quantizers: accuracy, time, memory; a process for each run.

    python bench/quant.py run FOLDER [--models a,b] [--tools a,b] [--settings W8A8,W4A8,W8A16]
                              [--python aimet=PATH] [--python ort=PATH] ... [--results FILE]
    python bench/quant.py table FILE [FILE ...]

FOLDER holds for each model NAME.onnx, float with fixed shapes, and NAME.npz with ``calib`` and ``eval``
(samples of the model's one input along the first axis) and ``labels`` (may be empty).  Without the .npz
inputs are random: standard normal, token ids of 0 to 999, masks of ones; see ``--random``.

SQNR is 10 log10(sum of squares of the float output / sum of squares of the error) over all evaluation
samples, averaged over outputs.  "right" counts labels met by the largest element of the first output.
Time is that of calibrating and quantizing, without imports; its ratio is to running the calibration
samples through onnxruntime in float in the same process (median of three).  Memory is the largest of
the process until then, imports included.

A peer that is not installed beside xdlc is run by an interpreter that has it; a tool is a function in
quant_tools.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from quant_tools import TOOLS, WIDTHS, Feeds, Run, Task, session

Row = dict[str, Any]
MEMORY_MB = 9000


def random_samples(path: Path, counts: tuple[int, int]) -> tuple[list[Feeds], list[Feeds]]:
    """Return seeded random samples for a model's inputs."""
    inputs = session(path, optimized=False).get_inputs()
    parts = []
    for seed, count in enumerate(counts, 1):
        rng = np.random.default_rng(seed)
        parts.append([{value.name: _random(value, rng) for value in inputs} for _ in range(count)])
    return parts[0], parts[1]


def _random(value: Any, rng: np.random.Generator) -> Any:
    shape = [dim if isinstance(dim, int) else 1 for dim in value.shape]
    if value.type.startswith("tensor(int"):
        dtype = value.type[7:-1]
        if "mask" in value.name:
            return np.ones(shape, dtype)
        return rng.integers(0, 2 if "type" in value.name else 1000, shape).astype(dtype)
    return rng.standard_normal(shape).astype(np.float32)


def samples_of(path: Path, counts: tuple[int, int]) -> tuple[list[Feeds], list[Feeds], Any]:
    """Return calibration samples, evaluation samples and labels of a model."""
    held = path.with_suffix(".npz")
    if not held.exists():
        return *random_samples(path, counts), np.array([])
    with np.load(held, allow_pickle=False) as arrays:
        name = session(path, optimized=False).get_inputs()[0].name
        return (
            [{name: array} for array in arrays["calib"]],
            [{name: array} for array in arrays["eval"]],
            arrays["labels"],
        )


def one(tool: str, path: Path, setting: str, counts: tuple[int, int]) -> Row:
    """Run one tool in this process and return what was measured."""
    calibration, evaluation, labels = samples_of(path, counts)
    opened = session(path, optimized=True)
    outputs = [value.name for value in opened.get_outputs()]
    del opened
    with tempfile.TemporaryDirectory() as scratch:
        task = Task(path, setting, calibration, outputs, Path(scratch))
        quantized = TOOLS[tool].run(task)
        reference = session(path, optimized=True)
        for feeds in calibration[:3]:
            reference.run(None, feeds)
        row = {
            "tool": tool,
            "model": path.stem,
            "setting": setting,
            "seconds": round(task.seconds, 3),
            "float_seconds": round(_float_seconds(reference, calibration), 4),
            "peak_mb": round(task.peak),
            "calibration": len(calibration),
            "evaluation": len(evaluation),
        }
        row.update(_quality(reference, quantized, outputs, evaluation, labels))
    return row


def _float_seconds(reference: Any, calibration: list[Feeds]) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        for feeds in calibration:
            reference.run(None, feeds)
        times.append(time.perf_counter() - start)
    return sorted(times)[1]


def _quality(reference: Any, quantized: Run, outputs: list[str], evaluation: list[Feeds], labels: Any) -> Row:
    signal, noise = np.zeros(len(outputs)), np.zeros(len(outputs))
    right = float_right = 0
    for index, feeds in enumerate(evaluation):
        exact_results, results = reference.run(outputs, feeds), quantized(feeds)
        for place, (a, b) in enumerate(zip(exact_results, results, strict=True)):
            exact = a.astype(np.float64)
            signal[place] += np.square(exact).sum()
            noise[place] += np.square(exact - b).sum()
        if len(labels):
            float_right += int(exact_results[0].argmax() == labels[index])
            right += int(np.asarray(results[0]).argmax() == labels[index])
    each = 10 * np.log10(signal / np.maximum(noise, 1e-30 * signal + 1e-300))
    row: Row = {"sqnr": round(float(each.mean()), 2), "each": [round(float(value), 2) for value in each]}
    return row | ({"right": right, "float_right": float_right} if len(labels) else {})


def run_child(tool: str, path: Path, setting: str, python: str, options: argparse.Namespace) -> Row:
    """Run one tool in a process of its own, stopped past a time or memory limit."""
    command = [python, __file__, "one", tool, str(path), setting, "--random", options.random]
    base = {"tool": tool, "model": path.stem, "setting": setting}
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        end = _wait(child, options.timeout)
        log.seek(0)
        lines = log.read().splitlines()
    results = [line for line in lines if line.startswith("RESULT ")]
    if results:
        return dict(json.loads(results[-1].removeprefix("RESULT ")))
    last = next((line for line in reversed(lines) if line.strip()), "")
    return base | {"fail": end or f"exit code {child.returncode}: {last.strip()[:200]}"}


def _wait(child: subprocess.Popen[Any], seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while child.poll() is None:
        time.sleep(0.2)
        try:
            resident = int(Path(f"/proc/{child.pid}/statm").read_text().split()[1]) * 4096 / 2**20
        except (OSError, IndexError):
            continue
        if time.monotonic() > deadline or resident > MEMORY_MB:
            child.kill()
            child.wait()
            return (
                f"stopped after {seconds:.0f} s" if resident <= MEMORY_MB else f"stopped at {resident:.0f} MB"
            )
    return ""


def run(options: argparse.Namespace) -> None:
    """Run all tools on all models, one line of JSON a run."""
    pythons = dict(entry.split("=", 1) for entry in options.python)
    models = options.models or sorted(path.stem for path in options.folder.glob("*.onnx"))
    for model in models:
        for name in options.tools or TOOLS:
            tool = TOOLS[name]
            python = sys.executable if tool.python == "own" else pythons.get(tool.python)
            if python is None:
                continue
            for setting in tool.settings:
                if setting in options.settings:
                    row = run_child(name, options.folder / f"{model}.onnx", setting, python, options)
                    with options.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(name, model, setting, row.get("fail") or cell(row), cost(row), flush=True)


def cell(row: Row | None) -> str:
    """Return the quality of a run for a table."""
    if row is None or "fail" in row:
        return "" if row is None else "fail"
    return f"{row['sqnr']:.1f}" + (f" ({row['right']})" if "right" in row else "")


def cost(row: Row | None) -> str:
    """Return what a run took for a table: seconds, ratio to float inference, MB."""
    if row is None or "fail" in row:
        return ""
    ratio = row["seconds"] / max(row["float_seconds"], 1e-9)
    return f"{row['seconds']:.1f} s; {ratio:.0f} x; {row['peak_mb']}"


def table(files: list[Path]) -> None:
    """Print tables of results: quality and cost for each setting."""
    rows = {}
    for file in files:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            rows[row["tool"], row["model"], row["setting"]] = row
    models = list(dict.fromkeys(model for _, model, _ in rows))
    for setting in WIDTHS:
        tools = [tool for tool in TOOLS if any((tool, model, setting) in rows for model in models)]
        for title, text in (("SQNR in dB (right)", cell), ("seconds; x float inference; MB", cost)):
            print(
                f"\n### {setting}: {title}\n\n| tool | {' | '.join(models)} |\n{'|---' * (len(models) + 1)}|"
            )
            for tool in tools:
                print(
                    f"| {tool} | {' | '.join(text(rows.get((tool, model, setting))) for model in models)} |"
                )


def names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    several = verbs.add_parser("run", help="all tools on all models")
    several.add_argument("folder", type=Path)
    several.add_argument("--models", type=names, default=[])
    several.add_argument("--tools", type=names, default=[])
    several.add_argument("--settings", type=names, default=list(WIDTHS))
    several.add_argument("--python", action="append", default=[], metavar="PEER=PATH")
    several.add_argument("--results", type=Path, default=Path("quant.jsonl"))
    several.add_argument("--timeout", type=float, default=600, help="seconds for one run (default: 600)")
    several.add_argument("--random", default="32,16", help="random samples: calibration,evaluation")
    single = verbs.add_parser("one", help="one tool on one model, in this process")
    single.add_argument("tool", choices=TOOLS)
    single.add_argument("model", type=Path)
    single.add_argument("setting", choices=WIDTHS)
    single.add_argument("--random", default="32,16")
    shown = verbs.add_parser("table", help="tables of results")
    shown.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    if options.verb == "table":
        table(options.files)
    elif options.verb == "run":
        run(options)
    else:
        counts = tuple(int(count) for count in options.random.split(","))
        row = one(options.tool, options.model, options.setting, (counts[0], counts[1]))
        print("RESULT " + json.dumps(row), flush=True)
        os._exit(0)  # some tools hang or crash while they shut down


if __name__ == "__main__":
    main()
