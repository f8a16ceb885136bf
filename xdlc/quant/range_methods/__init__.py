"""Ways to choose a range from what calibration saw: one a module, one registry.

A module of this package holds one function under ``@range_method("name")``; modules are found by looking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from xdlc.errors import UsageError, nearest_names
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.ranges import Range
from xdlc.registry import Registry


@dataclass(frozen=True, slots=True)
class Grid:
    """What the integers will be that a range is chosen for.

    Attributes:
        bits: Bits of a stored integer.
        symmetric: Whether the range must be as far below zero as above.
        percentile: What the method ``percentile`` keeps, in percent.
    """

    bits: int
    symmetric: bool = False
    percentile: float = 99.99


Find: TypeAlias = Callable[[Statistics, Grid], Range]
"""Returns the range to be covered, within the one seen; empty where nothing was seen."""


@dataclass(frozen=True, slots=True)
class RangeMethod:
    """A way to choose a range.

    Attributes:
        name: Its name on the command line.
        find: The function.
        histogram: Whether it looks at the histogram.
    """

    name: str
    find: Find
    histogram: bool


AUTO = "auto"
"""The method that leaves the choice to the quantizer."""

_KNOWN: Registry[str, RangeMethod] = Registry(__name__, "range method")
_LEGACY = {
    "tf": ("min-max", "asymmetric"),
    "adjusted": ("min-max", "asymmetric"),
    "enhanced": ("sqnr", "asymmetric"),
    "symmetric": ("min-max", "symmetric"),
}
"""Method and schema behind the names of the vendor's older tools."""


def range_method(name: str, *, histogram: bool = True) -> Callable[[Find], Find]:
    """Register a function as the range method ``name``.

    Raises:
        ValueError: If the name is taken.
    """

    def register(function: Find) -> Find:
        _KNOWN.add(name, RangeMethod(name, function, histogram))
        return function

    return register


def legacy(name: str) -> tuple[str, str | None]:
    """Return the method and the schema that a name stands for.

    Args:
        name: A range method, or one of the older tools' quantizers: ``tf``, ``enhanced``, ``adjusted``,
            ``symmetric``.  Those set the schema too; a method of today leaves it open: None.
    """
    return _LEGACY.get(name, (name, None))


def shrunk(seen: Range, grid: Grid, count: int = 100) -> Iterator[Range]:
    """Yield ranges from the widest on, both ends drawn in by one factor.

    The factors are squares, so that they lie closer together where the range is small.

    Args:
        seen: The range of all values.
        grid: What the integers will be; if symmetric, so are the ranges.
        count: How many.
    """
    whole = seen.with_zero()
    if grid.symmetric:
        largest = max(-whole.low, whole.high)
        whole = Range(-largest, largest)
    for part in range(count, 0, -1):
        factor = (part / count) ** 2
        yield Range(whole.low * factor, whole.high * factor)


def known_range_methods() -> tuple[str, ...]:
    """Return the names of all range methods, sorted."""
    return tuple(sorted(_KNOWN.all()))


def find_range_method(name: str, where: str = "act_quantizer_calibration") -> RangeMethod:
    """Return the range method of a name, which may be one that the vendor's older tools use.

    Raises:
        UsageError: If the name is not known; lists those that are.
    """
    known = _KNOWN.all()
    plain, _ = legacy(name)
    if plain not in known:
        nearest = nearest_names(name, (*known, *_LEGACY))
        raise UsageError(
            f"no range method {name!r}; known: {', '.join(sorted(known))}",
            where=where,
            fix=nearest or "use one of them",
        )
    return known[plain]
