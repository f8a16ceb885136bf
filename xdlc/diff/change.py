"""One difference, and plain values compared to the leaf."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

from xdlc.errors import UsageError, nearest_names

KINDS: Mapping[str, str] = {
    "ops": "ops of one file only",
    "order": "order of ops",
    "types": "operation types",
    "packages": "op packages",
    "inputs": "tensors that an op reads",
    "outputs": "tensors that an op writes",
    "params": "parameters of ops",
    "shapes": "shapes of tensors",
    "dynamic-axes": "axes whose dimension is open",
    "dtypes": "data types of tensors",
    "encodings": "scales, offsets and widths of tensors",
    "roles": "roles of tensors",
    "weights": "values of static tensors",
    "tensors": "tensors that no op uses",
    "op-names": "names of ops",
    "tensor-names": "names of tensors",
    "graph-names": "names of graphs",
    "origins": "source nodes of ops",
    "reasons": "reasons for inserted ops",
    "graphs": "graphs of one file only, and their order",
    "io": "inputs and outputs of graphs, and their order",
    "layouts": "layouts of inputs and outputs",
    "preprocessing": "steps that a graph does with the data of callers",
    "symbols": "symbols of open dimensions",
    "states": "inputs that keep a state between runs",
    "caches": "HTP caches and their provenance",
    "aip": "AIP records",
    "udo": "definitions of UDO packages",
    "other-records": "other records",
    "files": "files next to a DLC",
    "format": "format of the file, like 4.1",
    "history": "tools and options that made a file",
    "copyright": "the copyright text",
    "model-version": "the version text of the model",
    "timestamps": "times in the history and in caches",
    "properties": "properties of a DLC of format 3",
    "relations": "relations between records",
    "nodes": "list of source nodes",
    "modules": "modules of source nodes",
    "sources": "source names of tensors",
    "factors": "factors of weights",
    "layers": "ids of layers of format 3",
    "other-metadata": "other metadata",
    "cost": "MACs, parameters, bytes and memory",
}
"""Each kind, and what differs."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "names": ("op-names", "tensor-names", "graph-names"),
    "metadata": (
        "format",
        "history",
        "copyright",
        "model-version",
        "timestamps",
        "properties",
        "relations",
        "nodes",
        "modules",
        "sources",
        "factors",
        "layers",
        "other-metadata",
    ),
    "trace": ("origins", "reasons", "nodes", "modules", "sources", "factors", "layers"),
    "records": ("caches", "aip", "udo", "other-records", "relations"),
}
"""Names of several kinds."""


NOT_IN_SOURCE = frozenset((*GROUPS["metadata"], *GROUPS["records"], "reasons", "origins", "files"))
"""Kinds of differences that no source model has, beside its DLC."""


def named(kinds: Collection[str]) -> str:
    """Return kinds in words, by the names of groups where all of a group are there."""
    groups = [name for name, members in GROUPS.items() if name != "trace" and set(members) <= set(kinds)]
    grouped = {kind for name in groups for kind in GROUPS[name]}
    return ", ".join([*groups, *(kind for kind in KINDS if kind in kinds and kind not in grouped)])


def kinds_of(names: Iterable[str]) -> frozenset[str]:
    """Return the kinds that names of kinds or groups stand for.

    Raises:
        UsageError: If there is no such kind; the error has the nearest names.
    """
    kinds: set[str] = set()
    for name in names:
        if name not in KINDS and name not in GROUPS:
            choices = [*GROUPS, *KINDS]
            fix = nearest_names(name, choices) or f"use some of {', '.join(choices)}"
            raise UsageError(f"there is no kind of difference {name!r}", fix=fix)
        kinds.update(GROUPS.get(name, (name,)))
    return frozenset(kinds)


