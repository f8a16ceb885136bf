"""Ranges of layer ids, the argument of ``--hta_partitions 0-11,177-215``."""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir import Op
from xdlc.options import spell

_RANGE = re.compile(r"\s*(\d{1,9})\s*-\s*(\d{1,9})\s*")


class Range(NamedTuple):
    """Layers from one id to another, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def parse_ranges(text: str) -> tuple[Range, ...]:
    """Return the ranges of a list like ``0-11,177-215``.

    Raises:
        UsageError: If a word is no range, or ranges are reversed, overlap, or do not rise; several
            problems make a ProblemList.

    Example:
        >>> [str(one) for one in parse_ranges("0-11, 177-215")]
        ['0-11', '177-215']
    """
    problems: list[XdlcError] = []
    ranges: list[Range] = []
    for word in text.split(","):
        match = _RANGE.fullmatch(word)
        if match is None:
            fix = f"write {word.strip()}-{word.strip()}" if word.strip().isdigit() else "write FIRST-LAST"
            problems.append(_problem(f"{word.strip()!r} is not a range of layer ids like 0-11", fix))
            continue
        layers = Range(int(match[1]), int(match[2]))
        if layers.first > layers.last:
            turned = Range(layers.last, layers.first)
            problems.append(_problem(f"the range {layers} is reversed", f"write {turned}"))
            layers = turned
        ranges.append(layers)
    problems += _misplaced(ranges)
    raise_all(problems)
    return tuple(ranges)


def _misplaced(ranges: Sequence[Range]) -> list[XdlcError]:
    problems: list[XdlcError] = []
    placed: list[Range] = []  # by layer id, none of which overlap
    for index, layers in enumerate(ranges):
        place = bisect(placed, layers)
        near = placed[max(place - 1, 0) : place + 1]
        overlapped = next(
            (each for each in near if each.first <= layers.last and layers.first <= each.last), None
        )
        if overlapped is None:
            placed.insert(place, layers)
        else:
            low, high = max(layers.first, overlapped.first), min(layers.last, overlapped.last)
            shared = f"layer {low}" if low == high else f"layers {Range(low, high)}"
            problem = f"the ranges {overlapped} and {layers} overlap in {shared}"
            problems.append(_problem(problem, "put each layer into one range"))
        if index and layers.last < ranges[index - 1].first:
            problems.append(
                _problem(
                    f"the range {layers} follows {ranges[index - 1]}, whose layers come later",
                    "order the ranges by layer id",
                )
            )
    return problems


def ops_in(ranges: Sequence[Range], ids: Mapping[Op, int]) -> list[tuple[Op, ...]]:
    """Return the ops of each range, in order.

    Args:
        ranges: Result of ``parse_ranges``.
        ids: Layer ids of the ops, which never decrease; so the ops of a range follow each other.

    Raises:
        UsageError: If a range reaches beyond the last layer or covers no op; several make a ProblemList.
    """
    layers, every = list(ids.values()), list(ids)
    end = max(layers, default=-1)
    problems: list[XdlcError] = []
    groups = []
    for span in ranges:
        ops = tuple(every[bisect_left(layers, span.first) : bisect(layers, span.last)])
        if span.last > end:
            problems.append(
                _problem(
                    f"the range {span} reaches beyond the last layer, which is {end}",
                    "use ids that xdlc-info prints",
                )
            )
        elif not ops:
            problems.append(
                _problem(f"the layers of range {span} have no operations", "use ids that xdlc-info prints")
            )
        groups.append(ops)
    raise_all(problems)
    return groups


def _problem(problem: str, fix: str) -> UsageError:
    return UsageError(problem, where=spell("partitions"), fix=fix)
