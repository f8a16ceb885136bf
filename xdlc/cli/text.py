"""Text formatting: tables, numbers, names from files."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import click

from xdlc.errors import size as size

WIDTH = 100
"""Columns of a page that is not a terminal."""

MAX_COLUMN = 48
"""Longest cell that widens its column."""
MAX_NAME = 60
_SHOWN = 8
Row = Sequence[str]
_MARK = re.compile(r"(^|: |  )(error|internal error|warning|fix|XD\d{3})(\[XD\d{3}\])?(?=: )")
_COLOURS = {"warning": "yellow", "fix": "green"}


def width() -> int:
    """Return the columns of the terminal, from 80 to 160."""
    import shutil

    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, 80), 160)


def painted(line: str) -> str:
    r"""Return a line whose word before its message has a colour for terminals.

    Example:
        >>> painted("  fix: add it")
        '  \x1b[32mfix\x1b[0m: add it'
    """
    return _MARK.sub(
        lambda mark: mark[1] + click.style(mark[2] + (mark[3] or ""), _COLOURS.get(mark[2], "red")), line
    )


def clean(value: object) -> str:
    r"""Return a text with all characters escaped that could control a terminal.

    Example:
        >>> print(clean("a\x1b[2Jb"))
        a\x1b[2Jb
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def short(text: str, most: int = MAX_NAME) -> str:
    """Return ``text`` with its middle cut out if it is longer than ``most``."""
    if len(text) <= most:
        return text
    tail = (most - 3) * 2 // 3
    return f"{text[: most - 3 - tail]}...{text[-tail:]}"


def columns(rows: Sequence[Row], indent: str = "    ") -> Iterator[str]:
    """Yield rows with columns aligned; the last column is wrapped to the page.

    Cells stay whole, for names are to be pasted: after one that is too long for its column, the row goes on
    in the next line.
    """
    if not rows:
        return
    widths = [
        max((len(row[i]) for row in rows if i < len(row) - 1 and len(row[i]) <= MAX_COLUMN), default=0)
        for i in range(max(map(len, rows)) - 1)
    ]
    for row in rows:
        head = indent
        for i, cell in enumerate(row[:-1]):
            head += f"{cell:<{widths[i]}}  "
            if len(cell) > widths[i]:
                yield head.rstrip()
                head = indent + " " * (sum(widths[: i + 1]) + 2 * (i + 1))
        yield from _wrapped(head, row[-1])


def _wrapped(head: str, text: str) -> Iterator[str]:
    room = max(width() - len(head), 24)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    yield (head + lines[0]).rstrip()
    for line in lines[1:]:
        yield " " * len(head) + line


def table(titles: Row, rows: Sequence[Row], widths: Sequence[int]) -> Iterator[str]:
    """Yield a table whose cells are wrapped to their columns.

    Words stay whole, for names are to be pasted: after a word that is too long for its column, the row
    goes on in the next line.

    Args:
        rows: Cells, which may be longer than their columns; each of their lines is wrapped by itself.
        widths: The widest that each column may become on a page of 100 columns; the last one gets the rest.
    """
    needed = [
        max(len(line) for row in (titles, *rows) for line in row[i].split("\n")) for i in range(len(titles))
    ]
    wide = [min(most * width() // WIDTH, needed[i]) for i, most in enumerate(widths)]
    left = width() - 2 - sum(wide) - 2 * len(wide)
    wide.append(max(min(needed[-1], left), 8))
    for row in (titles, tuple("-" * most for most in wide), *rows):
        cells = [folded(cell, most) for cell, most in zip(row, wide, strict=True)]
        while any(cells):
            shown = "  "
            for i, cell in enumerate(cells):
                part = cell.pop(0) if cell else ""
                shown += f"{part:<{wide[i]}}  "
                if len(part) > wide[i]:
                    break
            yield shown.rstrip()


def folded(cell: str, columns: int) -> list[str]:
    """Return the lines of a cell, wrapped at blanks."""
    wrap = partial(textwrap.wrap, width=columns, break_long_words=False, break_on_hyphens=False)
    return [part for line in cell.split("\n") for part in wrap(line)]


def dims(shape: Sequence[int | None] | None, symbols: Sequence[str | None] = ()) -> str:
    """Return a shape as text, with symbols for open dimensions where known.

    Example:
        >>> dims([1, None, 224]), dims([]), dims([None, 3], ["batch", None])
        ('1x?x224', 'scalar', 'batch x 3')
    """
    names = [*map(clean, (name or "?" for name in symbols)), *["?"] * len(shape or ())]
    words = [name if size is None else str(size) for size, name in zip(shape or (), names, strict=False)]
    return (" x " if any(symbols) else "x").join(words) or "scalar"


def count(number: int) -> str:
    """Return a number with a decimal prefix.

    Example:
        >>> count(25_557_032), count(12)
        ('25.56 M', '12')
    """
    for unit, one in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= one:
            return f"{number / one:.2f} {unit}"
    return str(number)


def encoding(record: dict[str, Any] | None) -> str:
    """Return an encoding, as ``inspection.encoding`` returns it, in a few words."""
    if record is None:
        return ""
    bits = f" bits {record['bits']}" if "bits" in record else ""
    if record["kind"] == "tensor":
        return f"scale {_number(record['scale'])} offset {record['offset']}{bits}"
    scales = record["scales"]
    numbers = [scale for scale in scales if isinstance(scale, float)]
    span = f" {_number(min(numbers))}..{_number(max(numbers))}" if numbers else ""
    axis = (
        f" along axis {record['axis']}"
        if "axis" in record
        else f" in blocks of {dims(record['block_shape'])}"
    )
    return f"{len(scales)} scale{'s' * (len(scales) != 1)}{span}{axis}{bits}"


def _number(value: float | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def param(value: Any) -> str:
    """Return a parameter's value in one line."""
    if isinstance(value, dict):
        return f"{value['dtype']}[{dims(value['shape'])}]"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        shown = [param(item) for item in value[:_SHOWN]]
        return f"[{','.join(shown)}{',...' if len(value) > _SHOWN else ''}]"
    return clean(value)


def json_parts(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield an object as indented JSON in parts; iterables have an item on each line."""
    import json

    iterables: list[Iterable[Any]] = []
    mark = os.urandom(16).hex()

    def marked(value: Any) -> str:
        if not isinstance(value, Iterable):
            return str(value)
        iterables.append(value)
        return mark

    text = json.dumps(content, indent=2, default=marked)
    for part, items in zip_longest(re.split(f'"{mark}"', text), iterables):
        yield part
        line = part.rpartition("\n")[2]
        indent = "\n" + " " * (len(line) - len(line.lstrip()))
        start = "["
        for item in items or ():
            yield f"{start}{indent}  {json.dumps(item, default=str)}"
            start = ","
        if items is not None:
            yield "[]" if start == "[" else indent + "]"
