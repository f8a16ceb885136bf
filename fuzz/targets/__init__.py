"""Targets: readers with seeds for them."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

Files = dict[str, bytes]
"""Contents by path below the folder of a case."""


@dataclass(frozen=True)
class Target:
    """A reader of untrusted input.

    Attributes:
        name: Its name.
        seeds: Builds valid input.
        run: Reads the case in a folder, with a source of chance for options; returns a word for statistics.
            Errors for users pass; any other exception is a finding.
        fixed: Files that are not changed.
        generate: Makes input of random parts, valid or not; half of the cases begin with it.
    """

    name: str
    seeds: Callable[[], Iterable[Files]]
    run: Callable[[Path, random.Random], str]
    fixed: tuple[str, ...] = ()
    generate: Callable[[random.Random], Files] | None = None


def load() -> dict[str, Target]:
    """Return the targets of all modules of this package by name."""
    found: dict[str, Target] = {}
    for module in pkgutil.iter_modules(__path__):
        held = importlib.import_module(f"{__name__}.{module.name}")
        found |= {each.name: each for each in getattr(held, "TARGETS", ())}
    return found
