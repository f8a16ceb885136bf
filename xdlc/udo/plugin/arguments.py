"""Arguments of a kernel: letters of their kinds, and their values.

====== ==============================
Letter Value
====== ==============================
``i``  integer of 64 bits
``f``  real number
``s``  string
``o``  tensor: an array
====== ==============================

Parentheses group letters as a tuple groups values: ``"(i,i,i,i), s, i"`` takes ``(1, 3, 8, 8), "SUM", 1``.
A kernel gets all of them in one row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir.data import TensorData

LETTERS = "ifso"
MAX_TEXT, MAX_DEPTH = 1 << 14, 32
Pattern = list[Any]  # letters, and lists of them


def flattened(placeholders: str, values: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return letters and values in one row.

    Args:
        placeholders: The letters, with commas between them and parentheses around groups.
        values: The values, grouped as the letters are, or all in one row.

    Raises:
        UsageError: If the letters cannot be read, or the values do not suit them.

    Example:
        >>> flattened("(i,i), s, f", ((1, 2), "SUM", 1))
        ('iisf', (1, 2, 'SUM', 1.0))
        >>> flattened("(i,i), s", (1, 2, "SUM"))
        ('iis', (1, 2, 'SUM'))
    """
    pattern = _parsed(placeholders)
    letters = "".join(_row(pattern))
    given = list(values)
    grouped = any(isinstance(value, (tuple, list)) for value in given)
    row = _matched(pattern, given, "arguments") if grouped else given
    if len(row) != len(letters):
        raise UsageError(
            f"arguments {placeholders!r} are {len(letters)}, and {len(row)} values are given",
            fix="give one value for each letter",
        )
    pairs = zip(letters, row, strict=True)
    return letters, tuple(_checked(letter, value, place) for place, (letter, value) in enumerate(pairs))


def _parsed(text: str) -> Pattern:
    """Return the letters in nested lists; the text is JSON but for brackets."""
    known = isinstance(text, str) and len(text) <= MAX_TEXT and set(text) <= set(f"{LETTERS}(), \n\t")
    if known and max(accumulate((c == "(") - (c == ")") for c in text), default=0) <= MAX_DEPTH:
        listed = re.sub(f"[{LETTERS}]", r'"\g<0>"', text.translate(str.maketrans("()", "[]")))
        with suppress(ValueError):
            return list(json.loads(f"[{listed}]"))
    raise UsageError(
        f"arguments {str(text)[:60]!r} cannot be read",
        fix="write letters i, f, s and o with commas between them, groups in parentheses",
    )


def _row(pattern: Pattern) -> list[str]:
    return [letter for item in pattern for letter in (_row(item) if isinstance(item, list) else [item])]


def _matched(pattern: Pattern, values: Sequence[Any], what: str) -> list[Any]:
    if len(pattern) != len(values):
        raise UsageError(
            f"{what} are {len(pattern)}, and {len(values)} values are given",
            fix="give one value for each letter",
        )
    row: list[Any] = []
    for place, (item, value) in enumerate(zip(pattern, values, strict=True)):
        if isinstance(item, list):
            if not isinstance(value, (tuple, list)):
                raise UsageError(
                    f"argument {place} is a group of {len(item)}, the value is {value!r}", fix="give a tuple"
                )
            row += _matched(item, value, f"the items of argument {place}")
        else:
            row.append(value)
    return row


def _checked(letter: str, value: Any, place: int) -> Any:
    import numpy

    if letter == "i" and isinstance(value, (int, numpy.integer)) and -(2**63) <= int(value) < 2**63:
        return int(value)
    if letter == "f" and isinstance(value, (int, float, numpy.integer, numpy.floating)):
        return float(value)
    if letter == "s" and isinstance(value, str) and "\0" not in value:
        return value
    if letter == "o" and isinstance(value, (numpy.ndarray, TensorData)):
        return value.numpy() if isinstance(value, TensorData) else numpy.ascontiguousarray(value)
    kinds = {"i": "an integer of 64 bits", "f": "a number", "s": "a string", "o": "an array"}
    raise UsageError(
        f"argument {place} is {letter!r}, which is {kinds[letter]}, and its value is {repr(value)[:60]}",
        fix="correct the letter or the value",
    )
