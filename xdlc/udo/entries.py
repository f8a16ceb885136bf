"""Entry points of installed packages that name plugins."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "xdlc.plugins"


def plugin_entries() -> tuple[EntryPoint, ...]:
    """Return the entry points of plugins, in the order of their names.

    The search takes as long as converting a small model; it is repeated only if folders of
    ``sys.path`` change.
    """
    return _entries(tuple((folder, _changed(folder or ".")) for folder in sys.path))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except (OSError, ValueError):
        return 0


@functools.lru_cache(maxsize=1)
def _entries(_: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)))
