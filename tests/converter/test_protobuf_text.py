"""Protobuf's text format without a schema."""

import math

import pytest

from xdlc import ir
from xdlc.converter.protobuf_text import DEPTH, Word, flattened, parse_text, read_text
from xdlc.errors import ModelError

SPELLINGS = r"""
name: "a" 'b\n' # a comment
layer { name: "x"; p: < a: -1.5f, b: 0x1F c: 017 d: [1, 2,3] e: - inf h: true i: MAX k: 1e-3 k: -.5 > }
layer: [ {a:1}, <b:2> ]  list: []
[a.b]: 3
"""


def test_every_spelling_of_a_field():
    fields = dict(flattened(parse_text(SPELLINGS, "net")))
    assert fields.pop("layer.0.p.e") == -math.inf
    assert fields == {
        "name": "ab\n",
        "layer.0.name": "x",
        "layer.0.p.a": -1.5,
        "layer.0.p.b": 31,
        "layer.0.p.c": 15,
        "layer.0.p.d": [1, 2, 3],
        "layer.0.p.h": Word("true"),
        "layer.0.p.i": Word("MAX"),
        "layer.0.p.k": [0.001, -0.5],
        "layer.1.a": 1,
        "layer.2.b": 2,
        "a.b": 3,
    }
    assert isinstance(fields["layer.0.p.i"], Word)
    assert not isinstance(fields["name"], Word)


def test_messages_have_their_line():
    message = parse_text("a { }\n\nb {\n c { } }", "net")
    inner = message.messages("b")[0]
    assert (message.messages("a")[0].line, inner.line, inner.messages("c")[0].line) == (1, 3, 4)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("this is { not [ a net ]] : :", "line 1, column 6"),
        ("a: 1\nlayer { a", "line 2, column 10"),
        ("a: 99" + "9" * 5000, "line 1, column 4"),
        ("a { " * (DEPTH + 9), "nest"),
        ("a { " * (DEPTH + 9) + "}" * (DEPTH + 9), "nest"),
        ("a: 08", "line 1, column 4"),
        ("a: 1_0", "line 1, column 4"),
        ("a: -x", "line 1, column 5"),
        ("\n\na: \x01", "line 3, column 4"),
        ('a: "x', "line 1, column 4"),
        (r"a: '\x'", "line 1, column 4"),
        ("a: [1 2]", "line 1, column 7"),
        ("a: [{b: 1} {b: 1}]", "line 1, column 12"),
        ("a { b: 1", "line 1"),
        ("}", "line 1, column 1"),
        ("a", "line 1, column 2"),
        ("[a: 1", "line 1"),
    ],
)
def test_text_of_another_form_is_refused_with_its_place(text, place):
    with pytest.raises(ModelError) as refused:
        parse_text(text, "net")
    assert place in str(refused.value)


def test_values_are_limited(monkeypatch):
    monkeypatch.setattr("xdlc.converter.protobuf_text.MOST_VALUES", 3)
    with pytest.raises(ModelError):
        parse_text("a:1 a:2 a:3 a:4", "net")


def test_files_of_other_characters_are_texts(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_bytes(b'# \xd6\xd0\xff\nname: "\xd6\\n" # \x80')
    message = read_text(ir.MappedFile(path))
    assert message.scalars("name") == ["\udcd6\n"]
    assert dict(flattened(message)) == {"name": r"\xd6" + "\n"}
    path.write_bytes(b'name: "a\0"')
    with pytest.raises(ModelError, match="is not text"):
        read_text(ir.MappedFile(path))
