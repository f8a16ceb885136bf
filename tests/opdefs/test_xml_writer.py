"""What is written reads as what it was."""

from pathlib import Path

import pytest

from tests.opdefs.user_configs import BLEND, schema_errors
from xdlc import opdefs
from xdlc.errors import ModelError
from xdlc.ir import dtype as dt
from xdlc.opdefs.loader import read_collection
from xdlc.opdefs.model import (
    Collection,
    Constraint,
    DescriptionPart,
    OpDef,
    ParamDef,
    Reference,
    SupplementOp,
    SupplementTable,
    SupplementTensor,
    TensorDef,
)
from xdlc.opdefs.xml_reader import collection_lines, parse_collection
from xdlc.opdefs.xml_writer import write_collection

NATIVE = sorted((Path(opdefs.__file__).parent / "data").rglob("*.xml"))
ODD = 'a < b && "c" > d\r\n\t\u2014 \U0001f600'


def full():
    """Return a collection that uses every field."""
    words = (DescriptionPart("first\n  indented"), DescriptionPart("y = x", True), DescriptionPart(ODD))
    return Collection(
        "Pkg",
        ODD.replace("\r", ""),
        "2.1",
        (
            OpDef(
                "Blend",
                "Pkg",
                (
                    TensorDef(
                        "in[0]",
                        True,
                        (dt.FLOAT32, dt.UFIXED8),
                        4,
                        "[N, H, W, C]",
                        "NHWC",
                        (Constraint("0", "Shape", "rank = 4"), Constraint("", "", ODD.strip())),
                        description=words,
                    ),
                    TensorDef("bias", False, (), 1, "in words", "BACKEND_SPECIFIC", default="[1, 2]"),
                    TensorDef("rest", False, (dt.FLOAT32,), None, repeated=True, is_static=True),
                ),
                (TensorDef("out[0]", True, (dt.FLOAT32,), None, repeated=True),),
                {
                    "mode": ParamDef("mode", False, (dt.UINT32,), 0, default="B", enumeration=("A", "B")),
                    "text": ParamDef("text", False, (dt.STRING,), 0, default=ODD.strip()),
                    "flag": ParamDef("flag", True, (dt.BOOL8,), 0),
                },
                words,
                (
                    Reference("ONNX", "https://a?b=1&c=2"),
                    Reference("TF", "", "see there"),
                    Reference("", "u"),
                ),
                ("CPU", "HTP"),
                False,
            ),
            OpDef(
                "Other", "Pkg", (TensorDef("x", True, (dt.INT64,), 2),), (), {}, use_default_translation=True
            ),
        ),
        (
            SupplementTable(
                "HTP",
                frozenset({"Other", "Blend"}),
                {
                    "Blend": (
                        SupplementOp(
                            "Blend",
                            {
                                "bias": SupplementTensor(
                                    "bias",
                                    (dt.SFIXED4,),
                                    (Constraint("0", "Value", "> 0"),),
                                    True,
                                    "NHCW",
                                    "[2]",
                                )
                            },
                            {"out[0]": SupplementTensor("out[0]", ())},
                            {"mode": SupplementTensor("mode", (), (), True)},
                        ),
                    )
                },
            ),
            SupplementTable("CPU", frozenset(), {}),
        ),
    )


def test_every_field_survives(tmp_path):
    path = tmp_path / "all.xml"
    path.write_bytes(write_collection(full()).encode())
    assert read_collection(path) == full()
    assert schema_errors(path) == []


def test_native_definitions_survive(tmp_path):
    path = tmp_path / "op.xml"
    for native in NATIVE:
        found = read_collection(native)
        path.write_bytes(write_collection(found).encode())
        assert read_collection(path) == found, native.name


def test_equal_values_give_equal_text_whatever_the_order_of_sets():
    one = Collection("P", "d", "1", (), (SupplementTable("CPU", frozenset("abcdef"), {}),))
    other = Collection("P", "d", "1", (), (SupplementTable("CPU", frozenset("fedcba"), {}),))
    assert write_collection(one) == write_collection(other)


