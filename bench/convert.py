"""Time and memory of converting a model, beside other ways to rewrite it.

    python bench/convert.py resnet50.onnx llm.onnx --input_dim llm.onnx:ids 1,128

Each tool runs in a process of its own; wall time and peak resident memory are those of the whole
process, start-up included.  Of several runs the shortest time and the largest memory count.

    xdlc  xconv-onnx-to-dlc
    cp    cp of the model and its external data
    ort   onnxruntime: load, optimize (basic), save
    dump  onnxruntime-qnn: its own dump of the model as a DLC
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from measure import Figure, in_turns, measure, read_once
from measure import tool as our_tool

PEERS = Path(__file__).with_name("peers.py")
TOOLS = ("xdlc", "cp", "ort", "dump")


def source_files(model: Path) -> list[str]:
    """Return the model's file and those of its external data."""
    words = [sys.executable, str(PEERS), "files", str(model)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def command(tool: str, model: Path, folder: Path, dims: list[tuple[str, str]]) -> list[str]:
    """Return the command line that lets a tool rewrite ``model`` into ``folder``."""
    if tool == "xdlc":
        shapes = [word for name, extents in dims for word in ("-d", name, extents)]
        return our_tool("xconv-onnx-to-dlc", "-i", str(model), "-o", str(folder / "model.dlc"), *shapes)
    if tool == "cp":
        return ["cp", *source_files(model), str(folder)]
    return [sys.executable, str(PEERS), tool, str(model), str(folder)]


def compare(
    tools: list[str], model: Path, dims: list[tuple[str, str]], runs: int, scratch: Path
) -> dict[str, Figure]:
    """Return shortest time and largest memory of each tool; the tools take turns.

    The input is read once beforehand, and what the run before has written is flushed, so that no tool
    pays for the disk of another.
    """
    for path in source_files(model):
        read_once(Path(path))

    def converted(tool: str) -> Figure:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            words = command(tool, model, Path(folder), dims)
            os.sync()
            return measure(words)

    return in_turns({tool: partial(converted, tool) for tool in tools}, runs)


def table(model: Path, figures: dict[str, Figure]) -> None:
    """Print one model's figures and their ratios to ours."""
    ours = figures.get("xdlc", Figure(failure="not run"))
    print(f"\n{model.name}")
    print(f"  {'':6}{'seconds':>10}{'peak MB':>10}{'time: ours is':>16}{'memory: ours is':>18}")
    for tool, figure in figures.items():
        if figure.failure:
            print(f"  {tool:6}{figure.failure}")
            continue
        ratios = ""
        if tool != "xdlc" and not ours.failure:
            ratios = f"{ours.seconds / figure.seconds:>14.2f} x{ours.memory / figure.memory:>16.2f} x"
        print(f"  {tool:6}{figure.seconds:>10.2f}{figure.memory / 1e6:>10.0f}{ratios}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3, help="runs of each tool (default: 3)")
    parser.add_argument("--tools", default=",".join(TOOLS), help="comma list of " + ", ".join(TOOLS))
    parser.add_argument("--scratch", type=Path, help="folder for the results (default: beside the model)")
    parser.add_argument(
        "--input_dim",
        nargs=2,
        action="append",
        default=[],
        metavar=("MODEL.onnx:NAME", "D1,D2"),
        help="shape of an input of one of the models, for xdlc",
    )
    options = parser.parse_args()
    failed = False
    for model in options.models:
        dims = [
            (key.partition(":")[2], value)
            for key, value in options.input_dim
            if key.startswith(f"{model.name}:")
        ]
        scratch = options.scratch or model.resolve().parent
        figures = compare(options.tools.split(","), model, dims, options.runs, scratch)
        table(model, figures)
        failed |= bool(figures.get("xdlc", Figure()).failure)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
