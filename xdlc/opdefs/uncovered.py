"""What is known of a node of a source model that no definition covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import DType


@dataclass(frozen=True, slots=True)
class Operand:
    """An input or output.

    Attributes:
        name: Its name in the source; values that stay nameless have none.
        shape: Extents in the source's axis order, None for one that is open; None if even the rank is.
        dtype: Data type; None if nothing states it.
        is_static: Whether the model holds its elements.
        odd: What it is if it is no tensor that a model can hold, like ``a sequence``; else empty.
    """

    name: str
    shape: tuple[int | None, ...] | None = None
    dtype: DType | None = None
    is_static: bool = False
    odd: str = ""


@dataclass(frozen=True, slots=True)
class UncoveredNode:
    """A node whose operator has no mapping.

    Attributes:
        type: Operator.
        domain: Domain of the operator; empty for the framework's own.
        name: Name of the node.
        where: File and node, for messages.
        inputs: Inputs by position; None for one left out.
        outputs: Outputs by position; None for one left out.
        attributes: Attributes by name: int, float, str, lists of them, or ``TensorData``.
    """

    type: str
    domain: str
    name: str
    where: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand | None, ...]
    attributes: Mapping[str, Any]

    @property
    def operator(self) -> str:
        """The operator, with its domain in front where it has one."""
        return f"{self.domain}::{self.type}" if self.domain else self.type
