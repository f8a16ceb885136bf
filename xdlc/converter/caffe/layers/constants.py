"""Handlers of layers whose tops depend on no data: stored and filled blobs, boxes of SSD."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.caffe.params import Params, bottoms, params, weights
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.scatter import full
from xdlc.converter.operators.applying import Operators
from xdlc.converter.protobuf_text import Message
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value, check_shape, check_table
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32

_CORRECT = "correct the layer in the net's text"
_MOST = 1 << 10
_LEGACY = ("num", "channels", "height", "width")


@layer("Parameter")
def _parameter(node: Node, g: Operators) -> Value:
    return weights(node, g, params(node, "parameter_param").integers("shape.dim", least=1))[0]


@layer("DummyData")
def _dummy_data(node: Node, g: Operators) -> list[Value]:
    """Return blobs of one number each; one shape or filler holds for all tops."""
    count = len(node.outputs)
    node.read.update(name for name in node.attributes if name.startswith("dummy_data_param."))
    stated = next(iter(node.message.fields.messages("dummy_data_param")), Message(0))
    shapes = [_integers(shape.scalars("dim")) for shape in stated.messages("shape")]
    if not shapes:
        sizes = [_integers(stated.scalars(name)) for name in _LEGACY]
        if len({len(each) for each in sizes}) > 1:
            raise ModelError(
                "states num, channels, height and width a different number of times", fix=_CORRECT
            )
        shapes = [list(shape) for shape in zip(*sizes, strict=True)]
    fillers = [_filled(filler) for filler in stated.messages("data_filler")] or [0.0]
    for what, given in (("shapes", shapes), ("fillers", fillers)):
        if len(given) not in (1, count):
            raise ModelError(f"states {len(given)} {what} for {count} tops", fix=_CORRECT)
    made = []
    for index, name in enumerate(node.outputs):
        shape = shapes[index % len(shapes)]
        check_shape(name, shape, FLOAT32)
        made.append(full(g, shape, fillers[index % len(fillers)], FLOAT32))
    return made


def _integers(values: Sequence[object]) -> list[int]:
    found = [value for value in values if isinstance(value, int) and value > 0]
    if len(found) != len(values):
        raise ModelError("states a shape that is not of integers above 0", fix=_CORRECT)
    return found


def _filled(filler: Message) -> float:
    (kind, *_), (value, *_) = filler.scalars("type") or ["constant"], filler.scalars("value") or [0]
    if kind != "constant":
        raise UnsupportedOp(f"is filled with random numbers ({kind})", fix="make it an Input layer")
    if isinstance(value, str):
        raise ModelError("states a value of data_filler that is no number", fix=_CORRECT)
    return float(np.float32(value))


# ------------------------------------------------------------------ boxes of SSD


@layer("PriorBox")
def _prior_box(node: Node, g: Operators) -> Value:
    """Return corners and variances [1, 2, 4 n] of the boxes of each cell, as SSD's prior_box_layer.cpp does.

    Sizes count as integers; per cell and min_size come the square of min_size, that of
    sqrt(min_size max_size), and one box per aspect ratio.
    """
    x, image = (given := bottoms(node, 1, 2))[0], given[-1]
    own = params(node, "prior_box_param")
    if x.rank != 4 or image.rank != 4:
        raise ModelError(f"has bottoms of rank {x.rank} and {image.rank} instead of 4", fix=_CORRECT)
    sizes = _box_sizes(own)
    rows, columns = x.shape[2:]
    check_table(rows, columns, len(sizes), 8)
    height, width = _pair(own, "img", "img_size", (image.shape[2], image.shape[3]))
    step_y, step_x = _pair(own, "step", "step", (height / rows, width / columns))
    offset = own.number("offset", 0.5)
    if not math.isfinite(offset):
        raise ModelError(f"states an offset of {offset:g}", fix=_CORRECT)
    centers = np.stack(
        np.meshgrid(
            (np.arange(columns) + offset) * step_x, (np.arange(rows) + offset) * step_y, indexing="xy"
        ),
        axis=-1,
    )[:, :, None, :]
    half = np.asarray(sizes) / 2
    corners = np.concatenate([centers - half, centers + half], axis=-1) / [width, height, width, height]
    if not own.has("clip"):
        own.flag("clip", False)
        if corners.min() < 0 or corners.max() > 1:
            g.context.diagnostics.notices.append(
                f"{node.own_name!r} states no clip: its boxes are not cut to 0 ... 1, as in SSD itself; "
                "some forks of Caffe cut them: state clip to be sure"
            )
    elif own.flag("clip", False):
        corners = np.clip(corners, 0, 1)
    variances = np.broadcast_to(_variances(own), corners.shape)
    both = np.stack([corners.reshape(-1), variances.reshape(-1)])[None].astype(np.float32)
    return g.builder.const(ir.ArrayData(both))


def _variances(own: Params) -> Array:
    given = own.numbers("variance") or [0.1]
    if len(given) not in (1, 4) or min(given) <= 0:
        raise ModelError(f"states variances {given}: one or four above 0 are wanted", fix=_CORRECT)
    return np.asarray(given)


def _box_sizes(own: Params) -> list[tuple[float, float]]:
    """Return width and height of the boxes of a cell."""
    least, most = own.numbers("min_size"), own.numbers("max_size")
    ratios, flips = [1.0], own.flag("flip", True)
    given = own.numbers("aspect_ratio")
    if max(len(least), len(most), len(given)) > _MOST:
        raise ModelError(f"states more than {_MOST} sizes or aspect ratios", fix=_CORRECT)
    if not least or min(least) <= 0 or not all(map(math.isfinite, [*least, *most])):
        raise ModelError(
            f"states min_size {least} and max_size {most}: finite ones above 0 are wanted", fix=_CORRECT
        )
    if most and (len(most) != len(least) or any(b <= a for a, b in zip(least, most, strict=True))):
        raise ModelError(f"states max_size {most}: one above each min_size is wanted", fix=_CORRECT)
    for ratio in given:
        if not 0 < ratio < math.inf:
            raise ModelError(f"states an aspect_ratio of {ratio:g}", fix=_CORRECT)
        if all(abs(ratio - held) >= 1e-6 for held in ratios):
            ratios += [ratio, 1 / ratio] if flips else [ratio]
    made = []
    for small, large in itertools.zip_longest(map(int, least), map(int, most)):
        made.append((float(small), float(small)))
        if large is not None:
            made.append((math.sqrt(small * large),) * 2)
        made += [(small * math.sqrt(r), small / math.sqrt(r)) for r in ratios if abs(r - 1) >= 1e-6]
    return made


def _pair(own: Params, stem: str, both: str, default: tuple[float, float]) -> tuple[float, float]:
    """Return height and width of the image, or steps, stated as one number, as two, or not at all."""
    parts = (f"{stem}_h", f"{stem}_w")
    if own.has(*parts):
        if own.has(both):
            raise ModelError(
                f"states {both}, and {parts[0]} or {parts[1]}: one of both is wrong", fix=_CORRECT
            )
        pair = own.number(parts[0]), own.number(parts[1])
    else:
        value = own.number(both, 0.0)
        if not value and not own.has(both):
            return default
        pair = value, value
    if min(pair) <= 0 or not math.isfinite(max(pair)):
        raise ModelError(f"states a size {pair[0]:g} x {pair[1]:g}", fix=_CORRECT)
    return pair
