"""From one form of configurations to the other, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.udo.config.test_reader import TEMPLATE
from xdlc.errors import ModelError
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import Collection
from xdlc.opdefs.xml_writer import write_collection
from xdlc.udo.config import read, write_json

EVERYTHING = """<OpDefCollection PackageName="Mixed" Domain="com.me" Version="2.5">
<OpDefList>
  <OpDef>
    <Name>Blend</Name>
    <Description><Content>Blends.</Content><Code>y = a + b</Code><Content>Fast.</Content></Description>
    <Reference Source="ONNX" Url="https://onnx.ai"/>
    <Input><Name>a</Name><Mandatory>true</Mandatory>
      <Description><Content>One.</Content></Description>
      <Constraint id="0" Type="Shape">rank &gt;= 1</Constraint>
      <Datatype>FLOAT_32</Datatype><Datatype>UFIXED_POINT_8</Datatype>
      <Shape><Rank>4D</Rank><Layout>NHCW</Layout><Text>[N, H, C, W]</Text></Shape></Input>
    <Input><Name>b</Name><Mandatory>false</Mandatory><Datatype>BACKEND_SPECIFIC</Datatype>
      <Shape><Rank>ND</Rank><Layout>BACKEND_SPECIFIC</Layout></Shape></Input>
    <Input><Name>w</Name><Mandatory>false</Mandatory><Datatype>FLOAT_32</Datatype><Shape><Rank>1D</Rank></Shape>
      <Default>(1.50, 2)</Default><IsStaticTensor>true</IsStaticTensor></Input>
    <Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype><Datatype>UFIXED_POINT_8</Datatype>
      <Shape><Rank>ND</Rank></Shape><Repeated>true</Repeated></Output>
    <Parameter><Name>taps</Name><Mandatory>false</Mandatory><Datatype>INT_32</Datatype>
      <Shape><Rank>2D</Rank></Shape><Default>{{1, 2}, {3, 4}}</Default></Parameter>
    <Parameter><Name>mode</Name><Mandatory>false</Mandatory><Datatype>UINT_32</Datatype>
      <Shape><Rank>SCALAR</Rank></Shape><Default>MAX</Default>
      <Enumeration><Enum>MIN</Enum><Enum>MAX</Enum></Enumeration></Parameter>
    <Parameter><Name>flag</Name><Mandatory>false</Mandatory><Datatype>BOOL_8</Datatype>
      <Shape><Rank>SCALAR</Rank></Shape><Default>1</Default></Parameter>
    <Parameter><Name>path</Name><Mandatory>false</Mandatory><Datatype>STRING</Datatype>
      <Shape><Rank>SCALAR</Rank></Shape></Parameter>
    <SupportedBackend>CPU</SupportedBackend>
    <SupportedBackend>DSP_V66</SupportedBackend>
  </OpDef>
  <OpDef>
    <Name>Relu</Name>
    <Input><Name>x</Name><Mandatory>true</Mandatory><Datatype>FLOAT_16</Datatype><Shape><Rank>ND</Rank></Shape></Input>
    <Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>FLOAT_16</Datatype><Shape><Rank>ND</Rank></Shape></Output>
    <UseDefaultTranslation>true</UseDefaultTranslation>
  </OpDef>
</OpDefList>
<SupplementalOpDefList Backend="CPU">
  <SupplementalOpDef><Name>Blend</Name>
    <Input><Name>b</Name><Datatype>FLOAT_32</Datatype><Shape><Layout>NHWC</Layout></Shape></Input>
  </SupplementalOpDef>
</SupplementalOpDefList>
<SupplementalOpDefList Backend="DSP_V66">
  <SupplementalOpDef><Name>Blend</Name>
    <Input><Name>a</Name><Constraint id="0" Type="Shape">rank = 4</Constraint></Input>
    <Input><Name>b</Name><Datatype>UINT_8</Datatype><Shape><Layout>NHWC</Layout></Shape></Input>
    <Parameter><Name>mode</Name><OnlyDefaultSupported>true</OnlyDefaultSupported></Parameter>
  </SupplementalOpDef>
</SupplementalOpDefList>
<SupplementalOpDefList Backend="HTP">
  <SupportedOps><OpName>Relu</OpName></SupportedOps>
