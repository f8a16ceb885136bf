"""Registry of canonical operators: the importers of the ONNX operator set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from xdlc.converter.builder import Builder
from xdlc.converter.session.layouts import ANY, CHANNEL_LAST, SOURCE
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

__all__ = [
    "ANY",
    "CHANNEL_LAST",
    "MICROSOFT",
    "SOURCE",
    "Entry",
    "Importer",
    "Node",
    "entries",
    "find",
    "importer",
    "load_all",
]

MICROSOFT = "com.microsoft"


Importer = Callable[[Node, Builder], Value | Sequence[Value]]
F = TypeVar("F", bound=Importer)


@dataclass(frozen=True, slots=True)
class Entry:
    """One importer.

    Attributes:
        since: Oldest opset it understands.
        function: The importer.
        layout: The axis order it works in.
        ignores: Attributes without meaning at inference.
        dynamic: Whether it takes values with open extents.
    """

    since: int
    function: Importer
    layout: str
    ignores: frozenset[str]
    dynamic: bool


_TABLE: dict[tuple[str, str], list[Entry]] = {}


def importer(
    *types: str,
    since: int = 1,
    domain: str = "",
    layout: str = SOURCE,
    ignores: Sequence[str] = (),
    dynamic: bool = False,
) -> Callable[[F], F]:
    """Register a function as the importer of ONNX operators.

    Args:
        types: Operator names.
        since: Oldest opset it understands.
        domain: Operator domain.
        layout: ``channel_last`` if the op is emitted channel-last, ``any`` if it takes any axis order,
            ``source`` if it needs the source's.
        ignores: Attributes that mean nothing at inference; any other that is set and not read is refused.
        dynamic: Whether it takes values with open extents; otherwise such a node is kept for the host.

    Raises:
        ValueError: If the same operator and version is registered twice.
    """

    def register(function: F) -> F:
        for name in types:
            entries = _TABLE.setdefault((domain, name), [])
            if any(entry.since == since for entry in entries):
                raise ValueError(f"{domain}:{name} since {since} is registered twice")
            entries.append(Entry(since, function, layout, frozenset(ignores), dynamic))
            entries.sort(key=lambda entry: -entry.since)
        return function

    return register


@cache
def load_all() -> dict[tuple[str, str], list[Entry]]:
    """Import every module of ``ops``, sub-packages included, and return the table they filled."""
    import importlib
    import pkgutil

    from xdlc.converter.operators import ops

    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        importlib.import_module(module.name)
    return _TABLE


def entries() -> Iterator[tuple[str, str, Entry]]:
    """Iterate over (domain, operator, entry) of all importers."""
    for (domain, name), versions in sorted(load_all().items()):
        for entry in versions:
            yield domain, name, entry


def find(domain: str, type: str, opset: int) -> Entry | None:
    """Return the newest importer not above ``opset``, or None."""
    for entry in load_all().get((domain, type), ()):
        if entry.since <= opset:
            return entry
    return None
