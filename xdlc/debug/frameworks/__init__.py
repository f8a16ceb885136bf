"""Engines of source frameworks, one a module, which run in a child process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from xdlc.registry import Registry


class Network(Protocol):
    """An open source model.

    Attributes:
        inputs: Names of its inputs, in order.
        names: Names of the values that it returns.
    """

    inputs: list[str]
    names: list[str]

    def values(self, feeds: Mapping[str, Any], names: Sequence[str], sample: int) -> list[Any]:
        """Return values by feeds, in the order of the names.

        Args:
            sample: Number of the sample; requests for it may continue from those before.
        """


@dataclass(frozen=True, slots=True)
class Framework:
    """A source framework.

    Attributes:
        title: Its name in reports.
        open: Returns the network of a file; gets the path of its weights, empty without.
        packages: The import names that it needs, one of which suffices.
        channel_first: Whether its images have channels before rows and columns.
    """

    title: str
    open: Callable[[str, str], Network]
    packages: tuple[str, ...]
    install: str
    channel_first: bool = False


FRAMEWORKS: Registry[str, Framework] = Registry("xdlc.debug.frameworks", "framework")


def add_framework(name: str, framework: Framework) -> None:
    """Register a framework under the name that callers write."""
    FRAMEWORKS.add(name, framework)
