"""Output shapes of quantized operators."""

from __future__ import annotations

from typing import Any

from xdlc.converter.operators.contrib_shapes.rules import (
    Output,
    at,
    channels_first,
    channels_last,
    stand_in,
    times,
)


def quantized_conv(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of a quantized Conv, with the layout of ``channels_last``."""
    last = bool(attributes.get("channels_last"))
    x = channels_first(shapes[0]) if last else shapes[0]
    found = stand_in("Conv", attributes, [x, shapes[3]])
    return [(channels_last(found) if last else found, at(dtypes, 7) or dtypes[0])]


def quantized_concat(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A Concat whose operands each have a scale and a zero point."""
    return [(stand_in("Concat", attributes, list(shapes[2::3])), dtypes[2])]


def quantize(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """The input in the type of the zero point, uint8 where that is omitted."""
    import numpy

    return [(shapes[0], at(dtypes, 2) or numpy.dtype(numpy.uint8))]


def gather_block_quantized(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of a Gather from a table with packed elements."""
    import numpy

    data, indices = shapes[0], shapes[1]
    if data is None or indices is None:
        return [(None, dtypes[2])]
    if dtypes[0] == numpy.uint8:
        data = (*data[:-1], times(data[-1], 8 // attributes.get("bits", 4)))
    axis = attributes.get("gather_axis", 0) % len(data)
    return [((*data[:axis], *indices, *data[axis + 1 :]), dtypes[2])]


def quantized_lstm(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """All states [length, ways, batch, hidden], then the last state and cell."""
    (length, batch, _), hidden = shapes[0], attributes["hidden_size"]
    ways = 2 if attributes.get("direction", "forward") == "bidirectional" else 1
    state = (ways, batch, hidden)
    return [((length, *state), dtypes[0]), (state, dtypes[0]), (state, dtypes[0])]