@pytest.mark.parametrize("char", ["\0", "\x1b", "\ufffe", "\ud800"])
def test_a_character_that_xml_cannot_hold_is_refused(char):
    with pytest.raises(ModelError, match=f"U\\+{ord(char):04X}"):
        write_collection(Collection("P", f"a{char}", "1", (), ()))


def test_a_rank_that_the_schema_lacks_is_refused():
    op = OpDef("Op", "P", (TensorDef("x", True, (dt.FLOAT32,), 5),), (), {})
    with pytest.raises(ModelError, match="'x' has rank 5, expected one of SCALAR, 1D, 2D, 3D, 4D, ND"):
        write_collection(Collection("P", "d", "1", (op,), ()))


BODY = BLEND.partition("?>\n")[2]
FORMS = {
    "UTF-8 with a mark": b"\xef\xbb\xbf" + BLEND.encode(),
    "UTF-16": BLEND.replace("UTF-8", "UTF-16").encode("utf-16"),
    "line ends of Windows": BLEND.replace("\n", "\r\n").encode(),
    "line ends of old Macs": BLEND.replace("\n", "\r").encode(),
    "no declaration": BODY.encode(),
    "comments and instructions": BLEND.replace("<Rank>4D", "<?a b?><Rank>4<!-- axes -->D").encode(),
    "character data": BLEND.replace(
        ">Adds what it is given.<", "><![CDATA[Adds what it is given.]]><"
    ).encode(),
    "blanks": BLEND.replace(">4D<", ">\n 4D\t<").replace(">CPU<", "> CPU\n<").encode(),
    "bare words": BLEND.replace(
        "<Content>Adds what it is given.</Content>", "Adds what it is given."
    ).encode(),
    "no version": BLEND.replace(' Version="1.0"', "").encode(),
    "empty version": BLEND.replace(' Version="1.0"', ' Version=""').encode(),
    "another prefix": BLEND.replace("xs:", "xsi:").replace(":xs=", ":xsi=").encode(),
}


@pytest.fixture(scope="module")
def blend():
    return parse_collection(BLEND.encode(), "blend.xml")


@pytest.mark.parametrize("name", FORMS)
def test_it_reads_as_the_same(name, blend):
    assert parse_collection(FORMS[name], "blend.xml") == blend


def test_lists_stand_in_any_order(blend):
    ops, tables = BODY.partition("<OpDefList>")[2].split("</OpDefList>")
    head, tables = BODY.partition("<OpDefList>")[0], tables.replace("</OpDefCollection>", "")
    supported = "<SupportedOps><OpName>Relu</OpName></SupportedOps>"
    first, last = tables.replace(supported, "").split("</SupplementalOpDef>", 1)
    text = f"{head}{first}</SupplementalOpDef>{supported}{last}<OpDefList>{ops}</OpDefList></OpDefCollection>"
    assert parse_collection(text.encode(), "blend.xml") == blend


def test_a_description_keeps_the_order_of_words_and_code():
    mixed = "One <Code>a = b</Code> two <Content>three</Content>"
    text = BLEND.replace("<Content>Adds what it is given.</Content>", mixed)
    assert parse_collection(text.encode(), "f.xml").opdefs[0].description[:4] == (
        DescriptionPart("One"),
        DescriptionPart("a = b", is_code=True),
        DescriptionPart("two"),
        DescriptionPart("three"),
    )


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_lines_are_those_where_start_tags_end(ends):
    text = BLEND.replace('id="7" Type', 'id="7"\n          Type').replace("UTF-8", "utf-8")
    lines = collection_lines(b"\xef\xbb\xbf" + text.replace("\n", ends).encode(), "f.xml")
    starts = {
        (): "PackageName=",
        ("PackageName",): "PackageName=",
        ("op", 1, "Name"): "<Name>Relu",
        ("table", 1, "op", "Blend", "input", "in[0]", "Constraint", "7"): 'Type="Shape">shape(',
    }
    found = {key: lines[key] for key in starts}
    assert found == {key: f"f.xml:{text.count(chr(10), 0, text.index(at)) + 1}" for key, at in starts.items()}
