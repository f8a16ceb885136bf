"""Layouts of inputs and outputs, and Transposes between two of them."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING

from xdlc.boundary.entry import connect, split
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import NATIVE_PACKAGE, AxisScaleOffset, Graph, Tensor, u32s
from xdlc.json_fields import choice
from xdlc.opdefs.traits import traits
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.boundary.ports import Port

_OF_LETTERS = ("NCDHW", "NDHWC", "NCHW", "NHWC", "HWIO", "OIHW", "NFC", "NCF", "NTF", "TNF", "NF", "NC", "F")
WORDS = (*_OF_LETTERS, "NONTRIVIAL")
"""Layouts under the vendor's names, a letter for each axis; without NONTRIVIAL."""
CHANNEL_LAST = {"NCDHW": "NDHWC", "NCHW": "NHWC", "NCF": "NFC"}
"""Channel-last layouts by the channel-first ones."""
Notify = Callable[[str], None]


def parsed(value: str) -> str:
    """Return a layout in capital letters.

    Raises:
        UsageError: If no layout has that name.
    """
    found = str(value).upper()
    if found not in WORDS:
        raise UsageError(f"xdlc knows no layout {value!r}", fix=choice(found, WORDS))
    return found


def stated(tensor: Tensor, port: Port, noted: str | None, assumed: str | None, notify: Notify) -> str | None:
    """Return the layout of an input or output before any change, or None.

    Args:
        port: What is requested of it, which comes first.
        noted: What the model states.
        assumed: ``first`` or ``last``: where channels are, as far as nothing states it.
        notify: Called if the two differ, or something is assumed.

    Raises:
        ConstraintError: If the tensor has another number of axes than the layout.
    """
    if port.layout is None:
        rank = tensor.rank if port.has_channels else 0
        pairs = [pair for pair in CHANNEL_LAST.items() if port.desired_layout in pair or len(pair[0]) == rank]
        if noted is not None or assumed is None or not pairs:
            return noted
        found = pairs[0][assumed == "last"]
        _check_rank(tensor, found)
        option = f"{spell('input_layout' if port.is_input else 'output_layout')} {tensor.name}"
        notify(f"the model states no layout of {tensor.name!r}: xdlc assumes {found}; {option} sets another")
        return found
    if port.layout == "NONTRIVIAL":
        return None
    _check_rank(tensor, port.layout)
    if noted is not None and noted != port.layout:
        option = "desired_input_layout" if port.is_input else "desired_output_layout"
        advice = f"{spell(option)} sets the layout that your application uses"
        notify(f"{tensor.name!r} has layout {port.layout} in your option, but {noted} in the model; {advice}")
    return port.layout


def inferred(graph: Graph, port: Tensor) -> str | None:
    """Return the layout that convolutions and poolings imply, or None.

    Transposes and ops on single elements are followed; None if there is no such op.
    """
    is_input = port in graph.inputs
    pending, seen = [(port, tuple(range(port.rank)))], {port}  # the axis of the port that each axis is
    for tensor, axes in pending:
        for op in graph.consumers(tensor) if is_input else [tensor.producer]:
            beyond = None if op is None else op.outputs[0] if is_input else op.inputs[0]
            if op is None or beyond is None or (is_input and op.inputs[0] is not tensor and beyond in seen):
                continue
            facts = traits(op)
            if op.package != NATIVE_PACKAGE:
                continue
            if facts.pool or facts.macs in ("convolution", "transposed") or op.type.startswith("Resize"):
                if op.inputs[0] is tensor or not is_input:
                    word = next((last for last in CHANNEL_LAST.values() if len(last) == tensor.rank), "")
                    found = "".join(word[axes.index(axis)] for axis in range(len(word)))
                    return found if found in WORDS else None
            elif op.type == "Transpose":
                perm = [int(axis) for axis in op.param("perm")]
                back = [perm.index(axis) for axis in range(len(perm))]
                pending.append((beyond, tuple(axes[axis] for axis in (perm if is_input else back))))
            elif (facts.elementwise or facts.recodes) and beyond.shape == tensor.shape:
                pending.append((beyond, axes))
            seen.add(beyond)
    return None


def order(tensor: Tensor, have: str | None, want: str) -> tuple[int, ...]:
    """Return the permutation from layout ``have`` to ``want``.

    Raises:
        ConstraintError: If it is not known what the axes are, or they are others.
    """
    _check_rank(tensor, want)
    if isinstance(tensor.encoding, AxisScaleOffset):
        raise ConstraintError(
            f"{tensor.name!r} has a scale per channel, which fixes its layout", fix="keep the layout"
        )
    if have is None:
        raise ConstraintError(
            f"the model states no layout of {tensor.name!r}, so xdlc cannot change it to {want}",
            fix=f"add {spell('input_layout')} or {spell('output_layout')} {quote(tensor.name)} LAYOUT",
        )
    if sorted(have) != sorted(want):
        raise ConstraintError(
            f"{tensor.name!r} is {have}, whose axes are not the axes of {want}",
            fix=f"use one of {', '.join(word for word in WORDS if sorted(word) == sorted(have))}",
        )
    return tuple(have.index(letter) for letter in want)


def change(graph: Graph, port: Tensor, have: str | None, want: str | None) -> str | None:
    """Let callers have an input or output in another layout, and return its layout.

    Args:
        have: What its axes are; None if that is not known.
        want: What callers want; None for any layout.

    Raises:
        ConstraintError: If its axes are not known or others, or it is input and output at once.
    """
    if want in (None, "NONTRIVIAL", have):
        return have
    axes = order(port, have, want)
    inner = split(graph, port)
    port.shape = tuple(inner.shape[axis] for axis in axes)
    port.dynamic_axes = tuple(place for place, axis in enumerate(axes) if axis in inner.dynamic_axes)
    back = [axes.index(axis) for axis in range(len(axes))]
    reason = f"layout: {port.name!r} is {want} in your application, {have} in the graph"
    perm = u32s(back if port in graph.inputs else axes)
    connect(graph, port, inner, "Transpose", reason, {"perm": perm})
    return want


def _check_rank(tensor: Tensor, wanted: str) -> None:
    if tensor.rank != len(wanted):
        near = ", ".join(word for word in _OF_LETTERS if len(word) == tensor.rank)
        raise ConstraintError(
            f"{tensor.name!r} has {tensor.rank} axes, {list(tensor.shape)}, but {wanted} has {len(wanted)}",
            fix=f"use {f'one of {near}, or ' if near else ''}NONTRIVIAL, which keeps the axes",
        )
