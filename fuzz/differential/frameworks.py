"""Frameworks: an engine for networks, and their import into xdlc."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

import xdlc
from fuzz.differential.networks import Array, Network, Node
from fuzz.targets import FOREIGN

Disturb = Callable[[Node, int, Array], Array]
"""Changes the result of a node, of that index, a little."""


class Refused(Exception):
    """The engine refuses the network."""


class Undefined(Exception):
    """The engine has no answer that is worth comparing; the text says why."""


@contextlib.contextmanager
def foreign() -> Iterator[None]:
    """State that a crash, hang or exception within the block is another engine's."""
    FOREIGN[0] = 1
    try:
        yield
    except (Refused, Undefined):
        FOREIGN[0] = 0
        raise
    FOREIGN[0] = 0  # after any other exception the next case resets it


class Framework(ABC):
    """A framework.

    Attributes:
        name: Its name, as ``Network.framework`` has it.
        margin: How much further than the engine's own disturbed results those of xdlc may be apart.
        limits: Regular expressions of refusals that say what the engine lacks, not what is wrong with the
            network, by operator; ``""`` stands for all.
    """

    name = ""
    margin = 8.0
    limits: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def step(self, network: Network, node: Node, values: Sequence[Array | None]) -> list[Array]:
        """Return the results of one node by the engine.

        Raises:
            Refused: If the engine refuses it.
            Undefined: If the engine has no answer.
        """

    @abstractmethod
    def convert(self, network: Network, folder: Path, feeds: dict[str, Array]) -> xdlc.Model:
        """Return the network as xdlc reads it; files go to the folder."""

    def named(self, network: Network, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of a converted model by the names of the network."""
        return dict(outputs)

    def evaluate(self, network: Network, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return the outputs by the engine, by name.

        Raises:
            Refused: If the engine refuses the network.
            Undefined: If the engine has no answer.
        """
        values = self.walk(network, feeds)
        return {name: values[name] for name in network.outputs}

    def walk(
        self, network: Network, feeds: dict[str, Array], disturb: Disturb | None = None
    ) -> dict[str, Array]:
        """Return all values node by node; ``disturb`` changes each before its use."""
        values = {name: each.array() for name, each in network.constants.items()} | feeds
        for node in network.nodes:
            results = self.step(network, node, [values[name] if name else None for name in node.inputs])
            for index, (name, result) in enumerate(zip(node.outputs, results, strict=False)):
                values[name] = disturb(node, index, result) if disturb else result
        return values

    def step_of(self, node: Node, index: int, result: Array) -> float:
        """Return the step of a result that is rounded to a grid; 0 if none is."""
        return 0.0

    def lacks(self, network: Network, refusal: str) -> bool:
        """Return whether a refusal is a limit of the engine."""
        ops = {"", *network.ops().split()}
        return any(op in ops and re.search(text, refusal) for op, text in self.limits.items())

    def real(self, network: Network, name: str, value: Array) -> Array:
        """Return the real numbers that a value of the engine stands for."""
        return np.asarray(value)
