"""``resize_nearest``: the stored integers at constants ``rows`` and ``columns`` of images."""

from __future__ import annotations

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import places


@kernel("resize_nearest")
def resize_nearest(step: Step) -> Run:
    """Take one element of the input for each of the output."""
    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    if source.ndim != 4 or source.dtype != target.dtype or source.shape[::3] != target.shape[::3]:
        step.fail(f"cannot resize {source.dtype}{list(source.shape)} to {target.dtype}{list(target.shape)}")
    rows = places(step, "rows", (target.shape[1],), source.shape[1])
    columns = places(step, "columns", (target.shape[2],), source.shape[2])

    def run() -> None:
        target[...] = source[:, rows[:, None], columns]

    return run
