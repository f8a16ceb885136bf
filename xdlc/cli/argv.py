"""Words of command lines that click would misread: rewritten, or refused first."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from shlex import quote
from typing import Any

import click

from xdlc.cli import usage_errors, vendor_flags
from xdlc.cli.params import DimsOption, PathsOption, SourceOption, WordsOption, dashed, is_soc, split_dims
from xdlc.errors import UsageError, XdlcError, raise_all

LATER = "xdlc.later"
"""Key in a context's ``meta`` of the tool that runs afterwards, and its words."""
_DASH = re.compile("[\u2013\u2014]-?")
"""Dashes that word processors write for the two hyphens of a flag."""


def understood(args: Sequence[str], ctx: click.Context) -> tuple[list[str], list[str]]:
    """Return arguments in a form that click reads rightly, and notices of changes.

    Flags of the vendor's tools become ours, as ``vendor_flags`` has them. Files that follow an option as
    words get the option each, words after a list belong to it, ``NAME:1,3,8,8`` becomes two words, and a
    switch may have a value: ``--quiet=true``. Names that help does not show become those that it shows,
    underscores become dashes, and a word without a flag is the file that the tool reads.

    Raises:
        UsageError: If a word is not an option of the command: click would take ``-oss`` for ``-o ss``; a
            ProblemList of all of them.
    """
    reader = _Reader(ctx)
    # The words after a command are the command's, which reports changes to them.
    words = list(args) if reader.is_group else [reader.hyphenated(word) for word in args]
    reader.call = list(map(dashed, words))
    reader.named = reader.named_source()
    read = reader.read(words)
    if reader.later:
        ctx.meta[LATER] = (reader.then["tool"], reader.later)
        reader.notices.append(vendor_flags.sections()[reader.then["shares"]]["note"])
    return [*read, *reader.added], reader.notices


