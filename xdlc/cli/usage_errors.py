"""Errors of command lines, with a fix: unknown flags, extra words, click's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from shlex import quote
from typing import Any

import click

from xdlc.cli.params import SourceOption, dashed
from xdlc.errors import UsageError, nearest_names

_ALIKE = 0.8
"""Least likeness of a name and its misspelling."""


def unknown(name: str, options: dict[str, click.Option], listed: str = "--help") -> UsageError:
    """Return the error for an unknown flag; ``listed`` says how to list the flags."""
    whole = [word for word in options if word.startswith(name)]
    return UsageError(
        f"no option {name!r}",
        fix=_apart(name, options)
        or (
            f"write one whole name: {', '.join(whole)}"
            if name.startswith("--") and 1 < len(whole) < 7
            else ""
        )
        or nearest_option(name, list(options))
        or f"see {listed} for the options",
        code="XD201",
    )


def left_over(word: str, before: str, known: Mapping[str, click.Option]) -> UsageError:
    """Return the error for a word that is not a value of any option."""
    option = known.get(dashed(before))
    if not before:
        return UsageError(f"unexpected argument {word!r}", fix="see --help for the options")
    if option is not None and option.is_flag:
        return UsageError(f"{before} accepts no value, found {word!r}", fix=f"write {before} alone")
    fix = f"omit {word}" if option is None else f"write {_form(option)}"
    return UsageError(f"{word!r} is an extra value for {before}", fix=fix)


def _apart(name: str, options: dict[str, click.Option]) -> str | None:
    """Return the fix for a short option joined with its value or other options."""
    if name.startswith("--") or len(name) < 3 or name[:2] not in options:
        return None
    letters = [f"-{letter}" for letter in name[1:]]
    if all(letter in options and options[letter].is_flag for letter in letters):
        return f"write {' '.join(letters)}"
    return None if options[name[:2]].is_flag else f"write {name[:2]} {name[2:].lstrip('=')}, with a space"


def nearest_option(name: str, options: Sequence[str]) -> str | None:
    """Return the fix for a name that is a known one, cut short or misspelled.

    Example:
        >>> nearest_option("--out-names", ["--out-name", "--report"])
        'nearest: --out-name'
    """
    from difflib import SequenceMatcher

    plain = dashed(name.lower())
    likeness = {
        word: SequenceMatcher(None, plain, word).ratio() + (len(plain) > 5 and word.startswith(plain))
        for word in options
        if word.startswith("--") and name.startswith("--")
    }
    alike = [word for word in likeness if likeness[word] >= _ALIKE]
    nearest = sorted(alike, key=lambda word: -likeness[word])
    return f"nearest: {', '.join(nearest[:3])}" if nearest else None


def usage_error(error: click.UsageError, ctx: click.Context) -> UsageError:
    """Return click's error as a UsageError with a fix."""
    param = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and param is not None:
        if isinstance(param, SourceOption):
            name, fix = param.metavar, f"write {ctx.command_path} {param.metavar}"
        else:
            name, fix = name_of(param), f"add {_form(param)}"
        return UsageError(f"{name} is missing", fix=fix, code="XD202")
    if isinstance(error, click.BadOptionUsage):
        for option in ctx.command.get_params(ctx):
            if error.option_name in (*option.opts, *option.secondary_opts):
                return miscounted(option, as_called(error.option_name))
    if isinstance(error, click.BadParameter):
        where, usual = (None, "see --help for the options")
        if param is not None:
            where, usual = name_of(param), _nearest_choice(param, error.message) or f"write {_form(param)}"
            usual += " in that range" if "not in the range" in error.message else ""
        return UsageError(_sentence(error.message), where=where, fix=getattr(error, "fix", usual))
    return UsageError(_sentence(error.message), fix="see --help for the options")


def _nearest_choice(param: click.Parameter, message: str) -> str | None:
    """Return choices of an option that are similar to the user's value."""
    given = re.match(r"'(.*?)' is not", message)
    if given is None or not isinstance(param.type, click.Choice):
        return None
    return nearest_names(given[1], map(str, param.type.choices)) or None


