"""Attributes of a source node that remember which of them were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xdlc.errors import UsageError, nearest_names


class Attributes(Mapping[str, Any]):
    """The attributes of a node, as ``parse_params`` sees them.

    Args:
        attributes: The attributes.

    Example:
        >>> attributes = Attributes({"axis": 1, "keepdims": 0})
        >>> attributes["axis"], attributes.get("axes", ()), attributes.unread
        (1, (), ('keepdims',))
    """

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self._values = dict(attributes)
        self._read: set[str] = set()

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the attributes that nothing has asked for."""
        return tuple(name for name in self._values if name not in self._read)

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def need(self, name: str) -> Any:
        """Return an attribute that must be there.

        Raises:
            UsageError: If the node does not have it.
        """
        if name not in self._values:
            raise UsageError(
                f"attribute {name!r} is missing",
                fix=nearest_names(name, self._values) or "set it in the model",
            )
        return self[name]
