"""Time and memory of .tflite models, beside OpenVINO and networks in ONNX.

    python bench/tflite.py mobilenet.tflite person.tflite --onnx mobilenet.tflite=mobilenet.onnx

Each step runs in a process of its own, which the tools take in turns.  Conversion: wall time and peak
resident memory of the whole process, start-up included; the shortest time and the largest memory count.
Inference: the shortest of several runs on one thread, of the same random inputs; the results of both are
compared where their types are the same.

    xdlc      xconv-tflite-to-dlc, and a session of the DLC on the host
    openvino  read_model and save_model, and the model compiled for the processor
    onnx      xconv-onnx-to-dlc of the network that --onnx names
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import Figure, measure

RUNS = 5


def words_of(tool: str, model: Path, folder: Path) -> list[str]:
    """Return the command line that lets a tool convert a model into a folder."""
    if tool == "openvino":
        return [sys.executable, __file__, "save", str(model), str(folder / "model.xml")]
    source, batch = ("onnx", ["--batch", "1"]) if tool == "onnx" else ("tflite", [])
    paths = ["-i", str(model), "-o", str(folder / "model.dlc")]
    return [sys.executable, "-m", "xdlc", f"{source}-to-dlc", *paths, *batch]


def feeds_of(shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> dict[str, Any]:
    """Return random inputs of some shapes and types."""
    rng = np.random.default_rng(0)
    return {
        name: rng.standard_normal(shape).astype(dtype)
        if dtype.kind == "f"
        else rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
        for name, (shape, dtype) in shapes.items()
    }


def save(model: Path, target: Path) -> None:
    """Let OpenVINO convert a model."""
    import openvino

    openvino.save_model(openvino.Core().read_model(model), target)


def infer(engine: str, model: Path, target: Path) -> None:
    """Write the shortest time of several runs and the results to a file."""
    times, results = [], []
    if engine == "xdlc":
        import xdlc

        made = xdlc.convert(model)
        feeds = feeds_of({tensor.name: xdlc_type(tensor) for tensor in made.main.inputs})
        with xdlc.session(made) as session:
            for _ in range(RUNS):
                start = time.perf_counter()
                results = list(session.run(feeds).values())
                times.append(time.perf_counter() - start)
    else:
        import openvino

        core = openvino.Core()
        core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
        compiled = core.compile_model(core.read_model(model), "CPU")
        types = [(tuple(port.shape), np.dtype(port.element_type.to_dtype())) for port in compiled.inputs]
        values = list(feeds_of(dict(zip(map(str, range(len(types))), types, strict=True))).values())
        request = compiled.create_infer_request()
        for _ in range(RUNS):
            start = time.perf_counter()
            found = request.infer(values)
            times.append(time.perf_counter() - start)
        results = [np.asarray(found[port]) for port in compiled.outputs]
    np.savez(target, *results)
    print(json.dumps(min(times)))


def xdlc_type(tensor: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an input for ``xdlc.run``, floats for quantized ones."""
    return tensor.shape, np.dtype(np.float32) if tensor.dtype.is_fixed else np.dtype(tensor.dtype.numpy)


def inference(engine: str, model: Path, target: Path) -> tuple[float, list[Any], str]:
    """Return the seconds and the results of a model, or why there are none."""
    words = [sys.executable, __file__, engine, str(model), str(target)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        return 0.0, [], (done.stderr.strip().splitlines() or ["no message"])[-1][:70]
    with np.load(target) as stored:
        return json.loads(done.stdout.splitlines()[-1]), [stored[name] for name in stored.files], ""


def distance(ours: list[Any], theirs: list[Any]) -> str:
    """Return the largest relative L2 distance of two lists of results."""
    if [array.shape for array in ours] != [array.shape for array in theirs]:
        return "other outputs"
    if any(array.dtype != reference.dtype for array, reference in zip(ours, theirs, strict=True)):
        return "other types"
    worst = 0.0
    for array, reference in zip(ours, theirs, strict=True):
        size = float(np.linalg.norm(reference.astype(float)))
        worst = max(worst, float(np.linalg.norm(array.astype(float) - reference)) / (size or 1.0))
    return f"{worst:.1e}"


def conversions(models: dict[str, Path], runs: int) -> dict[str, Figure]:
    """Return shortest time and largest memory of each tool; the tools take turns."""
    figures_of: dict[str, list[Figure]] = {tool: [] for tool in models}
    for _ in range(runs):
        for tool, model in models.items():
            with tempfile.TemporaryDirectory() as folder:
                figures_of[tool].append(measure(words_of(tool, model, Path(folder))))
    return {
        tool: next((figure for figure in figures if figure.failure), None)
        or Figure(min(each.seconds for each in figures), max(each.memory for each in figures))
        for tool, figures in figures_of.items()
    }


def report(model: Path, onnx: Path | None, runs: int) -> bool:
    """Print the figures of a model and ratios to ours; return whether ours has some."""
    models = {"xdlc": model, "openvino": model} | ({"onnx": onnx} if onnx is not None else {})
    figures = conversions(models, runs)
    ours = figures["xdlc"]
    print(f"\n{model}")
    for tool, figure in figures.items():
        if figure.failure:
            print(f"  convert {tool:10}{figure.failure}")
            continue
        ratio = ""
        if tool != "xdlc" and not ours.failure:
            ratio = (
                f"   ours: time {ours.seconds / figure.seconds:.2f} x, "
                f"memory {ours.memory / figure.memory:.2f} x"
            )
        print(f"  convert {tool:10}{figure.seconds:8.2f} s{figure.memory / 1e6:8.0f} MB{ratio}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runners = {
            name: inference(name, model, Path(folder) / f"{name}.npz") for name in ("xdlc", "openvino")
        }
    for name, (seconds, _, failure) in runners.items():
        print(f"  run     {name:10}{failure or f'{1e3 * seconds:8.2f} ms'}")
    if not any(failure for _, _, failure in runners.values()):
        (first, mine, _), (second, theirs, _) = runners.values()
        print(f"  ours: time {first / second:.2f} x, distance {distance(mine, theirs)}", flush=True)
    return not ours.failure and not runners["xdlc"][2]


def main() -> int:
    """Measure, or do one step of it."""
    if sys.argv[1:2] == ["save"]:
        save(*map(Path, sys.argv[2:]))
        return 0
    if sys.argv[1:2] in (["xdlc"], ["openvino"]):
        infer(sys.argv[1], *map(Path, sys.argv[2:]))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3, help="conversions by each tool (default: 3)")
    parser.add_argument(
        "--onnx", action="append", default=[], metavar="A.tflite=B.onnx", help="network of a model in ONNX"
    )
    given = parser.parse_args()
    twins = dict(each.split("=", 1) for each in given.onnx)
    done = [
        report(model, Path(twins[str(model)]) if str(model) in twins else None, given.runs)
        for model in given.models
    ]
    return int(not all(done))


if __name__ == "__main__":
    sys.exit(main())
