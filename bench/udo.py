"""Small and large users' ops beside the same functions called by numpy.

    python -m bench.udo [--ops N] [--runs N]

Chains of small ops, with shapes that are stated and that are open, and one op with 40 MB in and out; each
as a Python kernel and, where there is a C compiler, in a library.  Both sides run in turn; what is told is
the least wall time of a run, for an op, its ratio to numpy's, and the processor time of this process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.runtime.udo.conftest import PYTHON, SAMPLE
from tests.support.compilers import COMPILER, build_library
from xdlc.ir import Graph, Tensor, f32, make_op
from xdlc.ir.dtype import FLOAT32
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels

FACTOR = 1.5
SMALL, LARGE = (2, 3), (10, 1024, 1024)


class Spent(NamedTuple):
    """Seconds of a run.

    Attributes:
        wall: By the clock.
        processor: Of this process.
    """

    wall: float
    processor: float


def chain(count: int, shape: tuple[int, ...], *, is_open: bool) -> Graph:
    """Return a graph of so many ops one behind the other, from ``x0`` to ``x<count>``."""
    axes = (0,) if is_open else ()
    graph = Graph("graph")
    last = graph.add_input(Tensor("x0", shape, FLOAT32, dynamic_axes=axes))
    for number in range(1, count + 1):
        made = Tensor(f"x{number}", shape, FLOAT32, dynamic_axes=axes)
        params = {"factor": f32(FACTOR if number % 2 else 1 / FACTOR)}
        graph.append(make_op(graph, "Scale", [last], [made], params, package="Math", name=f"op{number}"))
        last = made
    graph.add_output(last)
    return graph


def by_numpy(x: Any, count: int) -> Any:
    """Return what the chain computes."""
    for number in range(1, count + 1):
        x = x * np.float32(FACTOR if number % 2 else 1 / FACTOR)
    return x


def timed(call: Callable[[], Any]) -> tuple[Spent, Any]:
    """Return what a call took, and its result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = call()
    return Spent(time.perf_counter() - wall, time.process_time() - processor), result


def measured(title: str, path: Path, count: int, shape: tuple[int, ...], runs: int, *, is_open: bool) -> None:
    """Print a line on one kind of kernel and graph.

    Raises:
        SystemExit: If the results differ.
    """
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    ours, theirs = list[Spent](), list[Spent]()
    with Kernels(path) as kernels:
        session = CpuSession(chain(count, shape, is_open=is_open), kernels=kernels)
        first, _ = timed(lambda: session.run({"x0": x}))
        for _ in range(runs):
            spent, got = timed(lambda: session.run({"x0": x}))
            ours.append(spent)
            spent, expected = timed(lambda: by_numpy(x, count))
            theirs.append(spent)
            if not np.allclose(got[f"x{count}"], expected, rtol=1e-4):
                sys.exit(f"{title}: the results differ from those of numpy")
    wall, peer = min(one.wall for one in ours) / count, min(one.wall for one in theirs) / count
    processor = min(one.processor for one in ours) / count
    print(
        f"{title:<34} {wall * 1e6:10.1f} {peer * 1e6:10.1f} {wall / peer:8.1f} {processor * 1e6:10.1f} "
        f"{first.wall / count * 1e6:10.1f}",
        flush=True,
    )


def main() -> None:
    """Print a line for each kind of kernel and graph."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--ops", type=int, default=200, help="small ops in a chain")
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    print(
        f"{'us for each op':<34} {'run':>10} {'numpy':>10} {'ratio':>8} {'processor':>10} {'first run':>10}"
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = {"Python": Path(folder) / "math_kernels.py"}
        paths["Python"].write_text(PYTHON)
        if COMPILER is not None:
            paths["C"] = build_library(SAMPLE, Path(folder) / "libMathReg.so", "-DREGISTRATION")
            build_library(SAMPLE, Path(folder) / "libMathCpu.so", "-DIMPLEMENTATION")
        for kind, path in paths.items():
            measured(f"{kind}, {options.ops} small", path, options.ops, SMALL, options.runs, is_open=False)
            measured(
                f"{kind}, {options.ops} small, open", path, options.ops, SMALL, options.runs, is_open=True
            )
            measured(f"{kind}, one of 40 MB", path, 1, LARGE, options.runs, is_open=False)


if __name__ == "__main__":
    main()
