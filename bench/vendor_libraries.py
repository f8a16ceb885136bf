"""Models under several libraries of the vendor: verdicts, caches and the emulation's outputs.

    python bench/vendor_libraries.py MODEL... --libraries DIR... [--socs sm8550 sm8650] [--page FILE]

Each DIR is an SDK or an unpacked onnxruntime-qnn.  Each model, a DLC or a source file, is judged op by op,
prepared and run by each library for each SoC, with seeded inputs.  A library agrees if its outputs have the
bytes of those of the last one.  The result is a table in Markdown, printed or put in place of that of a page,
between its marks.  The exit code is 1 if a library is not of the known releases, or if outputs differ by
60 dB or less, or if a library does not prepare a model that it supports.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from xdlc import api
from xdlc.compare.figures import sqnr
from xdlc.errors import each_problem
from xdlc.prepare.htp.verify import seeded
from xdlc.runtime.htp.library import using

START, END = "<!-- matrix -->", "<!-- end of matrix -->"
LEAST = 60.0
ROW = "| {} | {} | {} | {} | {} | {} |"


def load(path: Path) -> xdlc.Model:
    """Return the model of a DLC or source file."""
    return xdlc.load(path) if path.suffix == ".dlc" else xdlc.convert(path)


def outputs_of(model: xdlc.Model, soc: str) -> dict[str, np.ndarray] | str:
    """Return what a cache for a SoC computes, or the problem in words."""
    try:
        prepared = xdlc.prepare(model, [soc], verify=False)
        return xdlc.run(prepared, seeded(model.main), runtime="htp", soc=soc)
    except xdlc.XdlcError as error:
        return each_problem(error)[0].problem.partition("\n")[0][:120]


def agreement(
    outputs: dict[str, np.ndarray] | str, reference: dict[str, np.ndarray] | str
) -> tuple[str, bool]:
    """Return how outputs agree with a reference, in words, and whether they do."""
    if isinstance(outputs, str):
        return outputs, False
    if isinstance(reference, str):
        return "runs; the newest does not", True
    if all(outputs[name].tobytes() == reference[name].tobytes() for name in reference):
        return "same bytes", True
    lowest = min(sqnr(expected, outputs[name]) for name, expected in reference.items())
    return f"{lowest:.1f} dB", lowest > LEAST


def rows(paths: list[Path], libraries: list[Path], socs: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield lines of the table, and whether each is as it should be."""
    for path in paths:
        model = load(path)
        results: dict[tuple[int, str], Any] = {}
        for index, library in enumerate(libraries):
            with using(library):
                results |= {(index, soc): outputs_of(model, soc) for soc in socs}
        verdicts = iter(api.support_matrix(model, libraries, socs))
        for index, library in enumerate(libraries):
            cells: dict[tuple[str, ...], list[str]] = {}
            is_right = True
            for soc in socs:
                verdict = next(verdicts)
                if verdict.soc is None:
                    cells[str(library), "-", "; ".join(verdict.problems), "-"] = ["-"]
                    is_right = False
                    break
                words, agrees = agreement(results[index, soc], results[len(libraries) - 1, soc])
                is_right &= agrees or bool(verdict.unsupported)
                reasons = "; ".join(sorted({f"{op.type}: {op.reason}" for op in verdict.unsupported})) or "-"
                count = f"{verdict.ops - len(verdict.unsupported)} of {verdict.ops}"
                cells.setdefault((str(verdict.build), count, reasons, words), []).append(soc)
            for (build, count, reasons, words), group in cells.items():
                yield ROW.format(path.stem, build, ", ".join(group), count, reasons, words), is_right


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--libraries", nargs="+", type=Path, required=True, help="oldest first")
    parser.add_argument("--socs", nargs="+", default=["sm8450", "sm8550", "sm8650", "sm8750"])
    parser.add_argument("--page", type=Path, help="Markdown file whose table is replaced")
    options = parser.parse_args()
    table = list(rows(options.models, options.libraries, options.socs))
    head = ROW.format("Model", "Library", "SoC", "Ops supported", "Not supported", "Outputs")
    text = "\n".join([head, "|---|---|---|---|---|---|", *(line for line, _ in table)])
    if options.page is None:
        print(text)
    else:
        page = options.page.read_text(encoding="utf-8")
        before, _, rest = page.partition(START)
        after = rest.partition(END)[2]
        options.page.write_text(f"{before}{START}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    return int(not all(is_right for _, is_right in table))


if __name__ == "__main__":
    sys.exit(main())
