"""What every kind of parameter is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from xdlc.errors import UsageError
from xdlc.ir.dtype import DType
from xdlc.opdefs.model import ParamDef
from xdlc.udo.plugin.ports import data_type, described


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
"""Default of a parameter that the source must give; None is that of one that may be left out."""


class Kind(ABC):
    """A kind of parameter.

    Args:
        default: Value where the source gives none; None for a parameter that may be left out.
        dtype: Name of the data type in which the op stores it.
        source: Name of the source's attribute, if it is another.
        description: What it is.
    """

    text: ClassVar[str]
    standard: ClassVar[str]
    allowed: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, default: Any = REQUIRED, *, dtype: str | None = None, source: str = "", description: str = ""
    ) -> None:
        self.default = default
        self.dtype: DType = data_type(dtype or self.standard)
        self.source = source
        self.description = description
        if self.dtype.kind not in self.allowed:
            raise UsageError(
                f"{type(self).__name__} has no form as {self.dtype.name}",
                fix=f"use a type of kind {' or '.join(self.allowed)}",
            )
        if default is not REQUIRED and default is not None:
            try:
                self.default = self.check(default)
            except UsageError as error:
                error.where = "default"
                error.fix = error.fix or f"give a default that is {self.text}, or another kind"
                raise

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return a value of the source as the op's plain value.

        Raises:
            UsageError: If it is not of this kind.
        """

    def read(self, value: Any) -> Any:
        """Return a value that the op stores as hooks see it."""
        return value

    def default_text(self) -> str | None:
        """Return the default as OpDef XML writes it; None if there is none, or XML cannot hold it.

        XML strips texts, and an empty one is none; converted ops hold their defaults themselves.
        """
        if self.default is REQUIRED or self.default is None:
            return None
        text = self.written(self.default)
        return text if text and text == text.strip() else None

    def written(self, value: Any) -> str:
        """Return a value as OpDef XML writes it."""
        return str(value)

    def definition(self, name: str) -> ParamDef:
        """Return the definition of a parameter of this kind."""
        return ParamDef(
            name,
            self.default is REQUIRED,
            (self.dtype,),
            self.rank(),
            default=self.default_text(),
            description=described(self.description),
        )

    def rank(self) -> int | None:
        """Return the number of axes; 0 for a scalar, None for any."""
        return 0

    def wrong(self, value: Any) -> UsageError:
        """Return the error of a value of another kind."""
        return UsageError(f"expected {self.text}, found {shown(value)}")


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, numpy's among them."""
    import numpy

    return isinstance(value, (int, numpy.integer))


def numbers(value: Any) -> Any:
    """Return nested lists with 0 and 1 for false and true."""
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return int(value) if isinstance(value, bool) else value


def shown(value: Any) -> str:
    """Return a value for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
