"""Op traces of the vendor's compiler."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from fuzz.targets import Files, Target
from tests.cost.test_schematic import TRACE
from xdlc.cost.schematic import Traffic, read_schematic

FILE = "graph0_schematic.bin"


def traces() -> Iterator[Files]:
    """Iterate over an op trace, and one whose tables stand in another order."""
    start = TRACE.index("opdesc_map")
    for text in (TRACE, TRACE[start:] + TRACE[:start]):
        yield {FILE: text.encode("latin-1")}


def read(folder: Path, _rng: random.Random) -> str:
    """Read a trace; its sums are no less than 0."""
    schematic = read_schematic(folder / FILE, "v2.51")
    total = sum((kernel.traffic for kernel in schematic.kernels), Traffic())
    assert min(total.dram, total.vtcm, schematic.vtcm_peak) >= 0
    return f"{min(len(schematic.kernels), 3)} kernels"


TARGETS = [Target("op-trace", traces, read)]
