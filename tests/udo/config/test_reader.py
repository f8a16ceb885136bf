"""What JSON configurations come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xdlc.errors import ModelError
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, STRING, UFIXED8, UINT8
from xdlc.opdefs.model import Constraint, DescriptionPart, OpDef, ParamDef, Reference, TensorDef
from xdlc.udo.config import read, read_config

TEMPLATE = """{
    "UdoPackage_0":
    {
        "Operators": [
            {
                "type": "%s",
                "inputs":[
                    {"name":"", "per_core_data_types":{"CPU":"FLOAT_32", "GPU":"FLOAT_32", "DSP":"UINT_8"},
                    "static": true, "tensor_layout": "NHWC"},
                    {"name":"", "data_type": "FLOAT_32",
                    "static": true, "tensor_layout": "NHWC"}%s
                ],
                "outputs":[
                    {"name":"", "per_core_data_types":{"CPU":"FLOAT_32", "GPU":"FLOAT_32", "DSP":"UINT_8"}},
                    {"name":"", "data_type": "FLOAT_32"}
                ],
                "scalar_params": [
                    {"name":"scalar_param_1", "data_type": "INT_32"}
                ],
                "tensor_params": [
                    {"name":"tensor_param_1", "data_type": "FLOAT_32", "tensor_layout": "NHWC"}%s
                ],
                "core_types": ["CPU", "GPU", "DSP"],
                "dsp_arch_types": ["v66", "v68", "v69", "v73"]
            }
        ],
        "UDO_PACKAGE_NAME": "MyCustomUdoPackage"
    }
}
"""
"""The vendor's template, with what its user fills in."""

BLUR = '"inputs": [{"data_type": "FLOAT_32"}], "outputs": [{"data_type": "FLOAT_32"}], "core_types": ["CPU"]'


def package(name: str, *types: str, more: str = "") -> str:
    operators = ",\n".join(f'{{"type": "{type}", {BLUR}{more}}}' for type in types)
    return f'{{"Operators": [{operators}], "UDO_PACKAGE_NAME": "{name}"}}'


def write(path: Path, *packages: str) -> Path:
    path.write_text("{" + ",\n".join(f'"UdoPackage_{i}": {text}' for i, text in enumerate(packages)) + "}")
    return path


def only(path: Path) -> OpDef:
    (collection,) = read(path)
    (definition,) = collection.opdefs
    return definition


def test_the_template_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(TEMPLATE % ("MyOp", "", ""))
    (collection,) = read(path)
    assert (collection.package, collection.domain, collection.version) == ("MyCustomUdoPackage", "", "1.0")
    (definition,) = collection.opdefs
    shared = {"mandatory": True, "rank": None}
    assert definition == OpDef(
        "MyOp",
        "MyCustomUdoPackage",
        (
            TensorDef("in[0]", dtypes=(), layout="NHWC", is_static=True, **shared),
            TensorDef("in[1]", dtypes=(FLOAT32,), layout="NHWC", is_static=True, **shared),
        ),
        (TensorDef("out[0]", dtypes=(), **shared), TensorDef("out[1]", dtypes=(FLOAT32,), **shared)),
        {
            "scalar_param_1": ParamDef("scalar_param_1", True, (INT32,), 0),
            "tensor_param_1": ParamDef("tensor_param_1", True, (FLOAT32,), None, layout="NHWC"),
        },
        backends=("CPU", "GPU", "DSP_V66", "DSP_V68", "DSP_V69", "DSP_V73"),
    )
    types = {
        table.backend: [(name, tensor.dtypes) for name, tensor in (op.inputs | op.outputs).items()]
        for table in collection.supplements
        for op in table.ops["MyOp"]
    }
    assert types == {
        "CPU": [("in[0]", (FLOAT32,)), ("out[0]", (FLOAT32,))],
        "GPU": [("in[0]", (FLOAT32,)), ("out[0]", (FLOAT32,))],
        "DSP": [("in[0]", (UINT8,)), ("out[0]", (UINT8,))],
    }
    assert all(table.supported == frozenset() for table in collection.supplements)


