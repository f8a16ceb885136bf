"""Output shapes of fused normalizations."""

from __future__ import annotations

from typing import Any

from xdlc.converter.operators.contrib_shapes.rules import (
    Output,
    float32,
)


def skip_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """The sum normalized, mean, deviation, and the sum."""
    shape, dtype = shapes[0], dtypes[0]
    mean = None if shape is None else (*shape[:-1], 1)
    return [(shape, dtype), (mean, float32()), (mean, float32()), (shape, dtype)]


def simplified_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """The input normalized, and its deviation, whose normalized axes are of size 1."""
    shape = shapes[0]
    if shape is None:
        return [(None, dtypes[0]), (None, float32())]
    axis = attributes.get("axis", -1) % len(shape)
    return [(shape, dtypes[0]), ((*shape[:axis], *(1,) * (len(shape) - axis)), float32())]


def embed_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Normalized embeddings [batch, length, width], lengths [batch], embeddings."""
    import numpy

    batch, length = shapes[0]
    width = shapes[2][1]
    real = float32() if dtypes[2].kind in "iu" else dtypes[2]
    return [
        ((batch, length, width), real),
        ((batch,), numpy.dtype(numpy.int32)),
        ((batch, length, width), real),
    ]
