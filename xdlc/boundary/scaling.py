"""Mean and scale of inputs: y = (x - mean) * scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdlc.errors import UsageError

if TYPE_CHECKING:
    from xdlc.boundary.entry import Entry
    from xdlc.boundary.ports import Port


def parsed(value: str | float | Sequence[float]) -> tuple[float, ...]:
    """Return one number, or one for each channel.

    Raises:
        UsageError: If it is something else.
    """
    raise UsageError(f"{value!r} is no list of numbers", fix="omit it")


def scale(entry: Entry, port: Port) -> None:
    """Let callers feed values before the mean is subtracted and the scale multiplied."""