def test_the_template_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(TEMPLATE % ("MyOp", ",", ","))
    config = read_config(path)
    assert config.collections[0].opdefs[0].name == "MyOp"
    (notice,) = config.notices
    assert notice.startswith(f"{path}:11: ")
    assert "lines 21" in notice


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ('"data_type": "INT_32", "default": -3', "-3"),
        ('"data_type": "FLOAT_32", "default": 1e-3', "1e-3"),
        ('"data_type": "BOOL_8", "default": 0', "0"),
        ('"data_type": "BOOL_8", "default": 1', "1"),
        ('"data_type": "BOOL_8", "default": true', "1"),
        ('"data_type": "BOOL_8", "default": false', "0"),
        ('"data_type": "STRING", "default": "edge"', "edge"),
        ('"data_type": "STRING", "default": "1.5"', "1.5"),
        ('"data_type": "UINT_32", "xdlc_enumeration": ["MIN", "MAX"], "default": "MAX"', "MAX"),
        ('"data_type": "UINT_32", "xdlc_enumeration": ["MIN", "MAX"], "default": 1', "1"),
        ('"xdlc_data_types": ["INT_32", "FLOAT_32"], "default": 1.5', "1.5"),
        ('"xdlc_data_types": ["INT_32", "STRING"], "default": "a"', "a"),
    ],
)
def test_defaults_of_scalars(entry: str, text: str, tmp_path: Path) -> None:
    more = f', "scalar_params": [{{"name": "p", {entry}}}]'
    param = only(write(tmp_path / "c.json", package("P", "Blur", more=more))).params["p"]
    assert (param.default, param.mandatory, param.rank) == (text, False, 0)


def test_defaults_of_tensors(tmp_path: Path) -> None:
    more = (
        ', "tensor_params": [{"name": "p", "data_type": "INT_32", "default": [[1,2],[3, 4]]},'
        '{"name": "q", "data_type": "BOOL_8", "default": [true, 0]}]'
    )
    params = only(write(tmp_path / "c.json", package("P", "Blur", more=more))).params
    assert [params[name].default for name in "pq"] == ["[[1, 2], [3, 4]]", "[1, 0]"]
    assert params["q"].dtypes == (BOOL8,)


@pytest.mark.parametrize("default", ["[0]", "0"])  # a number stands for every element
def test_an_input_with_a_default_is_optional(default: str, tmp_path: Path) -> None:
    inputs = (
        '{"name": "x", "data_type": "FIXED_8"},'
        f'{{"repeated": true, "default": {default}, "data_type": "FLOAT_32"}}'
    )
    text = (
        f'{{"UDO_PACKAGE_NAME": "P", "Operators": [{{"type": "Join", "inputs": [{inputs}],'
        '"outputs": [{"repeated": true, "data_type": "FLOAT_32"}], "core_types": ["CPU"]}]}'
    )
    definition = only(write(tmp_path / "c.json", text))
    assert definition.inputs == (
        TensorDef("x", True, (UFIXED8,), None),
        TensorDef("in[1]", False, (FLOAT32,), None, default=default, repeated=True),
    )
    assert definition.outputs[0].repeated


def test_fields_of_ours(tmp_path: Path) -> None:
    more = (
        ', "scalar_params": [{"name": "mode",'
        '"xdlc_data_types": ["UINT_32", "INT_32"], "xdlc_mandatory": false,'
        '"xdlc_enumeration": ["A", "B"], "xdlc_description": "How"}],'
        '"tensor_params": [{"name": "taps", "data_type": "FLOAT_32",'
        '"xdlc_rank": "2D", "xdlc_shape": "[k, 2]",'
        '"xdlc_constraints": [{"id": "1", "type": "Shape", "text": "k > 0"}]}],'
        '"xdlc_description": ["Blurs.", {"code": "y = x"}, {"content": "Fast."}],'
        '"xdlc_references": [{"source": "ONNX", "url": "https://onnx.ai"}],'
        '"xdlc_use_default_translation": true, "xdlc_backends": ["CPU", "HTP"]'
    )
    text = package("P", "Relu", more=more)[:-1] + ', "xdlc_domain": "com.me", "xdlc_version": "2.1"}'
    (collection,) = read(write(tmp_path / "c.json", text))
    (definition,) = collection.opdefs
    assert (collection.domain, collection.version) == ("com.me", "2.1")
    assert definition.description == (
        DescriptionPart("Blurs."),
        DescriptionPart("y = x", is_code=True),
        DescriptionPart("Fast."),
    )
    assert definition.references == (Reference("ONNX", "https://onnx.ai"),)
    assert definition.use_default_translation
    assert definition.backends == ("CPU", "HTP")
    mode, taps = definition.params.values()
    assert (mode.mandatory, mode.enumeration, [d.name for d in mode.dtypes]) == (
        False,
        ("A", "B"),
        ["uint32", "int32"],
    )
    assert mode.description == (DescriptionPart("How"),)
    assert (taps.rank, taps.text, taps.constraints) == (2, "[k, 2]", (Constraint("1", "Shape", "k > 0"),))


