"""``sum``: of two images of 8 bits, each times a factor."""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel

_MOST = 1 << 31


@kernel("sum")
def sum_(step: Step) -> Run:
    """Compute floor((x * factors[0] + y * factors[1] + addend) / 2^shift) + zero, clipped.

    The values are broadcast as in numpy, and all sums are below 2^31.
    """
    import numpy as np

    step.ports(2, "uint8")
    (first, second), target = step.inputs, step.outputs[0]
    factors = step.numbers("factors", 2, 0, _MOST)
    addend, shift = step.number("addend", -_MOST, _MOST), step.number("shift", 0, 31)
    zero = step.number("zero", 0, 255)
    if sum(factors) * 255 + abs(addend) >= _MOST:
        step.fail(f"has factors {list(factors)} and addend {addend}, with which sums leave 32 bits")
    try:
        shape = np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        shape = ()
    if shape != target.shape:
        step.fail(f"does not make {list(target.shape)} of {list(first.shape)} and {list(second.shape)}")

    def run() -> None:
        total: Any = first.astype(np.int32) * np.int32(factors[0])
        total = total + second.astype(np.int32) * np.int32(factors[1])
        total += np.int32(addend)
        total >>= shift
        total += np.int32(zero)
        target[...] = np.clip(total, 0, 255, out=total)

    return run
