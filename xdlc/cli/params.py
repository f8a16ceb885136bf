"""Option types and parsers of several tools."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from xdlc.errors import StorageError, UsageError

Function = Callable[..., None]


def names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Parse names separated by commas or blanks."""
    return tuple((value or "").replace(",", " ").split())


def distinct_names(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a repeatable option whose values are names separated by commas.

    Raises:
        BadValue: If a name is empty or comes twice.
    """
    found = [name for given in value for name in given.split(",")]
    for name in found:
        if not name:
            raise BadValue("a name is empty", "write names with one comma between them")
        if found.count(name) > 1:
            raise BadValue(f"{name!r} is given twice", "give each name once")
    return tuple(found)


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


def dims_by_name(
    _ctx: click.Context, _param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> dict[str, tuple[int, ...]]:
    """Parse pairs of a name and dimensions, as ``dims`` does; -1 is one that stays open."""
    return dims(value, least=-1)


def dims(pairs: Iterable[tuple[str, str]], *, least: int = 0) -> dict[str, tuple[int, ...]]:
    """Return dimensions by name from pairs of a name and these: ``1,3,8,8``, ``1, 3, 8, 8`` or ``1x3x8x8``.

    Raises:
        BadValue: If a dimension is no whole number of at least ``least``, or a name comes twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, text in pairs:
        parts = _parts(text)
        if parts is None or min(parts) < least:
            raise BadValue(
                f"{text!r} for {name!r} is no shape",
                "write a whole number for each dimension, with commas and no blanks, like 1,3,224,224",
            )
        if name in found:
            raise BadValue(f"{name!r} is given twice", "give each input one shape")
        found[name] = parts
    return found


def dims_of(names: Sequence[str], shapes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return dimensions by name from --input_name and --input_dimensions, which go in pairs.

    Raises:
        UsageError: If one of a pair is missing.
    """
    if len(names) != len(shapes):
        raise UsageError(
            f"--input_name is given {len(names)} times, --input_dimensions {len(shapes)} times",
            fix="give both for each input: --input_name NAME --input_dimensions 1,3,224,224",
        )
    return dims(zip(names, shapes, strict=True))


def with_options(function: Function, *options: Callable[[Function], Function]) -> Function:
    """Add options to a function, in the order of help."""
    for option in reversed(options):
        function = option(function)
    return function


def dimension_flags(function: Function) -> Function:
    """Add the flags that give inputs of a DLC other dimensions; see ``dims_of``."""
    return with_options(
        function,
        click.option(
            "--input_name",
            "input_names",
            multiple=True,
            metavar="NAME",
            help="Input that gets other dimensions; goes with --input_dimensions, both repeatable.",
        ),
        click.option(
            "--input_dimensions",
            "input_dims",
            multiple=True,
            metavar="D,D..",
            help="Dimensions of the input of --input_name.",
        ),
    )


def _parts(shape: str) -> tuple[int, ...] | None:
    text = shape.strip()
    if text[:1] + text[-1:] in ("[]", "()"):
        text = text[1:-1].strip()
    parts = re.split(r"\s*[,xX]\s*|\s+", text)
    known = all(part == "-1" or (part.isascii() and part.isdecimal()) for part in parts)
    return tuple(map(int, parts)) if known else None


class BadValue(click.BadParameter):
    """A value that an option does not take, with a fix."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class DimsOption(click.Option):
    """A repeatable option of a name and a shape, which may be one word: ``NAME:1,3,8,8``."""


def split_dims(values: list[str]) -> tuple[list[str], int]:
    """Return the name and the shape in one or two words after such an option, and how many are not read."""
    name, _, shape = values[0].rpartition(":")
    if not name or _parts(shape) is None:
        name, _, shape = values[0].partition(" ")
    if not name or _parts(shape) is None or (len(values) == 2 and _parts(values[1]) is not None):
        return values, 0
    return [name, shape], len(values) - 1


class PathsOption(click.Option):
    """A repeatable option of files, which takes several at once: with commas or as words of their own.

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
    found: list[str] = []
    for given in value:
        found += [given] if Path(given).is_file() else [part.strip() for part in given.split(",")]
    if not all(found):
        raise BadValue("a path is empty", "write paths with one comma between them")
    return tuple(found)


class WordsOption(click.Option):
    """A repeatable option whose last value may be several words: ``NAME nv12 rgb``; they become one text.

    Its ``metavar`` has those in brackets that may be omitted, any number of them before dots.
    """

    def __init__(self, words: Sequence[str], **settings: Any) -> None:
        metavar = settings["metavar"]
        self.most = 1 << 16 if "..]" in metavar else metavar.count(" [")
        self.is_bare = metavar.startswith("[")
        super().__init__(words, multiple=True, **settings)

    def joined(self, values: list[str], rest: list[str]) -> tuple[list[str], list[str]]:
        """Return the values with the words after them that belong to the last one, and the other words."""
        if self.is_bare and values and values[0].startswith("-"):
            values, rest = [], [*values, *rest]
        count = 0
        while count < min(self.most, len(rest)) and not rest[count].startswith("-"):
            count += 1
        return [*values[:-1], " ".join([*values[-1:], *rest[:count]])], rest[count:]


class FilePath(click.Path):
    """A path that is not empty, and that the file system can hold.

    Whether it can be read is reported where it is opened, as for missing files and in Python.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(readable=False, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from xdlc.ir.files import checked_path

        try:
            checked_path(value)
        except StorageError as error:
            self.fail(f"the path {error.problem}", param, ctx)
        return super().convert(value, param, ctx)


class NumberRange(click.FloatRange):
    """A range of numbers, in which nan is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if math.isnan(found := super().convert(value, param, ctx)):
            self.fail("nan is no number", param, ctx)
        return found


DIMENSION = click.IntRange(1, 2**32 - 1)
MODEL = FilePath(path_type=Path)
"""A source model; a folder is one too, for some formats."""
INPUT_FILE = FilePath(dir_okay=False, path_type=Path)
OUTPUT_FILE = FilePath(path_type=Path)
INPUT_DIMS = click.option(
    "-d",
    "--input_dim",
    "input_dims",
    cls=DimsOption,
    type=(str, str),
    multiple=True,
    callback=dims_by_name,
    metavar="NAME D1,D2,..",
    help="Shape of an input; needed where the model leaves it open. Repeatable.",
)


def _check_dlc_version(_context: click.Context, _param: click.Parameter, value: str) -> str:
    """Refuse a version that is not written, before any work."""
    from xdlc.container.write4 import check_version

    try:
        check_version(value)
    except UsageError as problem:
        problem.where = "--dlc_version"
        raise
    return value


DLC_VERSION = click.option(
    "--dlc_version",
    metavar="[4.1|4.0]",
    callback=_check_dlc_version,
    default="4.1",
    show_default=True,
    help="Format of the result. 4.0 keeps the data inside the index, as Netron can show it; up to 2 GiB."
    " Files of format 3 (SNPE 1) are read, but not written.",
)


_LAYOUT = "like NCHW, NHWC, NCF or NTF"
_PORTS = {
    "-l --input_layout": ("NAME LAYOUT", f"What the axes of an input of the model are, {_LAYOUT}."),
    "--desired_input_layout": ("NAME LAYOUT", f"What the axes are that callers feed, {_LAYOUT}."),
    "--output_layout": ("NAME LAYOUT", "What the axes of an output of the model are."),
    "--desired_output_layout": ("NAME LAYOUT", "What the axes are that callers fetch."),
    "--input_dtype": ("NAME TYPE", "Type that callers feed, like uint8, float16 or int32."),
    "--output_dtype": ("NAME TYPE", "Type that callers fetch."),
    "-t --input_type": ("NAME KIND", "Kind of an input: image, default, or opaque: passed on as it is."),
    "-e --input_encoding": (
        "NAME IN [OUT]",
        "Colours that callers feed, and those of the network: bgr, rgb, rgba, argb32, nv21, nv12, "
        "time_series or other.",
    ),
    "--input_mean": ("NAME M,M,M", "Subtracted from an input: one number, or one for each channel."),
    "--input_scale": ("NAME S,S,S", "Multiplied with what --input_mean leaves: (x - mean) * scale."),
    "--input_resize": (
        "NAME H,W [MODE]",
        "Size that images have before they are resized for the network: bilinear or nearest.",
    ),
    "--input_crop": (
        "NAME H,W",
        "Size of the images that callers feed, of which the centre is used; or T,L,H,W: the part that "
        "begins at row T and column L.",
    ),
}


def template_flag(name: str, option: str) -> Callable[[Function], Function]:
    """Return the flag for a file that an option reads, with what the model has."""
    text = f"Write no DLC, but a file for --{option} with what the model has."
    return click.option(f"--dump_{name}_template", type=OUTPUT_FILE, help=text)


def port_flags(function: Function) -> Function:
    """Add the flags for inputs and outputs; omitted ones are empty or None."""
    settings: dict[str, Any] = {"type": (str, str), "callback": once_by_name, "cls": WordsOption}
    options = [
        click.option(*flags.split(), metavar=metavar, help=f"{text} Repeatable.", **settings)
        for flags, (metavar, text) in _PORTS.items()
    ]
    options += [
        click.option(
            "--preserve_io",
            cls=WordsOption,
            metavar="[layout|datatype [NAME..]]",
            help="Keep layout, datatype or both of the named inputs and outputs, or of all, whatever other "
            "flags request. Repeatable.",
        ),
        click.option("--custom_io", type=INPUT_FILE, help="Custom I/O file; it overrides --preserve_io."),
        click.option(
            "--config", type=INPUT_FILE, help="Configuration of inputs and outputs (qairt-converter)."
        ),
    ]
    return with_options(function, *options)


def kernel_flags(function: Function) -> Function:
    """Add the flags of UDO kernels; omitted ones are None."""
    return with_options(
        function,
        click.option(
            "--udo_package_path",
            metavar="FILE,FILE..",
            help="Kernels of the UDOs in the model: registration libraries, .py files, folders kernel_meta.",
        ),
        click.option(
            "--udo_timeout",
            type=float,
            metavar="SECONDS",
            help="Time that one execution of a UDO may take.  [default: 60]",
        ),
    )
