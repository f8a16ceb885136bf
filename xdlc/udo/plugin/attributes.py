"""Attributes of a source node that remember which of them were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xdlc.errors import UsageError, nearest_names


class Attributes(Mapping[str, Any]):
    """The attributes of a node, as ``parse_params`` sees them.

    Args:
        held: The attributes.

    Example:
        >>> attributes = Attributes({"axis": 1, "keepdims": 0})
        >>> attributes["axis"], attributes.get("axes", ()), attributes.unread
        (1, (), ('keepdims',))
    """

    def __init__(self, held: Mapping[str, Any]) -> None:
        self._held = dict(held)
        self._read: set[str] = set()

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the attributes that nothing has asked for."""
        return tuple(name for name in self._held if name not in self._read)

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def need(self, name: str) -> Any:
        """Return an attribute that must be there.

        Raises:
            UsageError: If the node does not have it.
        """
        if name not in self._held:
            raise UsageError(
                f"attribute {name!r} is missing", fix=nearest_names(name, self._held) or "set it in the model"
            )
        return self[name]
