"""JSON that is none: each fault has one error, with its line and what to do."""

from __future__ import annotations

import random
from typing import Any

import pytest

from xdlc.errors import ModelError, ProblemList, XdlcError, each_problem
from xdlc.udo.config.json_text import MAX_DEPTH, MAX_VALUES, Node, parse
from xdlc.udo.config.scope import MAX_PROBLEMS
from xdlc.udo.config.text import MAX_BYTES, is_xml, read_bytes
from xdlc.udo.config.tokens import MAX_NUMBER, MAX_STRING

BAD = [
    (
        "comma behind the last value",
        b'{"a": [1,\n2,\n]}',
        2,
        "a comma with nothing behind it",
        "last comma of line 2",
    ),
    (
        "comma behind the last member",
        b'{"a": 1,\n}',
        1,
        "a comma with nothing behind it",
        "last comma of line 1",
    ),
    ("two commas", b"[1,\n,2]", 2, "two commas", "remove one"),
    ("comma first", b"[\n,1]", 2, "expected a value, found ','", "write a value"),
    ("comment to the end", b'{\n"a": 1 // one\n}', 2, "no comments", "remove the comment"),
    ("comment in stars", b'{"a":\n/* one\n*/ 1}', 2, "no comments", "remove the comment"),
    ("comment of Python", b"[1,\n2 # two\n]", 2, "no comments", "remove the comment"),
    ("comment not closed", b"[1,\n/* 2]", 2, "a comment is not closed", "remove it"),
    ("single quotes", b"{\n'a': 1}", 2, "single quotes: 'a'", "double quotes"),
    ("single quotes, open", b"{\n'a: 1}", 2, "single quotes is not closed", "double quotes"),
    ("name without quotes", b"{\na: 1}", 2, "a is not in quotes", "double quotes"),
    ("number as name", b"{\n1: 1}", 2, "a name has to be a string, found 1", "quote it"),
    ("NaN", b'{"a":\nNaN}', 2, "NaN is no number", "finite"),
    ("Infinity", b'{"a":\n-Infinity}', 2, "-Infinity is no number", "finite"),
    ("huge number", b'{"a":\n1e999}', 2, "1e999 is larger", "finite"),
    ("word of Python", b'{"a":\nTrue}', 2, "True is no word", "write true"),
    ("None", b'{"a":\nNone}', 2, "None is no word", "write null"),
    ("leading zero", b'{"a":\n007}', 2, "007 is no number", "without + or 0x"),
    ("plus", b'{"a":\n+1}', 2, "+1 is no number", "without + or 0x"),
    ("hexadecimal", b'{"a":\n0x10}', 2, "0x10 is no number", "without + or 0x"),
    ("no digit", b'{"a":\n1.}', 2, "1. is no number", "without + or 0x"),
    ("long number", b'{"a":\n' + b"1" * (MAX_NUMBER + 1) + b"}", 2, "a number of 65 characters", "round"),
    ("long string", b'{"a":\n"' + b"x" * (MAX_STRING + 1) + b'"}', 2, "a string of 65537", "shorten"),
    ("string not closed", b'{"a":\n"x}', 2, "a string is not closed", 'close it with "'),
    ("string over lines", b'{"a":\n"x\ny"}', 2, "not closed on its line", "\\n"),
    ("backslash at the end", b'{"a":\n"x\\', 2, "a string is not closed", 'close it with "'),
    ("tab in a string", b'{"a":\n"x\ty"}', 2, "control character U+0009", "\\t"),
    ("zero in a string", b'{"a":\n"x\x00y"}', 2, "control character U+0000", "remove"),
    ("escaped zero", b'{"a":\n"x\\u0000y"}', 2, "character U+0000", "remove"),
    ("unknown escape", b'{"a":\n"C:\\path"}', 2, "unknown escape \\p", "\\\\"),
    ("half a character", b'{"a":\n"\\ud800"}', 2, "half of a surrogate pair", "character itself"),
    ("no comma", b'{"a": 1\n"b": 2}', 1, "no comma between a value and the string 'b'", "end of line 1"),
    ("no comma in an array", b"[1\n2]", 1, "no comma between a value and 2", "end of line 1"),
    ("no colon", b'{\n"a" 1}', 2, "expected ':' behind the name 'a'", '"name": value'),
    ("no value", b'{\n"a": }', 2, "expected a value, found '}'", "write a value"),
    ("no name", b"{\n[1]: 2}", 2, "expected a name, found '['", '"name": value'),
    ("name twice", b'{"a": 1,\n"a": 2}', 2, "'a' is there twice; first on line 1", "rename"),
    ("wrong bracket", b'{"a":\n[1}', 2, "'}' does not close the '[' of line 2", "']'"),
    ("not closed", b'{"a":\n[1,\n2', 3, "the '[' of line 2 is closed", "']'"),
    ("closed twice", b'{"a": 1}\n}', 2, "more behind the end", "remove what follows"),
    ("two values", b'{"a": 1}\n{"b": 1}', 2, "more behind the end", "remove what follows"),
    ("empty", b"", 1, "is empty", "UdoPackage_0"),
    ("blanks", b"\n\n ", 1, "is empty", "UdoPackage_0"),
    ("behind a byte order mark", b"\xef\xbb\xbf{1: 2}", 1, "found 1", "quote it"),
    ("far to the right", b"[" + b"1, " * 50 + b"x]", 1, "x is not in quotes in column 152", "double quotes"),
    ("UTF-16", '{"a": 1}'.encode("utf-16"), 1, "is UTF-16", "as UTF-8"),
    ("UTF-16 without mark", '{"a": 1}'.encode("utf-16-be"), 1, "is UTF-16", "as UTF-8"),
    ("Latin 1", b'{\n"a": "\xe9"}', 2, "byte 0xe9 at offset 8 is not UTF-8", "as UTF-8"),
    ("surrogate in UTF-8", b'{\n"a": "\xed\xa0\x80"}', 2, "byte 0xed", "as UTF-8"),
    ("odd blank", '{\n\u00a0"a": 1}'.encode(), 2, "unexpected character U+00A0", "no blank"),
    ("deep", b"[\n" * (MAX_DEPTH + 1), MAX_DEPTH + 1, "nest more than 32 deep", "remove brackets"),
    ("many values", b"[\n" + b"0," * MAX_VALUES + b"0]", 2, "more than 50000 values", "split"),
    ("slash", b'{"a":\n/ 1}', 2, "unexpected '/'", "remove it"),
]


