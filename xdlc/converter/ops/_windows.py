"""Windows of convolutions and pools, and their decomposition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.functions.sliding import Window, same_padding
from xdlc.converter.operators.registry import Node
from xdlc.converter.ops._compose import compare, select, strided
from xdlc.converter.values import EXTENT_LIMIT, Value
from xdlc.ir.dtype import INT64
from xdlc.opdefs.elementwise_enums import ADD, GREATER, MAXIMUM, MULTIPLY
from xdlc.options import spell
from xdlc.records import record


def repeats(view: Window, spatial: Sequence[int]) -> tuple[int, ...]:
    """Return how often a result recurs by axis: where all windows cover all data."""
    return tuple(
        outputs
        if view.before[axis] >= (outputs - 1) * view.strides[axis]
        and view.kernel[axis] - view.before[axis] >= spatial[axis]
        and view.dilations[axis] == 1
        else 1
        for axis, outputs in enumerate(view.counts(spatial))
    )


def trimmed(view: Window, spatial: Sequence[int]) -> Window:
    """Return a window cropped to its data along the axes that have a single result.

    HTP averages wrongly where a window of 3 reaches over both ends of the data.
    """
    once = repeats(view, spatial)
    kernel, strides, before, after = map(list, (view.kernel, view.strides, view.before, view.after))
    for axis, dim in enumerate(view.counts(spatial)):
        if dim == once[axis] or (dim == 1 and view.dilations[axis] == 1):
            kernel[axis] = min(spatial[axis], kernel[axis] - before[axis])
            strides[axis] = spatial[axis]
            before[axis] = after[axis] = 0
    return replace(view, kernel=kernel, strides=strides, before=before, after=after)


def window_params(view: Window, *names: str) -> dict[str, ir.Param]:
    """Return the named QNN parameters: stride, dilation, pad_amount, filter_size."""
    by_name = {
        "stride": view.strides,
        "dilation": view.dilations,
        "filter_size": view.kernel,
        "pad_amount": list(zip(view.before, view.after, strict=True)),
    }
    return {name: ir.u32s(by_name[name]) for name in names}


def automatic_padding(node: Node) -> str:
    """Return ``auto_pad``: NOTSET, VALID, SAME_UPPER or SAME_LOWER.

    Raises:
        ModelError: If it is something else.
    """
    automatic = str(node.attr("auto_pad", "") or "NOTSET")
    if automatic not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.invalid(
            f"auto_pad {automatic!r:.40} is unknown; use NOTSET, SAME_UPPER, SAME_LOWER or VALID"
        )
    return automatic


def kernel_of(node: Node, weight: Value) -> tuple[int, ...]:
    """Return the sizes of a convolution's kernel, which must match its weights.

    Raises:
        ModelError: If ``kernel_shape`` states others.
    """
    sizes, stated = weight.shape[2:], node.attr("kernel_shape")
    if stated is not None and tuple(stated) != sizes:
        raise node.invalid(
            f"kernel_shape {list(stated)} differs from the kernel of the weights, {list(sizes)}"
        )
    return sizes


def window(node: Node, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> Window:
    """Read a window from a node's attributes, automatic padding worked out.

    Args:
        spatial: Dimensions of the input's spatial axes.
    """
    rank = len(spatial)
    if len(kernel) != rank:
        raise node.problem(f"a kernel of {len(kernel)} axes does not fit {rank} spatial axes")
    strides = tuple(node.attr("strides", [1] * rank))
    dilations = tuple(node.attr("dilations", [1] * rank))
    pads = node.attr("pads", [0] * (2 * rank))
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        raise node.problem("strides, dilations or pads do not fit the number of spatial axes")
    sizes = (*strides, *dilations, *kernel)
    if min(sizes, default=1) < 1:
        raise node.problem("strides, dilations and kernel sizes must be 1 or more")
    if max((*sizes, *pads), default=1) > EXTENT_LIMIT:
        raise node.invalid("strides, dilations, kernel sizes and pads must fit 32 bits")
    before, after = tuple(pads[:rank]), tuple(pads[rank:])
    automatic = automatic_padding(node)
    if automatic == "VALID":
        before = after = (0,) * rank
    elif automatic != "NOTSET":
        reaches = Window(kernel, strides, dilations, (), ()).reaches
        small, large = zip(*map(same_padding, spatial, strides, reaches), strict=True)
        before, after = (small, large) if automatic == "SAME_UPPER" else (large, small)
    if min((*before, *after), default=0) < 0:
        raise node.problem(
            f"xdlc does not support negative padding {list(pads)}", "use a Slice before the node instead"
        )
    windows = Window(kernel, strides, dilations, before, after, node.flag("ceil_mode"))
    if any(dim < 1 for dim in windows.counts(spatial)):
        raise node.problem(
            f"the window {list(kernel)} is larger than the padded input {list(spatial)}",
            f"set larger dimensions with {spell('input_dims')}",
        )
    return windows


LIMIT = 64  # elements of a window; each costs a StridedSlice and what is done with it


@record(frozen=True)
class Taps:
    """A padded value and the window that slides over it.

    Attributes:
        padded: The value, its spatial axes (from source axis 2 on) padded.
        view: The window; it rounds down, what hung over the end has become padding.
        spatial: Dimensions of the spatial axes without padding.
        outputs: Dimensions of the spatial axes of the result.
    """

    padded: Value
    view: Window
    spatial: tuple[int, ...]
    outputs: tuple[int, ...]

    def values(self, b: Builder) -> list[Value]:
        """Return the values that each window element meets, the last axis fastest."""
        steps = [
            range(0, count * step, step)
            for count, step in zip(self.view.kernel, self.view.dilations, strict=True)
        ]
        return [
            strided(
                b,
                self.padded,
                {
                    axis: (start, start + (count - 1) * step + 1, step)
                    for axis, (start, count, step) in enumerate(
                        zip(offset, self.outputs, self.view.strides, strict=True), 2
                    )
                },
            )
            for offset in itertools.product(*steps)
        ]


def taps(node: Node, b: Builder, x: Value, view: Window, fill: float) -> Taps:
    """Return a window over ``x`` by element, padding filled with a number.

    Raises:
        UnsupportedOp: If the window has too many elements.
    """
    if int(np.prod(view.kernel)) > LIMIT:
        raise node.problem(f"a window {list(view.kernel)} of more than {LIMIT} elements is not supported")
    spatial = x.shape[2:]
    floor = view.rounded_down(spatial)
    amounts = [(0, 0), (0, 0), *zip(floor.before, floor.after, strict=True)]
    padded = x
    if np.any(amounts):
        lying = [amounts[axis] for axis in x.order]
        params: dict[str, ir.Param] = {
            "scheme": ir.u32(0),
            "pad_amount": ir.u32s(lying),
            "pad_constant_value": ir.f32(fill) if x.dtype.is_float else ir.i32(int(fill)),
        }
        shape = [dim + sum(amount) for dim, amount in zip(x.tensor.shape, lying, strict=True)]
        padded = Value(b.emit("Pad", [b.to_layout(x, x.order)], shape, x.dtype, params), x.order)
    return Taps(padded, floor, spatial, view.counts(spatial))


def dilated_maximum(node: Node, b: Builder, x: Value, view: Window) -> Value:
    """Return the greatest element of each window."""
    lowest = -np.inf if x.dtype.is_float else x.dtype.limits[0]
    first, *others = taps(node, b, x, view, lowest).values(b)
    for value in others:
        first = b.binary(MAXIMUM, first, value)
    return first


def maximum_and_place(
    node: Node, b: Builder, x: Value, view: Window, *, column_major: bool
) -> tuple[Value, Value]:
    """Return the maximum of each window, and its first position in all of ``x``."""
    lowest = -np.inf if x.dtype.is_float else x.dtype.limits[0]
    window = taps(node, b, x, view, lowest)
    b.check_table(*view.kernel, *window.outputs)
    strides = _strides(window.spatial[::-1])[::-1] if column_major else _strides(window.spatial)
    best: Value | None = None
    where: Value | None = None
    every = itertools.product(*window.view.positions(window.spatial))
    for value, places in zip(window.values(b), every, strict=True):
        flat = sum(
            place.reshape([-1 if held == axis else 1 for held in range(len(places))]) * strides[axis]
            for axis, place in enumerate(places)
        )
        here = b.const(np.broadcast_to(flat, (1, 1, *window.outputs)).astype(np.int32))
        if best is None or where is None:
            best, where = value, here
            continue
        better = compare(b, GREATER, value, best)
        best, where = b.binary(MAXIMUM, best, value), select(b, better, here, where)
    if best is None or where is None:
        raise node.invalid("the window is empty")
    planes = np.arange(x.shape[0] * x.shape[1], dtype=np.int32) * int(np.prod(window.spatial))
    base = b.const(planes.reshape(x.shape[0], x.shape[1], *(1,) * len(window.spatial)))
    return best, b.cast(b.binary(ADD, where, base), INT64)


def dilated_mean(node: Node, b: Builder, x: Value, view: Window, *, counts_padding: bool) -> Value:
    """Return the mean of each window."""
    window = taps(node, b, x, view, 0.0)
    total, *others = window.values(b)
    for value in others:
        total = b.binary(ADD, total, value)
    b.check_table(*window.outputs)
    counts = view.filled(window.spatial, counts_padding=counts_padding)[None, None]
    return b.binary(MULTIPLY, total, b.const((1.0 / counts).astype(x.dtype.numpy)))


def _strides(dims: tuple[int, ...]) -> list[int]:
    return [int(np.prod(dims[axis + 1 :])) for axis in range(len(dims))]
