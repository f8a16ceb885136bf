"""Kinds of one value."""

from __future__ import annotations

from typing import Any

from xdlc.errors import UsageError
from xdlc.udo.plugin.kinds.base import Kind, is_integer


class Int(Kind):
    """An integer."""

    text = "an integer"
    standard = "int32"
    allowed = ("int", "uint")

    def check(self, value: Any) -> int:
        if isinstance(value, bool) or not is_integer(value):
            raise self.wrong(value)
        least, most = self.dtype.limits
        if not least <= value <= most:
            raise UsageError(f"{value} is not within {least}..{most} of {self.dtype.name}")
        return int(value)


class Float(Kind):
    """A real number."""

    text = "a number"
    standard = "float32"
    allowed = ("float",)

    def check(self, value: Any) -> float:
        import numpy

        if isinstance(value, bool) or not isinstance(value, (int, float, numpy.integer, numpy.floating)):
            raise self.wrong(value)
        with numpy.errstate(all="ignore"):
            stored = numpy.asarray(float(value)).astype(self.dtype.numpy)
        if numpy.isinf(stored) and not numpy.isinf(float(value)):
            raise UsageError(f"{value} is beyond {self.dtype.name}")
        return float(value)


class Bool(Kind):
    """Yes or no."""

    text = "true, false, 1 or 0"
    standard = "bool8"
    allowed = ("bool",)

    def check(self, value: Any) -> bool:
        if not (isinstance(value, bool) or (is_integer(value) and value in (0, 1))):
            raise self.wrong(value)
        return bool(value)

    def written(self, value: Any) -> str:
        return "1" if value else "0"


class Str(Kind):
    """A string."""

    text = "a string"
    standard = "string"
    allowed = ("string",)

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise self.wrong(value)
        return value
