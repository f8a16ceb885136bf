"""Convolutions and pools of one to three axes."""

from __future__ import annotations

import math

from fuzz.sweep.draft import Draft, Unfit, family
from fuzz.sweep.families._activations import activation


def _space(d: Draft, axes: int) -> tuple[int, ...]:
    most = {1: 129, 2: 33, 3: 9}[axes]
    return tuple(d.size(most) for _ in range(axes))


def _channels(d: Draft, space: tuple[int, ...]) -> int:
    return d.size(max(1, min(257, (1 << 14) // math.prod(space))))


def _divisors(count: int) -> list[int]:
    return [number for number in range(1, count + 1) if count % number == 0]


def _pads(d: Draft, kernel: list[int]) -> list[int]:
    kind = d.pick("none", "same", "any", "any")
    if kind == "none":
        return [0] * (2 * len(kernel))
    if kind == "same":
        return [(size - 1) // 2 for size in kernel] * 2
    return [d.between(0, size if d.flag(0.2) else size - 1) for size in kernel * 2]


@family("convolution")
def convolution(d: Draft) -> None:
    """Draw a Conv: dense, grouped or depthwise."""
    axes = d.pick(1, 2, 2, 2, 3)
    space = _space(d, axes)
    channels = _channels(d, space)
    groups = d.pick(1, 1, channels, d.pick(*_divisors(channels)))
    kernel = [d.pick(1, 2, 3, 3, 5, 7) if axes < 3 else d.between(1, 3) for _ in range(axes)]
    strides, dilations = ([d.pick(1, 1, 2, 3)] * axes for _ in range(2))
    if d.flag(0.2):
        strides = [d.pick(1, 2) for _ in range(axes)]
    if d.flag(0.7):
        dilations = [1] * axes
    pads = _pads(d, kernel)
    for at, size in enumerate(space):
        if size + pads[at] + pads[at + axes] < (kernel[at] - 1) * dilations[at] + 1:
            raise Unfit
    filters = groups * d.pick(1, 1, 2) if groups > 1 else d.size(65)
    attributes = {"group": groups, "strides": strides, "dilations": dilations, "pads": pads}
    weights = [d.weight(filters, channels // groups, *kernel)]
    if d.flag(0.6):
        weights.append(d.constant(d.floats([filters], -0.5, 0.5)))
    result = d.node("Conv", d.input((d.pick(1, 1, 1, 2), channels, *space)), *weights, **attributes)
    if d.flag(0.4):
        activation(d, result)


@family("transposed_convolution")
def transposed_convolution(d: Draft) -> None:
    """Draw a ConvTranspose whose kernel covers every result."""
    axes = d.pick(1, 2, 2, 2, 3)
    space = tuple(min(size, 17) for size in _space(d, axes))
    channels = min(_channels(d, space), 65)
    groups = d.pick(1, 1, channels, d.pick(*_divisors(channels)))
    kernel = [d.between(1, 5 if axes < 3 else 3) for _ in range(axes)]
    strides = [d.pick(1, 2, 2, 3) if axes < 3 else d.pick(1, 2)] * axes
    dilations = [d.pick(1, 1, 1, 2)] * axes
    if any(size < stride for size, stride in zip(kernel, strides, strict=True)) or max(dilations) > 1 < max(
        strides
    ):
        raise Unfit
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    pads = [d.between(0, max(0, span // 2)) for span in spans] * 2
    extra = [d.between(0, 1) if stride > 1 else 0 for stride in strides]
    for at in range(axes):
        if (space[at] - 1) * strides[at] + spans[at] + extra[at] - 2 * pads[at] < 1:
            raise Unfit
        if extra[at] and pads[at] < extra[at]:
            extra[at] = 0
    weight = d.weight(channels, d.size(33) if groups == 1 else d.pick(1, 1, 2), *kernel)
    x = d.input((d.pick(1, 1, 2), channels, *space))
    d.node(
        "ConvTranspose",
        *(x, weight),
        group=groups,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=extra,
    )


@family("pool")
def pool(d: Draft) -> None:
    """Draw a pool with a window, or a global one."""
    axes = d.pick(1, 2, 2, 2, 3)
    space = _space(d, axes)
    x = d.input((d.pick(1, 1, 2), _channels(d, space), *space), -1, 2)
    if d.flag(0.15):
        d.node(d.pick("GlobalAveragePool", "GlobalMaxPool"), x)
        return
    kernel = [min(d.pick(1, 2, 2, 3, 3, 4, 5), size) for size in space]
    strides = [d.between(1, 3) for _ in space] if d.flag(0.3) else [d.between(1, 3)] * axes
    pads = (
        [d.between(0, size // 2) if size > 1 else 0 for size in kernel * 2] if d.flag() else [0] * (2 * axes)
    )
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": int(d.flag(0.2))}
    type = d.pick("MaxPool", "AveragePool")
    d.opset = 19
    if type == "AveragePool":
        attributes["count_include_pad"] = d.pick(0, 1)
    d.node(type, x, **attributes)
