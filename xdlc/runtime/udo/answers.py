"""The form of what a child process answers: code of strangers runs in it, which could answer in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.ir.dtype import BY_CODE

_MOST = 4096
_LARGEST = 0xFFFFFFFF
_FLAGS = ("kernel", "shapes")
_WORDS = ("problem", "where", "fix", "node", "op", "kind")


def check_answer(answer: Mapping[str, Any]) -> None:
    """Check that an answer has the form that its readers rely on.

    Raises:
        ValueError: If it has not.

    Example:
        >>> check_answer({"dims": [[2, 3]]})
        >>> check_answer({"dims": [[2, "x"]]})
        Traceback (most recent call last):
        ...
        ValueError: dims
    """
    for key, value in answer.items():
        if key not in _CHECKS or not _CHECKS[key](value):
            raise ValueError(key)


def _is_list(value: Any, check: Any) -> bool:
    return isinstance(value, list) and len(value) <= _MOST and all(map(check, value))


def _is_extent(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _is_shape(value: Any) -> bool:
    return _is_list(value, _is_extent)


def _is_spec(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"dims", "dtype", "name", "layout"}
        and _is_list(value["dims"], lambda extent: extent is None or _is_extent(extent))
        and type(value["dtype"]) is int
        and value["dtype"] in BY_CODE
        and all(isinstance(value[key], str) for key in ("name", "layout"))
    )


def _is_offer(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"package", "type", "cores", *_FLAGS}
        and all(isinstance(value[key], str) for key in ("package", "type"))
        and all(isinstance(value[key], bool) for key in _FLAGS)
        and _is_list(value["cores"], lambda core: isinstance(core, str))
    )


def _is_error(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == set(_WORDS)
        and all(word is None or isinstance(word, str) for word in value.values())
        and isinstance(value["kind"], str)
        and isinstance(value["problem"], str)
    )


_CHECKS = {
    "dims": lambda value: value is None or _is_list(value, _is_shape),
    "outputs": lambda value: value is None or _is_list(value, _is_spec),
    "offers": lambda value: _is_list(value, _is_offer),
    "errors": lambda value: _is_list(value, _is_error),
    "nanoseconds": lambda value: type(value) is int and value >= 0,
}
