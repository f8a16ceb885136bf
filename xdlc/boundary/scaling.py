"""Mean and scale of inputs: y = (x - mean) * scale."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

import numpy

from xdlc.boundary.datatype import to_float
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Tensor, static, u32
from xdlc.opdefs.elementwise_enums import MULTIPLY, SUBTRACT
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.boundary.entry import Entry
    from xdlc.boundary.ports import Port

_MOST, _LARGEST = 1 << 16, 3e38


def parsed(value: str | float | Sequence[float]) -> tuple[float, ...]:
    """Return one number, or one for each channel.

    Example:
        >>> parsed("123.5, 116,104"), parsed(0.017)
        ((123.5, 116.0, 104.0), (0.017,))

    Raises:
        UsageError: If it is something else.
    """
    parts = value.replace(",", " ").split() if isinstance(value, str) else value
    try:
        numbers = numpy.asarray(parts, numpy.float64).reshape(-1)
    except (TypeError, ValueError):
        numbers = numpy.asarray([numpy.nan])
    if not 0 < numbers.size <= _MOST or not (abs(numbers) < _LARGEST).all():
        fix = "write one number, or a number for each channel, like 123.7,116.3,103.5"
        raise UsageError(f"{value!r} is not a list of finite numbers", fix=fix)
    return tuple(numbers.tolist())


def scale(entry: Entry, port: Port) -> None:
    """Let callers feed values before the mean is subtracted and the scale multiplied.

    The numbers are those of the channels as the network has them.

    Raises:
        ConstraintError: If the input has another number of channels, or holds integers.
    """
    notes = list[str]()
    for name, operation, neutral, numbers in (
        ("scale", MULTIPLY, 1.0, port.scale),
        ("mean", SUBTRACT, 0.0, port.mean),
    ):
        if all(number == neutral for number in numbers):
            continue
        notes.append(f"{name} {','.join(map('{:g}'.format, numbers))}")
        to_float(entry.graph, entry.tensor)
        if not entry.tensor.dtype.is_float:
            raise ConstraintError(
                f"{port.name!r} holds {entry.tensor.dtype}, but a {name} needs float values",
                fix=f"omit {spell(f'input_{name}')} {port.name}",
            )
        constant = _constant(entry, name, numbers, neutral)
        entry.open_numbers()
        reason = f"input_{name}: you pass {port.name!r} x, the DLC computes (x - mean) * scale"
        params = {"operation": u32(operation)}
        entry.close("ElementWiseBinary", [entry.tensor, constant], params, reason=reason)
    entry.notes[:0] = notes


def _constant(entry: Entry, name: str, numbers: Sequence[float], neutral: float) -> Tensor:
    """Return a static scalar, or a value per channel, that broadcasts over the input."""
    port, shape = entry.tensor, [1]
    if len(numbers) > 1:
        axis = channel_axis(entry)
        order = entry.order or range(port.shape[axis])
        if len(numbers) != len(order):
            raise ConstraintError(
                f"{spell(f'input_{name}')} has {len(numbers)} numbers, but {port.name!r} has "
                f"{len(order)} channels",
                fix="write one number, or a number for each channel",
            )
        shape = [-1] + [1] * (port.rank - 1 - axis)
        held = dict(zip(order, numbers, strict=True))
        numbers = [held.get(place, neutral) for place in range(port.shape[axis])]
    array = numpy.asarray(numbers, port.dtype.numpy)
    if not numpy.isfinite(array).all():
        raise ConstraintError(
            f"{spell(f'input_{name}')} of {port.name!r} is outside the range of {port.dtype}"
        )
    return static(entry.graph.unique_name(f"{port.name}_{name}"), array.reshape(shape))


def channel_axis(entry: Entry) -> int:
    """Return the axis of an input's channels, or of its features.

    Raises:
        ConstraintError: If it is not known what the axes are.
    """
    held = entry.layout or ""
    for letter in "CF":
        if letter in held:
            return held.index(letter)
    name = entry.tensor.name
    raise ConstraintError(
        f"the model does not state the channel axis of {name!r}, {list(entry.tensor.shape)}",
        fix=f"set the layout: {spell('input_layout')} {quote(name)} NHWC, or another layout",
    )
