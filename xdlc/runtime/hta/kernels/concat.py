"""``concat``: buffers one after the other along setting ``axis``.

Constant ``table<i>`` brings the stored integers of part i to the output's encoding; parts without one are
copied.  Constant ``part<i>`` is a part that is no input.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import count_of, is_unsigned

Array = Any  # numpy.ndarray


@kernel("concat")
def concat(step: Step) -> Run:
    """Join buffers."""
    sources = _parts(step)
    (target,) = step.outputs
    axis = step.number("axis", 0, max(target.ndim - 1, 0))
    parts: list[tuple[Array, Array, Array | None]] = []
    start = 0
    for index, source in enumerate(sources):
        if source.ndim != target.ndim or not target.ndim:
            step.fail(f"joins parts of rank {source.ndim} to an output of rank {target.ndim}")
        stop = start + source.shape[axis]
        place = target[(slice(None),) * axis + (slice(start, stop),)]
        if place.shape != source.shape:
            step.fail(f"part {index} is {list(source.shape)}, its place {list(place.shape)}")
        parts.append((source, place, _table(step, index, source)))
        start = stop
    if start != target.shape[axis]:
        step.fail(f"fills {start} of {target.shape[axis]} along axis {axis}")

    def run() -> None:
        for source, place, table in parts:
            place[...] = source if table is None else table[source]

    return run


def _parts(step: Step) -> list[Array]:
    inputs = list(step.inputs)
    constants = {name: held for name, held in step.constants.items() if name.startswith("part")}
    count = len(inputs) + len(constants)
    parts = []
    for index in range(count):
        held = constants.pop(f"part{index}", None)
        if held is None and not inputs:
            break
        parts.append(inputs.pop(0) if held is None else held)
    if not parts or len(parts) != count or len(step.outputs) != 1:
        step.fail("takes one or more parts, constant ones by their numbers, and gives one output")
    return parts


def _table(step: Step, index: int, source: Array) -> Array | None:
    (target,) = step.outputs
    name = f"table{index}"
    if name in step.constants:
        if not is_unsigned(source):
            step.fail(f"looks up a part of {source.dtype}")
        return step.constant(name, target.dtype.name, (count_of(source),))
    if source.dtype != target.dtype:
        step.fail(f"copies {source.dtype} to {target.dtype}")
    return None
