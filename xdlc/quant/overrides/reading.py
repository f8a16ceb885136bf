"""Reader of files of encodings in any of the formats."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir.files import read_bytes
from xdlc.options import spell
from xdlc.quant.overrides import flat, sections
from xdlc.quant.overrides.fields import Fields, shown
from xdlc.quant.overrides.override import Override

LARGEST = 128 << 20
"""Most bytes of a file; read, it takes about ten times that."""
MOST_PROBLEMS = 20
MERGED = "merged_weights"
"""Key of a list of names of weights whose encodings are of the model's own values."""
ENCODING_VERSIONS = (*(version.name for version in sections.VERSIONS), flat.VERSION)
_READABLE = (*ENCODING_VERSIONS, "2.1.0")

Reader = Callable[[Any, str, Any, str], Override]
"""Returns the override of a kind, a name, what a file has for it, and its place."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """The encodings of a file.

    Attributes:
        where: The file, for errors.
        entries: Encodings by name of the source's tensor.
        merged: Names of weights whose encodings are those after the conversion has merged factors into them.
    """

    where: str
    entries: dict[str, Override]
    merged: frozenset[str] = frozenset()


def read_overrides(source: str | os.PathLike[str] | Mapping[str, Any]) -> Overrides:
    """Return the encodings of a file, or of what such a file holds.

    The vendor's quantization_overrides and AIMET's formats 0.4.0, 0.5.0, 0.6.1, 1.0.0, 2.0.0 and 2.1.0 are
    recognized by their structure.

    Raises:
        StorageError: If the file cannot be read.
        UsageError: If it is no file of encodings; up to 20 faulty entries make one list of problems.
    """
    if isinstance(source, Mapping):
        where, content = "quantization_overrides", source
    elif not isinstance(source, str | os.PathLike):
        raise UsageError(
            f"is of type {type(source).__name__}",
            where=spell("quantization_overrides"),
            fix="give the path of a JSON file, or a mapping of what it holds",
        )
    else:
        where = os.fspath(source)
        content = _parsed(_text(where), where)
    top = Fields(content, where)
    entries, reader = _format(top)
    found: dict[str, Override] = {}
    problems: list[XdlcError] = []
    for kind, name, value in entries:
        section = flat.SECTION if kind is None else f"{kind}_encodings"
        place = f"{where}: {section} {name!r}"
        try:
            made = reader(kind, name, value, place)
            if found.setdefault(name, made) != made:
                raise UsageError(
                    "has a second encoding, other than the first", where=place, fix="omit one of the two"
                )
        except UsageError as error:
            problems.append(error)
            if len(problems) == MOST_PROBLEMS:
                break
    raise_all(problems, where=where)
    merged = top.get(MERGED)
    return Overrides(where, found, frozenset(map(str, merged if isinstance(merged, list) else ())))


def _format(top: Fields) -> tuple[Iterator[tuple[Any, str, Any]], Reader]:
    version = top.get("version")
    if version is not None and version not in _READABLE:
        raise top.error(f"version is {shown(version)}; known: {', '.join(_READABLE)}", "use one of these")
    if flat.SECTION in top and not any(section in top for section in sections.SECTIONS):
        return flat.entries(top), lambda _, name, value, where: flat.read(name, value, where)
    if version in (flat.VERSION, "2.1.0"):
        raise top.error(
            f"is of version {version}, but has no {flat.SECTION!r}", f"add the list {flat.SECTION!r}"
        )
    for section in sections.SECTIONS:
        top.required(section)
    kinds = {type(held) for section in sections.SECTIONS if (held := top.get(section))}
    form = sections.LISTED if version == sections.LISTED.name or kinds == {list} else sections.BY_NAME
    return sections.entries(form, top), partial(sections.read, form)


def _text(path: str) -> bytes:
    data = read_bytes(path, LARGEST)
    if len(data) > LARGEST:
        raise UsageError(
            f"is larger than {LARGEST >> 20} MiB, which no file of encodings is",
            where=path,
            fix="give the JSON file of encodings",
        )
    return data


def _parsed(data: bytes, where: str) -> Any:
    def constant(name: str) -> None:
        raise ValueError(f"{name} is no number that JSON has")

    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=constant)
    except RecursionError as error:
        raise UsageError("nests JSON values too deeply", where=where, fix="export the file again") from error
    except (UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"is no JSON text: {error}", where=where, fix="export the file again") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        names = Counter(name for name, _ in pairs)
        raise ValueError(f"the key {shown(names.most_common(1)[0][0])} is there twice in one object")
    return held
