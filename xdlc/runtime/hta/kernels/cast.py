"""``cast``: whole numbers as those of another type; float32 for what leaves the section."""

from __future__ import annotations

from xdlc.runtime.hta.registry import Run, Step, kernel

_INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "uint32", "int64")


@kernel("cast")
def cast(step: Step) -> Run:
    """Convert a buffer; numbers beyond a narrower type wrap around."""
    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    if source.dtype.name not in _INTEGERS or source.shape != target.shape:
        step.fail(f"cannot cast {source.dtype}{list(source.shape)} to {target.dtype}{list(target.shape)}")

    def run() -> None:
        target[...] = source.astype(target.dtype)

    return run
