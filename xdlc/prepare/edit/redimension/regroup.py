"""Dimensions of the target of a Reshape, computed from those of its input.

Row-major order cuts both shapes into groups of axes of the same number of elements.  Inside of a group
the parts that did not change hold from both ends; what is left must be one axis of the target, or one
whose size alone can make up for the change.  Axes of size 1 have no place in that order, so that they
are matched by position between the groups, the first axis with the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdlc.opdefs.shapes import ShapeError
from xdlc.prepare.edit.redimension.resize_context import Axis, Factor


def regrouped(axes: Sequence[Axis], target: Sequence[int]) -> list[Axis]:
    """Return the factors of the dimensions of the target.

    Args:
        axes: The same of the input.
        target: Dimensions that the target had.

    Raises:
        ShapeError: If the new dimensions fill no target, or more than one.

    Example:
        >>> regrouped([(Factor(1, 4),), (Factor(6, 8),), (Factor(5, 5),)], (1, 30))
        [(Factor(old=1, new=4),), (Factor(old=6, new=8), Factor(old=5, new=5))]
    """
    factors = [factor for axis in axes for factor in axis]
    if math.prod(factor.old for factor in factors) != math.prod(target) or 0 in target:
        raise ShapeError(f"its output {list(target)} has another number of elements than its input")
    parts_of: list[list[Factor]] = [[] for _ in target]
    may_join = sum(factor.old == 1 for factor in factors) > list(target).count(1)
    before: int | None = None
    for ones, places, parts, here in _groups(factors, target):
        ends = [axis for axis in (before, here[0] if here else None) if axis is not None]
        _match_ones(ones, places, parts_of, ends if may_join else [], is_first=before is None)
        if here:
            _fill(parts, here, target, parts_of)
            before = here[-1]
    return [tuple(parts) or (Factor(1, 1),) for parts in parts_of]


_Group = tuple[list[Factor], list[int], list[Factor], list[int]]


def _groups(factors: Sequence[Factor], target: Sequence[int]) -> Iterator[_Group]:
    """Yield factors and axes of size 1, then the next group of factors and axes."""
    left, right = 0, 0
    while True:
        start, first = left, right
        while left < len(factors) and factors[left].old == 1:
            left += 1
        while right < len(target) and target[right] == 1:
            right += 1
        ones, places = list(factors[start:left]), list(range(first, right))
        if left == len(factors):
            yield ones, places, [], []
            return
        start, first = left, right
        sizes = [factors[left].old, target[right]]
        left, right = left + 1, right + 1
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                sizes[0] *= factors[left].old
                left += 1
            else:
                sizes[1] *= target[right]
                right += 1
        yield ones, places, list(factors[start:left]), list(range(first, right))


def _match_ones(
    ones: list[Factor], places: list[int], axes: list[list[Factor]], ends: list[int], *, is_first: bool
) -> None:
    """Assign factors to axes of size 1 between two groups.

    Args:
        ones: The factors of size 1 there.
        places: The axes of size 1 there.
        axes: What the axes become.
        ends: The axes before and after, if a factor may have become part of one.
        is_first: Whether there is no group before.
    """
    if is_first and ones and places and len(ones) != len(places):
        axes[places[0]].append(ones[0])
        ones, places, ends = ones[1:], places[1:], []
    if len(ones) == len(places):
        for factor, place in zip(ones, places, strict=True):
            axes[place].append(factor)
        return
    changed = [factor for factor in ones if factor.is_changed]
    if not changed:
        return
    if len(changed) == len(places) == 1:
        axes[places[0]].append(changed[0])
    elif not places and len(ends) == 1:
        axes[ends[0]].extend(changed)
    else:
        news = ", ".join(str(factor.new) for factor in changed)
        raise ShapeError(f"an axis of size 1 became {news}, and its place in the output is ambiguous")


def _fill(parts: list[Factor], here: list[int], target: Sequence[int], axes: list[list[Factor]]) -> None:
    """Assign factors to the axes of a group."""
    places = [place for place in here if target[place] != 1]
    if len(places) == 1:
        axes[places[0]].extend(parts)
        return
    if any(factor.old == 1 and factor.is_changed for factor in parts):
        raise ShapeError("an axis of size 1 between the axes that it joins and splits became another size")
    rest = [factor for factor in parts if factor.old != 1]
    dims = {place: target[place] for place in places}
    inner: dict[int, list[Factor]] = {place: [] for place in places}
    outer: dict[int, list[Factor]] = {place: [] for place in places}
    _peel(rest, dims, places, inner, end=-1)
    _peel(rest, dims, places, outer, end=0)
    for place, middle in _shared(rest, dims, places).items():
        inner[place] = middle + inner[place]
    for place in here:
        if target[place] != 1:
            axes[place].extend(outer[place] + inner[place])


def _peel(
    rest: list[Factor],
    dims: dict[int, int],
    places: list[int],
    sides: dict[int, list[Factor]],
    *,
    end: int,
) -> None:
    """Remove unchanged factors, and axes equal to a factor, from one end."""

    def add(place: int, factor: Factor) -> None:
        sides[place].insert(0 if end else len(sides[place]), factor)

    while rest and places:
        factor, place = rest[end], places[end]
        dim = dims[place]
        if factor.old == dim:
            add(place, factor)
            del rest[end], places[end]
        elif factor.is_changed:
            return
        elif factor.old % dim == 0:
            add(place, Factor(dim, dim))
            del places[end]
            rest[end] = Factor(factor.old // dim, factor.old // dim)
        elif dim % factor.old == 0:
            add(place, factor)
            del rest[end]
            dims[place] = dim // factor.old
        else:
            return


def _shared(rest: list[Factor], dims: dict[int, int], places: list[int]) -> dict[int, list[Factor]]:
    """Return the factors of the axes that are still ambiguous."""
    if len(places) == 1:
        return {places[0]: rest}
    old, new = (math.prod(values) for values in zip(*rest, strict=True)) if rest else (1, 1)
    if old == new and not any(factor.is_changed for factor in rest):
        return {place: [Factor(dims[place], dims[place])] for place in places}
    scaled = [place for place in places if dims[place] * new % old == 0]
    if len(scaled) != 1:
        held = "x".join(str(dims[place]) for place in places)
        many = "more than one dimension could" if scaled else "no single dimension can"
        raise ShapeError(f"{old} elements in {held} became {new}, and {many} compensate for it")
    grown = Factor(dims[scaled[0]], dims[scaled[0]] * new // old)
    return {place: [grown if place == scaled[0] else Factor(dims[place], dims[place])] for place in places}