@pytest.mark.parametrize(
    ("old", "new", "backends", "notice"),
    [
        ('["CPU"]', '["DSP"], "dsp_arch_types": []', ("DSP",), "is empty, so xdlc allows all architectures"),
        ('["CPU"]', '["DSP"]', ("DSP",), ""),
        ('["CPU"]', '["DSP", "GPU"], "dsp_arch_types": ["v75", "v65"]', ("DSP_V75", "DSP_V65", "GPU"), ""),
        ('["CPU"]', '["CPU"], "dsp_arch_types": ["v66"]', ("CPU",), ": core_types has no DSP"),
        ('["CPU"]', '["CPU"], "dsp_arch_types": []', ("CPU",), ""),
        ('["CPU"]', '["CPU"], "quantization_mode": "TF"', ("CPU",), "the quantizer's options decide"),
        (
            '["CPU"]',
            '["CPU"], "tensor_params": [{"name": "p", "data_type": "INT_8", "static": true}]',
            ("CPU",),
            "parameters are always",
        ),
        (
            '["CPU"]',
            '["CPU"], "scalar_params": [{"name": "p", "data_type": "INT_8", "default": ""}]',
            ("CPU",),
            "because it is empty",
        ),
        (
            '"data_type": "FLOAT_32"',
            '"per_core_data_types": {"CPU": "FLOAT_32", "GPU": "FLOAT_16"}',
            ("CPU",),
            "per_core_data_types of input 0 of operator 'Blur' for GPU, which core_types lacks",
        ),
        (
            '"data_type": "FLOAT_32"',
            '"per_core_data_type": {"CPU": "FLOAT_32"}',
            ("CPU",),
            "xdlc reads per_core_data_type of input 0 of operator 'Blur' as per_core_data_types",
        ),
        (
            '"Operators"',
            '"UDO_PACKAGE_PATH": "", "Operators"',
            ("CPU",),
            "UDO_PACKAGE_PATH of package 'UdoPackage_0'",
        ),
        (
            '"Operators"',
            '"SNPE_UDO_ROOT": "/opt", "Operators"',
            ("CPU",),
            "packages need no header of the SDK",
        ),
        ('"UdoPackage_0"', '"SNPE_UDO_ROOT": "/opt", ""', ("CPU",), "SNPE_UDO_ROOT has no effect"),
    ],
)
def test_nothing_is_silent(
    old: str, new: str, backends: tuple[str, ...], notice: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "c.json", package("P", "Blur"))
    path.write_text(path.read_text().replace(old, new, 1))
    config = read_config(path)
    assert config.collections[0].opdefs[0].backends == backends
    assert [text.startswith(f"{path}: ") for text in config.notices] == [True] * bool(notice)
    assert not notice or notice in config.notices[0]


def test_packages_under_any_key(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(f'{{"": {package("A", "Blur")},\n"second": {package("B", "Blur", "Sharpen")}}}')
    config = read_config(path)
    names = [(held.package, [op.name for op in held.opdefs]) for held in config.collections]
    assert names == [("A", ["Blur"]), ("B", ["Blur", "Sharpen"])]
    assert config.places == {
        (0, 0): f"{path}: [''].Operators[0]",
        (1, 0): f"{path}: second.Operators[0]",
        (1, 1): f"{path}: second.Operators[1]",
    }


def test_xml_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(
        '<OpDefCollection PackageName="P" Domain="d" Version="1.0"><OpDefList>\n<OpDef><Name>Blur</Name>'
        "<Input><Name>a</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype>"
        "<Shape><Rank>ND</Rank></Shape></Input><Output><Name>b</Name><Mandatory>true</Mandatory>"
        "<Datatype>FLOAT_32</Datatype><Shape><Rank>ND</Rank></Shape></Output>"
        "<SupportedBackend>CPU</SupportedBackend></OpDef></OpDefList></OpDefCollection>"
    )
    config = read_config(path)
    assert (config.collections[0].package, config.places) == ("P", {(0, 0): f"{path}:2"})
    assert config.notices == ()
    path.write_text(path.read_text().replace(' Domain="d" Version="1.0"', ""))
    assert read_config(path).notices == (f"{path}:1: <OpDefCollection> has no Version: xdlc uses 1.0",)
    path.write_text("<OpDefCollection\n")
    with pytest.raises(ModelError, match="well-formed"):
        read(path)


def test_strings_are_types_too(tmp_path: Path) -> None:
    more = ', "scalar_params": [{"name": "p", "data_type": "QNN_DATATYPE_STRING"}]'
    param: Any = only(write(tmp_path / "c.json", package("P", "Blur", more=more))).params["p"]
    assert (param.dtypes, param.mandatory) == ((STRING,), True)
