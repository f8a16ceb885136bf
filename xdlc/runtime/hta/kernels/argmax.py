"""``argmax``: positions of the largest stored integer along setting ``axis``; the first of equals."""

from __future__ import annotations

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import is_unsigned


@kernel("argmax")
def argmax(step: Step) -> Run:
    """Find the largest along an axis; the output may keep it with one element, or not."""
    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    axis = step.number("axis", 0, max(source.ndim - 1, 0))
    rest = source.shape[:axis] + source.shape[axis + 1 :]
    kept = (*source.shape[:axis], 1, *source.shape[axis + 1 :])
    if (
        not is_unsigned(source)
        or target.dtype.name not in ("int32", "uint32")
        or target.shape not in (rest, kept)
        or not source.size
    ):
        step.fail(
            f"cannot give positions along axis {axis} of {source.dtype}{list(source.shape)} "
            f"as {target.dtype}{list(target.shape)}"
        )

    def run() -> None:
        target[...] = source.argmax(axis=axis).reshape(target.shape)

    return run
