"""Algorithms for accuracy beyond well-chosen ranges: one a module, one registry.

A module of this package holds one function under ``@algorithm("name", stage)``; modules are found by
looking, so a new algorithm is a new file and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from xdlc.errors import UsageError, nearest_names
from xdlc.options import spell
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.plan import Plan
from xdlc.registry import Registry


class Stage(IntEnum):
    """When an algorithm runs, and what it may change.

    Within a stage algorithms run in the order of their names in the options.
    """

    GRAPH = 0
    """Before calibration: the float graph, equal in its results; the calibration has samples alone."""
    PRECISION = 1
    """After calibration: the widths of ops."""
    WEIGHTS = 2
    """After encodings were decided: static data, and the encodings of static data."""


Run: TypeAlias = Callable[[Plan, Calibration, Engine], Plan]
"""Returns another plan, given the plan so far, what is known of activations, and what runs networks."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An accuracy algorithm.

    Attributes:
        name: Its name on the command line.
        stage: When it runs.
    """

    name: str
    stage: Stage
    run: Run


_KNOWN: Registry[str, Algorithm] = Registry(__name__, "quantization algorithm")


def algorithm(name: str, stage: Stage) -> Callable[[Run], Run]:
    """Register a function as the algorithm ``name``.

    Raises:
        ValueError: If the name is taken.
    """

    def register(function: Run) -> Run:
        _KNOWN.add(name, Algorithm(name, stage, function))
        return function

    return register


def known_algorithms() -> tuple[str, ...]:
    """Return the names of all algorithms, sorted."""
    return tuple(sorted(_KNOWN.all()))


def find_algorithms(names: Sequence[str]) -> list[Algorithm]:
    """Return the algorithms of some names, by stage and then in that order.

    Raises:
        UsageError: If a name is not known; lists those that are.
    """
    algorithms = _KNOWN.all()
    for name in names:
        if name not in algorithms:
            known = known_algorithms()
            nearest = nearest_names(name, known)
            raise UsageError(
                f"no quantization algorithm {name!r}; known: {', '.join(known) or 'none'}",
                where=spell("algorithms"),
                fix=f"use a known algorithm ({nearest})" if nearest else "omit this algorithm",
            )
    return sorted((algorithms[name] for name in names), key=lambda algorithm: algorithm.stage)
