"""Quantized CNNs of the corpus with caches for seven SoCs: same bytes and results.

    XDLC_VENDOR_CHECK=.../vendor_check.py python -m bench.caches CORPUS [NAME..]

For each network: the vendor's reader lists a cache for each SoC with its VTCM, inputs and outputs; a
second run with the SoCs in another order gives the same file; and on random inputs each stored cache
computes on the emulation, to the last bit, what the composed graph does.  Ends with status 1 if not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import xdlc
from tests.support.corpus_models import CNNS, CorpusModel
from tests.vendor.cached import SEVEN, differing, misfits

INPUTS = 2
SAMPLES = 2


def check(path: Path) -> dict[str, Any]:
    """Return what the vendor's reader says of the caches in a file."""
    words = [sys.executable, os.environ["XDLC_VENDOR_CHECK"], "caches", str(path), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    return dict(json.loads(done.stdout))


def problems(corpus: Path, name: str, folder: Path) -> list[str]:
    """Return what is wrong with the caches of one network."""
    source = CorpusModel(corpus, name)
    quantized, first, second = (folder / f"{name}.{kind}.dlc" for kind in ("q", "1", "2"))
    xdlc.quantize(source.convert(), source.samples(SAMPLES)).save(quantized)
    xdlc.prepare(quantized, SEVEN).save(first)
    xdlc.prepare(quantized, SEVEN[::-1], jobs=1).save(second)
    differences = [] if first.read_bytes() == second.read_bytes() else ["two runs gave different files"]
    model = xdlc.load(first)
    differences += misfits(check(first), model)
    for soc in SEVEN:
        differences += differing(first, model, soc, INPUTS)
    for path in (quantized, first, second):
        path.unlink()
    return differences


def main() -> None:
    """Go through the networks and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("names", nargs="*", default=CNNS)
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names:
            found = problems(given.corpus, name, Path(folder))
            failed += bool(found)
            print(f"{name}: {'; '.join(found) or f'{len(SEVEN)} caches, as they should be'}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
