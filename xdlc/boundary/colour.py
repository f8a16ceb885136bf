"""Colour encodings of inputs: NV12, NV21, ARGB, RGBA and the order of channels.

NV12 and NV21 are decoded as the vendor's documentation of image preprocessing states: by the equations of
JPEG files (JFIF 1.02: BT.601, full range), with the chroma of each pair of rows and columns repeated.  HTP's
own operation Nv12ToRgb computes the same.  ARGB32 is a little-endian word: its bytes are B, G, R, A.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

import numpy

from xdlc.boundary.datatype import to_float
from xdlc.boundary.scaling import channel_axis
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Param, Tensor, b8, f32, i32, static, u32, u32s
from xdlc.ir.dtype import FLOAT32
from xdlc.json_fields import choice
from xdlc.opdefs.elementwise_enums import RELU_MIN_MAX, ROUND
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.boundary.entry import Entry
    from xdlc.boundary.ports import Port

PLANAR = ("nv12", "nv21")
"""Encodings with a plane of luma and one of chroma: bytes of [batch, height * 3/2, width]."""
_PIXELS = {"bgr": "BGR", "rgb": "RGB", "rgba": "RGBA", "argb32": "BGRA"}
"""Channels of the encodings with whole pixels, in the order of their bytes."""
_NO_IMAGE = ("time_series", "other")
_WORDS = (*_PIXELS, *PLANAR, *_NO_IMAGE)
_ROWS = {"R": (1.0, 0.0, 1.402), "G": (1.0, -0.344136, -0.714136), "B": (1.0, 1.772, 0.0)}
"""Factors of Y, Cb - 128 and Cr - 128."""


def parsed(value: str | Sequence[str]) -> tuple[str, str]:
    """Return the colour encodings of callers and network, ``bgr`` by default.

    Example:
        >>> parsed("nv12 rgb"), parsed("rgba"), parsed("time_series")
        (('nv12', 'rgb'), ('rgba', 'bgr'), ('other', 'other'))

    Raises:
        UsageError: If they are not known, or no op computes the network's from that of callers.
    """
    parts = value if isinstance(value, list | tuple) else str(value).replace(",", " ").split()
    words = [str(part).lower() for part in parts]
    for word in words:
        if word not in _WORDS:
            raise UsageError(f"unknown colour encoding {word!r}", fix=choice(word, _WORDS))
    source, target = [*words, "bgr", "bgr"][:2]
    is_image = words not in ([word] for word in _NO_IMAGE)
    if is_image and (len(words) not in (1, 2) or source in _NO_IMAGE or target not in ("bgr", "rgb", source)):
        fix = "write the encoding of your images, then the encoding of the network, like nv12 rgb"
        raise UsageError(f"{' '.join(words)!r} is not a pair of colour encodings", fix=fix)
    return (source, target) if is_image and source != target else ("other", "other")


def reorder(entry: Entry, port: Port) -> None:
    """Let callers feed channels in another order, or with an ignored alpha channel.

    Raises:
        ConstraintError: If the network has no three channels, or it is not known where they are.
    """
    source, target = port.colours or ("other", "other")
    if source == target or source in PLANAR:
        return
    held, wanted = _PIXELS[source], _PIXELS[target]
    axis, tensor = _checked_channels(entry, target), entry.tensor
    entry.open()
    tensor.shape = (*tensor.shape[:axis], len(held), *tensor.shape[axis + 1 :])
    indices = numpy.asarray([held.index(channel) for channel in wanted], numpy.int32)
    places = static(entry.graph.unique_name(f"{port.name}_channels"), indices)
    reason = f"input_encoding: you pass {port.name!r} as {source}, the network reads {target}"
    entry.order = tuple(indices.tolist())
    entry.close("Gather", [tensor, places], {"axis": i32(axis)}, reason=reason)
    entry.notes.append(f"{source} to {target}")


def decode(entry: Entry, port: Port) -> None:
    """Let callers feed NV12 or NV21: decode it to channel-last pixels.

    The values of a network that reads integers are rounded.

    Raises:
        ConstraintError: If the input is not an image of three channels, and of an even height and width, or
            a layout is requested beside.
    """
    source, target = port.colours or ("other", "other")
    if source not in PLANAR:
        return
    _checked_channels(entry, target)
    check_image(entry, f"{spell('input_encoding')} {quote(port.name)} {source}")
    tensor = entry.tensor
    to_float(entry.graph, tensor)
    batch, height, width, _ = tensor.shape
    if height % 2 or width % 2:
        raise ConstraintError(
            f"{port.name!r} is {height} by {width}: {source} requires even heights and widths",
            fix=f"feed a larger image, and crop the image with {spell('input_crop')}",
        )
    if port.desired_layout is not None:
        raise ConstraintError(
            f"{port.name!r} cannot have the layout {port.desired_layout} as {source}: its shape is "
            f"{[batch, height * 3 // 2, width]}",
            fix=f"omit {spell('desired_input_layout')} {quote(port.name)}",
        )
    inner = entry.open_numbers()
    tensor.shape, entry.layout = (batch, height * 3 // 2, width), None
    if not inner.dtype.is_float:
        tensor.dtype = FLOAT32
    reason = f"input_encoding: you pass {port.name!r} as {source}, the network reads {target}"

    def add(type: str, inputs: Sequence[Tensor], channels: int, **params: Param) -> Tensor:
        return entry.emit(type, inputs, (batch, height, width, channels), params, reason=reason)

    def rows(start: int, stop: int, shape: Sequence[int]) -> Tensor:
        ranges = numpy.asarray([[0, batch, 1], [start, stop, 1], [0, width, 1]], numpy.int32)
        sliced, params = (batch, stop - start, width), {"ranges": static("", ranges)}
        part = entry.emit("StridedSlice", [tensor], sliced, params, reason=reason)
        return entry.emit("Reshape", [part], shape, reason=reason)

    luma = rows(0, height, (batch, height, width, 1))
    chroma = rows(height, height * 3 // 2, (batch, height // 2, width // 2, 2))
    chroma = add("ResizeNearestNeighbor", [chroma], 2, align_corners=b8(False), half_pixel_centers=b8(False))
    pixels = add("Concat", [luma, chroma], 3, axis=u32(3))
    window = {"stride": u32s([1, 1]), "pad_amount": u32s([[0, 0], [0, 0]]), "dilation": u32s([1, 1])}
    mixed = add("Conv2d", [pixels, *_matrix(entry, source, target)], 3, **window, group=u32(1))
    clamp = {"operation": u32(RELU_MIN_MAX), "min_value": f32(0), "max_value": f32(255)}
    if inner.dtype.is_float:
        entry.close("ElementWiseNeuron", [mixed], clamp, reason=reason)
    else:
        clamped = add("ElementWiseNeuron", [mixed], 3, **clamp)
        rounded = add("ElementWiseUnary", [clamped], 3, operation=u32(ROUND))
        entry.close("Cast", [rounded], reason=reason)
    entry.notes.append(f"{source} (BT.601, full range) to {target}")


def _matrix(entry: Entry, source: str, target: str) -> tuple[Tensor, Tensor]:
    """Return weights [1, 1, 3, 3] and bias of the convolution from YUV to colours."""
    name, dtype = entry.tensor.name, entry.tensor.dtype
    rows = numpy.asarray([_ROWS[channel] for channel in _PIXELS[target]])
    bias = -128 * rows[:, 1:].sum(axis=1)
    if source == "nv21":  # Cr comes first
        rows = rows[:, [0, 2, 1]]
    weight = numpy.ascontiguousarray(rows.T.reshape(1, 1, 3, 3), dtype.numpy)
    return (
        static(entry.graph.unique_name(f"{name}_{source}_weight"), weight),
        static(entry.graph.unique_name(f"{name}_{source}_bias"), bias.astype(dtype.numpy)),
    )


def check_image(entry: Entry, option: str) -> None:
    """Refuse an input that is not a channel-last image of known size.

    Raises:
        ConstraintError: If it is not an image.
    """
    tensor = entry.tensor
    if entry.layout != "NHWC" or tensor.dynamic_axes:
        raise ConstraintError(
            f"{option} needs an image of fixed size: {tensor.name!r} is {entry.layout or 'without layout'}, "
            f"{list(tensor.shape)}{' with dynamic dimensions' if tensor.dynamic_axes else ''}",
            fix=f"set the layout, {spell('input_layout')} {quote(tensor.name)} NHWC or NCHW, and "
            f"the sizes of dynamic axes with {spell('input_dims')}",
        )


def _checked_channels(entry: Entry, target: str) -> int:
    """Return the axis of the channels; refuse other than three channels."""
    axis, tensor = channel_axis(entry), entry.tensor
    if tensor.shape[axis] != len(_PIXELS[target]) or axis in tensor.dynamic_axes:
        raise ConstraintError(
            f"{tensor.name!r} has {tensor.shape[axis]} channels, but {target} has {len(_PIXELS[target])}",
            fix=f"omit {spell('input_encoding')}, or set the right layout with {spell('input_layout')}",
        )
    return axis
