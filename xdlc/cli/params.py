"""Flags shared by several tools, and flags from the options of verbs."""

from __future__ import annotations

import math
import re
import types
from collections import abc
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from xdlc.errors import StorageError, UsageError
from xdlc.options import Names, Option, PathLike, Paths, options_of, type_of
from xdlc.options.graphs import BoundaryOptions
from xdlc.options.running import KernelOptions

Function = Callable[..., None]
Decorator = Callable[[Function], Function]
LETTERS = {
    "-i": "--input",
    "-o": "--output",
    "-l": "--input-list",
    "-d": "--input-dim",
    "-h": "--help",
}
"""The long flag of each letter that help shows; other letters are those of old scripts."""


def dashed(word: str) -> str:
    """Return a long flag with dashes for underscores; other words and values as is."""
    name, glued, value = word.partition("=")
    return f"{name.replace('_', '-')}{glued}{value}" if word.startswith("--") else word


def aliases(option: click.Option) -> list[str]:
    """Remove the names of an option that help does not show; return them.

    An option of SoCs gets their type.
    """
    words = list(map(dashed, option.opts))
    shown = next((word for word in words if word.startswith("--")), words[0])
    option.opts = [word for word in words if word == shown or LETTERS.get(word) == shown]
    option.secondary_opts = list(map(dashed, option.secondary_opts))
    option.type = SocNames() if "SOC" in (option.metavar or "") else option.type
    return [word for word in words if word not in option.opts]


def names(
    _ctx: click.Context, param: click.Parameter, value: str | tuple[str, ...] | None
) -> tuple[str, ...]:
    """Parse names separated by commas or blanks, in one text or several."""
    text = ",".join([value] if isinstance(value, str) else value or ())
    return soc_names(text) if isinstance(param.type, SocNames) else tuple(text.replace(",", " ").split())


def soc_names(text: str) -> tuple[str, ...]:
    """Return the names in a text; a name of a SoC may have blanks."""
    parts = filter(None, map(str.strip, text.split(",")))
    return tuple(name for part in parts for name in ([part] if is_soc(part) else part.split()))


def is_soc(name: str) -> bool:
    """Return whether a name is a SoC's."""
    from xdlc.targets import find_soc

    try:
        return bool(find_soc(name))
    except UsageError:
        return False


