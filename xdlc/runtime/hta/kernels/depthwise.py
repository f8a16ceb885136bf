"""``depthwise``: windows of each channel times weights of its own."""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta import conv_window, weights
from xdlc.runtime.hta.registry import Run, Step, kernel

Array = Any  # numpy.ndarray


@kernel("depthwise")
def depthwise(step: Step) -> Run:
    """Multiply [batch, rows, columns, channels] by weights [rows, columns, results].

    The results of a channel lie next to each other.  Settings beside those of windows and scaling:
    ``margin``, what the image's margin holds.
    """
    step.ports(1, *weights.ACTIVATIONS)
    source, target = step.inputs[0], step.outputs[0]
    held = weights.load(step, 3)
    rows, columns, channels = held.values.shape
    if source.ndim != 4 or target.ndim != 4 or target.shape[3] != channels or channels % source.shape[3]:
        step.fail(f"has weights {list(held.values.shape)} from {list(source.shape)} to {list(target.shape)}")
    slides = conv_window.load(step, (rows, columns), source.shape, target.shape)
    zero = step.number("margin", 0, 255 if source.dtype.itemsize == 1 else 65535)
    each = channels // source.shape[3]
    width = channels * target.shape[2]
    step.takes(work=4 * target.size * rows * columns)
    taps = [(row, column) for row in range(rows) for column in range(columns)]

    def run() -> None:
        import numpy as np

        for image, results in zip(source, target, strict=True):
            for first, part in slides.blocks(image, target.shape[1], width, zero, held.kind):
                total: Array = 0
                for row, column in taps:
                    tap = part[..., row, column]
                    spread = tap if each == 1 else np.repeat(tap, each, axis=2)
                    total = total + spread * held.values[row, column]
                held.scaling.write(total, results[first : first + len(part)])

    return run
