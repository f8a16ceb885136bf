"""CPU seconds and memory of a default quantization, beside onnxruntime's min-max.

    python bench/quant_cost.py MODEL.onnx [MODEL.onnx ...] [--samples 32] [--rounds 1] [--act_bitwidth 8]

For each model, in processes of their own and in turns: ``float`` runs the samples through onnxruntime,
``xdlc`` quantizes with them at the defaults, ``onnxruntime`` does so by ``quantize_static`` (min-max, QDQ,
weights per channel).  CPU seconds are user + system time of the process without imports, without the
conversion of the model and without saving (onnxruntime's tool writes files as it works); those of the float
run are of inference alone, its session is open already and its threads do not wait busily.  Memory is the
largest of the process (VmHWM).  The goals that are printed: at most 4 x float + 2 s of CPU, 1.5 x the memory
of the float run, and no more CPU than onnxruntime takes.  Of several rounds the least figure counts.

Samples are random (``quant.py``): cost hardly depends on values, quality is measured there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from quant import random_samples
from quant_tools import Task, onnxruntime_static, status

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--act_bitwidth", type=int, choices=(8, 16), default=8)
    parser.add_argument("--only", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(
            "RESULT "
            + json.dumps(measure(options.only, options.models[0], options.samples, options.act_bitwidth))
        )
        return
    for model in options.models:
        figures_of: dict[str, Figures] = {}
        for _ in range(options.rounds):
            for tool in TOOLS:
                figures = child(tool, model, options)
                before = figures_of.setdefault(tool, figures)
                figures_of[tool] = {name: min(before[name], value) for name, value in figures.items()}
        show(model.stem, figures_of)


def child(tool: str, model: Path, given: argparse.Namespace) -> Figures:
    """Return the figures of one tool, run in a process of its own."""
    command = [sys.executable, __file__, str(model), "--only", tool, "--samples", str(given.samples)]
    command += ["--act_bitwidth", str(given.act_bitwidth)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        sys.exit(f"{tool} on {model}: {done.stderr[-2000:]}")
    figures: Figures = json.loads(lines[-1].removeprefix("RESULT "))
    return figures


def show(name: str, found: dict[str, Figures]) -> None:
    """Print the figures of a model, their ratios, and whether the goals are kept."""
    plain, own, peer = found["float"], found["xdlc"], found["onnxruntime"]
    for tool, figures in found.items():
        ratio = figures["cpu"] / plain["cpu"]
        print(f"{name}: {tool}: {figures['cpu']:.2f} s CPU = {ratio:.1f} x float, {figures['mb']:.0f} MB")
    limit = 4 * plain["cpu"] + 2
    for goal, value, most in (
        ("4 x float + 2 s", own["cpu"], limit),
        ("onnxruntime's min-max", own["cpu"], peer["cpu"]),
        ("1.5 x memory", own["mb"], 1.5 * plain["mb"]),
    ):
        verdict = "kept" if value <= most else "missed"
        print(f"{name}: {goal}: {value:.2f} of {most:.2f} = {value / most:.2f}: {verdict}", flush=True)


def measure(tool: str, model: Path, count: int, bits: int) -> Figures:
    """Return CPU seconds and memory of one tool in this process."""
    samples, _ = random_samples(model, (count, 0))
    with tempfile.TemporaryDirectory() as scratch:
        task = Task(model, "W8A16" if bits == 16 else "W8A8", samples, [], Path(scratch))
        return TOOLS[tool](task)


def plain(task: Task) -> Figures:
    """Run the samples through the float model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    opened = onnxruntime.InferenceSession(str(task.model), options, providers=["CPUExecutionProvider"])
    opened.run(None, task.calibration[0])
    start = time.process_time()
    for feeds in task.calibration:
        opened.run(None, feeds)
    return {"cpu": time.process_time() - start, "mb": status("VmHWM")}


def xdlc(task: Task) -> Figures:
    """Quantize at the defaults."""
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401

    import xdlc as package
    import xdlc.quant.pipeline

    path = task.scratch / "float.dlc"
    package.convert(task.model).save(path)
    model = package.load(path)
    start = time.process_time()
    package.quantize(model, task.calibration, act_bitwidth=task.act_bits)
    return {"cpu": time.process_time() - start, "mb": status("VmHWM")}


def quantize_static(task: Task) -> Figures:
    """Quantize by onnxruntime's tool."""
    import onnxruntime.quantization  # noqa: F401

    start = time.process_time()
    onnxruntime_static("MinMax")(task)
    return {"cpu": time.process_time() - start, "mb": status("VmHWM")}


TOOLS: dict[str, Callable[[Task], Figures]] = {"float": plain, "xdlc": xdlc, "onnxruntime": quantize_static}


if __name__ == "__main__":
    main()
