"""The child process that runs calibration samples; started by :mod:`xdlc.quant.calibration.workers`.

Its folder holds the model and the request.  Each line of its standard input is the number of a chunk's
first sample; it answers with a line of JSON, a list of errors, and leaves the results in a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from xdlc.container import load
from xdlc.errors import XdlcError, each_problem
from xdlc.ir.data import Array
from xdlc.quant.calibration.session import Meter
from xdlc.quant.calibration.workers import HELD, MODEL, REQUEST, REST, RESULTS, error_words
from xdlc.quant.kernels import KernelSource
from xdlc.quant.samples import stored_samples, write_samples


def main(folder: Path) -> None:
    """Serve until the standard input ends."""
    meter = None
    with ExitStack() as stack:
        for line in sys.stdin:
            first = int(line)
            try:
                meter = meter or _meter(folder, stack)
                path = folder / f"{first}.npz"
                results: dict[int, Mapping[str, Array]] = {}
                measured = meter.measure(stored_samples(path), first, results.__setitem__)
                path.unlink()
                for part, name in zip(measured, (REST, HELD), strict=True):
                    part.save(folder / name.format(first))
                write_samples(folder / RESULTS.format(first), list(results.values()))
                problems: tuple[XdlcError, ...] = ()
            except XdlcError as error:
                problems = each_problem(error)
            print(json.dumps([error_words(problem) for problem in problems]), flush=True)


def _meter(folder: Path, stack: ExitStack) -> Meter:
    request = json.loads((folder / REQUEST).read_text())
    model = load(folder / MODEL)
    watched, averaged = (
        [model.graphs[graph].tensors[name] for graph, name in request[kind]]
        for kind in ("watched", "averaged")
    )
    source = KernelSource(**request["kernels"])
    return Meter(
        model,
        watched,
        averaged,
        histograms=request["histograms"],
        outputs=request["outputs"],
        threads=request["threads"],
        kernels=stack.enter_context(source.opened(model, needed=True)),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
