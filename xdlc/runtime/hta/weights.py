"""Packed weights of an instruction, and what bounds the sums of their products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdlc.runtime.hta import scaling
from xdlc.runtime.hta.registry import Step

Array = Any  # numpy.ndarray

ACTIVATIONS = ("uint8", "uint16")


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights, checked.

    Attributes:
        values: The weights less their zero points, in the type that sums are exact in.
        scaling: What follows the sums.
    """

    values: Array
    scaling: scaling.Scaling

    @property
    def kind(self) -> Any:
        """Numpy type of the products."""
        return self.values.dtype


def load(step: Step, rank: int) -> Weights:
    """Return the weights of an instruction: constant ``weights``, the output channels along the last axis.

    Their zero points, one per channel, are constant ``weight_zeros`` where they are not 0.

    Args:
        step: The instruction.
        rank: Number of axes of the weights.

    Raises:
        ContainerError: If they are missing or malformed, or their sums become too large to be exact.
    """
    import numpy as np

    held = step.constant("weights", ("int8", "uint8"))
    if held.ndim != rank:
        step.fail(f"has weights of shape {list(held.shape)}, should be of rank {rank}")
    channels = held.shape[-1]
    step.takes(work=held.size, kept=8 * held.size)
    values = held.astype(np.int16)
    if "weight_zeros" in step.constants:
        values -= step.constant("weight_zeros", ("int8", "uint8"), (channels,)).astype(np.int16)
    others = tuple(range(rank - 1))
    largest = np.abs(values).sum(axis=others, dtype=np.float64) * np.iinfo(step.inputs[0].dtype).max
    made = scaling.load(step, channels, largest)
    return Weights(values.astype(made.kind), made)
