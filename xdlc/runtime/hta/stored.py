"""What kernels ask about stored integers, and the step from sums to them.

Sums are int64.  Where the host adds or multiplies in single precision, a kernel keeps 24 significant bits
of each result (:mod:`xdlc.runtime.hta.single`), so that the plan has the host's roundings and with them its
integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdlc.runtime.hta.registry import CALL, Step

Array = Any  # numpy.ndarray
LARGEST = 1 << 61
"""Sums stay below this."""
MOST_STEPS = 1 << 20
"""Most steps of an instruction that come one after the other."""
_CALLS = 16  # of a step


def is_unsigned(array: Array) -> bool:
    """Return whether an array may hold stored integers of activations."""
    return array.dtype.name in ("uint8", "uint16")


def count_of(array: Array) -> int:
    """Return how many integers an array's type has."""
    return 1 << (8 * int(array.dtype.itemsize))


def broadcast(step: Step, sources: Sequence[Array] | None = None) -> list[Array]:
    """Return arrays as views of the shape of an instruction's output.

    Args:
        step: The instruction.
        sources: The arrays; default: its inputs.

    Raises:
        ContainerError: If one does not broadcast to it.
    """
    import numpy as np

    (target,) = step.outputs
    given = step.inputs if sources is None else sources
    try:
        return [np.broadcast_to(source, target.shape) for source in given]
    except ValueError:
        shapes = " and ".join(str(list(source.shape)) for source in given)
        step.fail(f"cannot broadcast {shapes} to {list(target.shape)}")


def operands(step: Step) -> list[Array]:
    """Return the two operands of an instruction: inputs, but one of them may be constant ``operand<place>``.

    Raises:
        ContainerError: If there are not two, or one does not hold stored integers of activations.
    """
    inputs = list(step.inputs)
    given: list[Array] = []
    for name in ("operand0", "operand1"):
        if name in step.constants:
            given.append(step.constants[name])
        elif inputs:
            given.append(inputs.pop(0))
    if len(step.outputs) != 1 or inputs or len(given) != 2:
        step.fail("takes two inputs, or one and a constant operand, and gives one output")
    for held in given:
        if not is_unsigned(held):
            step.fail(f"computes on {held.dtype}, should be uint8 or uint16")
    return given


def bounds(step: Step, rows: int | None = None) -> Array:
    """Return constant ``bounds``: ascending numbers, one fewer than the output's type has integers.

    What a sum is stored as is the number of bounds that it reaches.

    Args:
        step: The instruction.
        rows: How many lists of bounds there must be; None: the one list, not in a table.

    Raises:
        ContainerError: If they are missing, of another shape, or do not ascend.
    """
    import numpy as np

    (target,) = step.outputs
    if not is_unsigned(target):
        step.fail(f"stores {target.dtype}, should be uint8 or uint16")
    columns = count_of(target) - 1
    held = step.constant("bounds", "int64", (columns,) if rows is None else (rows, columns))
    if np.any(held[..., 1:] < held[..., :-1]):
        step.fail("has bounds that do not ascend")
    return held


def check_steps(step: Step, count: int) -> None:
    """Check how many steps an instruction takes one after the other, each of some calls.

    Raises:
        ContainerError: If there are too many.
    """
    if count > MOST_STEPS:
        step.fail(f"takes {count} steps one after the other, the most are {MOST_STEPS}")
    step.takes(work=_CALLS * CALL * count)


def place(sums: Array, limits: Array, target: Array) -> None:
    """Write for each sum the number of limits that it reaches."""
    target[...] = limits.searchsorted(sums, side="right")


def places(step: Step, name: str, shape: tuple[int, ...], extent: int) -> Array:
    """Return a constant of positions along an axis.

    Args:
        step: The instruction.
        name: Name of the constant.
        shape: Its shape.
        extent: Extent of the axis.

    Raises:
        ContainerError: If it is missing, of another shape or type, or a position is beyond the axis.
    """
    held = step.constant(name, "int32", shape)
    if held.size and (held.min() < 0 or held.max() >= extent):
        step.fail(f"takes {name} {held.min()} to {held.max()} of {extent}")
    return held
