"""``lookup_pair``: pairs of 8-bit integers through a table of all 65,536.

Constant ``table`` has a row per value of the first input and a column per value of the second; the inputs
broadcast to the output's shape.
"""

from __future__ import annotations

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import broadcast

_VALUES = 256


@kernel("lookup_pair")
def lookup_pair(step: Step) -> Run:
    """Look up two buffers in a table."""
    import numpy as np

    step.ports(2)
    (target,) = step.outputs
    if any(source.dtype != np.uint8 for source in step.inputs):
        step.fail(f"takes two inputs of uint8, not {' and '.join(held.dtype.name for held in step.inputs)}")
    table = step.constant("table", target.dtype.name, (_VALUES, _VALUES)).reshape(-1)
    first, second = broadcast(step)

    def run() -> None:
        table.take((first.astype(np.uint16) << 8) | second, out=target, mode="clip")

    return run