def miscounted(option: click.Parameter, name: str) -> UsageError:
    """Return the error for an option with too few values, or a switch with one."""
    if isinstance(option, click.Option) and option.is_flag:
        return UsageError("accepts no value", where=name, fix=f"write {name} alone")
    number = option.nargs
    wants = "a value is missing" if number == 1 else f"expects {number} values"
    return UsageError(wants, where=name, fix=f"write {_form(option, name)}")


def name_of(param: click.Parameter) -> str:
    """Return the long name of a parameter as the user wrote it."""
    if isinstance(param, click.Argument):
        return param.metavar or str(param.name).upper()
    return as_called(_long_flag(param))


def as_called(flag: str, value: str = "", *, ctx: click.Context | None = None) -> str:
    """Return a flag and its value as the user wrote them, maybe with a vendor's flag."""
    ctx = ctx or click.get_current_context(silent=True)
    words: Mapping[str, str] = (ctx and ctx.obj) or {}
    text = f"{flag} {value}".rstrip()
    if value or text in words:
        return words.get(text) or f"{words.get(flag, flag)} {value}"
    return next((word.split()[0] for ours, word in words.items() if ours.split()[0] == flag), flag)


def spelled(ctx: click.Context, name: str, value: Any) -> str:
    """Return an option of a verb as a flag of the running tool or of another tool."""
    if isinstance(value, Mapping):
        return " ".join(
            f"{spelled(ctx, name, None)} {quote(key)} {_text(item)}" for key, item in value.items()
        )
    verb, _, option = name.rpartition(".")
    if value is False:  # a switch that is on by default
        return spelled(ctx, f"{verb}.no_{option}" if verb else f"no_{option}", True)
    commands = [_tool(verb)] if verb else chain([ctx.command], map(_tool, _TOOLS))
    flag = next(filter(None, (flag_of(command, option) for command in commands)), dashed(f"--{option}"))
    if verb:
        source = str(ctx.params.get("source"))
        model = quote(source) if source.endswith(".dlc") else "net.dlc"
        model = "net.onnx" if verb == "convert" else model
        return f"xdlc {verb} {model} {flag} {_text(value)}".rstrip()
    return as_called(flag, _text(value), ctx=ctx)


_TOOLS = {"convert": "onnx_to_dlc", "prepare": "graph_prepare", "quantize": "quantize", "run": "net_run"}
"""Modules of the tools by verb."""


def _text(value: Any) -> str:
    """Return the words of a value for a shell; none of a switch."""
    if value is None or value is True:
        return ""
    return ",".join(map(quote, map(str, value))) if isinstance(value, list | tuple) else quote(str(value))


def _tool(verb: str) -> Any:
    return import_module(f"xdlc.cli.tools.{_TOOLS[verb]}").main


def flag_of(command: click.Command, name: str) -> str | None:
    """Return the long flag of the option of a name; None without one."""
    flags = _flags(command)
    return next((flags[word] for word in (dashed(f"--{name}"), f"-{name}", name) if word in flags), None)


@cache
def _flags(command: click.Command) -> Mapping[str, str]:
    """Return the long flags of a command by name and by each of their spellings."""
    flags = {word: _long_flag(option) for word, option in getattr(command, "aliases", {}).items()}
    for option in command.params:
        if isinstance(option, click.Option):
            flags |= dict.fromkeys((str(option.name), *option.opts), _long_flag(option))
    return flags


def _long_flag(option: click.Parameter) -> str:
    return next((word for word in option.opts if word.startswith("--")), option.opts[0])


def _form(param: click.Parameter, name: str | None = None) -> str:
    """Return an option with a placeholder for its values, like ``--name INTEGER``."""
    kind = param.type
    shape = param.metavar or _SHAPES.get(kind.name, kind.name.upper())
    if isinstance(kind, click.Choice):
        shape = "|".join(map(str, kind.choices))
    if isinstance(param, click.Argument):
        return shape if isinstance(kind, click.Choice) else name_of(param)
    return f"{name or name_of(param)} {shape}"


_SHAPES = {"path": "FILE", "integer range": "N", "integer": "N", "float range": "N", "float": "N"}


def _sentence(text: str) -> str:
    """Return a message of click as a problem: no capital letter, no full stop."""
    return text[:1].lower() + text[1:].rstrip(".") if text[1:2].islower() else text.rstrip(".")
