"""Time and memory of large graphs per node, from a thousand to a million.

    python bench/scale.py
    python bench/scale.py --sizes 1000,10000 --shapes wide,outputs

Each step runs in a process of its own; time and peak resident memory are those of the whole process,
start-up included.  What a node costs is processor time, beyond what the smallest model takes.  The models
are made here, of cheap operators on small tensors:

    chain    every node reads the one before; each fourth adds a constant of its own
    wide     a thousand chains side by side, summed up at the end
    weights  every node adds a constant of its own
    outputs  every node reads the input, and its result is an output

    convert  xconv-onnx-to-dlc
    info     xdlc-info of the result
    check    onnx: load and check, the least that a tool can do
    session  onnxruntime: a session without optimizations; takes quadratic time for many outputs
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from convert import Figure, measure
from onnx import helper, numpy_helper

PEERS = Path(__file__).with_name("peers.py")
OPSET = 17
LANES = 1000
STEPS = ("convert", "info", "check", "session")
EXTENTS = (1, 4)
Part = tuple[str, onnx.NodeProto | onnx.TensorProto | onnx.ValueInfoProto]


def chain(size: int) -> Iterator[Part]:
    """Yield the parts of a chain of ``size`` nodes."""
    yield from _lane("", "x", "y", size)
    yield from _ends("y")


def wide(size: int) -> Iterator[Part]:
    """Yield the parts of ``size`` nodes in many chains, whose results are added up."""
    lanes = min(LANES, size // 4)
    length = size // lanes - 1
    total = "x"
    for lane in range(lanes):
        yield from _lane(f"lane{lane}/", "x", f"lane{lane}", length)
        result = "y" if lane == lanes - 1 else f"sum{lane}"
        yield "node", helper.make_node("Add", [total, f"lane{lane}"], [result])
        total = result
    yield from _ends("y")


def weights(size: int) -> Iterator[Part]:
    """Yield the parts of ``size`` nodes with as many initializers."""
    for index in range(size):
        yield from _add(f"n{index}", _value(index, "x", "y", size), _value(index + 1, "x", "y", size))
    yield from _ends("y")


def outputs(size: int) -> Iterator[Part]:
    """Yield the parts of ``size`` nodes with as many outputs."""
    names = [f"y{index}" for index in range(size)]
    for name in names:
        yield "node", helper.make_node("Relu", ["x"], [name], f"make_{name}")
    yield from _ends(*names)


SHAPES: dict[str, Callable[[int], Iterator[Part]]] = {
    "chain": chain,
    "wide": wide,
    "weights": weights,
    "outputs": outputs,
}


def _lane(prefix: str, source: str, target: str, size: int) -> Iterator[Part]:
    """Yield ``size`` nodes that each read the one before."""
    types = ("Relu", "Tanh", "Sigmoid")
    for index in range(size):
        read = _value(index, source, target, size, prefix)
        written = _value(index + 1, source, target, size, prefix)
        if index % 4 == 3:
            yield from _add(f"{prefix}n{index}", read, written)
        else:
            yield "node", helper.make_node(types[index % 4], [read], [written], f"{prefix}n{index}")


def _value(index: int, source: str, target: str, size: int, prefix: str = "") -> str:
    return source if index == 0 else target if index == size else f"{prefix}t{index}"


def _add(name: str, source: str, target: str) -> Iterator[Part]:
    yield "initializer", numpy_helper.from_array(np.full(EXTENTS, 0.5, np.float32), f"{name}_bias")
    yield "node", helper.make_node("Add", [source, f"{name}_bias"], [target], name)


def _ends(*names: str) -> Iterator[Part]:
    yield "input", helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, EXTENTS)
    for name in names:
        yield "output", helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, EXTENTS)


def write(shape: str, size: int, path: Path) -> None:
    """Write a model of about ``size`` nodes."""
    graph = onnx.GraphProto(name="scale")
    for field, part in SHAPES[shape](size):
        getattr(graph, field).append(part)
    opsets = [helper.make_opsetid("", OPSET)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def command(step: str, model: Path) -> list[str]:
    """Return the command line of a step."""
    tools, result = Path(sys.executable).parent, model.with_suffix(".dlc")
    if step == "convert":
        return [str(tools / "xconv-onnx-to-dlc"), "-i", str(model), "-o", str(result)]
    if step == "info":
        return [str(tools / "xdlc-info"), "-i", str(result)]
    return [sys.executable, str(PEERS), step, str(model)]


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
    parser.add_argument("--shapes", default="chain", help="comma list of " + ", ".join(SHAPES))
    parser.add_argument("--steps", default=",".join(STEPS), help="comma list of " + ", ".join(STEPS))
    options = parser.parse_args()
    failed = False
    print(row("shape", "nodes", "step", "seconds", "cpu", "peak MB", "us/node", "B/node"))
    for shape in options.shapes.split(","):
        empty: dict[str, Figure] = {}
        for size in (4, *map(int, options.sizes.split(","))):
            with tempfile.TemporaryDirectory() as folder:
                model = Path(folder, "model.onnx")
                # in a process of its own, for a child's peak memory begins with that of its parent
                made = multiprocessing.Process(target=write, args=(shape, size, model))
                made.start()
                made.join()
                for step in options.steps.split(","):
                    figure = measure(command(step, model))
                    base = empty.setdefault(step, figure)
                    failed |= bool(figure.failure) and step in ("convert", "info")
                    if base is not figure:
                        print(row(shape, size, step, *cost(size, figure, base)), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
