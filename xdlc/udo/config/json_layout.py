"""Lays out JSON as people write configurations: one line for each input, output and parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON that is written as it stands."""

    text: str


def laid_out(value: Any, indent: int = 0) -> str:
    """Return a value as JSON.

    Args:
        value: Mappings, sequences, strings, numbers, truth values, None and ``Raw``.
        indent: Blanks that the line begins with.

    Example:
        >>> print(laid_out({"inputs": [{"name": "a", "static": True}], "core_types": ["CPU", "DSP"]}))
        {
            "inputs": [
                {"name": "a", "static": true}
            ],
            "core_types": ["CPU", "DSP"]
        }
    """
    line = None if _holds_objects(value) or indent == 0 else _inline(value)
    if line is not None and (len(line) + indent <= _WIDTH or not isinstance(value, Mapping | list | tuple)):
        return line
    pad = " " * (indent + 4)
    if isinstance(value, Mapping):
        members = [f"{pad}{_string(key)}: {laid_out(item, indent + 4)}" for key, item in value.items()]
        return _block("{", members, "}", indent)
    if isinstance(value, list | tuple):
        return _block("[", [pad + laid_out(item, indent + 4) for item in value], "]", indent)
    return _inline(value)


def _block(opening: str, members: Sequence[str], closing: str, indent: int) -> str:
    if not members:
        return opening + closing
    return "\n".join([opening, ",\n".join(members), " " * indent + closing])


def _holds_objects(value: Any) -> bool:
    """Return whether there are objects in an array of the value."""
    if isinstance(value, Mapping):
        return any(_holds_objects(item) for item in value.values())
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)


def _inline(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_string(key)}: {_inline(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    return _string(value)


def _string(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
