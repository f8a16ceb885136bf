"""Registry of the kernels and shape functions in libraries and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.errors import BackendError, XdlcError, raise_all

Key = tuple[str, str]
"""Op package and operation type."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Kernel or shape function of a source for an operation.

    Attributes:
        source: Number of the source.
        origin: The source, for messages.
        kernel: Whether it has a kernel for the CPU.
        shapes: Whether it infers shapes of outputs.
        cores: Cores that it runs on.
        is_explicit: Whether its shapes go before those of a library.
    """

    source: int
    origin: str
    kernel: bool
    shapes: bool
    cores: tuple[str, ...]
    is_explicit: bool


class Offers:
    """Kernels and shape functions of all sources."""

    def __init__(self) -> None:
        self._kernels: dict[Key, Offer] = {}
        self._shapes: dict[Key, Offer] = {}
        self._others: dict[Key, Offer] = {}

    def add(self, source: int, origin: str, words: Sequence[Mapping[str, Any]], *, is_file: bool) -> None:
        """Register the kernels and shape functions of a source.

        Raises:
            BackendError: If another offers the same; several make a ProblemList.
        """
        problems: list[XdlcError] = []
        for one in words:
            key = (str(one["package"]), str(one["type"]))
            cores = tuple(map(str, one["cores"]))
            offer = Offer(source, origin, bool(one["kernel"]), bool(one["shapes"]), cores, is_file)
            if offer.kernel:
                problems += _clash(key, self._kernels.setdefault(key, offer), offer, "kernel")
            elif not offer.shapes or not is_file:
                self._others[key] = offer
            if offer.shapes:
                held = self._shapes.get(key)
                if held is None or offer.is_explicit > held.is_explicit:
                    self._shapes[key] = offer
                elif offer.is_explicit == held.is_explicit:
                    problems += _clash(key, held, offer, "shape function")
        raise_all(problems)

    def kernel(self, key: Key) -> Offer | None:
        """Return the source of the kernel of an operation."""
        return self._kernels.get(key)

    def shapes(self, key: Key) -> Offer | None:
        """Return the source of the shapes of an operation."""
        return self._shapes.get(key)

    def elsewhere(self, key: Key) -> Offer | None:
        """Return a source that has an operation, but not for the CPU."""
        return self._others.get(key)

    def types(self) -> list[str]:
        """Return the operations that have a kernel."""
        return [f"{package}::{type}" for package, type in sorted(self._kernels)]


def _clash(key: Key, held: Offer, offer: Offer, what: str) -> list[XdlcError]:
    if held is offer:
        return []
    return [
        BackendError(
            f"{held.origin} and {offer.origin} both have a {what} for {key[0]}::{key[1]}",
            fix="give only one of them",
        )
    ]
