"""The vendor's C interfaces as data, for ctypes, stand-in headers and a page.

``snpe_udo.toml`` and ``qnn.toml`` state headers, types, members and how far each is confirmed.
"""

from __future__ import annotations

import ctypes
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILES = ("snpe_udo.toml", "qnn.toml")
_KINDS = ("enum", "struct", "union", "callback", "function", "alias", "handle")
_MEMBER = re.compile(r"(?:const )?(?P<type>[\w. ]+?)(?P<pointers>\**) (?P<name>\w+)(?:\[(?P<count>\d+)\])?")
_PRIMITIVES: Mapping[str, Any] = {
    "bool": ctypes.c_bool,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "int": ctypes.c_int,
    "int8_t": ctypes.c_int8,
    "int16_t": ctypes.c_int16,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "uint8_t": ctypes.c_uint8,
    "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "unsigned long": ctypes.c_ulong,
    "va_list": ctypes.c_void_p,  # passed as a pointer on the 64-bit systems that xdlc supports
    **dict.fromkeys(("cl_mem", "cl_context", "cl_command_queue", "cl_program"), ctypes.c_void_p),
}


@dataclass(frozen=True, slots=True)
class CType:
    """A type or function of an interface.

    Attributes:
        name: Its name; one with a dot has no name in C.
        kind: ``enum``, ``struct``, ``union``, ``callback``, ``function``, ``alias`` or ``handle``.
        members: Enumerators, fields or arguments, as in C.
        returns: Result of a callback or function; the type that an alias stands for.
        proof: How far the facts are confirmed.
    """

    name: str
    kind: str
    members: tuple[str, ...]
    returns: str
    proof: str


@dataclass(frozen=True, slots=True)
class Header:
    """A header of an SDK.

    Attributes:
        file: Its path below the SDK's include folder.
        page: Title of its reference page.
        includes: Headers that it includes.
        defines: Its macros.
        types: Its types in order.
    """

    file: str
    page: str
    includes: tuple[str, ...]
    defines: Mapping[str, str]
    types: tuple[CType, ...]


@cache
def headers() -> tuple[Header, ...]:
    """Return the headers of both interfaces."""
    folder = Path(__file__).parent
    tables = [table for file in FILES for table in tomllib.loads((folder / file).read_text())["header"]]
    return tuple(
        Header(
            table["file"],
            table["page"],
            tuple(table["includes"]),
            table.get("defines", {}),
            tuple(map(_type, table.get("type", ()))),
        )
        for table in tables
    )


def _type(table: Mapping[str, Any]) -> CType:
    kind = next(kind for kind in _KINDS if kind in table)
    value = table[kind]
    members = tuple(value) if isinstance(value, list) else ()
    returns = value if kind == "alias" else table.get("returns", "")
    return CType(table["name"], kind, members, returns, table["proof"])


@cache
def types() -> Mapping[str, CType]:
    """Return the types by name."""
    return {item.name: item for header in headers() for item in header.types}


@cache
def constants() -> Mapping[str, int]:
    """Return the enumerators by name."""
    pairs = (
        member.split(" = ") for item in types().values() if item.kind == "enum" for member in item.members
    )
    return {name: int(value, 0) for name, value in pairs}


def names(enum: str, prefix: str = "") -> dict[int, str]:
    """Return the enumerators of an enum by value, without a prefix."""
    pairs = (member.split(" = ") for member in types()[enum].members)
    return {int(value, 0): name.removeprefix(prefix) for name, value in pairs}


# ------------------------------------------------------------------ ctypes


@cache
def ctype(name: str) -> Any:
    """Return the ctypes type of a type, or the prototype of a function.

    ctypes passes no union by value, so that a union is an array of words; see :func:`overlay`.
    """
    if name in _PRIMITIVES:
        return _PRIMITIVES[name]
    item = types()[name]
    if item.kind == "alias":
        return _pointed(item.returns)
    if item.kind == "enum":
        return ctypes.c_uint32
    if item.kind == "handle":
        return ctypes.c_void_p
    if item.kind in ("callback", "function"):
        arguments = [field(member)[1] for member in item.members]
        return ctypes.CFUNCTYPE(None if item.returns == "void" else _pointed(item.returns), *arguments)
    fields = [field(member) for member in item.members]
    if item.kind == "struct":
        return type(name, (ctypes.Structure,), {"_fields_": fields})
    size = max(ctypes.sizeof(kind) for _, kind in fields)
    word = ctypes.c_uint64 if max(ctypes.alignment(kind) for _, kind in fields) == 8 else ctypes.c_uint32
    return word * -(-size // ctypes.sizeof(word))


def field(member: str) -> tuple[str, Any]:
    """Return name and ctypes type of a member."""
    match = _MEMBER.fullmatch(member)
    if match is None:  # a union without a name
        return member.partition(".")[2], ctype(member)
    kind = _pointed(match["type"] + match["pointers"])
    return match["name"], kind * int(match["count"]) if match["count"] else kind


def _pointed(text: str) -> Any:
    """Return the ctypes type of a type with its asterisks; pointers are addresses."""
    return ctypes.c_void_p if text.endswith("*") else ctype(text)


def overlay(record: ctypes.Structure, union: str, kind: Any) -> Any:
    """Return what a union of a record holds, as a type that shares its memory."""
    return kind.from_buffer(record, getattr(type(record), union).offset)


# ------------------------------------------------------------------ C


def stand_ins() -> dict[str, str]:
    """Return a stand-in for each header by its path below an include folder."""
    return {header.file: _header_text(header) for header in headers()}


def _header_text(header: Header) -> str:
    """Return a stand-in for a header, for C11 and C++11."""
    guard = "STAND_IN_" + re.sub(r"\W", "_", header.file).upper()
    lines = [
        f"/* Stand-in for {header.file}, typed after its reference page; the SDK's own header goes first. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        *(f"#include <{file}>" if "/" not in file and file.startswith("std") else f'#include "{file}"'
          for file in header.includes),
        *(f"#define {name} {value}" for name, value in header.defines.items()),
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]  # fmt: skip
    for item in header.types:
        lines += _declaration(item)
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _declaration(item: CType) -> Iterator[str]:
    arguments = ", ".join(map(_in_c, item.members)) or "void"
    if item.kind == "alias":
        yield f"typedef {item.returns} {item.name};"
    elif item.kind == "handle":
        yield f"typedef struct _{item.name}* {item.name};"
    elif item.kind == "function":
        yield f"{item.returns} {item.name}({arguments});"
    elif item.kind == "callback":
        yield f"typedef {item.returns} (*{_plain(item.name)})({arguments});"
    elif item.kind == "enum":
        yield f"typedef enum {{ {', '.join(item.members)} }} {item.name};"
    elif "." not in item.name:
        yield f"typedef {item.kind} {{ {_members(item)} }} {item.name};"


def _members(item: CType) -> str:
    return " ".join(
        f"{_in_c(member)};" if _MEMBER.fullmatch(member) else f"union {{ {_members(types()[member])} }};"
        for member in item.members
    )


def _in_c(member: str) -> str:
    return re.sub(r"[\w]+\.\w+", lambda match: _plain(match[0]), member)


def _plain(name: str) -> str:
    return name.replace(".", "_")
