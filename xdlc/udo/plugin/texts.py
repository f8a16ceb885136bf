"""Kinds of parameters that ops store as JSON texts or as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir.data import TensorData
from xdlc.udo.plugin.kinds import REQUIRED, Ints, Str, is_integer


class Json(Str):
    """A message or a list of any depth, which the op stores as one string: JSON."""

    text = "a message or a list of plain values"

    def check(self, value: Any) -> str:
        given = self._parsed(value) if isinstance(value, str) else value
        found = _plain(given)
        if not isinstance(found, (dict, list)):
            raise self.wrong(value)
        return json.dumps(found, ensure_ascii=False, allow_nan=False)

    def read(self, value: Any) -> Any:
        return self._parsed(value)

    def _parsed(self, value: str) -> Any:
        try:
            return json.loads(value)
        except ValueError as error:
            raise self.wrong(value) from error


class Strs(Json):
    """A list of strings, which the op stores as one string: a JSON list."""

    text = "a list of strings"

    def check(self, value: Any) -> str:
        given = [value] if isinstance(value, str) and not value.startswith("[") else value
        given = self._parsed(given) if isinstance(given, str) else given
        if not isinstance(given, (list, tuple)) or not all(isinstance(item, str) for item in given):
            raise self.wrong(value)
        return super().check(list(given))


class Bytes(Ints):
    """Bytes; of sources whose texts may be any bytes, also a string, as UTF-8."""

    text = "bytes"

    def __init__(self, default: Any = REQUIRED, *, source: str = "", description: str = "") -> None:
        super().__init__(default, dtype="uint8", source=source, description=description)

    def check(self, value: Any) -> list[int]:
        given = value.numpy().tobytes() if isinstance(value, TensorData) else value
        given = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
        return super().check(list(given) if isinstance(given, (bytes, bytearray)) else given)

    def read(self, value: Any) -> bytes:
        return bytes(super().read(value))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it.

    Raises:
        UsageError: If JSON has no form of it.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if is_integer(value):
        return int(value)
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist())
    raise UsageError(
        f"a {type(value).__name__} has no form in JSON",
        fix="give it a parameter of its own: Bytes or Tensor, or omit it",
    )
