"""Range methods: ranges of activations, and scales of symmetric weights.

A module of this package registers one method by :func:`range_method`, with a function for activations, for
weights, or for both; modules are found by looking.  Weights are at hand as a whole, a row for each channel or
block, so that their function sees the values themselves and all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.data import Array
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.ranges import Range
from xdlc.registry import Registry


@dataclass(frozen=True, slots=True)
class Grid:
    """Quantized values of an activation.

    Attributes:
        bits: Bits of a quantized value.
        percentile: Percentage of the values that the method ``percentile`` keeps.
        symmetric: Whether the range must be as far below zero as above.
    """

    bits: int
    percentile: float
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class Steps:
    """Quantized values of symmetric weights.

    Attributes:
        low: Smallest, below zero.
        high: Largest, above zero.
        percentile: Percentage of the values that the method ``percentile`` keeps.
    """

    low: int
    high: int
    percentile: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A range method, and the kept share if it is ``percentile``."""

    method: str
    percentile: float = 100.0

    def __str__(self) -> str:
        return f"{self.method} {self.percentile:g}" if self.method == "percentile" else self.method


Find: TypeAlias = Callable[[Statistics, Grid], Range]
"""Returns the range to cover, within the seen range; empty if no value was seen."""

Fit: TypeAlias = Callable[[Array, Steps], Array]
"""Returns a scale, float64, for each row of finite float32 numbers [rows, elements]; 0 for a row of zeros."""


@dataclass(frozen=True, slots=True)
class RangeMethod:
    """A range method.

    Attributes:
        name: Its name on the command line.
        activations: The function for activations; None: it is not for activations.
        weights: The function for weights; None: it is not for weights.
        histogram: Whether ``activations`` reads the histogram.
        needs_network: Whether the range of an activation depends on the network: headroom at 16 bits, at 8
            bits the method whose network is closest to float (``auto_range``).
    """

    name: str
    activations: Find | None = None
    weights: Fit | None = None
    histogram: bool = True
    needs_network: bool = False

    def find(self, statistics: Statistics, grid: Grid) -> Range:
        """Return the range of an activation; all values if only weights have a method."""
        return statistics.seen if self.activations is None else self.activations(statistics, grid)

    def fit(self, rows: Array, steps: Steps) -> Array:
        """Return the scale of each row of weights; unclipped without a method."""
        return unclipped_scales(rows, steps) if self.weights is None else self.weights(rows, steps)


_KNOWN: Registry[str, RangeMethod] = Registry(__name__, "range method")
_LEGACY = {
    "tf": ("min-max", "asymmetric"),
    "adjusted": ("min-max", "asymmetric"),
    "enhanced": ("sqnr", "asymmetric"),
    "symmetric": ("min-max", "symmetric"),
}
"""Method and schema of the names of the vendor's older tools."""

_LEGACY_OF_WEIGHTS = {"adjusted": "mse", "moving-average": "min-max"}
"""Other methods that names of activations are bound to where they are given for weights."""


def range_method(
    name: str,
    *,
    activations: Find | None = None,
    weights: Fit | None = None,
    histogram: bool = True,
    needs_network: bool = False,
) -> RangeMethod:
    """Register a range method and return it; the arguments are its attributes.

    Raises:
        ValueError: If the name is taken.
    """
    method = RangeMethod(name, activations, weights, histogram, needs_network)
    _KNOWN.add(name, method)
    return method


def known_range_methods(*, weights: bool = False) -> tuple[str, ...]:
    """Return the names of the methods for activations, or for weights, sorted."""
    return tuple(
        sorted(
            name
            for name, method in _KNOWN.all().items()
            if (method.weights if weights else method.activations) is not None
        )
    )


def legacy(name: str) -> tuple[str, str | None]:
    """Return the method and the schema that a name is bound to.

    Args:
        name: A range method, or one of the older tools' quantizers: ``tf``, ``enhanced``, ``adjusted``,
            ``symmetric``.  Those set the schema too; a method of today does not: None.
    """
    return _LEGACY.get(name, (name, None))


def find_range_method(name: str, *, weights: bool = False) -> RangeMethod:
    """Return a range method by name, also by names of the vendor's older tools.

    Raises:
        UsageError: If there is no such method for them; lists those that there are.
    """
    plain = legacy(name)[0]
    if weights:
        plain = _LEGACY_OF_WEIGHTS.get(name, plain)
    method = _KNOWN.find(plain)
    if method is None or (method.weights if weights else method.activations) is None:
        names = known_range_methods(weights=weights)
        kind = "weight range method" if weights else "range method"
        raise UsageError(
            f"no {kind} {name!r}; known: {', '.join(names)}",
            where=f"{'param' if weights else 'act'}_quantizer_calibration",
            fix=nearest_names(name, (*names, *_LEGACY)) or "use a method of this list",
        )
    return method


def shrunk(seen: Range, grid: Grid, count: int = 100) -> Iterator[Range]:
    """Yield ranges from the widest to narrower ones, both ends scaled by one factor.

    The factors are squares, so that they are closer together where the range is small.

    Args:
        seen: The range of all values.
        grid: The quantized values; if symmetric, so are the ranges.
    """
    whole = seen.with_zero()
    if grid.symmetric:
        largest = max(-whole.low, whole.high)
        whole = Range(-largest, largest)
    for part in range(count, 0, -1):
        factor = (part / count) ** 2
        yield Range(whole.low * factor, whole.high * factor)


def unclipped_scales(rows: Array, steps: Steps) -> Array:
    """Return the smallest scales that clip no value, float64; 0 for zeros."""
    low = np.minimum(rows.min(axis=1, initial=0.0), 0.0).astype(np.float64)
    high = np.maximum(rows.max(axis=1, initial=0.0), 0.0).astype(np.float64)
    return np.maximum(high / steps.high, low / steps.low)


Cost: TypeAlias = Callable[[Array, Array, Steps], Array]
"""Returns the cost, float64, of a scale (second argument) for each row (first); float32 both."""

_COARSE, _COARSE_COUNT = 0.9, 24
_FINE_COUNT = 6
_MOST = 1 << 16
"""Elements of a row that the search reads; of longer rows every n-th."""


def sampled(rows: Array) -> Array:
    """Return the elements of each row that a search reads."""
    return rows[:, :: rows.shape[1] // _MOST + 1] if rows.shape[1] > _MOST else rows


def least_cost(rows: Array, steps: Steps, cost: Cost) -> Array:
    """Return the scale of least cost for each row.

    It is the one that clips nothing, or one down to a twelfth of it.

    Scales in steps of a tenth are tried, then the neighbourhood of the best in sixths of such a
    step.  Of equals the widest wins.

    Args:
        rows: Finite float32, [rows, elements].
        steps: The quantized values of weights.
    """
    widest = unclipped_scales(rows, steps)
    seen = sampled(rows)
    best, least = widest.copy(), np.full(len(rows), np.inf)

    def evaluate(scales: Array) -> None:
        # Rows of zeros, and those whose scale is not a normal number, are as good with any scale.
        found = cost(seen, np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32), steps)
        better = found < least
        best[better], least[better] = scales[better], found[better]

    for power in range(_COARSE_COUNT):
        evaluate(widest * _COARSE**power)
    middle = best.copy()
    for part in range(-_FINE_COUNT + 1, _FINE_COUNT):
        evaluate(np.minimum(middle * _COARSE ** (part / _FINE_COUNT), widest))
    return best
