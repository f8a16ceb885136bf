"""Sizes of inputs that are images: other sizes than the network's, and parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xdlc.errors import UsageError

if TYPE_CHECKING:
    from xdlc.boundary.entry import Entry
    from xdlc.boundary.ports import Port


class Resize(NamedTuple):
    """Size of what callers have, before it is resized.

    Attributes:
        height: Rows.
        width: Columns.
        mode: ``bilinear`` or ``nearest``.
    """

    height: int
    width: int
    mode: str = "bilinear"


class Crop(NamedTuple):
    """Part of an image.

    Attributes:
        height: Rows.
        width: Columns.
        top: First row; None: that of the centre.
        left: First column; None: that of the centre.
    """

    height: int
    width: int
    top: int | None = None
    left: int | None = None


def parsed_resize(value: str | Sequence[Any]) -> Resize:
    """Return a size and a mode.

    Raises:
        UsageError: If it is something else.
    """
    raise UsageError(f"{value!r} is no size", fix="omit it")


def parsed_crop(value: str | Sequence[int]) -> Crop:
    """Return a part of an image.

    Raises:
        UsageError: If it is something else.
    """
    raise UsageError(f"{value!r} is no part of an image", fix="omit it")


def resize(entry: Entry, port: Port) -> None:
    """Let callers feed images of another size."""


def crop(entry: Entry, port: Port) -> None:
    """Let callers feed larger images, of which the network sees a part."""
