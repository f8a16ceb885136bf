"""TensorScatter."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number, scattered
from xdlc.converter.operators.ops.expand import tiled
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, MOD


@importer("TensorScatter", since=24)
def tensor_scatter(node: Node, b: Builder) -> Value:
    """Map onto ScatterElements along ``axis``, with a start per sequence of the batch."""
    past, update, start = node.required(0), node.required(1), node.input(2)
    axis = node.axis(node.attr("axis", -2), past.rank)
    mode = node.attr("mode", "linear")
    dims = [dim if held == axis else past.shape[held] for held, dim in enumerate(update.shape)]
    if axis == 0 or mode not in ("linear", "circular") or list(update.shape) != dims:
        raise node.invalid(f"mode {mode!r} along axis {axis} of {list(past.shape)} and {list(update.shape)}")
    count = update.shape[axis]
    shape = [1] * past.rank
    shape[axis] = count
    b.check_table(count)
    steps = b.const(np.arange(count, dtype=np.int32).reshape(shape), f"{b.stem}_steps")
    places = steps
    if start is not None:
        most = (past.shape[axis] if mode == "linear" else 1 << 31) - count
        if start.is_static and ((start.numpy() < 0) | (start.numpy() > most)).any():
            raise node.invalid(f"a first position is not one of 0 to {most}")
        first = b.reshape(b.cast(start, INT32), (past.shape[0], *(1,) * (past.rank - 1)))
        places = b.binary(ADD, first, steps)
    if mode == "circular":
        places = b.binary(MOD, places, number(b, places, past.shape[axis]))
    index = tiled(b, places, [new // old for new, old in zip(update.shape, places.shape, strict=True)])
    return scattered(b, past, index, update, axis)
