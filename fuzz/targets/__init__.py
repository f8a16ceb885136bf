"""Targets: what is fed with input, readers first."""

from __future__ import annotations

import importlib
import importlib.util
import mmap
import pkgutil
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

Files = dict[str, bytes]
"""Contents by path below the folder of a case."""
PACKAGES = ("fuzz.targets", "fuzz.differential")
FOREIGN = mmap.mmap(-1, 1)
"""1 while another engine runs, shared with workers: what happens then is no finding."""


class Finding(Exception):
    """What a target itself states to be wrong.

    Attributes:
        kind: What is wrong; a smaller case has to be wrong in the same way.
        place: Where, by which findings of a kind are distinguished.
    """

    def __init__(self, kind: str, place: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.place = kind, place


@dataclass(frozen=True)
class Target:
    """What is fed with input: a reader, or networks that another engine computes too.

    Attributes:
        name: Its name.
        seeds: Builds valid input.
        run: Reads the case in a folder, with a source of chance for options; returns a word for statistics.
            Errors for users pass; any other exception is a finding.
        fixed: Files that are not changed.
        generate: Makes input of random parts, valid or not; half of the cases begin with it, and all of those
            of targets whose files are all fixed.
        engine: Modules that it needs beside xdlc.
        smaller: Makes cases that are a step smaller, larger steps first; some may be none.
        seconds: Processor time of a case.
        start: Loads the engine in a worker, before its first case.
        listed: Makes all cases, in place of random ones; a worker calls it.
        row: Returns the row of the table of results that a case counts in; such a target has a table.
    """

    name: str
    seeds: Callable[[], Iterable[Files]]
    run: Callable[[Path, random.Random], str]
    fixed: tuple[str, ...] = ()
    generate: Callable[[random.Random], Files] | None = None
    engine: tuple[str, ...] = ()
    smaller: Callable[[Files], Iterable[Files]] | None = None
    seconds: int = 5
    start: Callable[[], object] | None = None
    listed: Callable[[], Sequence[Files]] | None = None
    row: Callable[[Files], str] | None = None

    def missing(self) -> str:
        """Return a module that it needs and that is not installed; empty if there is none."""
        return next((name for name in self.engine if not importlib.util.find_spec(name)), "")


def load() -> dict[str, Target]:
    """Return the targets of all modules of the packages by name."""
    targets: dict[str, Target] = {}
    for package in PACKAGES:
        for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
            module = importlib.import_module(f"{package}.{info.name}")
            targets |= {each.name: each for each in getattr(module, "TARGETS", ())}
    return targets
