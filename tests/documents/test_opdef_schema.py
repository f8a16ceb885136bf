"""Fragments of OpDef XML from the vendor's page on the schema, read."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from tests.cli.test_udo_config import invoke
from xdlc.errors import XdlcError, each_problem
from xdlc.opdefs.xml_reader import read_valid
from xdlc.udo.config import inspect, read_config, schema

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


@pytest.mark.parametrize(("rank", "expected"), [("1D", 1), ("2D", 2), ("3D", 3), ("4D", 4), ("ND", None)])
def test_ranks(tmp_path: Path, rank: str, expected: int | None):
    """SCALAR is for parameters alone."""
    (op,) = read_valid(written(tmp_path, document(OPDEF.replace("1D", rank)))).opdefs
    assert {op.inputs[0].rank, op.params["param"].rank} == {expected}
    refused = problems(written(tmp_path, document(OPDEF.replace("1D", "SCALAR"))))
    assert len(refused) == 2


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
