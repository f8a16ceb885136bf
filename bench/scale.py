"""Time and memory of large graphs per node, from a thousand to a million.

    python bench/scale.py
    python bench/scale.py --sizes 1000,10000 --shapes wide,outputs

Each step runs in a process of its own; time and peak resident memory are those of the whole process,
start-up included.  What a node costs is processor time, beyond what the smallest model takes.  The shapes
are those of ``graphs.py``.

    convert  xconv-onnx-to-dlc
    info     xdlc-info of the result
    check    onnx: load and check, the least that a tool can do
    session  onnxruntime: a session without optimizations; takes quadratic time for many outputs
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import Figure, measure, tool

GRAPHS, PEERS = (str(Path(__file__).with_name(f"{name}.py")) for name in ("graphs", "peers"))
STEPS = ("convert", "info", "check", "session")


def command(step: str, model: Path) -> list[str]:
    """Return the command line of a step."""
    result = str(model.with_suffix(".dlc"))
    if step == "convert":
        return tool("xconv-onnx-to-dlc", "-i", str(model), "-o", result)
    if step == "info":
        return tool("xdlc-info", "-i", result)
    return [sys.executable, PEERS, step, str(model)]


def row(*cells: object) -> str:
    """Return a row of the table."""
    widths = (-9, 9, -9, 9, 9, 9, 9, 9)
    shown = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return "  ".join(
        f"{text:<{-width}}" if width < 0 else f"{text:>{width}}"
        for text, width in zip(shown, widths, strict=False)
    )


def cost(size: int, figure: Figure, empty: Figure) -> list[object]:
    """Return the figures of a step."""
    if figure.failure:
        return [figure.failure]
    node = (figure.cpu - empty.cpu) / size * 1e6
    memory = (figure.memory - empty.memory) / size
    return [figure.seconds, figure.cpu, round(figure.memory / 1e6), node, round(memory)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="comma list of node counts")
    parser.add_argument("--shapes", default="chain", help="comma list of those in graphs.py")
    parser.add_argument("--steps", default=",".join(STEPS), help="comma list of " + ", ".join(STEPS))
    options = parser.parse_args()
    failed = False
    print(row("shape", "nodes", "step", "seconds", "cpu", "peak MB", "us/node", "B/node"))
    for shape in options.shapes.split(","):
        empty: dict[str, Figure] = {}
        for size in (4, *map(int, options.sizes.split(","))):
            with tempfile.TemporaryDirectory() as folder:
                model = Path(folder, "model.onnx")
                subprocess.run([sys.executable, GRAPHS, shape, str(size), str(model)], check=True)
                for step in options.steps.split(","):
                    figure = measure(command(step, model))
                    base = empty.setdefault(step, figure)
                    failed |= bool(figure.failure) and step in ("convert", "info")
                    if base is not figure:
                        print(row(shape, size, step, *cost(size, figure, base)), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
