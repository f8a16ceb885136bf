"""Cost of the networks of a corpus: sums of ops against the totals of the compiler's plan, in two runs.

    python bench/cost.py CORPUS [--socs sm8650 sm8350] [--most 30] [--seconds 900]

Models of CORPUS, the smallest first, are planned twice, as floats and quantized with seeded samples.  The
bytes of all rows of the first plan must be the sums of the ops of the second.  A line of each
network has the bytes, the DRAM traffic as a multiple of the weights, and the share of bytes without an op.
"""

from __future__ import annotations

import re
import sys
import time

from verify import networks, parser_of

import xdlc
from xdlc.cost.device import DeviceCost, device_costs
from xdlc.errors import XdlcError
from xdlc.runtime.htp import CompileOptions, traced_compilation
from xdlc.targets import find_soc

_ROW = re.compile(rb'^\{"opid".*?read": (\d+) .*?write": (\d+) .*?read": (\d+) .*?write": (\d+)', re.M)


def totals(model: xdlc.Model, soc: str) -> list[list[int]]:
    """Return the bytes that the rows of each graph's plan have."""
    with traced_compilation(model, soc, CompileOptions(optimization_level=2), timeout=120) as traced:
        texts = [traced.files[name].read_bytes() for name in model.graphs]
    return [[sum(map(int, column)) for column in zip(*_ROW.findall(text), strict=True)] for text in texts]


def sums(cost: DeviceCost) -> list[int]:
    """Return the bytes of all ops."""
    traffic = cost.traffic
    return [traffic.dram_read, traffic.dram_write, traffic.vtcm_read, traffic.vtcm_write]


def main() -> int:
    options = parser_of(__doc__, ["sm8650", "sm8350"], 30).parse_args()
    until = time.monotonic() + options.seconds
    equal = refused = wrong = 0
    for name, source in networks(options.corpus, options.most):
        model = xdlc.api.executable(source, name)
        for soc in options.socs:
            if time.monotonic() > until:
                break
            try:
                raw = totals(model, soc)
                settings = CompileOptions(optimization_level=2)
                costs = device_costs(model, find_soc(soc), settings, timeout=120, name=name)
            except XdlcError as error:
                refused += 1
                print(f"{name} {soc}: {error.problem:.80}", flush=True)
                continue
            same = raw == [sums(cost) for cost in costs]
            equal, wrong = equal + same, wrong + (not same)
            cost = costs[0]
            weights = sum(op.weights for op in cost.ops)
            ports = sum(op.traffic.dram for op in cost.ops if not op.type)
            print(
                f"{name} {soc}: {'equal' if same else f'differ: {raw}'} {sums(cost)}, weights {weights}, "
                f"DRAM read {cost.traffic.dram_read / max(weights, 1):.3f} of them, "
                f"without an op {ports / max(cost.traffic.dram, 1):.1%}",
                flush=True,
            )
    print(f"{equal} equal, {wrong} differ, {refused} refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
