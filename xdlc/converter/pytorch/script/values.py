"""Values of evaluated TorchScript that Python lacks: tensors, objects, functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdlc.converter.pytorch.calls import Ref, ScalarType

_MOST_VALUES = 1 << 16


@dataclass(slots=True, eq=False)
class Tensor:
    """A tensor, or a number that depends on data.

    Attributes:
        name: Name of its value.
        storage: Name of the tensor whose storage it shares.
        number: Whether the code has it as a number.
        quantizer: Of a quantized tensor, whose value is the dequantized one, its parameters.
    """

    name: Ref
    dtype: ScalarType
    shape: tuple[int, ...]
    storage: str = ""
    number: bool = False
    quantizer: Quantizer | None = None


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Scale, zero point and c10 data type (qint8, quint8) of a quantized tensor."""

    scale: float
    zero_point: int
    dtype: int = 13


@dataclass(slots=True, eq=False)
class Object:
    """An object of a class of TorchScript, a module for example.

    Attributes:
        kind: Its class, with its module.
        path: Attributes that lead to it from the network, joined by dots.
        fields: Its attributes.
    """

    kind: str
    path: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


class Named(str):
    """A function, class or operator, by its qualified name."""

    __slots__ = ()


def tensors(values: Any) -> list[Tensor]:
    """Return the tensors of a value, those in nested lists and dicts included.

    Raises:
        ValueError: If there are too many values.
    """
    collected: list[Tensor] = []
    left = [values]
    for _ in range(_MOST_VALUES):
        if not left:
            return collected[::-1]
        value = left.pop()
        if isinstance(value, Tensor):
            collected.append(value)
        elif isinstance(value, list | tuple):
            left += value
        elif isinstance(value, dict):
            left += value.values()
    raise ValueError("a list has too many values")


def replaced(value: Any) -> Any:
    """Return an argument with references in place of tensors."""
    if isinstance(value, list | tuple):
        return [replaced(item) if isinstance(item, Tensor) else item for item in value]
    return value.name if isinstance(value, Tensor) else value
