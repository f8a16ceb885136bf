"""Types and parsers of options that several tools take."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click


def names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Parse names separated by commas or blanks."""
    return tuple((value or "").replace(",", " ").split())


def distinct_names(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a repeatable option whose values are names separated by commas.

    Raises:
        click.BadParameter: If a name is empty or comes twice.
    """
    found = [name for given in value for name in given.split(",")]
    for name in found:
        if not name:
            raise click.BadParameter("a name is empty")
        if found.count(name) > 1:
            raise click.BadParameter(f"{name!r} is given twice")
    return tuple(found)


def dims_by_name(
    _ctx: click.Context, _param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> dict[str, tuple[int, ...]]:
    """Parse pairs of a name and extents separated by commas.

    Raises:
        click.BadParameter: If an extent is no whole number of at least 0, or a name comes twice.
    """
    return dims(value)


def dims(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[int, ...]]:
    """Return extents by name from pairs of a name and extents separated by commas.

    Raises:
        click.BadParameter: If an extent is no whole number of at least 0, or a name comes twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, extents in pairs:
        parts = [part.strip() for part in extents.split(",")]
        if not all(part.isascii() and part.isdecimal() for part in parts):
            raise click.BadParameter(f"{extents!r} for {name!r} is not a list of extents like 1,3,224,224")
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice")
        found[name] = tuple(int(part) for part in parts)
    return found


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
        click.BadParameter: If a path is empty.
    """
    found: list[str] = []
    for given in value:
        found += [given] if Path(given).is_file() else [part.strip() for part in given.split(",")]
    if not all(found):
        raise click.BadParameter("a path is empty")
    return tuple(found)


class FilePath(click.Path):
    """A path that is not empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


EXTENT = click.IntRange(1, 2**32 - 1)
INPUT_FILE = FilePath(dir_okay=False, path_type=Path)
OUTPUT_FILE = FilePath(path_type=Path)
INPUT_DIMS = click.option(
    "-d",
    "--input_dim",
    "input_dims",
    type=(str, str),
    multiple=True,
    callback=dims_by_name,
    metavar="NAME D1,D2,..",
    help="Shape of an input; needed where the model leaves it open. Repeatable.",
)
DLC_VERSION = click.option(
    "--dlc_version",
    type=click.Choice(["4.1", "4.0", "3", "3.0"]),
    default="4.1",
    show_default=True,
    help="Format of the result. 4.0 keeps the data inside the index, as Netron can show it; up to 2 GiB."
    " 3 is that of SNPE 1, for layers, with their HTA sections in its own records.",
)
