"""Handlers of operators that continue tensors beyond their borders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.scatter import full
from xdlc.converter.nhwc.shapes import number, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import empty
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
    if mode not in _MODES or len(pad) % 2 or len(pad) // 2 > x.rank:
        raise node.invalid(f"padding by mode {mode!r} with {len(pad)} amounts of {x.rank} axes")
    if not any(pad):
        return x
    before, after = pad[0::2], pad[1::2]
    axes = [x.rank - 1 - index for index in range(len(before))]
    if not x.is_dynamic:
        shape = list(x.shape)
        for axis, low, high in zip(axes, before, after, strict=True):
            size = shape[axis]
            left = size + min(low, 0) + min(high, 0)  # which alone is continued if it is circular
            most = {"reflect": size - 1, "circular": left}.get(mode, max(low, high))
            shape[axis] = size + low + high
            if max(low, high) > most or shape[axis] < 0:
                raise node.invalid(f"padding {low}, {high} of {size} elements along axis {axis}")
        if 0 in shape:
            return empty(g, shape, x.dtype)
        if not x.size:
            if mode != "constant":
                raise node.invalid(f"padding of no elements by mode {mode}")
            check_table(*shape)
            return full(g, shape, value or 0, x.dtype)
        if min(pad) < 0 and mode in ("reflect", "replicate"):
            return _continued(g, x, axes, before, after, mode)
    fill = number(g, x, value) if value and mode == "constant" else None
    return g("Pad", [x, vector(g, [*before, *after]), fill, vector(g, axes)], mode=_MODES[mode])


def _continued(
    g: Operators, x: Value, axes: Sequence[int], before: Sequence[int], after: Sequence[int], mode: str
) -> Value:
    """Return a tensor cut at one end and continued at the other, also by elements that are cut off."""
    for axis, low, high in zip(axes, before, after, strict=True):
        last = x.shape[axis] - 1
        check_table(last + 1 + low + high)
        place = np.arange(-low, last + 1 + high)
        if mode == "reflect":
            place = last - np.abs(last - np.abs(place))
        if low or high:
            x = g("Gather", [x, vector(g, np.clip(place, 0, last))], axis=axis)
    return x


@aten("pad", "_pad_enum", "constant_pad_nd", "_pad_circular", layout=ANY)
def _pad(
    node: AtenNode,
    g: Operators,
    self: Value,
    pad: Sequence[int],
    mode: str | int = "constant",
    value: float | None = None,
) -> Value:
    if isinstance(mode, int):
        mode = _NUMBERED[mode] if 0 <= mode < len(_NUMBERED) else str(mode)
    return padded(node, g, self, pad, "circular" if node.type == "_pad_circular" else mode, value)


@aten(*(f"{mode}_pad{rank}d" for mode in ("reflection", "replication") for rank in (1, 2, 3)), layout=ANY)
def _border_pad(node: AtenNode, g: Operators, self: Value, padding: Sequence[int]) -> Value:
    return padded(node, g, self, padding, "reflect" if node.type.startswith("refl") else "replicate")
