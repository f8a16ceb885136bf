"""Generator of ``_generated/*.py``: ``python -m xdlc.schema.generate``.

It reads the subset of the flatbuffers schema language that DLC and TFLite need: tables of scalars, strings,
tables and vectors, unions of tables, ``include``, defaults of scalars, and two attributes of vectors:
``vector64`` (64-bit offset and count) and our own ``mapped`` (the reader returns a range of the bytes).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
INTEGERS = ("byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong")
SCALARS = {**dict.fromkeys(INTEGERS, "0"), "bool": "False", "float": "0.0", "double": "0.0"}
"""Types of scalars, and their defaults."""
WORDS = (*INTEGERS[:4], "uint", "long", "ulong", "double", "string", "vector", "blob")
"""Types that ``xdlc.schema.table`` names."""
TOKEN = re.compile(r'\s*(?://[^\n]*\s*)*("[^"]*"|-?[\w.]+|[{}()\[\]:;=,])')


@dataclass
class Schema:
    """Tables of one file with the lines of their fields, and unions by number."""

    tables: dict[str, list[tuple[str, str, str, str, str | None]]] = field(default_factory=dict)
    unions: dict[str, dict[int, str]] = field(default_factory=dict)
    includes: list[str] = field(default_factory=list)
    root: str = ""
    identifier: str = ""


def parse(text: str) -> Schema:
    """Return the tables and includes of a schema file.

    Raises:
        ValueError: At the first token that is not part of the language taken here.
    """
    tokens: list[str] = []
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = TOKEN.match(stripped, position)
        if match is None:
            raise ValueError(f"cannot read {stripped[position : position + 20]!r}")
        tokens.append(match.group(1))
        position = match.end()
    tokens.reverse()

    def expect(*wanted: str) -> str:
        token = tokens.pop() if tokens else ""
        if token not in wanted:
            raise ValueError(f"expected {' or '.join(wanted)}, found {token!r}")
        return token

    schema = Schema()
    while tokens:
        keyword = expect("table", "union", "include", "root_type", "file_identifier")
        name = tokens.pop()
        if keyword == "union":
            schema.unions[name] = _members(tokens, expect)
            continue
        if keyword == "table":
            expect("{")
            fields = schema.tables.setdefault(name, [])
            while tokens[-1] != "}":
                fields.append(_field(tokens, expect))
            expect("}")
            continue
        expect(";")
        if keyword == "include":
            schema.includes.append(name.strip('"').removesuffix(".fbs"))
        elif keyword == "root_type":
            schema.root = name
        else:
            schema.identifier = name.strip('"')
    _with_unions(schema)
    return schema


def _members(tokens: list[str], expect: Callable[..., str]) -> dict[int, str]:
    """Return the tables of a union by number."""
    tables: dict[int, str] = {}
    expect("{")
    while tokens[-1] != "}":
        name = tokens.pop()
        expect("=")
        tables[int(tokens.pop())] = name
        expect(",")
    expect("}")
    return tables


def _with_unions(schema: Schema) -> None:
    """Split each union field in two: the number of its table, and the table."""
    for name, fields in schema.tables.items():
        schema.tables[name] = [
            entry
            for field in fields
            for entry in (
                [
                    (f"{field[0]}_type", "ubyte", "0", "", None),
                    (field[0], "union", "None", field[4], None),
                ]
                if field[4] in schema.unions
                else [field]
            )
        ]


def _field(tokens: list[str], expect: Callable[..., str]) -> tuple[str, str, str, str, str | None]:
    """Return (name, kind, default, element, table) of the next field."""
    name = tokens.pop()
    expect(":")
    kind = tokens.pop()
    element = ""
    if kind == "[":
        element, kind = tokens.pop(), "vector"
        expect("]")
    default = "None"
    if kind in SCALARS:
        default = SCALARS[kind]
    if tokens[-1] == "=":
        expect("=")
        default = tokens.pop().replace("true", "True")
    if tokens[-1] == "(":
        expect("(")
        kind = expect("vector64", "mapped")
        expect(")")
    expect(";")
    if kind in SCALARS or kind == "string":
        return name, kind, default, "", None
    if element:
        plain = element in SCALARS or element == "string"
        return name, kind, default, element if plain else "table", None if plain else element
    return name, "table", default, "", kind


def _annotation(kind: str, element: str, table: str | None) -> str:
    if kind in SCALARS:
        return kind
    if kind in ("union", "mapped", "vector64"):
        return f"Annotated[{'Table' if kind == 'union' else 'blob'}, {kind!r}, {element!r}] | None"
    if kind == "vector":
        return "blob | None" if element == "ubyte" else f"vector[{table or element}] | None"
    return f"{table or kind} | None"


def generate(stem: str) -> str:
    """Return the Python module for the schema ``<stem>.fbs``."""
    schema = parse((FOLDER / f"{stem}.fbs").read_text(encoding="utf-8"))
    imported = {
        name: module
        for module in schema.includes
        for name in parse((FOLDER / f"{module}.fbs").read_text(encoding="utf-8")).tables
    }
    body: list[str] = []
    for table, fields in schema.tables.items():
        body += ["", "", f"class {table}(Table):"]
        if table == schema.root:
            body.append(f"    IDENTIFIER = {schema.identifier.encode()!r}")
        for name, kind, default, element, target in fields:
            body.append(f"    {name}: {_annotation(kind, element, target)} = {default}")
    for union, members in schema.unions.items():
        body += ["", "", f"{union}: dict[int, type[Table]] = {{"]
        body += [f"    {number}: {name}," for number, name in members.items()]
        body.append("}")
    words = set(re.findall(r"\w+", "\n".join(body)))
    lines = [
        f'"""Generated from {stem}.fbs by ``python -m xdlc.schema.generate``; do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        *(["from typing import Annotated", ""] if "Annotated" in words else []),
    ]
    used = {table for fields in schema.tables.values() for *_, table in fields if table}
    for name in sorted(used - set(schema.tables)):
        lines.append(f"from xdlc.schema._generated.{imported[name]} import {name}")
    lines.append(f"from xdlc.schema.table import Table, {', '.join(sorted(words & set(WORDS)))}")
    return "\n".join(lines + body) + "\n"


def main() -> int:
    """Write every module; return 0."""
    for path in sorted(FOLDER.glob("*.fbs")):
        (FOLDER / "_generated" / f"{path.stem}.py").write_text(generate(path.stem), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
