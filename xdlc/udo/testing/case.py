"""Operands of an operation, as a test states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Random:
    """Random numbers.

    Attributes:
        shape: Their shape.
        dtype: Name of their data type, one of those that the configuration allows: ``int8``.
    """

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Case:
    """An operation with operands.

    Attributes:
        type: Operation type.
        inputs: For each input an array, the shape of a random one, ``Random``, or None if it is left out.
        params: Values by name; an enumeration by its name; a tuple is the shape of a random tensor.
        outputs: How many outputs there are.
        name: What is peculiar to it.
        seed: Where random numbers begin.
    """

    type: str
    inputs: Sequence[Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    name: str = ""
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.type}, {self.name}" if self.name else self.type
