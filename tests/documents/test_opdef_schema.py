"""Fragments of OpDef XML from the vendor's page on the schema, read."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from tests.cli.test_udo_config import invoke
from xdlc.errors import XdlcError, each_problem
from xdlc.ir.dtype import BY_NAME, INT32
from xdlc.opdefs import default_value, parse_default, read_valid
from xdlc.udo.config import inspect, read_config, schema
from xdlc.udo.generator import generate_files

CONSTRAINT = '<Constraint id="" Type=""></Constraint>'
SHAPE = "<Shape><Rank>1D</Rank><Layout></Layout><Text></Text></Shape>"
TENSOR = "<Name>{}</Name><Mandatory>{}</Mandatory>" + CONSTRAINT + "<Datatype>{}</Datatype>" + SHAPE
ADDED = (
    f"<Name>{{}}</Name>{CONSTRAINT}<Datatype></Datatype><Shape><Layout></Layout><Text></Text></Shape>"
    "<OnlyDefaultSupported></OnlyDefaultSupported>"
)
OPDEF = f"""<OpDef>
<Name>OpName</Name>
<Description><Content></Content><Code></Code></Description>
<Reference Source="" Url=""></Reference>
<!--at least one-->
<Input>{TENSOR.format("in[0]", "true", "QNN_DATATYPE_FLOAT_32")}
<Default></Default><Repeated></Repeated><IsStaticTensor></IsStaticTensor></Input>
<Output>{TENSOR.format("out[0]", "true", "QNN_DATATYPE_FLOAT_32")}<Repeated></Repeated></Output>
<Parameter>{TENSOR.format("param", "false", "QNN_DATATYPE_INT_32")}
<Default></Default><Enumeration><Enum></Enum></Enumeration></Parameter>
<UseDefaultTranslation></UseDefaultTranslation>
<SupportedBackend>HTP</SupportedBackend>
</OpDef>"""
SUPPLEMENT = (
    "<SupplementalOpDef><Name>OpName</Name>"
    f"<Input>{ADDED.format('in[0]')}</Input><Output>{ADDED.format('out[0]')}</Output>"
    f"<Parameter>{ADDED.format('param')}</Parameter></SupplementalOpDef>"
)
TABLE = (
    '<SupplementalOpDefList Backend="HTP"><SupportedOps><OpName></OpName></SupportedOps>'
    f"{SUPPLEMENT}</SupplementalOpDefList>"
)
ROOT = (
    '<OpDefCollection xmlns:xs="http://www.w3.org/2001/XMLSchema-instance" '
    'xs:noNamespaceSchemaLocation="OpDef.xsd" PackageName="ExamplePackage" Domain="example" Version="1.0">'
)


def document(opdefs: str = OPDEF, tables: str = "") -> str:
    return f"{ROOT}<OpDefList>{opdefs}</OpDefList>{tables}</OpDefCollection>"


def written(folder: Path, text: str) -> Path:
    path = folder / "example.xml"
    path.write_text(text)
    return path


def problems(path: Path) -> list[str]:
    try:
        read_config(path)
    except XdlcError as error:
        return [str(problem) for problem in each_problem(error)]
    return []


def test_op_with_empty_optional_elements(tmp_path: Path):
    """Empty means omitted: one mandatory input, no default, no enumeration."""
    (op,) = read_valid(written(tmp_path, document())).opdefs
    assert (op.name, op.backends, op.use_default_translation) == ("OpName", ("HTP",), False)
    assert (op.inputs[0].name, op.inputs[0].mandatory, op.inputs[0].rank) == ("in[0]", True, 1)
    assert (op.inputs[0].repeated, op.inputs[0].is_static, op.inputs[0].default) == (False, False, None)
    assert (op.outputs[0].name, op.outputs[0].repeated) == ("out[0]", False)
    assert (op.params["param"].dtypes, op.params["param"].enumeration) == ((INT32,), ())


def test_supplement_with_empty_elements(tmp_path: Path):
    path = written(tmp_path, document(tables=TABLE))
    (table,) = read_valid(path).supplements
    assert (table.backend, list(table.ops), table.supported) == ("HTP", ["OpName"], frozenset())
    assert inspect([path]).problems == ()


@pytest.mark.parametrize("prefix", ["xs", "xsi"])
def test_root_names_the_schema(tmp_path: Path, prefix: str):
    """The location is accepted and not fetched; the schema itself is printed."""
    text = document().replace("xmlns:xs=", f"xmlns:{prefix}=").replace("xs:no", f"{prefix}:no")
    assert problems(written(tmp_path, text)) == []


def test_schema_is_printed_and_validates_the_example(tmp_path: Path):
    printed = invoke("schema")
    path = tmp_path / "OpDef.xsd"
    invoke("schema", "-o", path)
    assert path.read_text() == printed.stdout == schema("-").texts["-"]
    xsd = etree.XMLSchema(etree.parse(path))
    assert xsd.validate(etree.fromstring(document()))
    assert not xsd.validate(etree.fromstring(document().replace("Rank", "Rang")))


@pytest.mark.parametrize(
    "text", [f"{ROOT}<!--one OpDefList--></OpDefCollection>", OPDEF, f"<OpDefList>{OPDEF}</OpDefList>"]
)
def test_fragments_alone_are_refused(tmp_path: Path, text: str):
    assert len(problems(written(tmp_path, text))) == 1


def test_every_data_type(tmp_path: Path):
    """Each data type is read; BACKEND_SPECIFIC without a supplement is refused."""
    names = [f"{kind}_{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)]
    names += [f"{kind}FIXED_POINT_{bits}" for kind in ("S", "U") for bits in (4, 8, 16, 32)]
    names += ["BOOL_8", "FLOAT_16", "FLOAT_32", "FLOAT_64"]
    assert len(names) == 20
    bare = OPDEF.replace("FLOAT_32", "{0}").replace("INT_32", "{0}").replace("OpName", "Op_{0}")
    ops = "".join(bare.format(name) for name in names)
    found = read_valid(written(tmp_path, document(ops))).opdefs
    assert len({op.inputs[0].dtypes for op in found}) == 20
    assert {op.params["param"].dtypes[0] for op in found} <= set(BY_NAME.values())
    text = document(OPDEF.replace("QNN_DATATYPE_INT_32", "BACKEND_SPECIFIC"))
    (problem,) = problems(written(tmp_path, text))
    assert "no supplement specifies for HTP" in problem


@pytest.mark.parametrize(("rank", "expected"), [("1D", 1), ("2D", 2), ("3D", 3), ("4D", 4), ("ND", None)])
def test_ranks(tmp_path: Path, rank: str, expected: int | None):
    """SCALAR is for parameters alone."""
    (op,) = read_valid(written(tmp_path, document(OPDEF.replace("1D", rank)))).opdefs
    assert {op.inputs[0].rank, op.params["param"].rank} == {expected}
    refused = problems(written(tmp_path, document(OPDEF.replace("1D", "SCALAR"))))
    assert len(refused) == 2


def test_defaults():
    """A plain text is a string if the type is open; a numeric type refuses it."""
    texts = ("[[1, 2], [3, 4]]", "{1, 2}", "1", "1.1", "-1", "word")
    assert [parse_default(text) for text in texts] == [[[1, 2], [3, 4]], [1, 2], 1, 1.1, -1, "word"]


def test_default_that_is_no_number_of_its_type(tmp_path: Path):
    """A departure (docs/reference/opdef-xml.md): the vendor stores the text."""
    text = OPDEF.replace("<Default></Default><Enumeration>", "<Default>[word]</Default><Enumeration>")
    (problem,) = problems(written(tmp_path, document(text)))
    assert "expected a number of int32" in problem


def test_enumeration_counts_from_zero(tmp_path: Path):
    text = OPDEF.replace("<Enum></Enum>", "<Enum>LOW</Enum><Enum>HIGH</Enum>").replace("1D", "SCALAR")
    text = text.replace("SCALAR", "1D", 2).replace("<Default></Default><Enum", "<Default>HIGH</Default><Enum")
    (op,) = read_valid(written(tmp_path, document(text))).opdefs
    assert default_value(op.params["param"]) == 1


def test_supplement_may_repeat_or_exceed_the_backends_of_the_op(tmp_path: Path):
    """SupportedOps may repeat SupportedBackend; another backend is a notice."""
    path = written(tmp_path, document(tables=TABLE.replace("<OpName></", "<OpName>OpName</")))
    assert inspect([path]).problems == ()
    other = document(OPDEF.replace(">HTP<", ">CPU<"), TABLE)
    found = inspect([written(tmp_path, other)])
    assert found.problems == ()
    assert any("ignores its supplement for HTP" in notice for notice in found.notices)
    wrong = other.replace("<Name>OpName</Name><Input>", "<Name>Other</Name><Input>")
    assert len(problems(written(tmp_path, wrong))) == 1


def test_two_backends_and_two_supplements_generate(tmp_path: Path):
    both = OPDEF.replace("<SupportedB", "<SupportedBackend>CPU</SupportedBackend><SupportedB")
    text = document(both, TABLE + TABLE.replace("HTP", "CPU"))
    (made,) = generate_files([written(tmp_path, text)], tmp_path / "out")
    assert [core.name for core in made.package.cores] == ["CPU", "DSP_V68"]
    assert (made.outcome.folder / "jni/src/DSP_V68/src/ops/OpName.cpp").is_file()
