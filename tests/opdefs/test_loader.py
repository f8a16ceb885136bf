"""Every data file keeps to the schema, and reads as what it says."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.opdefs.user_configs import schema_errors
from xdlc import opdefs
from xdlc.errors import ModelError, StorageError, UsageError
from xdlc.ir import dtype as dt
from xdlc.opdefs.loader import BACKENDS, all_types, dtype_of, find, read_collection, supplement
from xdlc.opdefs.op_verifier import OpVerifier
from xdlc.opdefs.supplements import side_of, tensors_of
from xdlc.opdefs.xml_reader import validate_xml

DATA = Path(opdefs.__file__).parent / "data"
FILES = sorted(DATA.rglob("*.xml"))

CUSTOM = """<OpDefCollection
    xmlns:xs="http://www.w3.org/2001/XMLSchema-instance" xs:noNamespaceSchemaLocation="OpDef.xsd"
    PackageName="ExamplePackage" Domain="example" Version="1.0">
  <OpDefList>
    <OpDef>
      <Name>Relu</Name>
      <Description><Content>x * gain</Content><Code></Code></Description>
      <Reference Source="Tensorflow" Url="https://example.org"></Reference>
      <Input>
        <Name>in[0]</Name>
        <Mandatory>True</Mandatory>
        <Datatype>FLOAT_32</Datatype>
        <Datatype>FIXED_8</Datatype>
        <Shape><Rank>4D</Rank><Layout>NHWC</Layout><Text>[n, h, w, c]</Text></Shape>
        <Constraint id="0" Type="Shape">rank = 4</Constraint>
        <Repeated></Repeated>
        <IsStaticTensor>false</IsStaticTensor>
      </Input>
      <Output>
        <Name>out[0]</Name>
        <Mandatory>1</Mandatory>
        <Datatype>BACKEND_SPECIFIC</Datatype>
        <Shape><Rank>ND</Rank><Layout></Layout></Shape>
      </Output>
      <Parameter>
        <Name>mode</Name>
        <Mandatory>0</Mandatory>
        <Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape>
        <Default>1</Default>
        <Enumeration><Enum>SLOW</Enum><Enum>FAST</Enum></Enumeration>
      </Parameter>
      <UseDefaultTranslation>true</UseDefaultTranslation>
      <SupportedBackend>HTP</SupportedBackend>
    </OpDef>
  </OpDefList>
  <SupplementalOpDefList Backend="HTP">
    <SupportedOps><OpName>Relu</OpName></SupportedOps>
    <SupplementalOpDef>
      <Name>Relu</Name>
      <Output><Name>out[0]</Name><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype></Output>
      <Parameter><Name>mode</Name><OnlyDefaultSupported>true</OnlyDefaultSupported></Parameter>
    </SupplementalOpDef>
  </SupplementalOpDefList>
</OpDefCollection>
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "ops.xml"
        path.write_text(text)
        return path

    return write


def test_data_files_keep_to_the_schema():
    assert len(FILES) >= 159 + len(BACKENDS)
    assert [error for path in FILES for error in schema_errors(path)] == []


def test_each_file_defines_the_op_of_its_name():
    for name in all_types():
        definition = find(name)
        assert definition.name == name
        assert definition.package == "qti.aisw"
        for side, tensors in (("in", definition.inputs), ("out", definition.outputs)):
            assert [tensor.name for tensor in tensors] == [f"{side}[{i}]" for i in range(len(tensors))], name
            assert not any(tensor.repeated for tensor in tensors[:-1]), name


def test_supplements_speak_of_defined_ops_tensors_and_parameters():
    for backend in BACKENDS:
        for table in supplement(backend).tables:
            assert table.supported <= set(all_types()), backend
            assert set(table.ops) <= table.supported, backend
            for op in (row for rows in table.ops.values() for row in rows):
                definition = find(op.name)
                assert set(op.params) <= set(definition.params), op.name
                assert set(op.inputs) <= {tensor.name for tensor in definition.inputs}, op.name
                assert set(op.outputs) <= {tensor.name for tensor in definition.outputs}, op.name


def test_every_constraint_is_enforced():
    for name in all_types():
        verifier = OpVerifier(find(name))
        for _, tensor, _ in tensors_of(verifier.definition):
            assert all(rule.node is not None for rule in verifier.rules(tensor)), (name, tensor.name)
    for backend in BACKENDS:
        for table in supplement(backend).tables:
            for name, rows in table.ops.items():
                verifier = OpVerifier(find(name))
                for row in rows:
                    for side, tensor, _ in tensors_of(verifier.definition):
                        added = side_of(row, side).get(tensor.name)
                        rules = (
                            verifier.rules(replace(tensor, constraints=added.constraints)) if added else []
                        )
                        assert all(rule.node is not None for rule in rules), (backend, name, tensor.name)