</SupplementalOpDefList>
</OpDefCollection>
"""


RANK = "<Shape><Rank>1D</Rank></Shape>"


def through_json(
    path: Path, collections: Sequence[Collection], *, extended: bool = False
) -> tuple[list[Collection], list[str]]:
    notices: list[str] = []
    path.write_text(write_json(collections, extended=extended, notify=notices.append))
    return read(path), notices


def through_xml(path: Path, collection: Collection) -> Collection:
    path.write_text(write_collection(collection))
    (found,) = read(path)
    return found


def xml(path: Path, text: str) -> Collection:
    path.write_text(text)
    (found,) = read(path)
    return found


def test_json_becomes_xml_and_the_same_json_again(tmp_path: Path) -> None:
    source = tmp_path / "config.json"
    source.write_text(TEMPLATE % ("MyOp", "", ""))
    (first,) = read(source)
    second = through_xml(tmp_path / "config.xml", first)
    assert second == first
    (third,), notices = through_json(tmp_path / "again.json", [second])
    assert (third, notices) == (first, [])
    expected = json.loads(source.read_text())
    (operator,) = expected["UdoPackage_0"]["Operators"]
    for side, stem in (("inputs", "in"), ("outputs", "out")):
        for i, tensor in enumerate(operator[side]):
            tensor["name"] = f"{stem}[{i}]"
    assert json.loads((tmp_path / "again.json").read_text()) == expected


def test_numbers_stay_as_they_are_written(tmp_path: Path) -> None:
    scalars = [
        '{"name": "a", "data_type": "FLOAT_32", "default": 1e-3}',
        '{"name": "b", "data_type": "FLOAT_32", "default": 0.50}',
        '{"name": "c", "data_type": "BOOL_8", "default": true}',
        '{"name": "d", "data_type": "STRING", "default": "1"}',
    ]
    tensor = '{"name": "e", "data_type": "INT_32", "default": [[-1, 2], [3, 4]]}'
    source = tmp_path / "config.json"
    source.write_text(
        '{"P": {"UDO_PACKAGE_NAME": "P",'
        '"Operators": [{"type": "Blur", "inputs": [{"data_type": "FLOAT_32"}],'
        f'"outputs": [{{"data_type": "FLOAT_32"}}], "scalar_params": [{", ".join(scalars)}],'
        f'"tensor_params": [{tensor}], "core_types": ["CPU"]}}]}}}}'
    )
    (first,) = read(source)
    second = through_xml(tmp_path / "config.xml", first)
    text = write_json([second])
    for entry in [*scalars, tensor]:
        assert entry in text


@pytest.mark.parametrize(
    ("default", "rank", "written"),
    [("-inf", "SCALAR", "-inf"), ("nan", "SCALAR", "nan"), ("[1, inf]", "1D", [1, "inf"])],
)
def test_numbers_that_json_does_not_have(tmp_path: Path, default: str, rank: str, written: object) -> None:
    text = EVERYTHING.replace("<Datatype>STRING</Datatype>", "<Datatype>FLOAT_32</Datatype>").replace(
        "<Shape><Rank>SCALAR</Rank></Shape></Parameter>",
        f"<Shape><Rank>{rank}</Rank></Shape><Default>{default}</Default></Parameter>",
    )
    collection = xml(tmp_path / "floor.xml", text)
    json_text = write_json([collection], extended=True)
    params = json.loads(json_text)["UdoPackage_0"]["Operators"][0]
    (param,) = [
        each for each in (*params["scalar_params"], *params["tensor_params"]) if each["name"] == "path"
    ]
    assert param["default"] == written
    (tmp_path / "floor.json").write_text(json_text)
    (back,) = read(tmp_path / "floor.json")
    assert default_value(back.opdefs[0].params["path"]) is not None
    assert write_json([back], extended=True) == json_text


def test_fields_of_ours_keep_everything(tmp_path: Path) -> None:
    first = xml(tmp_path / "all.xml", EVERYTHING)
    (second,), notices = through_json(tmp_path / "all.json", [first], extended=True)
    assert notices == []
    assert second == through_xml(tmp_path / "again.xml", second)
    brackets = str.maketrans("(){}", "[][]")
    assert write_collection(second) == write_collection(first).translate(brackets)


def test_what_the_form_cannot_say_is_told(tmp_path: Path) -> None:
    first = xml(tmp_path / "all.xml", EVERYTHING)
    (second,), notices = through_json(tmp_path / "all.json", [first])
    assert "xdlc_" not in (tmp_path / "all.json").read_text()
    assert [line.replace("JSON cannot express ", "") for line in notices] == [
        "package 'Mixed': Domain, Version",
        "operator 'Blend': Description, Reference, order of Parameters",
        "input 'a' of operator 'Blend': Datatype, Rank, Text, Constraint, Description",
        "input 'b' of operator 'Blend': Mandatory, Layout",
        "input 'w' of operator 'Blend': Rank",
        "output 'y' of operator 'Blend': Datatype",
        "parameter 'taps' of operator 'Blend': Rank",
        "parameter 'mode' of operator 'Blend': Enumeration",
        "parameter 'path' of operator 'Blend': Mandatory",
        "operator 'Relu': UseDefaultTranslation, SupportedBackend",
        "input 'b' of operator 'Blend', supplement for CPU: Layout",
        "input 'a' of operator 'Blend', supplement for DSP_V66: Constraint",
        "input 'b' of operator 'Blend', supplement for DSP_V66: Layout",
        "parameter 'mode' of operator 'Blend', supplement for DSP_V66: OnlyDefaultSupported",
    ]
    written = json.loads((tmp_path / "all.json").read_text())["UdoPackage_0"]["Operators"]
    assert written[0]["inputs"][1]["per_core_data_types"] == {"CPU": "FLOAT_32", "DSP": "UINT_8"}
    assert written[0]["scalar_params"][0] == {"name": "mode", "data_type": "UINT_32", "default": 1}
    assert (written[0]["core_types"], written[0]["dsp_arch_types"]) == (["CPU", "DSP"], ["v66"])
    assert (written[1]["core_types"], written[1]["dsp_arch_types"][0]) == (["DSP"], "v68")
    assert [op.name for op in second.opdefs] == ["Blend", "Relu"]


def test_plain_json_has_no_default_before_an_input_that_it_makes_mandatory(tmp_path: Path) -> None:
    late = "<Default>(1.50, 2)</Default><IsStaticTensor>true</IsStaticTensor></Input>"
    third = late.replace("<Default>(1.50, 2)</Default>", "").replace("true", "false")
    third = f"<Input><Name>z</Name><Mandatory>false</Mandatory><Datatype>INT_32</Datatype>{RANK}{third}"
    collection = xml(tmp_path / "all.xml", EVERYTHING.replace(late, f"{late}{third}"))
    (again,), notices = through_json(tmp_path / "all.json", [collection])
    assert [(one.mandatory, one.default) for one in again.opdefs[0].inputs] == [(True, None)] * 4
    assert any(
        text.startswith("input 'w' of operator 'Blend': JSON cannot express Mandatory, ") for text in notices
    )


def test_types_of_other_backends_have_no_place(tmp_path: Path) -> None:
    text = EVERYTHING.replace(
        "<SupportedBackend>CPU</SupportedBackend>", "<SupportedBackend>AIC</SupportedBackend>"
    )
    text = text.replace('Backend="CPU"', 'Backend="AIC"').replace("DSP_V66", "LPAI")
    collection = xml(tmp_path / "all.xml", text)
    with pytest.raises(ModelError, match="input 'b' of operator 'Blend' has no data type for CPU"):
        write_json([collection])
    (again,), notices = through_json(tmp_path / "all.json", [collection], extended=True)
    assert again.supplements == collection.supplements
    assert notices == []


def test_several_packages(tmp_path: Path) -> None:
    one = xml(tmp_path / "one.xml", EVERYTHING)
    other = xml(tmp_path / "other.xml", EVERYTHING.replace('"Mixed"', '"Other"'))
    found, _ = through_json(tmp_path / "both.json", [one, other])
    assert [held.package for held in found] == ["Mixed", "Other"]


def test_lines_are_short_and_entries_have_one(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(TEMPLATE % ("MyOp", "", ""))
    lines = [line.strip() for line in write_json(read(tmp_path / "config.json")).split("\n")]
    assert lines[3:8] == ["{", '"type": "MyOp",', '"inputs": [', "{", '"name": "in[0]",']
    assert lines[8] == '"per_core_data_types": {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"},'
    assert lines[12].startswith('{"name": "in[1]", "data_type": "FLOAT_32", "static": true,')


def test_the_example_of_the_documentation_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "udo.md").read_text()
    example = page.partition("```json\n")[2].partition("```")[0]
    path = tmp_path / "config.json"
    path.write_text(example)
    assert write_json(read(path)) == write_json(through_json(tmp_path / "again.json", read(path))[0])
    assert json.loads(write_json(read(path))) == json.loads(example)


XML_TEMPLATE = """<OpDefCollection
     xmlns:xs="http://www.w3.org/2001/XMLSchema-instance"
     xs:noNamespaceSchemaLocation="OpDef.xsd"
     PackageName="ExamplePackage"
     Domain="example"
     Version="1.0"
