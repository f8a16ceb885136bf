"""Registry of canonical operators: the importers of the ONNX operator set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from xdlc.converter.builder import Builder
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST, SOURCE
from xdlc.converter.values import AnyValue, Value
from xdlc.runtime.host_kernels import MICROSOFT, ML

if TYPE_CHECKING:
    from xdlc.converter.operators.control_flow.sub_graph import Importer as ControlFlowImporter

__all__ = [
    "ANY",
    "CHANNEL_LAST",
    "MICROSOFT",
    "ML",
    "SOURCE",
    "Entry",
    "Importer",
    "Node",
    "find",
    "find_structural",
    "importer",
    "load_all",
    "structural",
]

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
        dynamic: Whether it takes values with dynamic dimensions.
    """

    since: int
    function: Importer
    layout: str
    ignores: frozenset[str]
    dynamic: bool


Structural = Callable[["ControlFlowImporter", Node], list[AnyValue]]
"""Importer of an operator that runs graphs, or is on sequences or optionals; gets the canonical operators."""
S = TypeVar("S", bound=Structural)


class StructuralEntry(NamedTuple):
    """One structural importer.

    Attributes:
        since: Oldest opset it understands.
        function: The importer.
        layout: The layout in which it works.
    """

    since: int
    function: Structural
    layout: str


_TABLE: dict[tuple[str, str], list[Entry]] = {}
_STRUCTURAL: dict[str, list[StructuralEntry]] = {}
_PACKAGES = ("ops", "control_flow", "sequences")


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
        dynamic: Whether it takes values with dynamic dimensions; otherwise such a node is kept for the host.

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


def structural(*types: str, since: int = 1, layout: str = SOURCE) -> Callable[[S], S]:
    """Register a function as the importer of operators that run graphs, or are on sequences or optionals.

    Args:
        types: Operator names of the default domain.
        since: Oldest opset it understands.
        layout: The layout in which it works, as of ``importer``.
    """

    def register(function: S) -> S:
        for name in types:
            _STRUCTURAL.setdefault(name, []).append(StructuralEntry(since, function, layout))
        return function

    return register


@cache
def load_all() -> dict[tuple[str, str], list[Entry]]:
    """Import every module that registers importers, and return the table that they filled."""
    import importlib
    import pkgutil

    for name in _PACKAGES:
        package = importlib.import_module(f"xdlc.converter.operators.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return _TABLE


def find(domain: str, type: str, opset: int) -> Entry | None:
    """Return the newest importer not above ``opset``, or None."""
    for entry in load_all().get((domain, type), ()):
        if entry.since <= opset:
            return entry
    return None


def find_structural(domain: str, type: str, opset: int) -> StructuralEntry | None:
    """Return the importer of an operator that runs graphs, or is on sequences or optionals, or None."""
    load_all()
    found = [entry for entry in _STRUCTURAL.get(type, ()) if entry.since <= opset and not domain]
    return max(found, key=lambda entry: entry.since, default=None)
