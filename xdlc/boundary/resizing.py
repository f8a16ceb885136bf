"""Sizes of image inputs: resizing and cropping.

A size is that of what callers have, as that of the network is known.  With both steps the crop comes first:
callers have images of the crop's size, of which a part of the size that is resized is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from xdlc.boundary.colour import check_image
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import b8, static
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.boundary.entry import Entry
    from xdlc.boundary.ports import Port

_OPS = {"bilinear": ("ResizeBilinear", True), "nearest": ("ResizeNearestNeighbor", False)}
"""Operation of each mode, and whether the centres of pixels are mapped instead of their corners."""
_MOST = 1 << 16


class Resize(NamedTuple):
    """Height and width before resizing, and ``bilinear`` or ``nearest``."""

    height: int
    width: int
    mode: str = "bilinear"


class Crop(NamedTuple):
    """Height and width before cropping, and the start of the crop (None: centred)."""

    height: int
    width: int
    start: tuple[int, int] | None = None


def parsed_resize(value: str | Sequence[Any]) -> Resize:
    """Return a size and a mode.

    Example:
        >>> parsed_resize("480,640"), parsed_resize((480, 640, "nearest"))
        (Resize(height=480, width=640, mode='bilinear'), Resize(height=480, width=640, mode='nearest'))

    Raises:
        UsageError: If it is something else.
    """
    words = _words(value)
    mode = words.pop() if len(words) > 2 else "bilinear"
    size = _whole(words, 1)
    if len(size) != 2 or mode not in _OPS:
        fix = "write height, width and a mode (bilinear or nearest), like 480,640 nearest"
        raise UsageError(f"{value!r} is not a height, a width and a mode", fix=fix)
    return Resize(*size, mode)


def parsed_crop(value: str | Sequence[int]) -> Crop:
    """Return the size of an image, and the start of the crop.

    Example:
        >>> parsed_crop("480,640"), parsed_crop((0, 80, 480, 640))
        (Crop(height=480, width=640, start=None), Crop(height=480, width=640, start=(0, 80)))

    Raises:
        UsageError: If it is something else.
    """
    words = _words(value)
    size, start = _whole(words[-2:], 1), _whole(words[:-2], 0)
    if len(size) != 2 or len(start) != len(words) - 2 or len(start) not in (0, 2):
        fix = "write height and width of your image, like 480,640, or top, left, height and width"
        raise UsageError(f"{value!r} is not a height and a width of an image", fix=fix)
    return Crop(*size, (start[0], start[1]) if start else None)


def _words(value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value).replace(",", " ").split()
    return [word for part in value for word in _words(part)]


def _whole(words: Sequence[str], least: int) -> tuple[int, ...]:
    """Return whole numbers from ``least`` to 65536; () if a word is not such a number."""
    found = tuple(int(word) if word.isdecimal() and len(word) < 9 else -1 for word in words)
    return found if all(least <= number <= _MOST for number in found) else ()


def resize(entry: Entry, port: Port) -> None:
    """Let callers feed images of another size.

    ``bilinear`` maps the centres of pixels and does not smooth before, ``nearest`` takes the pixel that the
    corner maps to: both like OpenCV's and PyTorch's of these names.

    Raises:
        ConstraintError: If the input is no image of known size, or holds integers that bilinear would round.
    """
    tensor, resized = entry.tensor, port.resize
    if resized is None or resized[:2] == tensor.shape[1:3]:
        return
    check_image(entry, f"{spell('input_resize')} {quote(port.name)}")
    if (tensor.dtype.is_integer or tensor.dtype.kind == "bool") and resized.mode == "bilinear":
        raise ConstraintError(
            f"{port.name!r} holds {tensor.dtype}, but bilinear resizing needs float values",
            fix=f"use {spell('input_resize')} {quote(port.name)} {resized.height},{resized.width} nearest",
        )
    inner = entry.open()
    height, width = inner.shape[1:3]
    tensor.shape = (tensor.shape[0], resized.height, resized.width, tensor.shape[3])
    type, centres = _OPS[resized.mode]
    sizes = f"{resized.height}x{resized.width}", f"{height}x{width}"
    reason = f"input_resize: you pass {port.name!r} as {sizes[0]}, the network reads {sizes[1]}"
    params = {"align_corners": b8(False), "half_pixel_centers": b8(centres)}
    entry.close(type, [tensor], params, reason=reason)
    entry.notes.append(f"{resized.mode} {' to '.join(sizes)}")


def crop(entry: Entry, port: Port) -> None:
    """Let callers feed larger images, which the graph crops.

    Raises:
        ConstraintError: If the input is not an image of known size, or larger than what callers have.
    """
    tensor, cropped = entry.tensor, port.crop
    if cropped is None or cropped == (*tensor.shape[1:3], None):
        return
    check_image(entry, f"{spell('input_crop')} {quote(port.name)}")
    batch, height, width, channels = tensor.shape
    top, left = cropped.start or ((cropped.height - height) // 2, (cropped.width - width) // 2)
    if min(top, left) < 0 or top + height > cropped.height or left + width > cropped.width:
        raise ConstraintError(
            f"{spell('input_crop')} {quote(port.name)}: {height}x{width} from row {top}, column "
            f"{left} exceeds your image of {cropped.height}x{cropped.width}",
            fix="write a larger height and width, or a smaller top and left",
        )
    entry.open()
    tensor.shape = (batch, cropped.height, cropped.width, channels)
    ranges = [[0, batch, 1], [top, top + height, 1], [left, left + width, 1], [0, channels, 1]]
    params = {"ranges": static("", numpy.asarray(ranges, numpy.int32))}
    size = f"{cropped.height}x{cropped.width}"
    reason = f"input_crop: you pass {port.name!r} as {size}, the network reads {height}x{width}"
    entry.close("StridedSlice", [tensor], params, reason=reason)
    entry.notes.append(f"{height}x{width} of {size} from row {top}, column {left}")
