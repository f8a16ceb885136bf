"""What is written reads as what it was."""

from pathlib import Path

import pytest

from tests.opdefs.user_configs import schema_errors
from xdlc import opdefs
from xdlc.errors import ModelError
from xdlc.ir import dtype as dt
from xdlc.opdefs import (
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
    path.write_bytes(opdefs.write_collection(full()).encode())
    assert opdefs.read_collection(path) == full()
    assert schema_errors(path) == []


def test_native_definitions_survive(tmp_path):
    path = tmp_path / "op.xml"
    for native in NATIVE:
        found = opdefs.read_collection(native)
        path.write_bytes(opdefs.write_collection(found).encode())
        assert opdefs.read_collection(path) == found, native.name


def test_equal_values_give_equal_text_whatever_the_order_of_sets():
    one = Collection("P", "d", "1", (), (SupplementTable("CPU", frozenset("abcdef"), {}),))
    other = Collection("P", "d", "1", (), (SupplementTable("CPU", frozenset("fedcba"), {}),))
    assert opdefs.write_collection(one) == opdefs.write_collection(other)


@pytest.mark.parametrize("char", ["\0", "\x1b", "\ufffe", "\ud800"])
def test_a_character_that_xml_cannot_hold_is_refused(char):
    with pytest.raises(ModelError, match=f"U\\+{ord(char):04X}"):
        opdefs.write_collection(Collection("P", f"a{char}", "1", (), ()))


def test_a_rank_that_the_schema_lacks_is_refused():
    op = OpDef("Op", "P", (TensorDef("x", True, (dt.FLOAT32,), 5),), (), {})
    with pytest.raises(ModelError, match="'x' has rank 5, expected one of SCALAR, 1D, 2D, 3D, 4D, ND"):
        opdefs.write_collection(Collection("P", "d", "1", (op,), ()))
