"""Comparison of results: how far apart two right engines may be on a network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fuzz.differential.frameworks import Framework, Refused, Undefined, foreign
from fuzz.differential.networks import Array, Network, Node
from fuzz.targets import Finding

FLOAT32, FLOAT16 = 2.0**-22, 2.0**-10
"""Relative errors of a result: twice the rounding of the type."""
MANY = 60
"""Runs for results that are integers."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Smallest number that float32 holds to full precision; engines may round lesser ones to 0."""
DRAWS = 6
"""Runs with disturbed values by which the spread of right results is measured."""


class Difference(Finding):
    """xdlc computes something else than the engine, or nothing."""

    def __init__(self, kind: str, network: Network, detail: str) -> None:
        super().__init__(kind, network.ops(), detail)


def distance(ours: Array, theirs: Array) -> str:
    """Return how two arrays differ beyond rounding, or ""."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} for {theirs.shape}"
    if theirs.dtype.kind in "biu" and ours.dtype.kind in "biu":
        if (unequal := ours != theirs).any():
            return f"{ours[unequal][0]} for {theirs[unequal][0]}, {int(unequal.sum())} of {ours.size}"
        return ""
    if theirs.dtype.kind not in "biuf":
        return ""  # texts and complex numbers
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if (odd := (np.isnan(a) != np.isnan(b)) | (np.isinf(a) != np.isinf(b))).any():
        return f"{a[odd][0]:.9g} for {b[odd][0]:.9g}, {int(odd.sum())} of {a.size}"
    if (infinite := np.isinf(b)).any() and (a[infinite] != b[infinite]).any():
        return "infinity of the other sign"
    finite = np.isfinite(b)
    if not finite.any():
        return ""
    a, b = a[finite], b[finite]
    eps = 2.0**-9 if theirs.dtype.name in ("float16", "bfloat16") else 2e-5
    error = np.abs(a - b)
    if (error <= eps * (np.abs(b) + 0.1 * np.abs(b).max()) + SMALLEST).all():
        return ""
    worst = error.argmax()
    return f"{a[worst]:.9g} for {b[worst]:.9g}, largest {np.abs(b).max():.6g}"


def spread(
    framework: Framework,
    network: Network,
    feeds: Mapping[str, Array],
    relative: float,
    *,
    steps: int = 0,
    draws: int = DRAWS,
) -> dict[str, float]:
    """Return by output how far the engine's results move if each value is disturbed.

    Floats change by a relative error, and by what that is of the largest number of their array; results
    that are rounded to a grid change by a step.

    Args:
        framework: The engine.
        feeds: Inputs by name.
        relative: Relative error of a result.
        steps: Steps of which each float may be off that has as many between its least and its largest.
        draws: Runs with disturbed values.
    """
    rng, is_first = np.random.default_rng(0), True

    def change(array: Array, step: float, rate: float = relative) -> Array:
        array = np.asarray(array)
        if array.dtype.kind in "iu" and step:
            limits = np.iinfo(array.dtype)
            moved = array.astype(np.int64) + rng.integers(-1, 2, array.shape)
            return moved.clip(limits.min, limits.max).astype(array.dtype)
        if array.dtype.kind != "f" or not array.size:
            return array
        with np.errstate(all="ignore"):
            grid = 0.0
            if steps and np.isfinite(array).all():  # the grid of a calibrated range
                least, most = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
                grid = (most - least) / steps / 2 or 1.0
                if is_first:
                    return (np.round(array / grid) * grid).astype(array.dtype)
            largest = np.max(np.abs(array), initial=0, where=np.isfinite(array))
            size = rate * (np.abs(array) + 0.1 * largest) + step
            if steps:
                finite = array[np.isfinite(array)]  # every grid has a 0
                size = size + (finite.max(initial=0) - finite.min(initial=0)) / steps
            moved = array + size * rng.uniform(-1, 1, array.shape)
            if grid:  # a number near 0 becomes 0
                moved = np.round(moved / grid) * grid
            return np.asarray(moved, array.dtype)

    def disturb(node: Node, index: int, result: Array) -> Array:
        return change(result, framework.step_of(node, index, np.asarray(result)))

    apart = dict.fromkeys(network.outputs, 0.0)
    with foreign():
        base = framework.walk(network, dict(feeds))
    for draw in range(draws):
        is_first = draw == 0
        # Inputs are exact: they change by half a rounding, which moves ties of comparisons.
        moved = {name: change(each, 0.0, relative / 2) for name, each in feeds.items()}
        try:
            with foreign():
                values = framework.walk(network, moved, disturb)
        except (Refused, Undefined):  # an index or a count came out of the values
            return dict.fromkeys(network.outputs, np.inf)
        for name in network.outputs:
            a, b = (
                np.asarray(framework.real(network, name, results[name])).astype(np.float64)
                for results in (values, base)
            )
            if a.shape != b.shape or (np.isfinite(a) != np.isfinite(b)).any():
                apart[name] = np.inf
            elif np.isfinite(b).any():
                apart[name] = max(apart[name], float(np.abs(a - b)[np.isfinite(b)].max()))
    return apart


def compare(
    framework: Framework,
    network: Network,
    feeds: Mapping[str, Array],
    ours: Mapping[str, Array],
    theirs: Mapping[str, Array],
    kind: str,
    relative: float = FLOAT32,
) -> str:
    """Return ``equal``, or ``unstable`` for differences within the engine's own.

    Raises:
        Difference: If they differ by more.
    """
    if missing := [name for name in network.outputs if name not in ours]:
        raise Difference(f"no output, {kind}", network, f"{missing} of {list(ours)}")
    details = {}
    for name in network.outputs:
        mine, reference = (framework.real(network, name, results[name]) for results in (ours, theirs))
        if detail := distance(mine, reference):
            details[name] = detail
    if not details:
        return "equal"
    # Integers move at once, and by few of the draws.
    draws = MANY if all(theirs[name].dtype.kind in "iu" for name in details) else DRAWS
    apart = spread(framework, network, feeds, relative, draws=draws)
    for name, detail in details.items():
        mine, reference = (
            np.asarray(framework.real(network, name, results[name])).astype(np.float64)
            for results in (ours, theirs)
        )
        if mine.shape == reference.shape:
            both = np.isfinite(mine) & np.isfinite(reference)
            error = float(np.abs(mine - reference)[both].max()) if both.any() else 0.0
            if apart[name] == np.inf or (
                (np.isfinite(mine) == np.isfinite(reference)).all()
                and error <= framework.margin * apart[name]
            ):
                continue
        raise Difference(
            f"wrong, {kind}", network, f"{name}: {detail}; the engine's own spread {apart[name]:.3g}"
        )
    return "unstable"
