"""Seven SoCs prepared at once and one after the other, in whole processes.

    python -m bench.prepare MODEL.dlc [--runs N]

Runs ``xdlc-graph-prepare`` once for each SoC by itself and once for all of them, N times in turns, and
prints the shortest time of each and the ratio of all at once to the sum of the single runs.  The aim is a
ratio of at most 0.6 on two processors.  Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEVEN = ("sm8350", "sm8450", "sm8550", "sm8650", "sm8750", "sa8295", "qcs6490")
AIM = 0.6
TOOL = "from xdlc.cli.tools.graph_prepare import main; main()"


def seconds(model: Path, socs: tuple[str, ...], folder: Path) -> float:
    """Return how long one process takes for some SoCs."""
    words = [sys.executable, "-c", TOOL, "--input_dlc", str(model)]
    words += ["--output_dlc", str(folder / "out.dlc"), "--htp_socs", ",".join(socs)]
    begun = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, timeout=3600)
    return time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    groups: list[tuple[str, ...]] = [*((soc,) for soc in SEVEN), SEVEN]
    best = dict.fromkeys(groups, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.runs):
            for socs in groups:
                best[socs] = min(best[socs], seconds(options.model, socs, Path(folder)))
    for socs in groups:
        print(f"{','.join(socs):60} {best[socs]:8.2f} s")
    singles = sum(best[(soc,)] for soc in SEVEN)
    ratio = best[SEVEN] / singles
    processors = len(os.sched_getaffinity(0))
    print(f"at once / one after the other: {ratio:.3f} (aim: {AIM}) on {processors} processors")


if __name__ == "__main__":
    main()
