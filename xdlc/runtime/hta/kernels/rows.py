"""``rows``: a matrix times weights; fully connected ops, and convolutions of a single tap."""

from __future__ import annotations

from xdlc.runtime.hta import weights
from xdlc.runtime.hta.registry import PRODUCTS, Run, Step, kernel

_BLOCK = 1 << 20


@kernel("rows")
def rows(step: Step) -> Run:
    """Multiply the input, as rows of as many numbers as the weights [width, results] have."""
    step.ports(1, *weights.ACTIVATIONS)
    held = weights.load(step, 2)
    width, channels = held.values.shape
    source, target = step.inputs[0].reshape(-1), step.outputs[0].reshape(-1)
    if source.size % width or source.size // width * channels != target.size:
        step.fail(f"does not make {target.size} numbers of {source.size} with weights {[width, channels]}")
    entries, results = source.reshape(-1, width), target.reshape(-1, channels)
    step.takes(work=target.size * width // PRODUCTS, scratch=8 * max(width, channels, _BLOCK))
    height = max(1, _BLOCK // max(width, channels))

    def run() -> None:
        for first in range(0, len(entries), height):
            part = entries[first : first + height].astype(held.kind)
            held.scaling.write(part @ held.values, results[first : first + height])

    return run