def faults(content: bytes) -> list[XdlcError]:
    try:
        parse(content, "c.json")
    except (ModelError, ProblemList) as error:
        return list(each_problem(error))
    return []


def problems(content: bytes) -> list[XdlcError]:
    with pytest.raises(XdlcError) as caught:
        parse(content, "c.json")
    return list(each_problem(caught.value))


@pytest.mark.parametrize(
    ("content", "line", "problem", "fix"), [case[1:] for case in BAD], ids=[c[0] for c in BAD]
)
def test_a_fault_is_one_error_with_its_line(content: bytes, line: int, problem: str, fix: str) -> None:
    (found,) = problems(content)
    assert isinstance(found, ModelError)
    assert found.where == f"c.json:{line}"
    assert problem in found.problem
    assert fix in str(found.fix)


def plain(node: Node) -> Any:
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    if isinstance(node.value, dict):
        return {name: plain(member.node) for name, member in node.value.items()}
    return node.value


def test_values_and_their_lines() -> None:
    text = b'{"a": [1, -2.5e3,\n true, null],\r\n"\\u00e9\\ud83d\\ude00\\n": {"b":\r"x"}, "": []}'
    root = parse(text, "c.json")
    assert plain(root) == {"a": [1, -2500.0, True, None], "é😀\n": {"b": "x"}, "": []}
    assert isinstance(root.value, dict)
    assert [(name, member.line, member.node.line) for name, member in root.value.items()] == [
        ("a", 1, 1),
        ("é😀\n", 3, 3),
        ("", 4, 4),
    ]
    (one, real, true, _) = root.value["a"].node.value  # type: ignore[misc]
    assert (one.text, real.text, true.line) == ("1", "-2.5e3", 2)


def test_all_faults_that_can_be_skipped_come_in_one_run() -> None:
    text = b"{'a': [1,\n], b: NaN,\n\"c\": 007 # seven\n,}"
    assert [(found.where, found.problem.split(":")[0]) for found in problems(text)] == [
        ("c.json:1", "a string in single quotes"),
        ("c.json:1", "a comma with nothing behind it, before ']'"),
        ("c.json:2", "b is not in quotes"),
        ("c.json:2", "NaN is no number of JSON"),
        ("c.json:3", "007 is no number of JSON"),
        ("c.json:3", "JSON has no comments"),
        ("c.json:4", "a comma with nothing behind it, before '}'"),
    ]


def test_their_number_is_bounded() -> None:
    assert len(problems(b"[" + b"NaN,\n" * 1000 + b"1]")) == MAX_PROBLEMS


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
            assert str(found.where).startswith("c.json:")
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
