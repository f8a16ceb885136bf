"""``copy``: the same stored integers under another shape."""

from __future__ import annotations

from xdlc.runtime.hta.registry import Run, Step, kernel


@kernel("copy")
def copy(step: Step) -> Run:
    """Copy one buffer to another of as many elements of the same type."""
    if len(step.inputs) != 1 or len(step.outputs) != 1:
        step.fail("takes one input and one output")
    (source,), (target,) = step.inputs, step.outputs
    if source.dtype != target.dtype or source.size != target.size:
        step.fail(f"cannot copy {source.dtype}{list(source.shape)} to {target.dtype}{list(target.shape)}")
    shaped = source.reshape(target.shape)

    def run() -> None:
        target[...] = shaped

    return run