def distinct_names(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a repeatable option whose values are names separated by commas.

    Raises:
        BadValue: If a name is empty or comes twice.
    """
    names = [name for text in value for name in text.split(",")]
    for name in names:
        if not name:
            raise BadValue("a name is empty", "separate names by one comma, like a,b")
        if names.count(name) > 1:
            raise BadValue(f"{name!r} is given twice", "write each name once")
    return tuple(names)


def once_by_name(
    _ctx: click.Context, _param: click.Parameter, value: tuple[tuple[str, Any], ...]
) -> dict[str, Any]:
    """Return pairs of a name and a value as a mapping.

    Raises:
        click.BadParameter: If a name comes twice.
    """
    names = [name for name, _ in value]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name!r} is given twice")
    return dict(value)


def dims(pairs: Iterable[tuple[str, str]], *, least: int = 0) -> dict[str, tuple[int, ...]]:
    """Return dimensions by name from pairs of a name and text like ``1,3,8,8``.

    The forms ``1, 3, 8, 8`` and ``1x3x8x8`` are valid too.

    Raises:
        BadValue: If a dimension is no whole number of at least ``least``, or a name comes twice.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for name, text in pairs:
        parts = _parts(text)
        if parts is None or min(parts) < least:
            raise BadValue(
                f"{text!r} for {name!r} is not a shape",
                "write a whole number for each dimension, with commas and no blanks, like 1,3,224,224",
            )
        if name in shapes:
            raise BadValue(f"{name!r} is given twice", "write one shape for each input")
        shapes[name] = parts
    return shapes


def dims_of(names: Sequence[str], shapes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return dimensions by name from pairs of --input-name and --input-dimensions.

    Raises:
        UsageError: If one of a pair is missing.
    """
    if len(names) != len(shapes):
        raise UsageError(
            f"--input-name is given {len(names)} times, --input-dimensions {len(shapes)} times",
            fix="write both flags for each input: --input-name NAME --input-dimensions 1,3,224,224",
        )
    return dims(zip(names, shapes, strict=True))


dimension_flags = (
    click.option(
        "--input-name",
        "input_names",
        multiple=True,
        metavar="NAME",
        help="Change the shape of this input to --input-dimensions. Repeatable.",
    ),
    click.option(
        "--input-dimensions",
        multiple=True,
        metavar="D,D..",
        help="Set the new shape of the input that --input-name names. Repeatable.",
    ),
)
"""The flags that give inputs of a DLC other dimensions; see ``dims_of``."""


def _parts(shape: str) -> tuple[int, ...] | None:
    text = shape.strip()
    if text[:1] + text[-1:] in ("[]", "()"):
        text = text[1:-1].strip()
    parts = re.split(r"\s*[,xX]\s*|\s+", text)
    known = all(part == "-1" or (part.isascii() and part.isdecimal()) for part in parts)
    return tuple(map(int, parts)) if known else None


class BadValue(click.BadParameter):
    """A value that an option does not accept, with a fix."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class DimsOption(click.Option):
    """A repeatable option of a name and a shape, also in one word: ``NAME:1,3,8,8``."""


def split_dims(values: list[str]) -> tuple[list[str], int]:
    """Return name and shape from one or two words, and the number of unread words."""
    name, _, shape = values[0].rpartition(":")
    if not name or _parts(shape) is None:
        name, _, shape = values[0].partition(" ")
    if not name or _parts(shape) is None or (len(values) == 2 and _parts(values[1]) is not None):
        return values, 0
    return [name, shape], len(values) - 1


class PathsOption(click.Option):
    """A repeatable option that accepts several files: with commas or as words.

    A value that names a file as a whole is one, whatever it contains.
    """

    def __init__(self, words: Sequence[str], **settings: Any) -> None:
        settings |= {"multiple": True, "callback": paths, "metavar": "FILE,.."}
        super().__init__(words, **settings)


def paths(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a repeatable option whose values are files separated by commas.

    Raises:
        BadValue: If a path is empty.
    """
    files: list[str] = []
    for text in value:
        files += [text] if Path(text).is_file() else [part.strip() for part in text.split(",")]
    if not all(files):
        raise BadValue("a path is empty", "separate paths by one comma, like a.json,b.json")
    return tuple(files)


class WordsOption(click.Option):
    """A repeatable option whose last value may be several words: ``NAME nv12 rgb``.

    Its ``metavar`` has those in brackets that may be omitted, any number of them before dots.
    """

    def __init__(self, words: Sequence[str], **settings: Any) -> None:
        metavar = settings["metavar"]
        self.most = 1 << 16 if "..]" in metavar else metavar.count(" [")
        self.is_bare = metavar.startswith("[")
        super().__init__(words, **(settings | {"multiple": True}))

    def joined(self, values: list[str], rest: list[str]) -> tuple[list[str], list[str]]:
        """Return the values, extended by the words that belong to the last, and the rest."""
        if self.is_bare and values and values[0].startswith("-"):
            values, rest = [], [*values, *rest]
        count = 0
        while count < min(self.most, len(rest)) and not rest[count].startswith("-"):
            count += 1
        return [*values[:-1], " ".join([*values[-1:], *rest[:count]])], rest[count:]


class SourceOption(click.Option):
    """The file that a tool reads: an option, or a word without a flag."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [f"{self.metavar}..." if self.multiple else str(self.metavar)]


class SocNames(click.types.StringParamType):
    """Names of SoCs, with commas between them; shells complete the last one."""

    name = "soc"

    def shell_complete(self, _ctx: click.Context, _param: click.Parameter, word: str) -> list[CompletionItem]:
        from xdlc.targets import all_socs

        before, comma, part = word.rpartition(",")
        names = [soc.name for soc in all_socs()]
        return [CompletionItem(before + comma + name) for name in names if name.startswith(part.lower())]


class FilePath(click.Path):
    """A path that is not empty and is valid for the file system.

    Whether it can be read is reported where it is opened, as for missing files and in Python.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(readable=False, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from xdlc.ir.files import checked_path

        try:
            checked_path(value)
        except StorageError as error:
            self.fail(error.problem, param, ctx)
        return super().convert(value, param, ctx)


class NumberRange(click.FloatRange):
    """A range of numbers, in which nan is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if math.isnan(found := super().convert(value, param, ctx)):
            self.fail("nan is not a number", param, ctx)
        return found


MODEL = FilePath(path_type=Path)
"""A source model, or samples; a folder is one too, for some formats."""
INPUT_FILE = FilePath(dir_okay=False, path_type=Path)
OUTPUT_FILE = FilePath(path_type=Path)


def source(metavar: str, text: str, *flags: str, name: str = "source", **settings: Any) -> Decorator:
    """Return the decorator for the file that a tool reads, with its further flags."""
    settings.setdefault("type", INPUT_FILE)
    words = ("-i", "--input", *flags, name)
    return click.option(*words, cls=SourceOption, required=True, metavar=metavar, help=text, **settings)


def output(text: str, *flags: str, name: str = "target", **settings: Any) -> Decorator:
    """Return the decorator for the file or folder that a tool writes."""
    settings = dict[str, Any](type=OUTPUT_FILE, metavar="FILE") | settings
    return click.option("-o", "--output", *flags, name, help=text, **settings)


def listing(text: str, **settings: Any) -> Decorator:
    """Return the decorator for the input list of a tool."""
    return click.option(
        "-l", "--input-list", "--list", "input_list", type=MODEL, metavar="FILE|FOLDER", help=text, **settings
    )


def sdk(flag: str) -> Decorator:
    """Return the decorator for the SDK of the devices that caches are judged for."""
    text = (
        f"With {flag}: assume this SDK version on the devices.  [default: the SDK of the installed library]"
    )
    return click.option("--sdk", "--runtime-version", "sdk", metavar="VERSION", help=text)


def svg(content: str, flag: str) -> Decorator:
    """Return the decorator for a picture that a flag makes possible."""
    help = f"With {flag}: draw {content} into this .svg file."
    return click.option("--svg", type=OUTPUT_FILE, metavar="FILE.svg", help=help)


DLC = source("DLC", "Read this DLC.", "--input-dlc")
NATIVE = click.option(
    "--use-native-input-files",
    "native",
    is_flag=True,
    help="Read raw files in the data types of the inputs instead of float32. xdlc always reads integer "
    "inputs in their own type.",
)
INPUT_DIMS = click.option(
    "-d",
    "--input-dim",
    "input_dims",
    cls=DimsOption,
    type=(str, str),
    multiple=True,
    callback=lambda _context, _param, pairs: dims(pairs, least=-1),
    metavar="NAME D1,D2,..",
    help="Set the shape of an input, for example if the model leaves dimensions open. Repeatable.",
)


def _check_dlc_version(_context: click.Context, _param: click.Parameter, value: str) -> str:
    """Refuse a version that is not written, before any work."""
    from xdlc.container.write4 import check_version

    try:
        check_version(value)
    except UsageError as problem:
        problem.where = "--dlc-version"
        raise
    return value


DLC_VERSION = click.option(
    "--dlc-version",
    metavar="[4.1|4.0]",
    callback=_check_dlc_version,
    default="4.1",
    show_default=True,
    help="Write this version of the DLC format. 4.0 stores weights where Netron can read them, up to 2 GiB. "
    "xdlc reads format 3 (SNPE 1), but does not write it.",
)


def template_flag(name: str, option: str) -> Callable[[Function], Function]:
    """Return the flag that writes a template of an option's file for the model."""
    text = f"Write a template for {dashed(f'--{option}')} that describes the model. xdlc then writes no DLC."
    return click.option(f"--dump-{name}-template", type=OUTPUT_FILE, help=text)


def flags_of(
    mapping: type,
    *,
    without: Collection[str] = (),
    settings: Mapping[str, Mapping[str, Any]] = {},
) -> Decorator:
    """Return a decorator that adds the flags of a typed mapping of options.

    Omitted flags are None or empty.

    Args:
        without: Names of options that are no flags of the tool.
        settings: Arguments of ``click.option`` by name, where the form of the values does not follow from
            the type of the option.
    """
    options = options_of(mapping)
    names = {name: long_flag(name, option) for name, option in options.items()}
    decorators = []
    for name, option in options.items():
        if name not in without:
            form = {**_settings(type_of(mapping, name), option), **settings.get(name, {})}
            decorators.append(_flag(name, option, form, names))
    return all_of(*decorators)


def all_of(*decorators: Decorator) -> Decorator:
    """Return a decorator that adds options in the order of the help."""

    def decorate(function: Function) -> Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the command line has."""
    return {name: value for name, value in options.items() if value not in (None, (), {})}


def typed(names: Collection[str]) -> list[click.Parameter]:
    """Return the options of these names that the user wrote."""
    context = click.get_current_context()
    return [
        param
        for param in context.command.params
        if param.name in names and context.get_parameter_source(param.name) == ParameterSource.COMMANDLINE
    ]


def long_flag(name: str, option: Option) -> str:
    """Return the long flag of an option."""
    flags = [flag.partition("/")[0] for flag in option.flags]
    return dashed(next((flag for flag in flags if flag.startswith("--")), f"--{name}"))


def _flag(name: str, option: Option, form: Mapping[str, Any], names: Mapping[str, str]) -> Decorator:
    """Return the flag of an option.

    Args:
        name: Name of the option.
        form: Arguments of ``click.option``.
        names: Flags by option, for references in the help.
    """
    text = option.help.format_map(names)
    if option.choices and option.metavar:  # click shows no choices then
        text = f"{text} One of {', '.join(map(str, option.choices))}."
    if form.get("multiple") or form.get("cls") in (PathsOption, WordsOption):
        text += " Repeatable."
    default = option.default_text.format_map(names) or _shown(option.default)
    text += f"  [default: {default}]" if default else ""
    switch = f"--{name}/--no-{name.removeprefix('use_')}" if option.default is True else f"--{name}"
    return click.option(*(option.flags or (switch,)), name, help=text, **form)


def _shown(default: Any) -> str:
    """Return a default as text for the help; "" if it is empty or off."""
    if isinstance(default, bool):
        return "yes" if default else ""
    return "" if default in (None, ()) else str(default)


def _settings(kind: Any, option: Option) -> dict[str, Any]:
    """Return the arguments of ``click.option`` that follow from the type of an option."""
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if set(kinds) <= {bool, types.NoneType}:
        return {"is_flag": True, "default": None}
    if kind == Paths:
        return {"cls": PathsOption}
    shown = {"metavar": option.metavar}
    if get_origin(kinds[0]) is abc.Mapping:
        element = _range(get_args(kinds[0]), option) if option.limits != (None, None) else _element(option)
        return shown | {"type": (str, element), "multiple": True, "callback": _pairs(option)}
    if kinds[:2] == get_args(Names):
        return shown | {"multiple": True, "callback": names}
    if get_origin(kinds[0]) is abc.Sequence:
        return shown | {"multiple": True, "callback": distinct_names}
    if kinds[:2] == get_args(PathLike):
        return shown | {"type": INPUT_FILE}
    if option.choices:
        return shown | {"type": _element(option), "callback": _value(option)}
    if option.limits != (None, None):
        return shown | {"type": _range(kinds, option)}
    return shown | {"type": next((each for each in (int, float) if each in kinds), str)}


def _range(kinds: Collection[Any], option: Option) -> Any:
    """Return the type of numbers within the limits of an option."""
    ranges: type[Any] = NumberRange if float in kinds else click.IntRange
    return ranges(*option.limits)


def _element(option: Option) -> Any:
    return click.Choice([str(choice) for choice in option.choices]) if option.choices else str


def _value(option: Option) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return the callback that turns the text of a choice into its value."""
    values = {str(choice): choice for choice in option.choices}
    return lambda _context, _param, text: None if text is None else values.get(text, text)


def _pairs(option: Option) -> Callable[[click.Context, click.Parameter, Iterable[Any]], dict[str, Any]]:
    """Return the callback that turns pairs of a name and a text into values by name."""
    value = _value(option)

    def callback(context: click.Context, param: click.Parameter, pairs: Any) -> dict[str, Any]:
        texts = once_by_name(context, param, pairs)
        return {name: value(context, param, text) for name, text in texts.items()}

    return callback


port_flags = flags_of(
    BoundaryOptions,
    settings={
        **{
            name: {"cls": WordsOption, "type": (str, str), "callback": once_by_name}
            for name in options_of(BoundaryOptions)
            if get_origin(type_of(BoundaryOptions, name)) is abc.Mapping
        },
        "preserve_io": {"cls": WordsOption},
    },
)
"""The flags for inputs and outputs."""
kernel_flags = flags_of(
    KernelOptions, settings={"udo_package_path": {"cls": click.Option, "metavar": "FILE,FILE.."}}
)
"""The flags of UDO kernels."""
