"""Identifiers of generated code, and text of configurations in it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from xdlc.errors import ModelError
from xdlc.udo.generator.naming import (
    c_comment,
    c_string,
    camel,
    check_name,
    finalize,
    identifier,
    identifiers,
    python,
)
from xdlc.udo.generator.rendering import TEMPLATES

HOSTILE = 'a"b\\c\n*/ // ??/ {{ 7*7 }} {% raw %} $(x) `x` %s \x00 \u202e \u00e9 \U0001f600 \\'


@pytest.mark.parametrize(
    "name", ["", "[0]", "-", "é", "1", "a b", "__x__", "_X", "while", "lambda", "None", "NULL"]
)
def test_an_identifier_is_one_of_cpp_and_python(name: str) -> None:
    found = identifier(name)
    assert found.isascii()
    assert found.isidentifier()
    assert "__" not in found
    ast.parse(f"{found} = 1")


def test_identifiers_are_unique_and_depend_on_nothing_else() -> None:
    names = ["in[0]", "in_0", "in 0", "in_0_2", "class", "class_"]
    found = identifiers(names)
    assert found == ("in_0", "in_0_2", "in_0_3", "in_0_2_2", "class_", "class__2")
    assert len(set(found)) == len(names)
    assert identifiers(["a"], taken=["a"]) == ("a_2",)


def test_camel_case() -> None:
    assert [camel(name) for name in ("mode", "rounding_mode", "in[0]", "Mode")] == [
        "Mode",
        "RoundingMode",
        "In0",
        "Mode",
    ]


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "1a", "é", "a\n", "a" * 101])
def test_names_of_files_are_checked(name: str) -> None:
    with pytest.raises(ModelError):
        check_name(name, "package name", "here")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_no_identifier_is_a_macro_of_the_headers(tmp_path: Path) -> None:
    headers = "cmath cstdint cstdio cstdlib cstring cerrno limits vector memory algorithm string thread"
    source = tmp_path / "all.cpp"
    source.write_text("".join(f"#include <{name}>\n" for name in headers.split()))
    command = ["g++", "-std=c++17", "-dM", "-E", str(source)]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C"}
    )
    macros = {line.split()[1] for line in said.stdout.splitlines()}
    plain = {name for name in macros if "(" not in name and not name.startswith("_")}
    assert len(plain) > 100
    assert {name for name in plain if identifier(name) in plain} == set()


def test_a_string_literal_holds_the_bytes_of_the_text() -> None:
    literal = c_string(HOSTILE)
    assert literal.isascii()
    assert ast.literal_eval("b" + literal.replace("\\?", "?")).decode() == HOSTILE


def test_a_comment_is_one_line_that_ends_nothing() -> None:
    found = c_comment(HOSTILE)
    assert found.isprintable()
    assert not any(part in found for part in ("\n", "\\", "*/", "??", "\u202e"))


def test_a_python_literal_is_the_text() -> None:
    assert ast.literal_eval(python(HOSTILE)) == HOSTILE
    assert python(HOSTILE).isascii()


def test_text_cannot_be_printed_without_a_filter() -> None:
    assert finalize("libUdoX.so") == "libUdoX.so"
    for text in ('a"', "a b", "a;b", "a\n", "$(x)", "a{"):
        with pytest.raises(ModelError, match="generated code cannot contain"):
            finalize(text)


def test_templates_switch_no_protection_off() -> None:
    texts = [path.read_text() for path in TEMPLATES.rglob("*.j2")]
    assert len(texts) > 20
    assert not any("| safe" in text or "autoescape" in text for text in texts)
    included = {name for text in texts for name in re.findall(r"{%[-+]? *include *(.*?) *[-+]?%}", text)}
    assert included == {'"jni/src/places.j2"'}
