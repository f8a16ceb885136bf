"""Windows taken apart: each element's value at every output position."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, select, strided
from xdlc.converter.operators.ops._windows import Window
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.ir.dtype import INT64
from xdlc.opdefs.elementwise_enums import ADD, GREATER, MAXIMUM, MULTIPLY

LIMIT = 64  # elements of a window; each costs a StridedSlice and what is done with it


@dataclass(frozen=True, slots=True)
class Taps:
    """A padded value and the window that slides over it.

    Attributes:
        padded: The value, its spatial axes (from source axis 2 on) padded.
        view: The window; it rounds down, what hung over the end has become padding.
        spatial: Dimensions of the spatial axes without padding.
        outputs: Dimensions of the spatial axes of the result.
        room: Dimensions up to which padding counts as such; what is beyond hangs over.
    """

    padded: Value
    view: Window
    spatial: tuple[int, ...]
    outputs: tuple[int, ...]
    room: tuple[int, ...]

    def offsets(self) -> list[tuple[int, ...]]:
        """Return each window element's distance from the start, the last axis fastest."""
        steps = [
            range(0, count * step, step)
            for count, step in zip(self.view.kernel, self.view.dilations, strict=True)
        ]
        return list(itertools.product(*steps))

    def values(self, b: Builder) -> list[Value]:
        """Return the values that each window element meets."""
        elements = []
        for offset in self.offsets():
            ranges = {
                2 + axis: (start, start + (count - 1) * step + 1, step)
                for axis, (start, count, step) in enumerate(
                    zip(offset, self.outputs, self.view.strides, strict=True)
                )
            }
            elements.append(strided(b, self.padded, ranges))
        return elements

    def places(self) -> list[list[Array]]:
        """Return the positions that each window element meets, by axis; padding is beyond."""
        return [
            [
                np.arange(count) * step + start - before
                for start, count, step, before in zip(
                    offset, self.outputs, self.view.strides, self.view.before, strict=True
                )
            ]
            for offset in self.offsets()
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
    room = tuple(dim + after for dim, after in zip(spatial, view.after, strict=True))
    return Taps(padded, floor, spatial, view.dims(spatial), room)


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
    for value, places in zip(window.values(b), window.places(), strict=True):
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
        raise node.invalid("its window is empty")
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
    counts = _counts(window, counts_padding)
    return b.binary(MULTIPLY, total, b.const((1.0 / counts).astype(x.dtype.numpy)))


def padding_share(view: Window, spatial: tuple[int, ...]) -> Array:
    """Return the factor that corrects means of windows that hang over the padding."""
    floor = view.rounded_down(spatial)
    shares = np.ones((1, 1, *(1,) * len(spatial)))
    for axis, count in enumerate(view.dims(spatial)):
        start = np.arange(count) * floor.strides[axis] - floor.before[axis]
        inside = np.minimum(start + view.kernel[axis], spatial[axis] + view.after[axis]) - start
        dims = [-1 if held == axis else 1 for held in range(len(spatial))]
        shares = shares * (view.kernel[axis] / inside).reshape(1, 1, *dims)
    return shares


def _counts(window: Taps, counts_padding: bool) -> Array:
    total = np.zeros((1, 1, *window.outputs))
    for places in window.places():
        inside = np.ones(())
        for axis, place in enumerate(places):
            if counts_padding:
                held = place < window.room[axis]
            else:
                held = (place >= 0) & (place < window.spatial[axis])
            inside = inside * held.reshape([-1 if other == axis else 1 for other in range(len(places))])
        total = total + inside
    return total


def _strides(dims: tuple[int, ...]) -> list[int]:
    return [int(np.prod(dims[axis + 1 :])) for axis in range(len(dims))]
