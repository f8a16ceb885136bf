"""Output shapes of operators on arrays: pools, crops, pairs, windows, hashes."""

from __future__ import annotations

from typing import Any

from xdlc.converter.operators.contrib_shapes.rules import (
    Output,
    channels_first,
    channels_last,
    int64,
    stand_in,
)


def channels_last_pool(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A MaxPool of a value in channel-last layout."""
    found = stand_in("MaxPool", attributes, [channels_first(shapes[0])])
    return [(channels_last(found), dtypes[0])]


def crop_and_resize(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Crops of input 0 [batch, channels, ...], one for each region of input 1."""
    size = [None, None] if values[3] is None else [int(extent) for extent in values[3]]
    return [((shapes[1][0], shapes[0][1], *size), dtypes[0])]


def expand_dims(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Input 0 with an axis more, where input 1 states."""
    shape = shapes[0]
    if shape is None or values[1] is None:
        return [(None if shape is None else (None,) * (len(shape) + 1), dtypes[0])]
    axis = int(values[1].reshape(-1)[0])
    axis += len(shape) + 1 if axis < 0 else 0
    return [((*shape[:axis], 1, *shape[axis:]), dtypes[0])]


def pairs(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape [rows of input 0, rows of input 1]."""
    return [((shapes[0][0], shapes[1][0]), dtypes[0])]


def unique(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """The different elements, the index of each element in them, and their counts."""
    return [((None,), dtypes[0]), (shapes[0], int64()), ((None,), int64())]


def unfold(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape with windows of ``size`` along ``dim`` as the last axis."""
    shape = list(shapes[0])
    axis, size, step = attributes.get("dim", -1) % len(shape), attributes["size"], attributes.get("step", 1)
    if shape[axis] is not None:
        shape[axis] = (shape[axis] - size) // step + 1
    return [((*shape, size), dtypes[0])]


def murmur_hash(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A number of 32 bits for each element."""
    import numpy

    return [(shapes[0], numpy.dtype(numpy.uint32 if attributes.get("positive", 1) else numpy.int32))]


def time_warping(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Pairs of positions, of a path whose length is only known when the graph runs."""
    import numpy

    return [((2, None), numpy.dtype(numpy.int32))]
