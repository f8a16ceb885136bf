"""Algorithms that change a model or its encodings beyond plain min-max: one a module, one registry.

A module of this package holds one function under ``@algorithm("name")``; modules are found by
looking, so a new algorithm is a new file and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph

Algorithm: TypeAlias = Callable[[Graph], bool]
"""Rewrites a float graph before calibration, equal in its results; returns whether it changed."""

_KNOWN: dict[str, Algorithm] = {}


def algorithm(name: str) -> Callable[[Algorithm], Algorithm]:
    """Register a function as the algorithm ``name``.

    Raises:
        ValueError: If the name is taken.
    """

    def register(function: Algorithm) -> Algorithm:
        if _KNOWN.setdefault(name, function) is not function:
            raise ValueError(f"two algorithms are named {name!r}")
        return function

    return register


@cache
def _load_all() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def known_algorithms() -> tuple[str, ...]:
    """Return the names of all algorithms, sorted."""
    _load_all()
    return tuple(sorted(_KNOWN))


def find_algorithms(names: Sequence[str]) -> list[Algorithm]:
    """Return the algorithms of some names, in that order.

    Raises:
        UsageError: If a name is not known; lists those that are.
    """
    known = known_algorithms()
    for name in names:
        if name not in known:
            nearest = nearest_names(name, known)
            raise UsageError(
                f"no quantization algorithm {name!r}; known: {', '.join(known) or 'none'}",
                where="algorithms",
                fix=f"use one of the known ({nearest})" if nearest else "leave the algorithm out",
            )
    return [_KNOWN[name] for name in names]
