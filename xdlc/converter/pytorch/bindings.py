"""What a program of PyTorch states of its values: shapes under bound symbols, and data types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdlc import ir
from xdlc.converter.pytorch.calls import Meta
from xdlc.converter.pytorch.symbols import Unknown, evaluate
from xdlc.converter.udo.output_inference import Declared


@dataclass(slots=True)
class Bindings:
    """Values of the symbols of a program.

    Attributes:
        values: Values by symbol; those that are missing stay open.
    """

    values: Mapping[str, int] = field(default_factory=dict)

    def number(self, expression: Any) -> Any:
        """Return the value of an expression, None if it is open."""
        try:
            return evaluate(expression, self.values)
        except Unknown:
            return None

    def shape(self, meta: Meta) -> list[int | None]:
        """Return the shape of a tensor, None for open dimensions.

        Raises:
            ValueError: If a dimension is no number of elements.
        """
        found = [self.number(size) for size in meta.sizes]
        for size in found:
            if size is not None and (size != int(size) or size < 0):
                raise ValueError(f"{size} is no dimension")
        return [size if size is None else int(size) for size in found]


@dataclass(slots=True)
class Shapes:
    """What a program states of its values, for user-defined operations.

    Attributes:
        values: Shapes and types by name.
    """

    values: dict[str, tuple[list[int | None], ir.DType | None]] = field(default_factory=dict)

    def find(self, name: str) -> Declared:
        """Return what is stated of a value."""
        shape, dtype = self.values.get(name, (None, None))
        return Declared(None if shape is None else tuple(shape), dtype, bool(name))

    def oddity(self, name: str) -> str:
        """Return an empty text: values are tensors of numbers."""
        return ""

    def contradicted(self, found: Any) -> Any:
        """Return no contradictions: shapes of the program are checked where they are used."""
        return iter(())
