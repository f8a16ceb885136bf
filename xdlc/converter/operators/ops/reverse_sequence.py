"""ReverseSequence."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import picked
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.ir.data import Array


@importer("ReverseSequence", since=10)
def reverse_sequence(node: Node, b: Builder) -> Value:
    """Map onto one Gather over time and batch together; the lengths must be known."""
    x, lengths = node.required(0), node.static(1, "the lengths")
    time, batch = node.attr("time_axis", 0), node.attr("batch_axis", 1)
    if x.rank < 2 or {time, batch} != {0, 1} or lengths is None or lengths.size != x.shape[batch]:
        raise node.invalid(f"axes {time} and {batch} of {list(x.shape)} do not fit its lengths")
    if lengths.min(initial=0) < 0 or lengths.max(initial=0) > x.shape[time]:
        raise node.invalid(f"lengths {lengths.tolist()} of {x.shape[time]} steps")
    return reversed_steps(b, x, lengths, time)


def reversed_steps(b: Builder, x: Value, lengths: Array, time: int = 0) -> Value:
    """Return ``x`` with the first ``lengths[n]`` steps of sequence n turned round.

    Args:
        x: Values whose first two axes are time and batch, in either order.
        lengths: Number of steps of each sequence.
        time: Axis of the steps.
    """
    steps, count = x.shape[time], x.shape[1 - time]
    b.check_table(steps, count)
    place = np.arange(steps)[:, None]
    source = np.where(place < lengths, lengths - 1 - place, place)  # [time, batch]
    index = source * count + np.arange(count) if time == 0 else (source + np.arange(count) * steps).T
    flat = b.reshape(x, (steps * count, *x.shape[2:]))
    return b.reshape(picked(b, flat, 0, index.reshape(-1)), x.shape)
