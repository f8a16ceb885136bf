"""``sum_wide``: of two images of up to 16 bits, each step rounded to 24 bits as the host does."""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import broadcast, is_unsigned, operands

_BITS = 24


@kernel("sum_wide")
def sum_wide(step: Step) -> Run:
    """Compute round(keep(keep(X + Y) / Z)) + zero, clipped.

    X is keep((x - input_zeros[0]) * factors[0]) / 2^shifts[0], Y likewise, and Z is factors[2] / 2^shifts[2].
    Here keep rounds to 24 significant bits, halves to even; factors have no more either, so that floats of
    24 bits, scaled by powers of two, compute just this.  The operands are broadcast as in numpy; one of
    them may be a constant.
    """
    import numpy as np

    first, second = broadcast(step, operands(step))
    target = step.outputs[0]
    if not is_unsigned(target):
        step.fail(f"stores {target.dtype}, should be uint8 or uint16")
    most = (1 << _BITS) - 1
    factors, shifts = step.numbers("factors", 3, -most - 1, most + 1), step.numbers("shifts", 3, -20, 100)
    zeros = step.numbers("input_zeros", 2, 0, 65535)
    top = np.iinfo(target.dtype).max
    zero = step.number("zero", 0, int(top))
    if factors[2] < 1:
        step.fail(f"divides by {factors[2]}")
    units = [np.float32(2.0**-shift) for shift in shifts]

    def term(held: Any, place: int) -> Any:
        made = held.astype(np.float32)
        made -= np.float32(zeros[place])
        made *= np.float32(factors[place])
        made *= units[place]
        return made

    def run() -> None:
        total = term(first, 0)
        total += term(second, 1)
        total /= np.float32(factors[2]) * units[2]
        np.rint(total, out=total)
        total += np.float32(zero)
        target[...] = np.clip(total, 0, top, out=total)

    return run
