"""Handlers of layers whose tops depend on no data: stored and filled blobs, boxes of SSD."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.caffe.params import Params, bottoms, misfit, params, weights
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.scatter import full
from xdlc.converter.operators.applying import Operators
from xdlc.converter.protobuf_text import Message
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value, check_shape, check_table
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import FLOAT32

_MOST = 1 << 10


@layer("Parameter")
def _parameter(node: Node, g: Operators) -> Value:
    return weights(node, g, params(node, "parameter_param").integers("shape.dim", least=1))[0]


@layer("DummyData")
def _dummy_data(node: Node, g: Operators) -> list[Value]:
    """Return blobs of one number each; one shape or filler holds for all tops."""
    count = len(node.outputs)
    node.read.update(name for name in node.attributes if name.startswith("dummy_data_param."))
    own = next(iter(node.message.fields.messages("dummy_data_param")), Message(0))
    sizes = [own.scalars(name) for name in ("num", "channels", "height", "width")]
    shapes: list[Sequence[object]] = [shape.scalars("dim") for shape in own.messages("shape")]
    if len({len(each) for each in sizes}) > 1 or (shapes and sizes[0]):
        raise misfit("states num, channels, height and width not equally often, or shapes too")
    shapes += zip(*sizes, strict=True)
    fillers = [_filled(filler) for filler in own.messages("data_filler")] or [0.0]
    if len(shapes) not in (1, count) or len(fillers) not in (1, count):
        raise misfit(f"states {len(shapes)} shapes and {len(fillers)} fillers for {count} tops")
    made = []
    for index, name in enumerate(node.outputs):
        given = shapes[index % len(shapes)]
        shape = [size for size in given if isinstance(size, int) and size > 0]
        if len(shape) != len(given):
            raise misfit("states a shape that is not of integers above 0")
        check_shape(name, shape, FLOAT32)
        check_table(*shape)
        made.append(full(g, shape, fillers[index % len(fillers)], FLOAT32))
    return made


def _filled(filler: Message) -> float:
    (kind, *_), (value, *_) = filler.scalars("type") or ["constant"], filler.scalars("value") or [0]
    if kind != "constant":
        raise UnsupportedOp(f"is filled with random numbers ({kind})", fix="make it an Input layer")
    if isinstance(value, str):
        raise misfit("states a value of data_filler that is no number")
    return float(np.float32(value))


# ------------------------------------------------------------------ boxes of SSD


@layer("PriorBox")
def _prior_box(node: Node, g: Operators) -> Value:
    """Return corners and variances [1, 2, 4 n] of the boxes of each cell, as SSD's prior_box_layer.cpp does.

    Sizes count as integers; per cell and min_size come the square of min_size, that of
    sqrt(min_size max_size), and one box per aspect ratio.
    """
    x, image = (given := bottoms(node, 1, 2, rank=4))[0], given[-1]
    p, sizes = params(node, "prior_box_param"), _box_sizes(params(node, "prior_box_param"))
    if image.rank != 4:
        raise misfit(f"has an image of {image.rank} axes instead of 4")
    rows, columns = x.shape[2:]
    check_table(rows, columns, len(sizes), 8)
    height, width = _pair(p, "img", "img_size", (image.shape[2], image.shape[3]))
    step_y, step_x = _pair(p, "step", "step", (height / rows, width / columns))
    offset = p.number("offset", 0.5)
    places = (np.arange(columns) + offset) * step_x, (np.arange(rows) + offset) * step_y
    centers = np.stack(np.meshgrid(*places), axis=-1)[:, :, None, :]
    half = np.asarray(sizes) / 2
    corners = np.concatenate([centers - half, centers + half], axis=-1) / [width, height, width, height]
    if p.flag("clip", False):
        corners = np.clip(corners, 0, 1)
    elif not p.has("clip") and (corners.min() < 0 or corners.max() > 1):
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} states no clip: its boxes are not cut to 0 ... 1, as in SSD itself; "
            "some forks of Caffe cut them: state clip to be sure"
        )
    variance = p.numbers("variance", above=0) or [0.1]
    if len(variance) not in (1, 4):
        raise misfit(f"states {len(variance)} variances instead of one or four")
    variances = np.broadcast_to(variance, corners.shape)
    both = np.stack([corners.reshape(-1), variances.reshape(-1)])[None].astype(np.float32)
    return g.builder.const(ir.ArrayData(both))


def _box_sizes(p: Params) -> list[tuple[float, float]]:
    """Return width and height of the boxes of a cell."""
    least, most, given = (p.numbers(name, above=0) for name in ("min_size", "max_size", "aspect_ratio"))
    if max(len(least), len(most), len(given)) > _MOST:
        raise misfit(f"states more than {_MOST} sizes or aspect ratios")
    if (
        not least
        or len(most) not in (0, len(least))
        or any(b <= a for a, b in zip(least, most, strict=False))
    ):
        raise misfit(
            f"states min_size {least} and max_size {most}: one above each min_size is wanted, or none"
        )
    ratios, flips = [1.0], p.flag("flip", True)
    for ratio in given:
        if all(abs(ratio - held) >= 1e-6 for held in ratios):
            ratios += [ratio, 1 / ratio] if flips else [ratio]
    made = []
    for small, large in itertools.zip_longest(map(int, least), map(int, most)):
        made.append((float(small), float(small)))
        if large is not None:
            made.append((math.sqrt(small * large),) * 2)
        made += [(small * math.sqrt(ratio), small / math.sqrt(ratio)) for ratio in ratios[1:]]
    return made


def _pair(p: Params, stem: str, both: str, default: tuple[float, float]) -> tuple[float, float]:
    """Return height and width of the image, or steps, stated as one number, as two, or not at all."""
    parts = (f"{stem}_h", f"{stem}_w")
    if not p.has(both, *parts):
        return default
    if p.has(both) and p.has(*parts):
        raise misfit(f"states {both}, and {parts[0]} or {parts[1]}: one of both is wrong")
    height, width = (p.number(both if p.has(both) else part, above=0) for part in parts)
    return height, width
