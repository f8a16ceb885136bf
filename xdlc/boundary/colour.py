"""Colour encodings of inputs: NV12, NV21, ARGB, RGBA and the order of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdlc.errors import UsageError

if TYPE_CHECKING:
    from xdlc.boundary.entry import Entry
    from xdlc.boundary.ports import Port


def parsed(value: str | Sequence[str]) -> tuple[str, str]:
    """Return the colour encodings of callers and of the network.

    Raises:
        UsageError: If they are not known.
    """
    raise UsageError(f"colour encoding {value!r} is not known", fix="omit it")


def decode(entry: Entry, port: Port) -> None:
    """Let callers feed another colour encoding; the innermost side has channels at the end."""


def reorder(entry: Entry, port: Port) -> None:
    """Let callers feed the channels in another order."""
