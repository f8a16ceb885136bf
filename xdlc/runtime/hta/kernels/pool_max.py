"""``pool_max``: the largest stored integer of each window; padding is never the largest."""

from __future__ import annotations

from xdlc.runtime.hta.pool_window import window_of
from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import is_unsigned


@kernel("pool_max")
def pool_max(step: Step) -> Run:
    """Take the maximum of each window."""
    import numpy as np

    window = window_of(step)
    (source,), (target,) = step.inputs, step.outputs
    if not is_unsigned(source) or source.dtype != target.dtype:
        step.fail(f"cannot pool {source.dtype} to {target.dtype}")

    def run() -> None:
        held, inside = window.buffer(source, 0, source.dtype)
        inside[...] = source
        target[...] = 0
        for part in window.parts(held):
            np.maximum(target, part, out=target)

    return run
