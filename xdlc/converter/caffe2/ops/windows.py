"""Handlers of convolutions and pools over one, two or three axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdlc.converter.caffe2.registry import (
    flag,
    integer,
    integers,
    number,
    operator,
    planes,
    stored,
    vectors,
)
from xdlc.converter.functions.shapes import dims
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value

_VALID, _SAME, _CAFFE = 1, 2, 3
"""Values of argument legacy_pad (Caffe2's caffe2_legacy.proto)."""


def _agreed(node: Node, name: str, count: int, forms: list[list[int]], default: list[int]) -> list[int]:
    """Return the numbers of an argument's forms, which must agree."""
    axes = [form * count if len(form) == 1 else form for form in forms if form] or [default]
    if any(form != axes[0] or len(form) != count for form in axes):
        raise node.invalid(
            f"arguments {name} are {' and '.join(map(str, axes))}, but must be {count} equal numbers"
        )
    return axes[0]


def per_axis(node: Node, name: str, default: list[int], least: int = 1) -> list[int]:
    """Return an argument by axis: ``kernel``, ``kernels`` or ``kernel_h`` and ``_w``.

    Raises:
        ModelError: If the forms contradict one another, do not fit, or a number is below ``least``.
    """
    apart = [*integers(node, f"{name}_h"), *integers(node, f"{name}_w")]
    if len(apart) == 1:
        raise node.invalid(f"the operator has only one of {name}_h and {name}_w")
    forms = [integers(node, name), integers(node, f"{name}s"), apart]
    found = _agreed(node, name, len(default), forms, default)
    if min(found) < least:
        raise node.invalid(f"argument {name} is missing or below {least}: {found}")
    return found


def padding(node: Node, rank: int, *, cuts: bool = False) -> tuple[list[int], list[int]]:
    """Return the padding before and after each spatial axis that arguments state.

    Raises:
        ModelError: If they contradict one another or do not fit the axes, or an amount is negative without
            ``cuts``.
    """
    sides = [amount for side in "tlbr" for amount in integers(node, f"pad_{side}")]
    if 0 < len(sides) < 4:
        raise node.invalid("the operator needs all of pad_t, pad_l, pad_b and pad_r, or none")
    forms = [integers(node, "pad"), integers(node, "pads"), sides]
    found = _agreed(node, "pad", 2 * rank, forms, [0] * (2 * rank))
    if min(found) < 0 and not cuts:
        raise node.invalid(f"padding must be 0 or more, but is {min(found)}")
    return found[:rank], found[rank:]


def _window(
    node: Node, g: Operators, x: Value, kernel: Sequence[int]
) -> tuple[Value, dict[str, Sequence[int]]]:
    """Return an input and its window, with padding as in conv_pool_op_base.h.

    What negative padding cuts off is cut off the input.
    """
    sizes = dims(x, range(2, x.rank))
    strides, dilations = (per_axis(node, name, [1] * len(sizes)) for name in ("stride", "dilation"))
    before, after = padding(node, len(sizes))
    legacy = integer(node, "legacy_pad", 0)
    if (
        legacy not in (0, _VALID, _SAME, _CAFFE)
        or (legacy in (_VALID, _SAME) and any((*before, *after)))
        or (legacy in (_SAME, _CAFFE) and set(dilations) != {1})
        or (legacy == _CAFFE and before != after)
    ):
        raise node.invalid(
            f"legacy_pad {legacy} does not allow padding {[*before, *after]} or dilations {dilations}"
        )
    for axis, (size, width, step) in enumerate(zip(sizes, kernel, strides, strict=True)):
        if legacy == _SAME:
            total = (-(-size // step) - 1) * step + width - size
            before[axis] = int(total / 2)  # towards 0, as in C
            after[axis] = total - before[axis]
        if legacy == _CAFFE:
            last = -(-(size + 2 * before[axis] - width) // step) * step
            if before[axis] and last >= size + before[axis]:
                last -= step
            after[axis] = max(0, last + width - before[axis] - size)
            if last - before[axis] >= size:
                raise node.problem(
                    f"the last window along axis {axis + 2} is outside the {size} elements, "
                    "so the result is undefined",
                    "change kernel, stride or legacy_pad",
                )
    cuts = [min(0, amount) for amount in before]
    if any(cuts):
        x = g("Pad", [x, [0, 0, *cuts, *[0] * x.rank]])
    pads = [max(0, amount) for amount in (*before, *after)]
    return x, {"strides": strides, "dilations": dilations, "pads": pads}


def _operands(
    node: Node, g: Operators, *, transposed: bool
) -> tuple[Value, Value, list[Value], dict[str, int]]:
    """Return input and weights with channels in axis 1, bias or None, and groups."""
    x, weight, *bias = node.operands(2, 3)
    if not 3 <= x.rank <= 5 or weight.rank != x.rank:
        raise node.invalid(f"input and weights must have ranks 3 to 5, but have {x.rank} and {weight.rank}")
    x, weight = planes(node, g, x), planes(node, g, weight)
    own, group = list(weight.shape[2:]), integer(node, "group", 1, 1)
    kernel = per_axis(node, "kernel", own)
    first, second = weight.shape[:2]
    reads, units = (first, second * group) if transposed else (second * group, first)
    (channels,) = dims(x, [1])
    if kernel != own or channels != reads or first % group:
        raise node.invalid(
            f"kernel {kernel} and {channels} channels of {node.names[0]!r} in {group} groups do not fit "
            f"weights {node.names[1]!r} of kernel {own}, {reads} input and {units} output channels"
        )
    for value in bias:
        vectors(node, units, bias=value)
    return x, weight, bias, {"group": group}


@operator("Conv", "Conv1D", "Conv2D", "Conv3D", layout=CHANNEL_LAST)
def _conv(node: Node, g: Operators) -> Value:
    x, weight, bias, group = _operands(node, g, transposed=False)
    x, window = _window(node, g, x, weight.shape[2:])
    return stored(node, g, g("Conv", [x, weight, *bias], **group, **window))


@operator("ConvTranspose", layout=CHANNEL_LAST)
def _conv_transpose(node: Node, g: Operators) -> Value:
    x, weight, bias, group = _operands(node, g, transposed=True)
    ones = [1] * (x.rank - 2)
    strides, dilations = per_axis(node, "stride", ones), per_axis(node, "dilation", ones)
    before, after = padding(node, len(ones))
    adjust = per_axis(node, "adj", [0] * len(ones), 0)
    legacy = integer(node, "legacy_pad", 0)
    if legacy not in (0, _VALID, _SAME) or (legacy and any((*before, *after))):
        raise node.invalid(f"legacy_pad is {legacy}; use 0, or 1 or 2 without padding")
    if any(extra >= step for extra, step in zip(adjust, strides, strict=True)):
        raise node.problem(f"adj {adjust} must be below stride {strides}", "set adj below the stride")
    window = {"strides": strides, "dilations": dilations, "pads": [*before, *after], "output_padding": adjust}
    return stored(node, g, g("ConvTranspose", [x, weight, *bias], **group, **window))


_POOLS = {
    f"{stem}{suffix}": stem
    for stem in ("MaxPool", "AveragePool", "LpPool")
    for suffix in ("", "1D", "2D", "3D")
}


@operator(*_POOLS, layout=CHANNEL_LAST)
def _pool(node: Node, g: Operators, x: Value) -> Value:
    if not 3 <= x.rank <= 5:
        raise node.invalid(f"the input must have 1 to 3 spatial axes, but has rank {x.rank}")
    x, stem = planes(node, g, x), _POOLS[node.type]
    kernel, is_global = list(dims(x, range(2, x.rank))), flag(node, "global_pooling")
    if is_global:
        node.read.update(("kernel", "kernels", "kernel_h", "kernel_w"))  # Caffe2 takes the sizes instead
    else:
        kernel = per_axis(node, "kernel", [0] * len(kernel))
    x, options = _window(node, g, x, kernel)
    if set(options.pop("dilations")) != {1}:
        raise node.invalid("xdlc does not support pools with dilations")
    if is_global and (any(options["pads"]) or set(options["strides"]) != {1}):
        raise node.invalid("with global_pooling the pool may not have padding or strides")
    if any(amount >= width for amount, width in zip(options["pads"], kernel * 2, strict=True)):
        raise node.invalid(f"padding {options['pads']} must be below the kernel size {kernel}")
    options["kernel_shape"] = kernel
    if stem == "LpPool":
        return stored(node, g, _lp_pool(node, g, x, options))
    counts = {"count_include_pad": 1} if stem == "AveragePool" and flag(node, "count_include_pad") else {}
    return stored(node, g, g(stem, [x], **options, **counts))


def _lp_pool(node: Node, g: Operators, x: Value, options: dict[str, Sequence[int]]) -> Value:
    """Return the root of sums of powers in windows; by the mean unless squares."""
    power = number(node, "p", 2.0)
    if not 0 < power < math.inf:
        raise node.invalid(f"argument p must be finite and above 0, but is {power:g}")
    if power == 2:
        return g("LpPool", [x], p=2, **options)
    powers = g("Pow", [g("Abs", [x]), power])
    mean = g("AveragePool", [powers], count_include_pad=1, **options)
    total = g("Mul", [mean, math.prod(options["kernel_shape"])])
    return g("Pow", [total, 1 / power])
