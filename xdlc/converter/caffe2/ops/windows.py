"""Handlers of convolutions and pools over one, two or three axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xdlc.converter.caffe2.ops._args import flag, inputs, integer, integers, number, planes, stored, vector_of
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.nhwc.shapes import number as scalar
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value

_VALID, _SAME, _CAFFE = 1, 2, 3
"""Values of argument legacy_pad (Caffe2's caffe2_legacy.proto)."""
_SIDES = ("pad_t", "pad_l", "pad_b", "pad_r")


class Window(NamedTuple):
    """A window over the spatial axes.

    Attributes:
        kernel: Its sizes.
        strides: Its steps.
        dilations: Distances of its elements.
        before: Padding before each axis; a negative amount is cut off.
        after: Padding after each axis.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    def cut(self, g: Operators, x: Value) -> Value:
        """Return an input without what negative padding cuts off."""
        axes = [axis for axis, amount in enumerate(self.before) if amount < 0]
        if not axes:
            return x
        starts, ends = [-self.before[axis] for axis in axes], [(1 << 31) - 1] * len(axes)
        places = [axis + 2 for axis in axes]
        return g("Slice", [x, vector(g, starts), vector(g, ends), vector(g, places)])

    @property
    def pads(self) -> list[int]:
        """The padding without negative amounts, as canonical operators take it."""
        return [max(0, amount) for amount in (*self.before, *self.after)]


def per_axis(node: Node, rank: int, name: str, default: int | None, least: int) -> list[int]:
    """Return an argument of each spatial axis: ``kernel``, ``kernels``, or ``kernel_h`` and ``kernel_w``.

    Raises:
        ModelError: If the forms contradict one another or do not fit the axes, a number is below ``least``,
            or there is none and no default.
    """
    found = []
    single, several = integers(node, name), integers(node, f"{name}s")
    if single:
        found.append(single * rank if len(single) == 1 else single)
    if several:
        found.append(several)
    parts = [integers(node, f"{name}_{axis}") for axis in "hw"]
    if any(parts):
        found.append([part[0] for part in parts if part])
    if not found and default is not None:
        found.append([default] * rank)
    if not found:
        raise node.invalid(f"has no argument {name}")
    if any(len(form) != rank for form in found):
        raise node.invalid(f"argument {name} has {len(found[-1])} numbers for {rank} spatial axes")
    if any(form != found[0] for form in found):
        raise node.invalid(f"arguments {name}, {name}s, {name}_h and {name}_w contradict one another")
    if min(found[0]) < least:
        raise node.invalid(f"argument {name} is {min(found[0])}; it must be at least {least}")
    return found[0]


def padding(node: Node, rank: int, *, cuts: bool = False) -> tuple[list[int], list[int]]:
    """Return the padding before and after each spatial axis that arguments state.

    Raises:
        ModelError: If they contradict one another or do not fit the axes, or an amount is negative without
            ``cuts``.
    """
    found = []
    single, several = integers(node, "pad"), integers(node, "pads")
    sides = [integers(node, side) for side in _SIDES]
    if single:
        found.append(single * (2 * rank) if len(single) == 1 else single)
    if several:
        found.append(several * (2 * rank) if len(several) == 1 else several)
    if any(side is not None for side in sides):
        found.append([side[0] for side in sides if side])
    if any(len(form) != 2 * rank for form in found):
        raise node.invalid(f"padding {found[-1]} for {rank} spatial axes")
    if any(form != found[0] for form in found):
        raise node.invalid("arguments pad, pads and pad_t, pad_l, pad_b, pad_r contradict one another")
    given = found[0] if found else [0] * (2 * rank)
    if min(given) < 0 and not cuts:
        raise node.invalid(f"padding {min(given)} is negative")
    return given[:rank], given[rank:]


def window(node: Node, sizes: Sequence[int], kernel: list[int]) -> Window:
    """Return the window of a node, with its padding as Caffe2's conv_pool_op_base.h computes it.

    Args:
        node: The node.
        sizes: Sizes of the spatial axes.
        kernel: Sizes of the window.

    Raises:
        ModelError: If arguments contradict one another or do not fit.
    """
    rank = len(sizes)
    strides, dilations = (per_axis(node, rank, name, 1, 1) for name in ("stride", "dilation"))
    before, after = padding(node, rank)
    legacy = integer(node, "legacy_pad", 0)
    if legacy not in (0, _VALID, _SAME, _CAFFE):
        raise node.invalid(f"legacy_pad {legacy} is unknown")
    if legacy in (_VALID, _SAME) and any((*before, *after)):
        raise node.invalid(f"legacy_pad {legacy} with padding of its own")
    if legacy in (_SAME, _CAFFE) and set(dilations) != {1}:
        raise node.invalid(f"legacy_pad {legacy} with dilations {dilations}")
    if legacy == _CAFFE and before != after:
        raise node.invalid(f"legacy_pad 3 with padding {before} before and {after} after the axes")
    for axis, (size, width, step) in enumerate(zip(sizes, kernel, strides, strict=True)):
        if legacy == _SAME:
            total = (-(-size // step) - 1) * step + width - size
            before[axis] = int(total / 2)  # towards 0, as in C
            after[axis] = total - before[axis]
        if legacy == _CAFFE:
            room = size + 2 * before[axis] - width
            count = -(-room // step) + 1
            if before[axis] and (count - 1) * step >= size + before[axis]:
                count -= 1
            after[axis] = max(0, (count - 1) * step + width - before[axis] - size)
            if (count - 1) * step - before[axis] >= size:
                raise node.problem(
                    f"its last window along axis {axis + 2} is outside of the {size} elements, "
                    "and what it holds is not defined",
                    "correct kernel, stride or legacy_pad",
                )
    return Window(kernel, strides, dilations, before, after)


def _checked(node: Node, x: Value, most: int = 5) -> None:
    if not 3 <= x.rank <= most:
        raise node.invalid(f"an input of rank {x.rank}; it must have 1 to 3 spatial axes")


@operator("Conv", "Conv1D", "Conv2D", "Conv3D", layout=CHANNEL_LAST)
def _conv(node: Node, g: Operators) -> Value:
    x, weight, *bias = inputs(node, 2, 3)
    _checked(node, x)
    if weight.rank != x.rank:
        raise node.invalid(f"weights of rank {weight.rank} for an input of rank {x.rank}")
    x, weight = planes(node, g, x), planes(node, g, weight)
    own = list(weight.shape[2:])
    kernel = per_axis(node, x.rank - 2, "kernel", None, 1) if _states_kernel(node) else own
    if kernel != own:
        raise node.invalid(f"kernel {kernel} with weights of kernel {own}")
    group = integer(node, "group", 1, 1)
    (channels,) = dims(x, [1])
    if channels != weight.shape[1] * group or weight.shape[0] % group:
        raise node.invalid(
            f"{channels} channels of {node.names[0]!r} with weights {node.names[1]!r} of "
            f"{weight.shape[1]} input and {weight.shape[0]} output channels in {group} groups"
        )
    for value in bias:
        vector_of(node, value, weight.shape[0], "the bias")
    view = window(node, dims(x, range(2, x.rank)), kernel)
    given = {"strides": view.strides, "dilations": view.dilations, "pads": view.pads, "group": group}
    return stored(node, g, g("Conv", [view.cut(g, x), weight, *bias], **given))


def _states_kernel(node: Node) -> bool:
    return any(name in node.attributes for name in ("kernel", "kernels", "kernel_h", "kernel_w"))


@operator("ConvTranspose", layout=CHANNEL_LAST)
def _conv_transpose(node: Node, g: Operators) -> Value:
    x, weight, *bias = inputs(node, 2, 3)
    _checked(node, x)
    if weight.rank != x.rank:
        raise node.invalid(f"weights of rank {weight.rank} for an input of rank {x.rank}")
    x, weight = planes(node, g, x), planes(node, g, weight)
    rank, own = x.rank - 2, list(weight.shape[2:])
    kernel = per_axis(node, rank, "kernel", None, 1) if _states_kernel(node) else own
    group = integer(node, "group", 1, 1)
    (channels,) = dims(x, [1])
    if kernel != own or channels != weight.shape[0] or channels % group:
        raise node.invalid(
            f"kernel {kernel} and {channels} channels in {group} groups with weights {list(weight.shape)}"
        )
    for value in bias:
        vector_of(node, value, weight.shape[1] * group, "the bias")
    strides, dilations = (per_axis(node, rank, name, 1, 1) for name in ("stride", "dilation"))
    adjust = per_axis(node, rank, "adj", 0, 0)
    before, after = padding(node, rank)
    legacy = integer(node, "legacy_pad", 0)
    if legacy not in (0, _VALID, _SAME) or (legacy and any((*before, *after))):
        raise node.invalid(
            f"legacy_pad {legacy} with padding {[*before, *after]}; it must be 0, or 1 or 2 without"
        )
    if any(extra > step for extra, step in zip(adjust, strides, strict=True)):
        raise node.invalid(f"adj {adjust} is above stride {strides}")
    if any(extra == step for extra, step in zip(adjust, strides, strict=True)):
        raise node.problem(f"adj {adjust} of stride {strides}, which adds elements of no input", "lower adj")
    given = {"strides": strides, "dilations": dilations, "pads": [*before, *after], "group": group}
    made = g("ConvTranspose", [x, weight, *bias], output_padding=adjust, **given)
    return stored(node, g, made)


_POOLS = {
    f"{stem}{suffix}": stem
    for stem in ("MaxPool", "AveragePool", "LpPool")
    for suffix in ("", "1D", "2D", "3D")
}


@operator(*_POOLS, layout=CHANNEL_LAST)
def _pool(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    _checked(node, x)
    x, stem = planes(node, g, x), _POOLS[node.type]
    sizes = dims(x, range(2, x.rank))
    is_global = flag(node, "global_pooling")
    if not is_global and not _states_kernel(node):
        raise node.invalid("has neither an argument kernel nor global_pooling")
    kernel = list(sizes) if is_global else per_axis(node, len(sizes), "kernel", None, 1)
    if is_global:
        for name in ("kernel", "kernels", "kernel_h", "kernel_w"):
            node.attr(name)  # Caffe2 takes the sizes of the input instead
    view = window(node, sizes, kernel)
    if set(view.dilations) != {1}:
        raise node.invalid(f"a pool with dilations {view.dilations}")
    if is_global and (any((*view.before, *view.after)) or set(view.strides) != {1}):
        raise node.invalid("global_pooling with padding or strides")
    if any(
        amount >= width
        for *pair, width in zip(view.before, view.after, kernel, strict=True)
        for amount in pair
    ):
        raise node.invalid(f"padding {view.pads} is not below kernel {kernel}")
    x = view.cut(g, x)
    given = {"kernel_shape": kernel, "strides": view.strides, "pads": view.pads}
    counts = flag(node, "count_include_pad") if stem == "AveragePool" else False
    power = number(node, "p", 2.0) if stem == "LpPool" else 0.0
    if stem == "LpPool":
        return stored(node, g, _lp_pool(node, g, x, power, given))
    return stored(node, g, g(stem, [x], **given, **({"count_include_pad": 1} if counts else {})))


def _lp_pool(node: Node, g: Operators, x: Value, power: float, given: dict[str, list[int]]) -> Value:
    """Return the root of sums of powers in windows; of others than squares by way of the mean."""
    if not 0 < power < math.inf:
        raise node.invalid(f"argument p is {power:g}")
    if power == 2:
        return g("LpPool", [x], p=2, **given)
    powers = g("Pow", [g("Abs", [x]), scalar(g, x, power)])
    mean = g("AveragePool", [powers], count_include_pad=1, **given)
    total = g("Mul", [mean, scalar(g, x, math.prod(given["kernel_shape"]))])
    return g("Pow", [total, scalar(g, x, 1 / power)])
