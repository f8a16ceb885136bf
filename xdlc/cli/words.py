"""Words of command lines: those that click would misread are rewritten or refused first, with a fix."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import click

from xdlc.cli.params import DimsOption, PathsOption, split_dims
from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all

_ALIKE = 0.8
"""Least likeness of a name and its misspelling."""


def understood(args: Sequence[str], ctx: click.Context) -> list[str]:
    """Return arguments in a form that click reads rightly.

    Files that follow an option as words get the option each, ``NAME:1,3,8,8`` becomes two words.

    Raises:
        UsageError: If a word is no option of the command: click would take ``-oss`` for ``-o ss``; a
            ProblemList of all of them.
    """
    command = ctx.command
    known = {
        word: param
        for param in command.get_params(ctx)
        if isinstance(param, click.Option)
        for word in (*param.opts, *param.secondary_opts)
    }
    takes_words = isinstance(command, click.Group) or any(
        isinstance(param, click.Argument) for param in command.params
    )
    found: list[str] = []
    values_of: dict[str, tuple[str, list[str]]] = {}  # of options with one value, by name
    problems: list[XdlcError] = []
    before = ""
    files: str | None = None  # the option whose files may follow as words
    index = 0
    while index < len(args):
        word = args[index]
        index += 1
        if word == "--" or (isinstance(command, click.Group) and not word.startswith("-")):
            raise_all(problems)
            return [*found, word, *args[index:]]
        if not word.startswith("-") or word == "-":
            if not (takes_words or files or (before and before not in known)):
                problems.append(_left_over(word, before, known))
            found += [files, word] if files else [word]
            continue
        before = word
        name, glued, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = known.get(name)
        if option is None:
            problems.append(_unknown(name, command, known))
            files = None
            continue
        found.append(word)
        files = None
        count = max(option.nargs - 1, 0) if glued else _count(option, args[index:])
        values = list(args[index : index + count])
        index += len(values)
        if (count or glued) and not option.multiple:
            given = [value, *values] if glued else values
            first, other = values_of.setdefault(str(option.name), (name, given))
            if given != other:
                both = dict.fromkeys((first, name))
                problem = f"two values for one option: {' and '.join(both)}"
                problems.append(UsageError(problem, fix=f"write {' or '.join(both)}, once"))
        if isinstance(option, DimsOption) and values and not (glued or index > len(args)):
            values, used = split_dims(values)
            index -= used
        if isinstance(option, DimsOption) and values and values[0].endswith(".dlc"):
            fix = f"write --output_path {values[0]}"
            problems.append(UsageError(f"{name} takes a name and a shape, found {values[0]!r}", fix=fix))
        if isinstance(option, PathsOption) and values:
            files = name
        found += values
    raise_all(problems)
    return found


def in_flags(text: str, ctx: click.Context) -> str:
    """Return a text with options of the Python interface as flags of a command.

    ``partition=True`` becomes ``--partition``, ``jobs=1`` ``--jobs 1``, and a name with an underscore that
    stands alone the flag; quoted words, parts of longer ones and command lines in backticks stay.
    """
    flags = {str(param.name): _name(param) for param in ctx.command.params if isinstance(param, click.Option)}

    def flag(word: re.Match[str]) -> str:
        name, value = word[1], word[2]
        if name is None or name not in flags or not (value or "_" in name or word[0] == text):
            return word[0]
        return flags[name] if value in (None, "True") else f"{flags[name]} {value}"

    return re.sub(r"""`[^`]*`|(?<![\w'"./=-])([a-z][a-z_]+)(?:=([\w.]+))?(?![\w'"(=])""", flag, text)


def _count(option: click.Option, following: Sequence[str]) -> int:
    """Return how many words are an option's values."""
    if option.is_flag or option.count:
        return 0
    if getattr(option, "_flag_needs_value", False):
        return int(bool(following) and not following[0].startswith("-"))
    return option.nargs


def _unknown(name: str, command: click.Command, known: dict[str, click.Option]) -> UsageError:
    from xdlc.cli.spellings import meant

    tool = command.name or ""
    return UsageError(
        f"no option {name!r}",
        fix=meant(tool, name)
        or _apart(name, known)
        or nearest_option(name, [word for word, option in known.items() if not option.hidden])
        or "--help lists the options",
    )


def _left_over(word: str, before: str, known: Mapping[str, click.Option]) -> UsageError:
    """Return the error for a word that is no option's value."""
    option = known.get(before)
    if option is None:
        needed = next((each for each in known.values() if each.required), None)
        fix = f"write {_name(needed)} {word}" if needed is not None else "--help lists the options"
        return UsageError(f"{word!r} belongs to no option", fix=fix)
    if option.is_flag:
        return UsageError(f"{before} takes no value, found {word!r}", fix=f"write {before} alone")
    return UsageError(f"{word!r} is one value too many for {before}", fix=f"write {_form(option)}")


def _apart(name: str, known: dict[str, click.Option]) -> str | None:
    """Return the fix for short options that are written as one word with a value or each other."""
    if name.startswith("--") or len(name) < 3 or name[:2] not in known:
        return None
    letters = [f"-{letter}" for letter in name[1:]]
    if all(letter in known and known[letter].is_flag for letter in letters):
        return f"write {' '.join(letters)}"
    return None if known[name[:2]].is_flag else f"write {name[:2]} {name[2:].lstrip('=')}, with a space"


def nearest_option(name: str, known: Sequence[str]) -> str | None:
    """Return the fix for a name that is one of the known ones, cut short or misspelled.

    Example:
        >>> nearest_option("--out-names", ["--out_name", "--report"])
        'nearest: --out_name'
    """
    from difflib import SequenceMatcher

    plain = name.lower().replace("-", "_")
    likeness = {
        word: SequenceMatcher(None, plain, word.replace("-", "_")).ratio()
        + (len(plain) > 5 and word.replace("-", "_").startswith(plain))
        for word in known
        if word.startswith("--") and name.startswith("--")
    }
    found = sorted((word for word in likeness if likeness[word] >= _ALIKE), key=lambda word: -likeness[word])
    return f"nearest: {', '.join(found[:3])}" if found else None


def usage_error(error: click.UsageError, ctx: click.Context) -> UsageError:
    """Return an error that click raised in a context as one of ours, with a fix."""
    param = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and param is not None:
        return UsageError(f"{_name(param)} is missing", fix=f"give it: {_form(param)}")
    if isinstance(error, click.BadOptionUsage):
        for option in ctx.command.get_params(ctx):
            if error.option_name in (*option.opts, *option.secondary_opts):
                return _miscounted(option, error.option_name)
    if isinstance(error, click.BadParameter):
        where, usual = (None, "--help lists the options")
        if param is not None:
            where, usual = _name(param), _nearest_choice(param, error.message) or f"write {_form(param)}"
            usual += " in that range" if "not in the range" in error.message else ""
        return UsageError(_sentence(error.message), where=where, fix=getattr(error, "fix", usual))
    return UsageError(_sentence(error.message), fix="--help lists the options")


def _nearest_choice(param: click.Parameter, message: str) -> str | None:
    """Return the choices of an option that come near to what was given."""
    given = re.match(r"'(.*?)' is not", message)
    if given is None or not isinstance(param.type, click.Choice):
        return None
    return nearest_names(given[1], map(str, param.type.choices)) or None


def _miscounted(option: click.Parameter, name: str) -> UsageError:
    if isinstance(option, click.Option) and option.is_flag:
        return UsageError("takes no value", where=name, fix=f"write {name} alone")
    number = option.nargs
    wants = "a value is missing" if number == 1 else f"takes {number} values"
    return UsageError(wants, where=name, fix=f"write {_form(option, name)}")


def _name(param: click.Parameter) -> str:
    """Return the long name of a parameter."""
    if isinstance(param, click.Argument):
        return param.metavar or str(param.name).upper()
    return next((word for word in param.opts if word.startswith("--")), param.opts[0])


def _form(param: click.Parameter, name: str | None = None) -> str:
    """Return an option, under its name or another that it has, with what its values look like."""
    if isinstance(param, click.Argument):
        return _name(param)
    kind = param.type
    shape = param.metavar or _SHAPES.get(kind.name, kind.name.upper())
    if isinstance(kind, click.Choice):
        shape = "|".join(map(str, kind.choices))
    return f"{name or _name(param)} {shape}"


_SHAPES = {"path": "FILE", "integer range": "N", "integer": "N", "float range": "N", "float": "N"}


def _sentence(text: str) -> str:
    """Return a message of click's as a problem: no capital, no full stop."""
    return text[:1].lower() + text[1:].rstrip(".") if text[1:2].islower() else text.rstrip(".")
