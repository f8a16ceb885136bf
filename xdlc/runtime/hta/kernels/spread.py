"""``spread``: each number of an image times a window of weights; a transposed convolution."""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta import weights
from xdlc.runtime.hta.registry import CALL, Run, Step, kernel

Array = Any  # numpy.ndarray

_LARGEST_STEP = 1 << 16


@kernel("spread")
def spread(step: Step) -> Run:
    """Add up windows of weights [rows, columns, channels / groups, results] around each pixel.

    Settings beside those of scaling: ``stride`` between the windows, ``dilation`` between their taps, ``cut``
    (rows and columns that the result leaves out at its start; at its end it leaves out what it has no room
    for), ``groups``, and ``input_zero``, taken off the input first.
    """
    step.ports(1, *weights.ACTIVATIONS)
    source, target = step.inputs[0], step.outputs[0]
    held = weights.load(step, 4)
    groups = step.number("groups", 1, 1 << 16)
    rows, columns, depth, channels = held.values.shape
    if source.ndim != 4 or target.ndim != 4 or source.shape[3] != depth * groups:
        step.fail(f"has weights {list(held.values.shape)} in {groups} groups for {list(source.shape)}")
    if channels % groups or target.shape[3] != channels or target.shape[0] != source.shape[0]:
        step.fail(f"has {channels} output channels in {groups} groups for {list(target.shape)}")
    stride, dilation = (step.numbers(name, 2, 1, _LARGEST_STEP) for name in ("stride", "dilation"))
    top, left = step.numbers("cut", 2, 0, _LARGEST_STEP)
    zero = step.number("input_zero", 0, 255 if source.dtype.itemsize == 1 else 65535)
    height, width = (
        max((source.shape[1 + axis] - 1) * stride[axis] + dilation[axis] * (taps - 1) + 1, cut + extent)
        for axis, (taps, cut, extent) in enumerate(
            zip((rows, columns), (top, left), target.shape[1:3], strict=True)
        )
    )
    sums = height * width * channels
    calls = source.shape[0] * rows * columns * groups
    step.takes(
        work=calls * CALL + 32 * sums + source.size * rows * columns * channels // groups, scratch=16 * sums
    )
    places = [
        (
            held.values[row, column],
            _every(row * dilation[0], stride[0], source.shape[1]),
            _every(column * dilation[1], stride[1], source.shape[2]),
        )
        for row in range(rows)
        for column in range(columns)
    ]

    def run() -> None:
        import numpy as np

        for image, results in zip(source, target, strict=True):
            centred = image.astype(held.kind) - held.kind.type(zero)
            total = np.zeros((height, width, channels), held.kind)
            for matrix, down, right in places:
                total[down, right] += _product(centred, matrix, groups)
            held.scaling.write(total[top : top + len(results), left : left + results.shape[1]], results)

    return run


def _every(first: int, stride: int, count: int) -> slice:
    return slice(first, first + stride * (count - 1) + 1, stride)


def _product(image: Array, matrix: Array, groups: int) -> Array:
    """Return [rows, columns, results] of [rows, columns, channels] and [channels / groups, results]."""
    import numpy as np

    depth, each = len(matrix), matrix.shape[1] // groups
    made = [
        image[..., group * depth : (group + 1) * depth] @ matrix[:, group * each : (group + 1) * each]
        for group in range(groups)
    ]
    return made[0] if groups == 1 else np.concatenate(made, axis=-1)
