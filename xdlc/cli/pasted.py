"""Typographic characters in command lines that were pasted from a document."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_LEAD = re.compile(f"[-{_DASHES}]+")
_RANGES = re.compile(rf"[\d,x-]*\d[{_DASHES}]\d[\d,x{_DASHES}-]*")
_BLANKS = re.compile("[\u00a0\u2007\u202f\u3000]+")
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\r]")
_OPENING, _CLOSING = "\u201c\u201e\u00ab\u2018\u201a", "\u201d\u201c\u00bb\u2019\u2018"


def plain(words: Sequence[str], is_option: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Return words of a command line in the characters that were meant, and a notice if any differ.

    Dashes of typesetting become hyphens, typographic quotes hold their words together, no-break spaces
    separate words, and invisible characters go. The name of an existing file stays as it is.

    Args:
        words: The words.
        is_option: Whether a word is an option.
    """
    found: list[str] = []
    quoted: list[str] | None = None  # words since a quote that is open
    for given in words:
        if quoted is None and (os.path.lexists(given) or os.path.lexists(given.partition("=")[2])):
            found.append(given)
            continue
        word = _INVISIBLE.sub("", given)
        word = word.lstrip() if word.lstrip()[:1] == "-" else word  # after a backslash that joined lines
        if word.isascii() or os.path.lexists(word):
            parts = [word]
        else:
            parts = [part for part in _BLANKS.split(word) if part]
        for part in parts:
            start = re.search(f"(^|=)[{_OPENING}]", part) if quoted is None else None
            if start is not None:
                part = part[: start.end() - 1] + part[start.end() :]
                quoted = []
            if quoted is not None:
                quoted.append(part.rstrip(_CLOSING))
                if part[-1:] not in _CLOSING or not part:
                    continue
                part, quoted = " ".join(quoted), None
            found.append(_dashes(part, is_option))
    found += quoted or []
    if found == list(words):
        return found, []
    return found, [f"typographic or invisible characters are read as plain ones: {' '.join(found)}"]


def _dashes(word: str, is_option: Callable[[str], bool]) -> str:
    """Return a word, an option or a range, with hyphens in the place of other dashes."""
    if os.path.lexists(word):
        return word
    if word.isascii():
        return re.sub(r"^--+(?=-[a-z])", "-", word)
    lead = _LEAD.match(word)
    if lead is not None and not lead[0].isascii():
        rest = word[lead.end() :]
        if rest[:1].isdigit():
            return f"-{_dashes(rest, is_option)}"
        return f"-{rest}" if is_option(f"-{rest}") and not is_option(f"--{rest}") else f"--{rest}"
    return re.sub(f"[{_DASHES}]", "-", word) if _RANGES.fullmatch(word) else word
