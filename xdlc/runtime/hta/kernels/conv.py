"""``conv``: windows of an image times weights, by groups of channels."""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta import conv_window, weights
from xdlc.runtime.hta.registry import PRODUCTS, Run, Step, kernel

Array = Any  # numpy.ndarray


@kernel("conv")
def conv(step: Step) -> Run:
    """Multiply [batch, rows, columns, channels] by weights [rows, columns, channels / groups, results].

    Settings beside those of windows and scaling: ``groups``, and ``margin``, what the image's margin holds.
    """
    step.ports(1, *weights.ACTIVATIONS)
    source, target = step.inputs[0], step.outputs[0]
    held = weights.load(step, 4)
    groups = step.number("groups", 1, 1 << 16)
    rows, columns, depth, channels = held.values.shape
    if source.ndim != 4 or target.ndim != 4 or source.shape[3] != depth * groups:
        step.fail(f"has weights {list(held.values.shape)} in {groups} groups for {list(source.shape)}")
    if channels % groups or target.shape[3] != channels:
        step.fail(f"has {channels} output channels in {groups} groups for {list(target.shape)}")
    slides = conv_window.load(step, (rows, columns), source.shape, target.shape)
    zero = step.number("margin", 0, 255 if source.dtype.itemsize == 1 else 65535)
    width = rows * columns * depth * target.shape[2]
    step.takes(work=target.size * rows * columns * depth // PRODUCTS)
    each = channels // groups
    matrices = [
        held.values[..., group * each : (group + 1) * each].reshape(-1, each) for group in range(groups)
    ]

    def run() -> None:
        for image, results in zip(source, target, strict=True):
            for first, part in slides.blocks(image, target.shape[1], width, zero, held.kind):
                block = results[first : first + len(part)]
                held.scaling.write(_products(part, matrices).reshape(block.shape), block)

    return run


def _products(part: Array, matrices: list[Array]) -> Array:
    """Return the sums for windows [rows, columns, channels, taps, taps], results of all groups last."""
    import numpy as np

    depth = part.shape[2] // len(matrices)
    made = [
        np.moveaxis(part[:, :, group * depth : (group + 1) * depth], 2, 4).reshape(-1, len(matrix)) @ matrix
        for group, matrix in enumerate(matrices)
    ]
    return made[0] if len(made) == 1 else np.concatenate(made, axis=-1)