>
   <OpDefList>
    <OpDef>
     <Name>OpName</Name>
     <Description>
         <Content></Content>
         <Code></Code>
     </Description>
     <Reference Source="" Url=""></Reference>
     <Input>
         <Name>in[0]</Name>
         <Mandatory>true</Mandatory>
         <Constraint id="" Type=""></Constraint>
         <Datatype>FLOAT_32</Datatype>
         <Shape>
             <Rank>1D</Rank>
             <Layout></Layout>
             <Text></Text>
         </Shape>
         <Default></Default>
         <Repeated></Repeated>
         <IsStaticTensor></IsStaticTensor>
     </Input>
     <Output>
         <Name>out[0]</Name>
         <Mandatory>true</Mandatory>
         <Constraint id="" Type=""></Constraint>
         <Datatype>FLOAT_32</Datatype>
         <Shape>
             <Rank>1D</Rank>
             <Layout></Layout>
             <Text></Text>
         </Shape>
         <Repeated></Repeated>
     </Output>
     <Parameter>
         <Name>param</Name>
         <Mandatory>false</Mandatory>
         <Constraint id="" Type=""></Constraint>
         <Datatype>INT_32</Datatype>
         <Shape>
             <Rank>1D</Rank>
             <Layout></Layout>
             <Text></Text>
         </Shape>
         <Default></Default>
         <Enumeration>
             <Enum></Enum>
         </Enumeration>
     </Parameter>
     <UseDefaultTranslation></UseDefaultTranslation>
     <SupportedBackend>DSP_V68</SupportedBackend>
    </OpDef>
   </OpDefList>
   <SupplementalOpDefList Backend="HTP">
     <SupportedOps>
       <OpName>OpName</OpName>
     </SupportedOps>
     <SupplementalOpDef>
       <Name>OpName</Name>
       <Input>
         <Name>in[0]</Name>
         <Constraint id="" Type=""></Constraint>
         <Datatype></Datatype>
         <Shape>
             <Layout></Layout>
             <Text></Text>
         </Shape>
         <OnlyDefaultSupported></OnlyDefaultSupported>
       </Input>
     </SupplementalOpDef>
   </SupplementalOpDefList>
</OpDefCollection>
"""
"""The vendor's template of OpDef XML."""


def test_the_template_of_xml_both_ways(tmp_path: Path) -> None:
    first = xml(tmp_path / "a.xml", XML_TEMPLATE)
    (plain,), notices = through_json(tmp_path / "plain.json", [first])
    assert [line.replace("JSON cannot express ", "") for line in notices] == [
        "package 'ExamplePackage': Domain",
        "operator 'OpName': SupportedBackend",
        "input 'in[0]' of operator 'OpName': Rank",
        "output 'out[0]' of operator 'OpName': Rank",
        "parameter 'param' of operator 'OpName': Mandatory, Rank",
    ]
    assert plain.opdefs[0].name == "OpName"
    (full,), notices = through_json(tmp_path / "full.json", [first], extended=True)
    assert (full, notices) == (first, [])
    assert through_xml(tmp_path / "b.xml", full) == first