class _Reader:
    """Reader of the words of one call of a command."""

    def __init__(self, ctx: click.Context) -> None:
        command = ctx.command
        self.known = {
            word: param
            for param in command.get_params(ctx)
            if isinstance(param, click.Option)
            for word in (*param.opts, *param.secondary_opts)
        }
        self.known |= getattr(command, "aliases", {})
        self.source = next((param for param in command.params if isinstance(param, SourceOption)), None)
        self.named = ""  # the file that the tool reads, once it is named
        self.is_group = isinstance(command, click.Group)
        self.takes_words = self.is_group or any(isinstance(each, click.Argument) for each in command.params)
        self.takes_flags = any(param.type is click.UNPROCESSED for param in command.params)
        called = str(ctx.info_name)
        self.is_vendors = called.startswith(vendor_flags.NAMES) and called in vendor_flags.vendor_tools()
        self.name = called if self.is_vendors else str(command.name)
        section = vendor_flags.sections()[called] if self.is_vendors else {}
        self.added: Sequence[str] = section.get("adds", ())
        self.notices: list[str] = [section["note"]] if "note" in section else []
        self.then: dict[str, Any] = section.get("then", {})
        self.call: Sequence[str] = ()  # all words
        self.later: list[str] = []  # words of the tool that runs then
        self.first_later = ""  # the flag that the first of them is for
        self.rest: list[str] = []  # words that are not read yet
        self.given = 0  # words of the rest, at its end, that are not in place of a flag
        self.is_own = False  # whether the word that is read is in place of a flag
        self.before = ""  # the flag that the words after it belong to, as it was given
        self.files = ""  # the option whose files may follow as words
        self.is_word = False  # whether the file that the tool reads is a word without a flag
        self.spare = 0  # place of the option for the last word after an option's files
        self.words: list[str] = []  # words for click
        self.problems: list[XdlcError] = []
        self.values_of: dict[str, tuple[str, list[str]]] = {}  # of options with one value, by name
        self.replaced: dict[str, str] = ctx.obj or {}  # as below, of the tool that runs before
        ctx.obj = self.written = dict(self.replaced)  # words of the call, by those of ours that texts have

    def is_option(self, word: str) -> bool:
        """Return whether a word is an option, the command's or the vendor's."""
        name = dashed(word.partition("=")[0])
        return name in self.known or (name.startswith("-") and name in vendor_flags.entries(self.name))

    def is_end(self) -> bool:
        """Return whether the next word is no value of a list."""
        return not self.rest or self.rest[0].startswith("-") or self.is_source(self.rest[0])

    def named_source(self) -> str:
        """Return the value of the flag for the file that the tool reads; "" without one."""
        for word, following in pairwise([*self.call, ""]):
            name, glued, value = word.partition("=")
            if self.source is not None and self.known.get(name) is self.source:
                return value if glued else following
        return ""

    def is_source(self, word: str) -> bool:
        """Return whether a word after a list is rather a file that the tool reads."""
        is_list = word.endswith((".txt", ".npy", ".npz", ".json"))
        return bool(
            self.source is not None
            and (not self.named or self.source.multiple)
            and (word.endswith(".dlc") or (os.path.exists(word) and not is_list))
        )

    def hyphenated(self, word: str) -> str:
        """Return a flag with its typographic dash replaced by hyphens; other words as is."""
        dash = _DASH.match(word)
        names = [] if dash is None else [f"{hyphens}{word[dash.end() :]}" for hyphens in ("--", "-")]
        plain = next(filter(self.is_option, names), word)
        if plain != word:
            self.notices.append(f"xdlc reads the typographic dash as hyphens: {plain}")
        return plain

    def entry(self, name: str) -> vendor_flags.Entry | None:
        """Return the table entry of a vendor's flag; None for a flag of the command."""
        if name in self.known and not self.is_vendors:
            meant = vendor_flags.entries(self.name).get(name) if name == "--debug" else None
            if meant is not None and meant.text != "--verbose":
                self.notices.append(f"{name} shows tracebacks; the vendor's {name} is {meant.text} here")
            return None
        found = vendor_flags.entries(self.name).get(name)
        return None if found is None or found.kind == vendor_flags.WORKS else found

    def read(self, words: Sequence[str]) -> list[str]:
        self.rest, self.given = list(words), len(words)
        while self.rest and not self.are_arguments():
            word = self.rest.pop(0)
            self.is_own = len(self.rest) >= self.given
            self.given = min(self.given, len(self.rest))
            if word.startswith("-") and word != "-":
                self.flag(word)
            else:
                self.plain(word)
        if self.later and not set(self.then["needs"]) & set(self.later):
            entries = vendor_flags.entries(self.name).values()
            known = [entry for entry in entries if entry.kind == vendor_flags.LATER]
            needs = " or ".join(entry.flag for entry in known if entry.text.split()[0] in self.then["needs"])
            problem = f"{self.first_later} requires {needs}"
            self.problems.append(UsageError(problem, fix=f"add {needs}, or omit {self.first_later}"))
        if self.source is not None and not self.named and self.spare:
            self.words[self.spare] = self.source.opts[-1]
        raise_all(self.problems)
        return [*self.words, *self.rest]

    def are_arguments(self) -> bool:
        """Return whether no flags follow, only arguments or a command with its words."""
        word = self.rest[0]
        is_value = re.fullmatch(r"-\d+", word) or (self.takes_flags and word.startswith("-"))
        if self.takes_words and not self.is_group and is_value and not self.is_option(word):
            self.rest.insert(0, "--")
            return True
        return word == "--" or (self.is_group and not word.startswith("-"))

    def plain(self, word: str) -> None:
        """Read a word that is not a flag."""
        is_next_source = self.source is not None and self.source.multiple and self.is_source(word)
        if self.files and not is_next_source:
            self.spare = len(self.words)
            self.words += [self.files, word]
        elif self.takes_words:
            self.words.append(word)
        elif self.source is not None and not self.is_own and (not self.named or self.source.multiple):
            self.named, self.is_word = word, True
            self.words += [self.source.opts[-1], word]
        elif self.before and not self.is_option(self.before):
            pass  # a value of a flag that is reported already
        elif self.named and (self.is_word or not self.before):
            problem = f"you passed two files: {self.named} and {word}"
            self.problems.append(UsageError(problem, fix=f"pass one {self.source and self.source.metavar}"))
        else:
            self.problems.append(usage_errors.left_over(word, self.before, self.known))

    def flag(self, word: str) -> None:
        """Read a flag and the words after it that are its values."""
        name, glued, value = word.partition("=") if word.startswith("--") else (word, "", "")
        values = [value] if glued else []
        self.files = ""
        written, name = name, dashed(name)
        if not self.is_own:
            self.before = written
            name = self.whole(name)
            self.written[name] = self.replaced.get(name, name if name != dashed(written) else written)
            entry = self.entry(name)
            if entry is not None:
                self.replace(entry, values)
                return
            if name.startswith("--"):
                self.write_for(name, [], self.written[name])
        option = self.known.get(name)
        if option is None:
            listed = f"`xdlc compat flags {self.name}`" if self.is_vendors else "--help"
            self.problems.append(usage_errors.unknown(written, self.known, listed))
        elif option.is_flag and not option.count:
            self.switch(option, name, values)
        else:
            self.values(option, name, values)

    def take(self, count: int) -> list[str]:
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def words_before_option(self, count: int) -> int:
        """Return how many of the next words precede an option, at most some."""
        return next((i for i, word in enumerate(self.rest[:count]) if self.is_option(word)), count)

    def whole(self, name: str) -> str:
        """Return the full name of an abbreviated flag, as the vendor's converters do."""
        if not self.is_vendors or not name.startswith("--") or self.is_option(name):
            return name
        names = [each for each in (*self.known, *vendor_flags.entries(self.name)) if each.startswith(name)]
        if len(set(names)) != 1:
            return name
        self.notices.append(f"xdlc reads {name} as {names[0]}")
        return names[0]

    def replace(self, entry: vendor_flags.Entry, values: list[str]) -> None:
        """Put the replacement of a vendor's flag before the remaining words."""
        count = self.words_before_option(max(entry.count(self.rest) - len(values), 0))
        values = [*values, *self.take(count)]
        if not values and entry.kind != vendor_flags.REFUSED and _truth(self.rest):
            values = self.take(1)
        self.given = len(self.rest)
        is_off = entry.count([]) == 0 and bool(values) and values[-1].lower() in ("false", "0")
        try:
            words, note = (self.off(entry), "") if is_off else self.instead(entry, values)
        except UsageError as problem:
            self.problems.append(problem)
            return
        if entry.kind == vendor_flags.VOID or (is_off and not words):
            reason = "the behaviour is always off" if is_off else entry.text
            self.notices.append(f"{entry.flag} has no effect: {reason}")
        if note:
            self.notices.append(f"{entry.flag} {' '.join(values)}: {note}")
        starts = [] if is_off else [index for index, word in enumerate(words) if word.startswith("--")]
        for start, end in pairwise([*starts, len(words)]):
            if entry.passes_values:
                self.write_for(dashed(words[start]), [], entry.flag)
            else:
                self.write_for(dashed(words[start]), words[start + 1 : end], " ".join([entry.flag, *values]))
        if entry.kind == vendor_flags.LATER:
            self.first_later = self.first_later or entry.flag
            self.later += words
        else:
            self.rest = [*words, *self.rest]

    def write_for(self, flag: str, values: Sequence[str], written: str) -> None:
        """Record the words that the user wrote for a flag, under each name of its option."""
        option = self.known.get(flag)
        for name in [flag] if option is None or flag in option.secondary_opts else option.opts:
            self.written.setdefault(" ".join([name, *values]), written)

    def instead(self, entry: vendor_flags.Entry, values: list[str]) -> tuple[list[str], str]:
        """Return the replacement of a flag and its values, and a notice (may be empty)."""
        is_switch = entry.values == "0"
        needed = int(entry.values) if entry.values.isdecimal() else 0
        if len(values) < needed and entry.kind != vendor_flags.REFUSED:
            fix = f"write {entry.flag}{' VALUE' * needed}"
            raise UsageError("a value is missing", where=entry.flag, fix=fix, code="XD202")
        words, note = entry.words(self.call if is_switch else values)
        if words and is_switch and values and values[0].lower() not in ("true", "1"):
            words = [*words, *values]
        return words, note

    def off(self, entry: vendor_flags.Entry) -> list[str]:
        """Return the words that switch off a flag's option; empty if it is always off."""
        words = entry.text.split() if entry.kind == vendor_flags.BECOMES else []
        switch = self.known.get(dashed(words[0])) if len(words) == 1 else None
        return [] if switch is None else list(switch.secondary_opts[:1])

    def switch(self, option: click.Option, name: str, values: list[str]) -> None:
        """Read a switch, which may have a value."""
        if not values and not self.takes_words and _truth(self.rest):
            values = self.take(1)
        truth = values[0].lower() if values else "true"
        if truth not in ("false", "0", "true", "1"):
            self.problems.append(usage_errors.miscounted(option, usage_errors.as_called(name)))
            return
        is_plain = truth in ("true", "1")
        is_off = is_plain == (name in option.secondary_opts)
        words = (option.secondary_opts if is_off else option.opts)[:1]
        self.once(option, words)
        self.words += words

    def values(self, option: click.Option, name: str, glued: list[str]) -> None:
        """Read an option and its values.

        Args:
            name: Its flag.
            glued: Its value after ``=``.
        """
        count = max(option.nargs - 1, 0) if glued else self.count(option)
        is_bare = isinstance(option, WordsOption) and option.is_bare
        free = self.words_before_option(count)
        if free < count and not is_bare:
            is_whole = isinstance(option, DimsOption) and free == 1 and len(split_dims(self.rest[:1])[0]) == 2
            if not is_whole:
                self.problems.append(usage_errors.miscounted(option, usage_errors.as_called(name)))
                self.take(free)
                return
        left = len(self.rest)
        values = [*glued, *self.take(count)]
        if isinstance(option, DimsOption) and values and not glued:
            words = values
            values, unread = split_dims(words)
            self.rest = [*words[len(words) - unread :], *self.rest]
        if len(values) == option.nargs and not self.takes_words:
            values[-1] = self.listed(option, values[-1])
        if isinstance(option, WordsOption) and len(values) >= option.nargs - is_bare:
            end = next((i for i, word in enumerate(self.rest) if self.is_source(word)), len(self.rest))
            values, rest = option.joined(values, self.rest[:end])
            self.rest = [*rest, *self.rest[end:]]
        if values and not option.multiple:
            self.once(option, values)
        if isinstance(option, DimsOption) and values and values[0].endswith(".dlc"):
            fix = f"write --output {quote(values[0])}"
            problem = f"{usage_errors.as_called(name)} expects a name and a shape, found {values[0]!r}"
            self.problems.append(UsageError(problem, fix=fix))
        name = name if name in option.opts else option.opts[-1]
        if isinstance(option, PathsOption) and len(self.rest) < left:
            self.files = name
        self.words += [f"{name}={values[0]}", *values[1:]] if glued and values else [name, *values]

    def count(self, option: click.Option) -> int:
        """Return how many of the next words are an option's values."""
        if option.is_flag or option.count:
            return 0
        if getattr(option, "_flag_needs_value", False):
            return int(not self.is_end())
        return option.nargs

    def once(self, option: click.Option, values: list[str]) -> None:
        """Record the values of an option; report other values than before."""
        first, other = self.values_of.setdefault(str(option.name), (self.before, values))
        if values != other:
            both = dict.fromkeys((first, self.before))
            problem = f"two values for one option: {' and '.join(both)}"
            self.problems.append(UsageError(problem, fix=f"write {' or '.join(both)}, once"))

    def listed(self, option: click.Option, value: str) -> str:
        """Return the last value of an option with the words after it that belong to it."""
        metavar = option.metavar or ""
        last, following = value.rpartition(",")[2], self.rest[0].partition(",")[0] if self.rest else ""
        is_split = (
            ("SOC" in metavar or "--soc" in option.opts) and last and following and is_soc(last + following)
        )
        if is_split and not (is_soc(last) and is_soc(following)):
            self.notices.append(f"xdlc reads {last} {following} as {last}{following}")
            return self.listed(option, value + self.rest.pop(0))
        if "," not in metavar or isinstance(option, PathsOption):
            return value
        while not self.is_end():
            if option.nargs > 1 and not re.fullmatch(r"[\d.,]+", self.rest[0]):
                break
            value = f"{value.rstrip(',')},{self.rest.pop(0).lstrip(',')}"
        return value.rstrip(",")


def _truth(words: Sequence[str]) -> bool:
    """Return whether the first word is the value of a switch."""
    return bool(words) and words[0].lower() in ("true", "false")