LONGEST = 240
"""Characters of a value that a difference shows."""
_LONGEST_OBJECT = 100
_KEYS = ("name", "record", "parentRecordName", "cacheName")
"""Keys whose value names an object of a list."""
_DEEPEST = 32
_LONG_TEXT, _MOST_WORDS = 100, 1000
NEAR = 60
"""Characters in which the parts of long texts differ."""
_CONTEXT = 20
"""Characters of both texts before their first difference."""
_DIGITS = (6, 9, 17)
"""Digits of a float: as few as tell two values apart."""

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Change:
    """A difference of one property.

    Attributes:
        kind: One of ``xdlc.diff.change.KINDS``.
        what: The property and its place, like ``parameter 'axis'``.
        before: Its value in the first file; None without one.
        after: Its value in the second file; None without one.
        note: The size of the difference, in words.
        figures: The size of the difference in elements, if tensors differ.
    """

    kind: str
    what: str
    before: Value = None
    after: Value = None
    note: str | None = None
    figures: Mapping[str, float | None] | None = None

    @classmethod
    def between(cls, kind: str, what: str, values: Iterable[Value], note: str | None = None) -> Change:
        """Return a difference of a pair of values."""
        before, after = values
        return cls(kind, what, before, after, note)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name; ``figures`` only if there are any."""
        fields = asdict(self)
        if self.figures is None:
            del fields["figures"]
        return fields


def shown(value: Any) -> Value:
    """Return a value as a number or a text of limited length."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value if value is None or abs(value) < 1 << 53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    text = _text(value)
    if isinstance(value, Mapping) and len(text) > _LONGEST_OBJECT:
        return f"{len(value)} fields"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _text(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def shown_pair(values: Iterable[Any]) -> list[Value]:
    """Return two values as ``shown`` does: what differs in long texts, few digits.

    Digits of floats in lists are no more than tell the lists apart.

    Example:
        >>> shown_pair([[0.1234567890123], [0.2]])
        ['[0.123457]', '[0.2]']
    """
    before, after = values
    if isinstance(before, str) and isinstance(after, str):
        before, after = differing_parts(before, after)
    for digits in _DIGITS:
        pair = [shown(_rounded(value, digits)) for value in (before, after)]
        if pair[0] != pair[1]:
            return pair
    texts = _text(before), _text(after)
    return pair if texts[0] == texts[1] else [shown(text) for text in differing_parts(*texts)]


def differing_parts(before: str, after: str) -> tuple[str, str]:
    """Return two long texts with dots for the words of both; short ones as is.

    They differ in their first ``NEAR`` characters, unless they are equal.
    """
    pair = before, after
    if min(map(len, pair)) <= _LONG_TEXT:
        return pair
    shortened = _differing_words(before.split(), after.split())
    pair = shortened if shortened[0] != shortened[1] else pair
    gaps = (at for at, characters in enumerate(zip(*pair, strict=False)) if len(set(characters)) > 1)
    first = next(gaps, min(map(len, pair)))
    if first < NEAR:
        return pair
    start = first - _CONTEXT
    return f"...{pair[0][start:]}", f"...{pair[1][start:]}"


def _differing_words(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """Return words with dots for those of both lists; nothing for too many."""
    parts: tuple[list[str], list[str]] = [], []
    words = before, after
    if max(map(len, words)) <= _MOST_WORDS:
        for kind, *places in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            for part, own, start, end in zip(parts, words, places[::2], places[1::2], strict=True):
                part += own[start:end] if kind != "equal" else ["..."] if part[-1:] != ["..."] else []
    return " ".join(parts[0]), " ".join(parts[1])


def _rounded(value: Any, digits: int) -> Any:
    """Return a list with rounded floats in it; other values as is."""
    if not _is_list(value):
        return value
    return [
        float(f"{each:.{digits}g}") if isinstance(each, float) else _rounded(each, digits) for each in value
    ]


def text_pair(values: Iterable[Value]) -> list[str]:
    """Return two values as texts, with few digits that still tell them apart."""
    before, after = values
    for digits in _DIGITS:
        pair = [
            "none" if value is None else f"{value:.{digits}g}" if isinstance(value, float) else str(value)
            for value in (before, after)
        ]
        if pair[0] != pair[1]:
            break
    return pair


def changes_of(pair: Iterable[Any]) -> Iterator[tuple[str, list[Value]]]:
    """Yield the place and both values of each leaf that differs in two plain values.

    Lists of objects with names are compared by name; other lists by position.
    """
    before, after = pair
    for place, *values in _leaves(before, after, "", 0):
        yield place, shown_pair(values)


def _leaves(before: Any, after: Any, place: str, depth: int) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping) and depth < _DEEPEST:
        for key in {**before, **after}:
            inner = f"{place}.{key}" if place else str(key)
            yield from _leaves(before.get(key), after.get(key), inner, depth + 1)
    elif _is_list(before) and _is_list(after) and depth < _DEEPEST:
        yield from _lists(before, after, place, depth)
    elif differ(before, after):
        yield place, before, after


def differ(before: Any, after: Any) -> bool:
    """Return whether two values differ: NaN equals itself, and 1 is not true."""
    is_flag = isinstance(before, bool), isinstance(after, bool)
    return is_flag[0] != is_flag[1] or (before != after and repr(before) != repr(after))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _lists(before: Any, after: Any, place: str, depth: int) -> Iterator[tuple[str, Any, Any]]:
    first, second = _by_name(before), _by_name(after)
    if first is not None and second is not None:
        yield from _leaves(first, second, place, depth + 1)
        common = [[name for name in first if name in second], [name for name in second if name in first]]
        if common[0] != common[1]:
            yield f"order of {place}", ", ".join(common[0]), ", ".join(common[1])
    elif any(isinstance(item, Mapping | list | tuple) for item in (*before, *after)):
        for place_in_list in range(max(len(before), len(after))):
            pair = [side[place_in_list] if place_in_list < len(side) else None for side in (before, after)]
            yield from _leaves(pair[0], pair[1], f"{place}[{place_in_list}]", depth + 1)
    elif len(before) != len(after) or any(map(differ, before, after)):
        yield place, list(before), list(after)


def _by_name(items: Any) -> dict[str, Any] | None:
    """Return the objects of a list by name; None if one has none or two have the same."""
    if not all(isinstance(item, Mapping) for item in items):
        return None
    for key in _KEYS:
        named = {str(item[key]): item for item in items if key in item}
        if len(named) == len(items):
            return named
    return None
