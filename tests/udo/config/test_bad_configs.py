"""JSON configurations that break a rule: one error each, with place and fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdlc.errors import ModelError, XdlcError, each_problem
from xdlc.udo.config import read

GOOD = """{
  "UdoPackage_0": {
    "Operators": [
      {
        "type": "Blur",
        "inputs": [
          {"name": "data", "per_core_data_types": {"CPU": "FLOAT_32",
                                                   "DSP": "UINT_8"},
           "tensor_layout": "NHWC"},
          {"name": "weight", "data_type": "FLOAT_32", "static": true}
        ],
        "outputs": [
          {"name": "result", "data_type": "FLOAT_32"}
        ],
        "scalar_params": [
          {"name": "radius", "data_type": "INT_32", "default": 1},
          {"name": "border", "data_type": "STRING", "default": "zero"}
        ],
        "tensor_params": [
          {"name": "taps", "data_type": "FLOAT_32", "default": [[1, 2], [3, 4]]}
        ],
        "core_types": ["CPU", "DSP"],
        "dsp_arch_types": ["v66", "v68"]
      }
    ],
    "UDO_PACKAGE_NAME": "Filters"
  }
}
"""
RESULT = '{"name": "result", "data_type": "FLOAT_32"}'
WEIGHT = '{"name": "weight", "data_type": "FLOAT_32", "static": true}'
RADIUS = '"name": "radius", "data_type": "INT_32", "default": 1'
TAPS = '"default": [[1, 2], [3, 4]]'

BAD = [
    ("array at the top", GOOD, "[]", "", "a configuration must be an object, but is an array"),
    ("no package", GOOD, "{}", "", "has no package"),
    ("package is an array", GOOD, '{\n"P": []}', "P", "package 'P' must be an object, found an array"),
    ("no braces of a package", GOOD, '{"Operators":\n[]}', "Operators", "must be inside a package"),
    (
        "no name of the package",
        ',\n    "UDO_PACKAGE_NAME": "Filters"',
        "",
        "UdoPackage_0",
        "has no UDO_PACKAGE_NAME",
    ),
    (
        "empty name",
        '"Filters"',
        '""',
        "UdoPackage_0.UDO_PACKAGE_NAME",
        "UDO_PACKAGE_NAME of package 'UdoPackage_0' is empty",
    ),
    (
        "name is a number",
        '"Filters"',
        "7",
        "UdoPackage_0.UDO_PACKAGE_NAME",
        "must be a string, found the number 7",
    ),
    (
        "unknown field of a package",
        '"Operators"',
        '"operators"',
        "UdoPackage_0.operators",
        "has no field 'operators'",
    ),
    (
        "no operators",
        '"UdoPackage_0": {',
        '"A": {"UDO_PACKAGE_NAME": "A"}, "B": {',
        "A",
        "'A' has no Operators",
    ),
    (
        "empty operators",
        GOOD,
        '{"P": {"UDO_PACKAGE_NAME": "P",\n"Operators": []}}',
        "P.Operators",
        "is empty",
    ),
    (
        "operators is an object",
        GOOD,
        '{"P": {"UDO_PACKAGE_NAME": "P",\n"Operators": {}}}',
        "P.Operators",
        "be an array",
    ),
    (
        "operator is a string",
        GOOD,
        '{"P": {"UDO_PACKAGE_NAME": "P",\n"Operators": ["Blur"]}}',
        "P.Operators[0]",
        "operator 0 of package 'P' must be an object, found the string 'Blur'",
    ),
    (
        "no type",
        '"type": "Blur",',
        "",
        "UdoPackage_0.Operators[0]",
        "operator 0 of package 'Filters' has no type",
    ),
    (
        "type is a number",
        '"Blur"',
        "1.5",
        "UdoPackage_0.Operators[0].type",
        "must be a string, found the number 1.5",
    ),
    (
        "type with a domain",
        '"Blur"',
        '"com.me::Blur"',
        "UdoPackage_0.Operators[0].type",
        "has a domain: 'com.me::Blur'",
    ),
    (
        "unknown field of an operator",
        '"core_types"',
        '"cores"',
        "UdoPackage_0.Operators[0].cores",
        "has no field 'cores'",
    ),
    (
        "no core_types",
        '"core_types": ["CPU", "DSP"],\n',
        "",
        "UdoPackage_0.Operators[0]",
        "operator 'Blur' has no core_types",
    ),
    (
        "empty core_types",
        '"core_types": ["CPU", "DSP"]',
        '"core_types": []',
        "UdoPackage_0.Operators[0].core_types",
        "is empty",
    ),
    (
        "core_types is a string",
        '["CPU", "DSP"]',
        '"CPU"',
        "UdoPackage_0.Operators[0].core_types",
        "must be an array, found the string 'CPU'",
    ),
    (
        "unknown core",
        '["CPU", "DSP"]',
        '["CPU", "DPS", "DSP"]',
        "UdoPackage_0.Operators[0].core_types[1]",
        "unknown 'DPS'",
    ),
    (
        "core in small letters",
        '["CPU", "DSP"]',
        '["cpu", "DSP"]',
        "UdoPackage_0.Operators[0].core_types[0]",
        "unknown 'cpu'",
    ),
    (
        "core twice",
        '["CPU", "DSP"]',
        '["CPU", "DSP", "CPU"]',
        "UdoPackage_0.Operators[0].core_types[2]",
        "has 'CPU' twice",
    ),
    (
        "core is a number",
        '["CPU", "DSP"]',
        '["CPU", "DSP", 3]',
        "UdoPackage_0.Operators[0].core_types[2]",
        "each of core_types",
    ),
    (
        "unknown architecture",
        '"v68"',
        '"v67"',
        "UdoPackage_0.Operators[0].dsp_arch_types[1]",
        "dsp_arch_types of operator 'Blur' has unknown 'v67'",
    ),
    (
        "architecture is a number",
        '"v68"',
        "68",
        "UdoPackage_0.Operators[0].dsp_arch_types[1]",
        "must be a string, found the number 68",
    ),
    (
        "architecture twice",
        '"v68"',
        '"v66"',
        "UdoPackage_0.Operators[0].dsp_arch_types[1]",
        "has 'v66' twice",
    ),
    (
        "empty inputs",
        GOOD[GOOD.index('{"name": "data"') : GOOD.index('],\n        "outputs')],
        "",
        "UdoPackage_0.Operators[0].inputs",
        "is empty",
    ),
    (
        "no outputs",
        f'"outputs": [\n          {RESULT}\n        ],',
        "",
        "UdoPackage_0.Operators[0]",
        "operator 'Blur' has no outputs",
    ),
    ("empty outputs", RESULT, "", "UdoPackage_0.Operators[0].outputs", "is empty"),
    (
        "outputs is an object",
        f"[\n          {RESULT}\n        ]",
        "{}",
        "UdoPackage_0.Operators[0].outputs",
        "must be an array, found an obj",
    ),
    (
        "input is a string",
        WEIGHT,
        '"weight"',
        "UdoPackage_0.Operators[0].inputs[1]",
        "input 1 of operator 'Blur' must be an object",
    ),
    (
        "unknown field of an input",
        '"tensor_layout"',
        '"layout"',
        "UdoPackage_0.Operators[0].inputs[0].layout",
        "input 'data' of operator 'Blur' has no field",
    ),
    (
        "name of an input is null",
        '"name": "weight"',
        '"name": null',
        "UdoPackage_0.Operators[0].inputs[1].name",
        "be a string, found null",
    ),
    (
        "no data type",
        RESULT,
        '{"name": "result"}',
        "UdoPackage_0.Operators[0].outputs[0]",
        "has no data_type or per_core_data_types",
    ),
    (
        "both kinds of data types",
        RESULT,
        '{"name": "result", "data_type": "FLOAT_32",\n"per_core_data_types": {"CPU": "INT_8"}}',
        "UdoPackage_0.Operators[0].outputs[0].per_core_data_types",
        "has both data_type and per_core_data_types",
    ),
    (
        "unknown data type",
        '"data_type": "INT_32"',
        '"data_type": "INT32"',
        "UdoPackage_0.Operators[0].scalar_params[0].data_type",
        "unknown: 'INT32'",
    ),
    (
        "data type in small letters",
        '"data_type": "INT_32"',
        '"data_type": "int_32"',
        "UdoPackage_0.Operators[0].scalar_params[0].data_type",
        "'int_32'",
    ),
    (
        "data type is a list",
        '"data_type": "INT_32"',
        '"data_type": ["INT_32"]',
        "UdoPackage_0.Operators[0].scalar_params[0].data_type",
        "found an array",
    ),
    (
        "data type by backend",
        '"data_type": "INT_32"',
        '"data_type": "BACKEND_SPECIFIC"',
        "UdoPackage_0.Operators[0].scalar_params[0].data_type",
        "unknown",
    ),
    (
        "unknown data type of a core",
        '"DSP": "UINT_8"',
        '"DSP": "UINT8"',
        "UdoPackage_0.Operators[0].inputs[0].per_core_data_types.DSP",
        "per_core_data_types, DSP,",
    ),
    (
        "types of an unknown core",
        '"DSP": "UINT_8"',
        '"DSP": "UINT_8", "HTP": "UINT_8"',
        "UdoPackage_0.Operators[0].inputs[0].per_core_data_types.HTP",
        "unknown core 'HTP'",
    ),
    (
        "a core without type",
        '"FLOAT_32",\n                                                   "DSP": "UINT_8"},',
        '"FLOAT_32"},',
        "UdoPackage_0.Operators[0].inputs[0].per_core_data_types",
        "per_core_data_types of input 'data' of operator 'Blur' has no DSP",
    ),
    (
        "types of cores are none",
        RESULT,
        '{"name": "result", "per_core_data_types": {}}',
        "UdoPackage_0.Operators[0].outputs[0].per_core_data_types",
        "is empty",
    ),
    (
        "types of cores are a string",
        RESULT,
        '{"name": "result", "per_core_data_types": "FLOAT_32"}',
        "UdoPackage_0.Operators[0].outputs[0].per_core_data_types",
        "must be an object, found the string 'FLOAT_32'",
    ),
    (
        "type of a core is a number",
        '"DSP": "UINT_8"',
        '"DSP": 8',
        "UdoPackage_0.Operators[0].inputs[0].per_core_data_types.DSP",
        "be a string, found the number 8",
    ),
    (
        "types of cores for a scalar",
        RADIUS,
        '"name": "radius", "per_core_data_types": {"CPU": "INT_32"}',
        "UdoPackage_0.Operators[0].scalar_params[0].per_core_data_types",
        "scalar_param 'radius' of operator 'Blur' has no field 'per_core_data_types'",
    ),
    (
        "static is a string",
        '"static": true',
        '"static": "true"',
        "UdoPackage_0.Operators[0].inputs[1].static",
        "must be true or false",
    ),
    (
        "static is a number",
        '"static": true',
        '"static": 1',
        "UdoPackage_0.Operators[0].inputs[1].static",
        "be true or false, found the number 1",
    ),
    (
        "static output",
        RESULT,
        RESULT[:-1] + ', "static": true}',
        "UdoPackage_0.Operators[0].outputs[0].static",
        "output 'result' of operator 'Blur' is static",
    ),
    (
        "field of ours without its prefix",
        RESULT,
        RESULT[:-1] + ', "mandatory": true}',
        "UdoPackage_0.Operators[0].outputs[0].mandatory",
        "'mandatory'",
    ),
    (
        "static scalar",
        RADIUS,
        RADIUS + ', "static": true',
        "UdoPackage_0.Operators[0].scalar_params[0].static",
        "has no field 'static'",
    ),
    (
        "repeated parameter",
        RADIUS,
        RADIUS + ', "repeated": true',
        "UdoPackage_0.Operators[0].scalar_params[0].repeated",
        "has no field 'repeated'",
    ),
    (
        "repeated is null",
        '"static": true',
        '"repeated": null',
        "UdoPackage_0.Operators[0].inputs[1].repeated",
        "must be true or false, found null",
    ),
    (
        "default of an output",
        RESULT,
        RESULT[:-1] + ', "default": 1}',
        "UdoPackage_0.Operators[0].outputs[0].default",
        "has no field 'default'",
    ),
    (
        "unknown layout",
        '"NHWC"',
        '"NWHC"',
        "UdoPackage_0.Operators[0].inputs[0].tensor_layout",
        "tensor_layout of input 'data' of operator 'Blur' is unknown",
    ),
    (
        "layout is a list",
        '"NHWC"',
        '["NHWC"]',
        "UdoPackage_0.Operators[0].inputs[0].tensor_layout",
        "must be a string, found an array",
    ),
    (
        "parameter without name",
        '{"name": "radius", ',
        "{",
        "UdoPackage_0.Operators[0].scalar_params[0]",
        "scalar_param 0 of operator 'Blur' has no name",
    ),
    (
        "parameter with empty name",
        '"radius"',
        '""',
        "UdoPackage_0.Operators[0].scalar_params[0].name",
        "empty",
    ),
    (
        "parameter twice",
        '"border"',
        '"radius"',
        "UdoPackage_0.Operators[0].scalar_params[1].name",
        "two parameters",
    ),
    (
        "scalar and tensor of one name",
        '"taps"',
        '"radius"',
        "UdoPackage_0.Operators[0].tensor_params[0].name",
        "two parameters",
    ),
    (
        "default in quotes",
        '"default": 1',
        '"default": "1"',
        "UdoPackage_0.Operators[0].scalar_params[0].default",
        "must be a number, found the string '1'",
    ),
    (
        "default of a whole number is real",
        '"default": 1',
        '"default": 1.5',
        "UdoPackage_0.Operators[0].scalar_params[0].default",
        "must be a whole number",
    ),
    (
        "default of a number is true",
        '"default": 1',
        '"default": true',
        "UdoPackage_0.Operators[0].scalar_params[0].default",
        "must be a number, found true",
    ),
    (
        "default of a scalar is an array",
        '"default": 1',
        '"default": [1]',
        "UdoPackage_0.Operators[0].scalar_params[0].default",
        "one value, as the parameter",
    ),
    (
        "default is an object",
        '"default": 1',
        '"default": {}',
        "UdoPackage_0.Operators[0].scalar_params[0].default",
        "must be a number, found an object",
    ),
    (
        "default of a string is a number",
        '"zero"',
        "0",
        "UdoPackage_0.Operators[0].scalar_params[1].default",
        "must be a string, found the number 0",
    ),
    (
        "default of a string with blanks",
        '"zero"',
        '" zero"',
        "UdoPackage_0.Operators[0].scalar_params[1].default",
        "begins or ends with a blank",
    ),
    (
        "default of a tensor is a number",
        TAPS,
        '"default": 1',
        "UdoPackage_0.Operators[0].tensor_params[0].default",
        "must be an array like [[1, 2], [3, 4]]",
    ),
    (
        "default of a tensor has a string",
        TAPS,
        '"default": [1, "2"]',
        "UdoPackage_0.Operators[0].tensor_params[0].default[1]",
        "must be a number, found the string '2'",
    ),
    (
        "unknown way of quantization",
        '"static": true',
        '"quantization_mode": "QNN"',
        "UdoPackage_0.Operators[0].inputs[1].quantization_mode",
        "is unknown: 'QNN'",
    ),
    (
        "path is a number",
        '"Filters"',
        '"Filters", "UDO_PACKAGE_PATH": 1',
        "UdoPackage_0.UDO_PACKAGE_PATH",
        "must be a string",
    ),
    (
        "package name is no identifier",
        '"Filters"',
        '"My-Filters"',
        "UdoPackage_0.UDO_PACKAGE_NAME",
        "'My-Filters' has '-'",
    ),
    (
        "reserved package",
        '"Filters"',
        '"qti.aisw"',
        "UdoPackage_0.UDO_PACKAGE_NAME",
        "'qti.aisw' is reserved",
    ),
    ("type is no identifier", '"Blur"', '"2Blur"', "UdoPackage_0.Operators[0].type", "begins with a digit"),
    (
        "input is no identifier",
        '"weight"',
        '"the weight"',
        "UdoPackage_0.Operators[0].inputs[1].name",
        "input name 'the weight' has ' '",
    ),
    (
        "parameter is a keyword",
        '"radius"',
        '"int"',
        "UdoPackage_0.Operators[0].scalar_params[0].name",
        "'int'",
    ),
    ("inputs of one name", '"weight"', '"data"', "UdoPackage_0.Operators[0].inputs[1].name", "'data'"),
    (
        "input named like an output",
        '"weight"',
        '"result"',
        "UdoPackage_0.Operators[0].outputs[0].name",
        "'result'",
    ),
    (
        "default out of range",
        '"INT_32", "default": 1',
        '"INT_8", "default": 300',
        "UdoPackage_0.Operators[0].scalar_params[0].default",
        "'300'",
    ),
    (
        "default is ragged",
        TAPS,
        '"default": [[1, 2], [3]]',
        "UdoPackage_0.Operators[0].tensor_params[0].default",
        "differ in length",
    ),
    (
        "default is empty",
        TAPS,
        '"default": []',
        "UdoPackage_0.Operators[0].tensor_params[0].default",
        "at least one element",
    ),
    (
        "input is optional before a mandatory one",
        '"tensor_layout"',
        '"default": [1], "tensor_layout"',
        "UdoPackage_0.Operators[0].inputs[1]",
        "mandatory",
    ),
    (
        "repeated input is not the last",
        '"tensor_layout"',
        '"repeated": true, "tensor_layout"',
        "UdoPackage_0.Operators[0].inputs[0].repeated",
        "last",
    ),
    (
        "tensor of strings",
        WEIGHT,
        '{"name": "weight", "data_type": "STRING"}',
        "UdoPackage_0.Operators[0].inputs[1].data_type",
        "string",
    ),
    (
        "parameter of strings",
        '"FLOAT_32", "default": [[1, 2], [3, 4]]',
        '"STRING"',
        "UdoPackage_0.Operators[0].tensor_params[0].data_type",
        "string",
    ),
    (
        "type twice",
        "      }\n    ],",
        '      }, {"type": "Blur",\n"inputs": [' + RESULT.replace("result", "a") + "],"
        '"outputs": [' + RESULT + '], "core_types": ["CPU"]}\n    ],',
        "UdoPackage_0.Operators[1].type",
        "op 'Blur' is repeated",
    ),
    (
        "default is no enumerator",
        '"INT_32", "default": 1',
        '"INT_32", "xdlc_enumeration": ["A"], "default": "B"',
        "UdoPackage_0.Operators[0].scalar_params[0].default",
        "'B'",
    ),
    (
        "replaces no native op",
        '"core_types"',
        '"xdlc_use_default_translation": true, "core_types"',
        "UdoPackage_0.Operators[0].xdlc_use_default_translation",
        "QNN has no operation of this name",
    ),
    (
        "unknown backend",
        '"core_types"',
        '"xdlc_backends": ["CPUS"], "core_types"',
        "UdoPackage_0.Operators[0].xdlc_backends",
        "'CPUS'",
    ),
    (
        "unknown rank",
        RESULT,
        RESULT[:-1] + ', "xdlc_rank": "5D"}',
        "UdoPackage_0.Operators[0].outputs[0].xdlc_rank",
        "xdlc_rank of output 'result'",
    ),
    (
        "unknown kind of constraint",
        RESULT,
        RESULT[:-1] + ', "xdlc_constraints": [{"type": "Size"}]}',
        "UdoPackage_0.Operators[0].outputs[0].xdlc_constraints[0].type",
        "'Size'",
    ),
    (
        "description of two kinds",
        RESULT,
        RESULT[:-1] + ', "xdlc_description": [{"code": "a", "content": "b"}]}',
        "UdoPackage_0.Operators[0].outputs[0].xdlc_description[0]",
        "content or code",
    ),
    (
        "order of unknown parameters",
        '"core_types"',
        '"xdlc_order": ["taps", "tap"], "core_types"',
        "UdoPackage_0.Operators[0].xdlc_order[1]",
        "'tap'",
    ),
    (
        "enumerator is a number",
        '"INT_32", "default": 1',
        '"INT_32", "xdlc_enumeration": [1]',
        "UdoPackage_0.Operators[0].scalar_params[0].xdlc_enumeration[0]",
        "each of xdlc_enu",
    ),
    (
        "unknown supplement",
        '"Operators"',
        '"xdlc_supplements": [{"backend": "HTP", "ops": []}], "Operators"',
        "UdoPackage_0.xdlc_supplements[0].ops",
        "supplement for 'HTP' has no field 'ops'",
    ),
    (
        "supplement of an unknown op",
        '"Operators"',
        '"xdlc_supplements": [{"backend": "CPU", "Operators": [{"type": "Blurs"}]}], "Operators"',
        "UdoPackage_0.xdlc_supplements[0]",
        "'Blurs'",
    ),
]


def problems(path: Path, text: str) -> list[XdlcError]:
    path.write_text(text)
    with pytest.raises(XdlcError) as caught:
        read(path)
    return list(each_problem(caught.value))


@pytest.mark.parametrize(("old", "new", "place", "problem"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_a_broken_rule_is_one_error_with_its_place(
    old: str, new: str, place: str, problem: str, tmp_path: Path
) -> None:
    assert old in GOOD
    path = tmp_path / "filters.json"
    (found,) = problems(path, GOOD.replace(old, new, 1))
    assert isinstance(found, ModelError)
    assert found.where == (f"{path}: {place}" if place else str(path))
    assert problem in found.problem
    assert found.fix


def test_the_good_one_is_good(tmp_path: Path) -> None:
    (tmp_path / "filters.json").write_text(GOOD)
    (filters,) = read(tmp_path / "filters.json")
    assert filters.package == "Filters"


def test_a_misspelt_field_has_the_nearest_names(tmp_path: Path) -> None:
    text = GOOD.replace('"tensor_layout"', '"layout"').replace('"DSP"]', '"DPS"]')
    fixes = [found.fix or "" for found in problems(tmp_path / "filters.json", text)]
    assert ["tensor_layout" in fixes[0], "DSP" in fixes[1]] == [True, True]


def test_the_types_of_constraints_are_named(tmp_path: Path) -> None:
    path = tmp_path / "filters.json"
    rule = RADIUS + ', "xdlc_constraints": [{"id": "0", "type": "Rule", "text": "x"}]'
    path.write_text(GOOD.replace(RADIUS, rule))
    with pytest.raises(ModelError) as caught:
        read(path)
    assert str(caught.value.where).endswith("xdlc_constraints[0].type")
    assert str(caught.value.fix).startswith("use one of Number, Shape, ")


def test_all_problems_come_in_one_run(tmp_path: Path) -> None:
    text = GOOD.replace('"INT_32"', '"INT32"').replace('"v66"', '"v6"').replace('"static"', '"statics"')
    found = problems(tmp_path / "filters.json", text)
    assert [str(one.where).rpartition("Operators[0].")[2] for one in found] == [
        "inputs[1].statics",
        "scalar_params[0].data_type",
        "dsp_arch_types[0]",
    ]


@pytest.mark.parametrize("order", ['[""]', "[1]", '["radius"]'])
def test_an_order_of_no_parameters(order: str, tmp_path: Path) -> None:
    start, end = GOOD.index('        "scalar_params"'), GOOD.index('        "core_types"')
    text = f'{GOOD[:start]}        "xdlc_order": {order},\n{GOOD[end:]}'
    (found,) = problems(tmp_path / "filters.json", text)
    assert str(found.where).endswith("Operators[0].xdlc_order[0]")
