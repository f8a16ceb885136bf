"""Entries that are JSON: reading values of an expected type, writing without blanks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from xdlc.errors import ContainerError

AGAIN = "get the file again"
"""What to do about a file whose records are damaged."""


def read_json(data: memoryview, where: str) -> Any:
    """Return the JSON value of an entry.

    Raises:
        ContainerError: If it is not UTF-8, not JSON, or nested too deeply.
    """
    try:
        return json.loads(bytes(data).decode("utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise ContainerError(f"is no JSON text: {error}", where=where, fix=AGAIN) from error
    except RecursionError as error:
        raise ContainerError("nests JSON values too deeply", where=where, fix=AGAIN) from error


def object_of(value: Any, where: str) -> dict[str, Any]:
    """Return a JSON value that has to be an object.

    Raises:
        ContainerError: If it is another.
    """
    if not isinstance(value, dict):
        raise ContainerError(
            f"should hold a JSON object, holds {type(value).__name__}", where=where, fix=AGAIN
        )
    return value


def objects_of(value: Any, key: str, where: str) -> list[dict[str, Any]]:
    """Return the JSON value at ``key`` that has to be a list of objects.

    Raises:
        ContainerError: If it is another.
    """
    if not isinstance(value, list):
        raise ContainerError(
            f"should hold a list at {key!r}, holds {type(value).__name__}", where=where, fix=AGAIN
        )
    return [object_of(item, where) for item in value]


def compact(content: Mapping[str, Any]) -> bytes:
    """Return an object as JSON text without blanks."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
