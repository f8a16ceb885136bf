"""Table of the vendor's flags: their replacement, or why they have no meaning.

The table is in ``data/*.toml``: a section for a tool, the vendor's or ours, or for several, whose names are
separated by blanks, with these fields.

- ``tool``: The tool of xdlc that it becomes. Sections without it are shared parts, or hints of our tools.
- ``missing``: Of a vendor's tool without a counterpart: the reason and the fix. ``flags`` lists its flags.
- ``shares``: Sections that are searched after this one, in order.
- ``note``: Difference of the vendor's tool, stated with those of shared sections at each call under its name.
- ``adds``: Words that each call under its name has beside its own.
- ``works``: Flags, separated by blanks, that the tool of xdlc has under the same name.
- ``then``: The tool of xdlc that runs on its result afterwards, if flags in ``later`` are given, and those of
  which it ``needs`` one; ``shares`` is the section whose note is stated then.
- ``later``: Words of that tool in place of a flag, as in ``becomes``.
- ``becomes``: Words in place of a flag; ``{}`` is its next value. A table in place of the words holds
  them by the value, which may have the wildcards ``*`` and ``?``, and with ``#`` before it a notice
  follows the words; another value is refused. Of a flag without values (``:0``) they are by all words of
  the call.
- ``void``: Reason why a flag has no effect here.
- ``refused``: Fix for a flag that is an error, or a list of reason and fix.

Keys of the last four are flags separated by blanks, each with the number of its values after a colon if it
takes some (``--perf_profile:1``): a number, ``?`` for one or none, ``*`` for all words up to the next flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xdlc.cli.params import dashed
from xdlc.errors import UsageError
from xdlc.records import record

DATA = Path(__file__).parent / "data"
NAMES = ("snpe", "qnn", "qairt")
"""Starts of the names of the vendor's tools."""
WORKS, BECOMES, LATER, VOID, REFUSED = "works", "becomes", "later", "void", "refused"


@record(frozen=True)
class Entry:
    """Meaning of a flag: it works, is replaced, has no effect or is an error.

    Attributes:
        kind: Whether it works under its name, becomes other words, has no effect, or is an error.
        values: Number of its values: a number, or ``?`` or ``*``.
        text: The other words, the reason, or, of a refused flag that needs none, nothing.
        by_value: Words by the flag's value, where they depend on it.
    """

    flag: str
    kind: str
    values: str = "0"
    text: str = ""
    fix: str = ""
    by_value: Mapping[str, str] = field(default_factory=dict)

    def count(self, following: Sequence[str]) -> int:
        """Return how many of the words after the flag are its values."""
        if self.values.isdecimal():
            return int(self.values)
        free = next((i for i, word in enumerate(following) if word[:1] == "-"), len(following))
        return min(free, 1) if self.values == "?" else free

    def words(self, values: Sequence[str]) -> tuple[list[str], str]:
        """Return the replacement of a flag and its values, and a notice (may be empty).

        Raises:
            UsageError: If the flag is refused, or its value is.
        """
        if self.kind == REFUSED:
            raise self.error()
        if self.kind == VOID:
            return [], ""
        text, note = self.text, ""
        if self.by_value:
            given = " ".join(values)
            found = [words for value, words in self.by_value.items() if fnmatchcase(given, value)]
            if not found:
                fix = f"use one of {', '.join(self.by_value)}"
                raise UsageError(f"xdlc has no value {given!r}", where=self.flag, fix=fix, code="XD207")
            text, _, note = found[0].partition(" # ")
        rest = iter(values)
        return [next(rest, "") if word == "{}" else word for word in text.split()], note

    @property
    def passes_values(self) -> bool:
        """Whether the replacement is another flag with the same values."""
        return self.kind in (BECOMES, LATER) and bool(re.fullmatch(r"--[\w-]+( \{\})*", self.text))

    @property
    def meaning(self) -> str:
        if self.kind == REFUSED:
            return f"{self.text}; {self.fix}" if self.text else self.fix
        values = ", ".join(f"{value}: {words or 'the default'}" for value, words in self.by_value.items())
        return f"{values or self.text}{' of the tool that runs next' if self.kind == LATER else ''}"

    def error(self) -> UsageError:
        if not self.text:
            return UsageError(f"no option {self.flag!r}", fix=self.fix, code="XD201")
        return UsageError(self.text, where=self.flag, fix=self.fix, code="XD207")


@cache
def sections() -> Mapping[str, Mapping[str, Any]]:
    """Return the sections of the table by name."""
    import tomllib

    by_tool: dict[str, Mapping[str, Any]] = {}
    for path in sorted(DATA.glob("*.toml")):
        for names, section in tomllib.loads(path.read_text(encoding="utf-8")).items():
            by_tool |= dict.fromkeys(names.split(), section)
    for name, section in by_tool.items():
        notes = [by_tool.get(tool, {}).get("note", "") for tool in (name, *section.get("shares", ()))]
        if "tool" in section and any(notes):
            by_tool[name] = {**section, "note": "; ".join(dict.fromkeys(filter(None, notes)))}
    return MappingProxyType(by_tool)


@cache
def vendor_tools() -> Mapping[str, str | None]:
    """Return the tool of xdlc by each vendor's tool; None without a counterpart."""
    return {
        name: section.get("tool")
        for name, section in sections().items()
        if section.keys() & {"tool", "missing"}
    }


@cache
def entries(name: str) -> Mapping[str, Entry]:
    """Return a tool's entries by flag with dashes; the first one of a flag counts."""
    by_flag: dict[str, Entry] = {}
    waiting, seen = [name], set[str]()
    while waiting:
        source = waiting.pop(0)
        section = sections().get(source)
        if section is not None and source not in seen:
            seen.add(source)
            waiting = [*section.get("shares", ()), *waiting]
            for entry in _entries(section):
                by_flag.setdefault(dashed(entry.flag), entry)
    return MappingProxyType(by_flag)


def _entries(section: Mapping[str, Any]) -> Iterator[Entry]:
    for flag in " ".join(section.get(WORKS, ())).split():
        yield Entry(flag, WORKS)
    for kind in (BECOMES, LATER):
        for flag, values, words in _each(section, kind):
            if isinstance(words, str):
                yield Entry(flag, kind, values or str(words.split().count("{}")), words)
            else:
                yield Entry(flag, kind, values or "1", by_value=words)
    for flag, values, reason in _each(section, VOID):
        yield Entry(flag, VOID, values or "0", reason)
    for flag, values, why in _each(section, REFUSED):
        reason, fix = ("", why) if isinstance(why, str) else why
        yield Entry(flag, REFUSED, values or "*", reason, fix)


def _each(section: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str, Any]]:
    for flags, held in section.get(kind, {}).items():
        for flag in flags.split():
            name, _, values = flag.partition(":")
            yield name, values, held


def missing(name: str) -> UsageError | None:
    """Return the error for a vendor's tool without a counterpart; None otherwise."""
    section = sections().get(name, {})
    if "missing" not in section:
        return None
    reason, fix = section["missing"]
    return UsageError(f"{name} has no counterpart in xdlc: {reason}", fix=fix, code="XD207")


def lacking(flag: str) -> list[str]:
    """Return the tools without a counterpart that have a flag."""
    by_name = {
        name: map(dashed, " ".join(section.get("flags", ())).split())
        for name, section in sections().items()
        if "missing" in section
    }
    return [name for name, words in by_name.items() if any(fnmatchcase(dashed(flag), w) for w in words)]
