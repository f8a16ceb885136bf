"""Sizes of inputs that are images: other sizes than the network's, and parts of them.

A size is that of what callers have, as that of the network is known.  With both steps the crop comes first:
callers have images of the crop's size, of which a part of the size that is resized is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from xdlc.boundary.colour import check_image
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import b8, static

if TYPE_CHECKING:
    from xdlc.boundary.entry import Entry
    from xdlc.boundary.ports import Port

_OPS = {"bilinear": ("ResizeBilinear", True), "nearest": ("ResizeNearestNeighbor", False)}
"""Operation of each mode, and whether the centres of pixels are mapped instead of their corners."""
_MOST = 1 << 16


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
    """Size of what callers have, and the part of it that is used.

    Attributes:
        height: Rows.
        width: Columns.
        top: First row of the part; None: that of the centre.
        left: First column of the part; None: that of the centre.
    """

    height: int
    width: int
    top: int | None = None
    left: int | None = None


def parsed_resize(value: str | Sequence[Any]) -> Resize:
    """Return a size and a mode.

    Example:
        >>> parsed_resize("480,640"), parsed_resize((480, 640, "nearest"))
        (Resize(height=480, width=640, mode='bilinear'), Resize(height=480, width=640, mode='nearest'))

    Raises:
        UsageError: If it is something else.
    """
    parts = _parts(value)
    mode = parts.pop() if len(parts) == 3 else "bilinear"
    if len(parts) != 2 or mode not in _OPS:
        raise UsageError(
            f"{value!r} is no size and mode",
            fix="give height and width, and bilinear or nearest, like 480,640 nearest",
        )
    height, width = _dims(parts, value, least=1)
    return Resize(height, width, mode)


def parsed_crop(value: str | Sequence[int]) -> Crop:
    """Return the size of an image, and where the part of it starts.

    Example:
        >>> parsed_crop("480,640"), parsed_crop((0, 80, 480, 640))
        (Crop(height=480, width=640, top=None, left=None), Crop(height=480, width=640, top=0, left=80))

    Raises:
        UsageError: If it is something else.
    """
    parts = _parts(value)
    if len(parts) not in (2, 4):
        raise UsageError(
            f"{value!r} is neither a size nor a place and a size",
            fix="give height and width of what callers have, or top, left, height and width",
        )
    height, width = _dims(parts[-2:], value, least=1)
    top, left = _dims(parts[:2], value, least=0) if len(parts) == 4 else (None, None)
    return Crop(height, width, top, left)


def _parts(value: str | Sequence[Any]) -> list[Any]:
    if isinstance(value, str):
        return list(value.replace(",", " ").split())
    flat: list[Any] = []
    for part in value if isinstance(value, Sequence) else ():
        flat += _parts(part) if isinstance(part, Sequence) else [part]
    return flat


def _dims(parts: Sequence[Any], value: object, least: int) -> list[int]:
    """Return whole numbers from ``least`` on.

    Raises:
        UsageError: If one is something else, or beyond 65536.
    """
    found = [int(part) if str(part).isdecimal() and len(str(part)) < 9 else -1 for part in parts]
    if any(not least <= number <= _MOST for number in found):
        fix = f"give whole numbers from {least} to {_MOST}"
        raise UsageError(f"{value!r} has something else than sizes of images", fix=fix)
    return found


def resize(entry: Entry, port: Port) -> None:
    """Let callers feed images of another size.

    ``bilinear`` maps the centres of pixels and does not smooth before, ``nearest`` takes the pixel that the
    corner maps to: both like OpenCV's and PyTorch's of these names.

    Raises:
        ConstraintError: If the input is no image of known size, or holds integers that bilinear would round.
    """
    tensor, wanted = entry.tensor, port.resize
    if wanted is None:
        return
    check_image(entry, f"--input_resize {port.name}")
    if wanted[:2] == tensor.shape[1:3]:
        return
    if tensor.dtype.is_integer and wanted.mode == "bilinear":
        raise ConstraintError(
            f"{port.name!r} holds {tensor.dtype}, which bilinear resizing would have to round",
            fix=f"use --input_resize {port.name} {wanted.height},{wanted.width} nearest",
        )
    inner = entry.open()
    height, width = inner.shape[1:3]
    tensor.shape = (tensor.shape[0], wanted.height, wanted.width, tensor.shape[3])
    type, centres = _OPS[wanted.mode]
    reason = (
        f"input_resize: callers have {port.name!r} as {wanted.height}x{wanted.width}, "
        f"the network as {height}x{width}"
    )
    params = {"align_corners": b8(False), "half_pixel_centers": b8(centres)}
    entry.close(type, [tensor], params, reason=reason)
    entry.notes.append(f"{wanted.mode} {wanted.height}x{wanted.width} to {height}x{width}")


def crop(entry: Entry, port: Port) -> None:
    """Let callers feed larger images, of which a part is used.

    Raises:
        ConstraintError: If the input is no image of known size, or larger than what callers have.
    """
    tensor, wanted = entry.tensor, port.crop
    if wanted is None:
        return
    check_image(entry, f"--input_crop {port.name}")
    batch, height, width, channels = tensor.shape
    top = (wanted.height - height) // 2 if wanted.top is None else wanted.top
    left = (wanted.width - width) // 2 if wanted.left is None else wanted.left
    if top < 0 or left < 0 or top + height > wanted.height or left + width > wanted.width:
        raise ConstraintError(
            f"--input_crop {port.name}: {height}x{width} from row {top}, column {left} on is no part of "
            f"{wanted.height}x{wanted.width}",
            fix="give the size of what callers have, from which a part of the size after it is taken",
        )
    if (wanted.height, wanted.width) == (height, width):
        return
    entry.open()
    tensor.shape = (batch, wanted.height, wanted.width, channels)
    ranges = [[0, batch, 1], [top, top + height, 1], [left, left + width, 1], [0, channels, 1]]
    params = {"ranges": static("", numpy.asarray(ranges, numpy.int32))}
    size = f"{wanted.height}x{wanted.width}"
    reason = f"input_crop: callers have {port.name!r} as {size}, the network as {height}x{width}"
    entry.close("StridedSlice", [tensor], params, reason=reason)
    entry.notes.append(f"{height}x{width} of {size} from row {top}, column {left} on")
