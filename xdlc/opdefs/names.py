"""Names of packages, ops, tensors and parameters, which become identifiers of generated C and C++."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from xdlc.errors import nearest_names

MAX_NAME = 200
"""Most characters of a name: generated files are called by it."""
RESERVED_PACKAGES = ("qti.aisw", "xdlc", "snpe")

KEYWORDS = frozenset((
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
    "catch", "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const",
    "consteval", "constexpr", "constinit", "const_cast", "continue", "co_await", "co_return",
    "co_yield", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int",
    "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
    "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "return",
    "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch",
    "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
    "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
))  # fmt: skip
"""Keywords of C++20."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INDEXED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[[0-9]{1,9}\]")


def identifier_problem(name: str, *, indexed: bool = False) -> str | None:
    """Return why a name is no C++ identifier, or None if it is one.

    Args:
        name: The name.
        indexed: Whether the form ``in[0]`` is taken too.

    Example:
        >>> identifier_problem("in[0]", indexed=True), identifier_problem("in[0]")
        (None, "has '[', expected letters, digits and underscores")
        >>> identifier_problem("2x"), identifier_problem("class")
        ('begins with a digit', 'is a keyword of C++')
    """
    if len(name) > MAX_NAME:
        return f"is {len(name)} characters long, expected at most {MAX_NAME}"
    match = _INDEXED.fullmatch(name) if indexed else None
    stem = match[1] if match else name
    if stem in KEYWORDS:
        return "is a keyword of C++"
    if _IDENTIFIER.fullmatch(stem):
        return None
    if not name:
        return "is empty"
    if name[0].isdigit():
        return "begins with a digit"
    bad = next(char for char in name if not (char.isascii() and (char.isalnum() or char == "_")))
    return f"has {bad!r}, expected letters, digits and underscores"


def near(name: str, known: Iterable[str]) -> str:
    """Return the known names closest to one, or an empty string; at a cost that strangers cannot drive up."""
    if len(name) > MAX_NAME:
        return ""
    return nearest_names(name, (one for one in islice(known, 1000) if len(one) <= MAX_NAME))
