"""JSON texts with faults: an error with its place and a fix."""

from __future__ import annotations

import random
from typing import Any

import pytest

from xdlc.errors import ModelError, ProblemList, XdlcError, each_problem
from xdlc.json_fields import MAX_PROBLEMS
from xdlc.udo.config.json_text import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NUMBER,
    MAX_STRING,
    MAX_VALUES,
    Real,
    is_xml,
    parse,
    read_bytes,
)

BAD = [
    ("two commas", b"[1,\n,2]", ":2", "Expecting value"),
    ("comma first", b"[\n,1]", ":2", "Expecting value"),
    ("comment not closed", b"[1,\n/* 2]", ":2", "Expecting value"),
    ("single quotes", b"{\n'a': 1}", ":2", "property name"),
    ("name without quotes", b"{\na: 1}", ":2", "property name"),
    ("number as name", b"{\n1: 1}", ":2", "property name"),
    ("word of Python", b'{"a":\nTrue}', ":2", "Expecting value"),
    ("leading zero", b'{"a":\n007}', ":2", "Expecting ','"),
    ("plus", b'{"a":\n+1}', ":2", "Expecting value"),
    ("NaN", b'{"a":\nNaN}', ": a", "finite"),
    ("Infinity", b'{"a":\n-Infinity}', ": a", "finite"),
    ("huge number", b'{"a":\n1e999}', ": a", "finite"),
    ("long number", b'{"a":\n' + b"1" * (MAX_NUMBER + 1) + b"}", ": a", "a number has 65 characters"),
    ("long fraction", b"[0." + b"1" * MAX_NUMBER + b"]", ": [0]", "a number has 66 characters"),
    ("long string", b'{"a":\n"' + b"x" * (MAX_STRING + 1) + b'"}', ": a", "a string has 65537"),
    ("string not closed", b'{"a":\n"x}', ":2", "Unterminated string"),
    ("string over lines", b'{"a":\n"x\ny"}', ":2", "control character"),
    ("tab in a string", b'{"a":\n"x\ty"}', ":2", "control character"),
    ("escaped zero", b'{"a":\n"x\\u0000y"}', ": a", "U+0000"),
    ("zero in a name", b'{"a": {"x\\u0000y": 1}}', ": a", "U+0000"),
    ("unknown escape", b'{"a":\n"C:\\path"}', ":2", "escape"),
    ("half a character", b'{"a":\n"\\ud800"}', ": a", "U+D800"),
    ("no comma", b'{"a": 1\n"b": 2}', ":2", "Expecting ','"),
    ("no colon", b'{\n"a" 1}', ":2", "Expecting ':'"),
    ("no value", b'{\n"a": }', ":2", "Expecting value"),
    ("name twice", b'{"b": {"a": 1,\n"a": 2}}', ": b.a", "several members"),
    ("wrong bracket", b'{"a":\n[1}', ":2", "Expecting ','"),
    ("not closed", b'{"a":\n[1,\n2', ":3", "Expecting ','"),
    ("two values", b'{"a": 1}\n{"b": 1}', ":2", "Extra data"),
    ("empty", b"", "", "is empty"),
    ("blanks", b"\n\n ", "", "is empty"),
    ("comment alone", b"// nothing", "", "is empty"),
    ("UTF-16", '{"a": 1}'.encode("utf-16"), ":1", "UTF-16"),
    ("UTF-16 without mark", '{"a": 1}'.encode("utf-16-be"), ":1", "UTF-16"),
    ("Latin 1", b'{\n"a": "\xe9"}', ":2", "byte 0xe9"),
    ("odd blank", '{\n\u00a0"a": 1}'.encode(), ":2", "property name"),
    ("deep", b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), f": {'[0]' * MAX_DEPTH}", "32 deep"),
    ("very deep", b"[" * 100_000, "", "32 deep"),
    ("many values", b"[\n" + b"0," * MAX_VALUES + b"0]", "", "more than 50000 values"),
]


def faults(content: bytes) -> list[XdlcError]:
    try:
        parse(content, "c.json")
    except (ModelError, ProblemList) as error:
        return list(each_problem(error))
    return []


@pytest.mark.parametrize(("content", "place", "problem"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_a_fault_is_one_error_with_its_place(content: bytes, place: str, problem: str) -> None:
    (found,) = faults(content)
    assert isinstance(found, ModelError)
    assert found.where == f"c.json{place}"
    assert problem in found.problem
    assert found.fix


def test_values_and_their_paths() -> None:
    text = b'\xef\xbb\xbf{"a": [1, -2.5e3,\n true, null],\r\n"\\u00e9\\ud83d\\ude00\\n": {"b":\r"x"}, "": []}'
    root = parse(text, "c.json")
    assert root.value == {"a": [1, -2500.0, True, None], "é😀\n": {"b": "x"}, "": []}
    members = dict(root.members())
    assert [item.path for item in members["a"].items()] == ["a[0]", "a[1]", "a[2]", "a[3]"]
    assert [node.path for node in members.values()] == ["a", "['é😀\\n']", "['']"]
    real = root.value["a"][1]
    assert isinstance(real, Real)
    assert str(real) == "-2.5e3"


def test_comments_and_last_commas_are_skipped_with_a_notice() -> None:
    text = b"""{
      "a": [1, 2, // two, three
      ],          # "more"
      "b": "a // b, ]", /* and
      so on */ "c": "\\\\",
    }"""
    notices: list[str] = []
    assert parse(text, "c.json", notices).value == {"a": [1, 2], "b": "a // b, ]", "c": "\\"}
    assert [notice.partition(": ")[0] for notice in notices] == ["c.json:2", "c.json:2"]
    assert "lines 3, 4" in notices[0]
    assert "lines 5" in notices[1]


def test_the_number_of_problems_is_bounded() -> None:
    assert len(faults(b"[" + b"NaN,\n" * 1000 + b"1]")) == MAX_PROBLEMS


def test_any_bytes_end_in_a_value_or_an_error() -> None:
    rng = random.Random(7)
    good = b'{"a": [1, -2.5e3, true, null, "x\\n"], "b": {"c": [[1, 2], [3]]}}'
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 2)] = rng.choice(
                [b"", b"{", b"]", b'"', b",", b"\\", b"'", b"/*", b"\xff"]
            )
        for found in faults(bytes(data)):
            assert str(found.where).startswith("c.json")
            assert found.fix


def test_form_by_content() -> None:
    assert is_xml(b"<?xml version='1.0'?>")
    assert is_xml(b"\xef\xbb\xbf \n<OpDefCollection")
    assert is_xml("<OpDefCollection".encode("utf-16"))
    assert not is_xml(b'{"a": "<"}')
    assert not is_xml(b"")


def test_files_that_cannot_be_read(tmp_path: Any) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (MAX_BYTES + 1))
    for path, problem in (
        (tmp_path / "none.json", "No such file"),
        (tmp_path, "Is a directory"),
        ("a\0b", "null"),
        (large, "larger than 4 MiB"),
    ):
        with pytest.raises(XdlcError, match=problem):
            read_bytes(path)
