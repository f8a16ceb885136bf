"""Kinds of lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from xdlc.udo.plugin.kinds.base import REQUIRED, Kind, numbers
from xdlc.udo.plugin.kinds.scalar import Bool, Float, Int


class _List(Kind):
    item: ClassVar[type[Kind]]

    def __init__(
        self, default: Any = REQUIRED, *, dtype: str | None = None, source: str = "", description: str = ""
    ) -> None:
        self._item = self.item(dtype=dtype)
        super().__init__(default, dtype=dtype, source=source, description=description)

    def check(self, value: Any) -> list[Any]:
        import numpy

        given = value.tolist() if isinstance(value, numpy.ndarray) and value.ndim == 1 else value
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise self.wrong(value)
        return [self._item.check(item) for item in given]

    def read(self, value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else list(value)

    def rank(self) -> int | None:
        return 1

    def written(self, value: Any) -> str:
        return json.dumps(numbers(value))


class Ints(_List):
    """A list of integers."""

    text = "a list of integers"
    standard = "int32"
    allowed = ("int", "uint")
    item = Int


class Floats(_List):
    """A list of real numbers."""

    text = "a list of numbers"
    standard = "float32"
    allowed = ("float",)
    item = Float


class Bools(_List):
    """A list of yes and no."""

    text = "a list of 0 and 1"
    standard = "bool8"
    allowed = ("bool",)
    item = Bool


class Strs(Kind):
    """A list of strings, which the op stores as one string: a JSON list."""

    text = "a list of strings"
    standard = "string"
    allowed = ("string",)

    def check(self, value: Any) -> str:
        given = self._parsed(value) if isinstance(value, str) else value
        if not isinstance(given, (list, tuple)) or not all(isinstance(item, str) for item in given):
            raise self.wrong(value)
        return json.dumps(list(given), ensure_ascii=False)

    def read(self, value: Any) -> list[str]:
        return list(self._parsed(value))

    def _parsed(self, value: str) -> Any:
        try:
            return json.loads(value)
        except ValueError as error:
            raise self.wrong(value) from error