def test_find_gives_definitions():
    conv = find("Conv2d")
    assert [tensor.rank for tensor in conv.inputs] == [4, 4, 1]
    assert [tensor.mandatory for tensor in conv.inputs] == [True, True, False]
    assert conv.params["stride"].shape == ("2",)
    assert not conv.params["stride"].is_scalar
    assert conv.params["group"].default == "1"
    assert conv.params["group"].dtypes == (dt.UINT32,)
    assert find("Concat").inputs[-1].repeated
    assert find("ElementWiseNeuron").value_of("operation", "TANH") == 8
    assert find("ElementWiseBinary").value_of("operation", "XOR") == 19
    assert not find("CreateSparse").complete
    with pytest.raises(KeyError):
        find("Pad").value_of("scheme", "NOTHING")


@pytest.mark.parametrize("name", ["", "conv2d", "../backends/htp", "Conv2d\0", "/etc/passwd"])
def test_unknown_types_are_not_found_nor_looked_up_as_paths(name):
    assert find(name) is None


def test_other_packages_are_not_native():
    assert find("Conv2d", "my.package") is None


def test_an_unknown_backend_is_a_usage_error():
    assert supplement("HTP").supports("Conv2d")
    with pytest.raises(UsageError, match="unknown backend 'htpp'") as caught:
        supplement("htpp")
    assert "htp" in caught.value.fix


def test_a_custom_collection_reads_and_keeps_to_the_schema(written):
    path = written(CUSTOM)
    assert validate_xml(path) == []
    collection = read_collection(path)
    (scale,) = collection.opdefs
    assert (collection.package, collection.domain, collection.version) == ("ExamplePackage", "example", "1.0")
    assert scale.inputs[0].dtypes == (dt.FLOAT32, dt.UFIXED8)
    assert scale.inputs[0].layout == "NHWC"
    assert scale.inputs[0].mandatory
    assert scale.outputs[0].dtypes == ()
    assert scale.params["mode"].enumeration == ("SLOW", "FAST")
    assert scale.use_default_translation
    assert scale.backends == ("HTP",)
    (table,) = collection.supplements
    assert table.ops["Relu"][0].params["mode"].only_default


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        (
            "<Mandatory>True</Mandatory>",
            "<Mandatory>yes</Mandatory>",
            11,
            "'yes' is not an element of the set",
        ),
        ("<Mandatory>True</Mandatory>", "", 9, "input 'in[0]' has no <Mandatory>"),
        ("<Datatype>BACKEND_SPECIFIC</Datatype>", "", 19, "output 'out[0]' has no <Datatype>"),
        ("<Datatype>FLOAT_32</Datatype>", "<Datatype>FLOAT_33</Datatype>", 12, "FLOAT_33"),
        ("<Rank>4D</Rank>", "<Rank>4</Rank>", 14, "'4' is not an element of the set"),
        ("<Name>Relu</Name>", "", 5, "has no <Name>"),
        ('PackageName="ExamplePackage"', "", 3, "attribute 'PackageName' is required"),
        ('Type="Shape"', 'Type="Form"', 15, "'Form' is not an element of the set"),
        (
            "<SupportedBackend>HTP</SupportedBackend>",
            "<Backend>HTP</Backend>",
            34,
            "<Backend> is not expected",
        ),
        ("</OpDefCollection>", "", 46, "well-formed"),
    ],
)
def test_schema_errors_name_the_line(written, old, new, line, problem):
    assert old in CUSTOM
    path = written(CUSTOM.replace(old, new, 1))
    (only,) = validate_xml(path)
    assert problem in only.problem
    assert only.where == f"{path}:{line}"


def test_damaged_and_missing_files_are_told(written, tmp_path):
    with pytest.raises(ModelError, match="not well-formed"):
        read_collection(written("<OpDef"))
    with pytest.raises(ModelError, match="unknown data type 'FLOAT_33'"):
        read_collection(written(CUSTOM.replace("FLOAT_32", "FLOAT_33")))
    with pytest.raises(StorageError, match="cannot be read"):
        read_collection(tmp_path / "none.xml")
    with pytest.raises(StorageError, match="cannot be read"):
        validate_xml(tmp_path / "none.xml")


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("QNN_DATATYPE_SFIXED_POINT_4", dt.SFIXED4),
        ("FIXED_16", dt.UFIXED16),
        ("BOOL_8", dt.BOOL8),
        ("STRING", dt.STRING),
        ("QNN_DATATYPE_BFLOAT_16", dt.BFLOAT16),
        ("BACKEND_SPECIFIC", None),
    ],
)
def test_both_spellings_of_data_types(word, dtype):
    assert dtype_of(word) == dtype
