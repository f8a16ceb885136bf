"""Handlers of operators that continue tensors beyond their borders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import empty, reshaped
from xdlc.converter.pytorch.ops.joining import joined
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
_NUMBERED = ("reflect", "replicate", "circular", "constant")
"""Modes of ``_pad_enum`` by number (ATen/PadNd.h)."""


def padded(
    node: AtenNode,
    g: Operators,
    x: Value,
    pad: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Value:
    """Return a tensor with elements before and after its last axes.

    Args:
        node: The node.
        g: The canonical operators.
        x: The tensor.
        pad: Amounts before and after, of the last axis first; negative ones cut.
        mode: ``constant``, ``reflect``, ``replicate`` or ``circular``.
        value: Elements of the mode ``constant``; default: 0.

    Raises:
        ModelError: If the amounts do not fit.
        UnsupportedOp: If an axis that decides the result is open.
    """
    if mode not in _MODES:
        raise node.invalid(f"padding of mode {mode!r}")
    count = len(pad) // 2
    if len(pad) % 2 or count > x.rank:
        raise node.invalid(f"{len(pad)} amounts of {x.rank} axes")
    if not any(pad):
        return x
    axes = [x.rank - 1 - index for index in range(count)]
    before, after = pad[0::2], pad[1::2]
    if not x.is_dynamic:
        shape = list(dims(x))
        for axis, low, high in zip(axes, before, after, strict=True):
            size = shape[axis]
            left = size + min(low, 0) + min(high, 0)  # which alone is continued if it is circular
            most = {"reflect": size - 1, "circular": left}.get(mode)
            if most is not None and max(low, high) > most:
                raise node.invalid(f"padding {low}, {high} of {size} elements along axis {axis}")
            shape[axis] = size + low + high
            if shape[axis] < 0:
                raise node.invalid(f"padding {low}, {high} of {size} elements along axis {axis}")
        if 0 in shape:
            return empty(g, shape, x.dtype)
        if not x.size:
            if mode != "constant":
                raise node.invalid(f"padding of no elements by mode {mode}")
            check_table(*shape)
            return g.builder.const(np.full(shape, value or 0, x.dtype.numpy))
        if min(pad) < 0 and mode in ("reflect", "replicate"):
            return _continued(g, x, axes, list(zip(before, after, strict=True)), mode)
    fill = [g.builder.const(np.asarray(value, x.dtype.numpy))] if value and mode == "constant" else [None]
    return g("Pad", [x, vector(g, [*before, *after]), *fill, vector(g, axes)], mode=_MODES[mode])


def _continued(
    g: Operators, x: Value, axes: Sequence[int], amounts: Sequence[tuple[int, int]], mode: str
) -> Value:
    """Return a tensor cut at one end and continued at the other, also by elements that are cut off."""
    for axis, (low, high) in zip(axes, amounts, strict=True):
        if low or high:
            last = x.shape[axis] - 1
            check_table(last + 1 + low + high)
            place = np.arange(-low, last + 1 + high)
            if mode == "reflect":
                place = last - np.abs(last - np.abs(place))
            x = g("Gather", [x, vector(g, np.clip(place, 0, last))], axis=axis)
    return x


@aten("pad", layout=ANY)
def _pad(
    node: AtenNode, g: Operators, self: Value, pad: Sequence[int], mode: str, value: float | None
) -> Value:
    return padded(node, g, self, pad, mode, value)


@aten("_pad_enum", layout=ANY)
def _pad_enum(
    node: AtenNode, g: Operators, self: Value, pad: Sequence[int], mode: int, value: float | None
) -> Value:
    if not 0 <= mode < len(_NUMBERED):
        raise node.invalid(f"padding of mode {mode}")
    return padded(node, g, self, pad, _NUMBERED[mode], value)


@aten("constant_pad_nd", layout=ANY)
def _constant_pad(node: AtenNode, g: Operators, self: Value, pad: Sequence[int], value: float) -> Value:
    return padded(node, g, self, pad, value=value)


@aten("_pad_circular", layout=ANY)
def _circular_pad(node: AtenNode, g: Operators, self: Value, pad: Sequence[int]) -> Value:
    return padded(node, g, self, pad, "circular")


@aten(*(f"{mode}_pad{rank}d" for mode in ("reflection", "replication") for rank in (1, 2, 3)), layout=ANY)
def _border_pad(node: AtenNode, g: Operators, self: Value, padding: Sequence[int]) -> Value:
    return padded(node, g, self, padding, "reflect" if node.type.startswith("refl") else "replicate")


@aten("pad_sequence")
def _pad_sequence(
    node: AtenNode,
    g: Operators,
    sequences: Sequence[Value],
    batch_first: bool,
    padding_value: float,
    padding_side: str,
) -> Value:
    if padding_side not in ("left", "right"):
        raise node.invalid(f"padding of side {padding_side!r}")
    longest = max((dims(each, [0])[0] for each in sequences), default=0)
    rows, axis = [], 0 if batch_first else 1
    for each in sequences:
        more = longest - each.shape[0]
        pad = [0, 0] * (each.rank - 1) + ([more, 0] if padding_side == "left" else [0, more])
        whole = padded(node, g, each, pad, value=padding_value)
        rows.append(reshaped(node, g, whole, [*whole.shape[:axis], 1, *whole.shape[axis:]]))
    return joined(node, g, rows, axis)
