"""JSON configurations that break a rule: each has one error, with its line and what to do."""

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
    (
        "array at the top",
        GOOD,
        "[]",
        1,
        "a configuration has to be an object, found an array",
        "UdoPackage_0",
    ),
    ("no package", GOOD, "{}", 1, "has no package", "UdoPackage_0"),
    (
        "package is an array",
        GOOD,
        '{\n"P": []}',
        2,
        "package 'P' has to be an object, found an array",
        '"Operators"',
    ),
    (
        "no braces of a package",
        GOOD,
        '{"Operators":\n[]}',
        1,
        "Operators does not stand inside of a package",
        "Udo",
    ),
    (
        "no name of the package",
        ',\n    "UDO_PACKAGE_NAME": "Filters"',
        "",
        2,
        "has no UDO_PACKAGE_NAME",
        "MyPackage",
    ),
    ("empty name", '"Filters"', '""', 26, "UDO_PACKAGE_NAME of package 'UdoPackage_0' is empty", "MyPackage"),
    (
        "name is a number",
        '"Filters"',
        "7",
        26,
        "has to be a string, found the number 7",
        '"UDO_PACKAGE_NAME": "..."',
    ),
    (
        "unknown field of a package",
        '"Operators"',
        '"operators"',
        3,
        "has no field 'operators'",
        "nearest: Operators",
    ),
    (
        "no operators",
        '"UdoPackage_0": {',
        '"A": {"UDO_PACKAGE_NAME": "A"}, "B": {',
        2,
        "'A' has no Operators",
        "add",
    ),
    (
        "empty operators",
        GOOD,
        '{"P": {"UDO_PACKAGE_NAME": "P",\n"Operators": []}}',
        2,
        "is empty",
        "one operator",
    ),
    (
        "operators is an object",
        GOOD,
        '{"P": {"UDO_PACKAGE_NAME": "P",\n"Operators": {}}}',
        2,
        "be an array",
        "[...]",
    ),
    (
        "operator is a string",
        GOOD,
        '{"P": {"UDO_PACKAGE_NAME": "P",\n"Operators": ["Blur"]}}',
        2,
        "operator 0 of package 'P' has to be an object, found the string 'Blur'",
        '"type"',
    ),
    ("no type", '"type": "Blur",', "", 4, "operator 0 of package 'Filters' has no type", '"type": "MyOp"'),
    ("empty type", '"Blur"', '""', 5, "type of operator 0 of package 'Filters' is empty", "in the model"),
    ("type is a number", '"Blur"', "1.5", 5, "has to be a string, found the number 1.5", "..."),
    ("type with a domain", '"Blur"', '"com.me::Blur"', 5, "has a domain: 'com.me::Blur'", '"type": "Blur"'),
    (
        "unknown field of an operator",
        '"core_types"',
        '"cores"',
        22,
        "has no field 'cores'",
        "nearest: core_types",
    ),
    (
        "no core_types",
        '"core_types": ["CPU", "DSP"],\n',
        "",
        4,
        "operator 'Blur' has no core_types",
        '["CPU"]',
    ),
    ("empty core_types", '"core_types": ["CPU", "DSP"]', '"core_types": []', 22, "is empty", '["CPU"]'),
    (
        "core_types is a string",
        '["CPU", "DSP"]',
        '"CPU"',
        22,
        "has to be an array, found the string 'CPU'",
        "[...]",
    ),
    ("unknown core", '["CPU", "DSP"]', '["CPU", "DPS", "DSP"]', 22, "unknown 'DPS'", "nearest: DSP"),
    ("core in small letters", '["CPU", "DSP"]', '["cpu", "DSP"]', 22, "unknown 'cpu'", "nearest: CPU"),
    ("core twice", '["CPU", "DSP"]', '["CPU", "DSP", "CPU"]', 22, "has 'CPU' twice", "remove one"),
    (
        "core is a number",
        '["CPU", "DSP"]',
        '["CPU", "DSP", 3]',
        22,
        "each of core_types",
        "strings like 'CPU'",
    ),
    (
        "unknown architecture",
        '"v68"',
        '"v67"',
        23,
        "dsp_arch_types of operator 'Blur' has unknown 'v67'",
        "one of v60, v65, v66, v68",
    ),
    ("architecture is a number", '"v68"', "68", 23, "has to be a string, found the number 68", "'v60'"),
    ("architecture twice", '"v68"', '"v66"', 23, "has 'v66' twice", "remove one"),
    (
        "empty inputs",
        GOOD[GOOD.index('{"name": "data"') : GOOD.index('],\n        "outputs')],
        "",
        6,
        "has no inputs",
        "one input",
    ),
    (
        "no outputs",
        f'"outputs": [\n          {RESULT}\n        ],',
        "",
        4,
        "operator 'Blur' has no outputs",
        "one output",
    ),
    ("empty outputs", RESULT, "", 12, "operator 'Blur' has no outputs", "describe one output"),
    (
        "outputs is an object",
        f"[\n          {RESULT}\n        ]",
        "{}",
        12,
        "has to be an array, found an obj",
        "[...]",
    ),
    ("input is a string", WEIGHT, '"weight"', 10, "input 1 of operator 'Blur' has to be an object", '"name"'),
    (
        "unknown field of an input",
        '"tensor_layout"',
        '"layout"',
        9,
        "input 'data' of operator 'Blur' has no field",
        "nearest: tensor_layout",
    ),
    ("name of an input is null", '"name": "weight"', '"name": null', 10, "be a string, found null", "..."),
    ("no data type", RESULT, '{"name": "result"}', 13, "has no data_type or per_core_data_types", "FLOAT_32"),
    (
        "both kinds of data types",
        RESULT,
        '{"name": "result", "data_type": "FLOAT_32",\n"per_core_data_types": {"CPU": "INT_8"}}',
        14,
        "has both data_type and per_core_data_types",
        "remove one",
    ),
    (
        "unknown data type",
        '"data_type": "INT_32"',
        '"data_type": "INT32"',
        16,
        "unknown: 'INT32'",
        "nearest: ",
    ),
    (
        "data type in small letters",
        '"data_type": "INT_32"',
        '"data_type": "int_32"',
        16,
        "'int_32'",
        "nearest: INT_32",
    ),
    (
        "data type is a list",
        '"data_type": "INT_32"',
        '"data_type": ["INT_32"]',
        16,
        "found an array",
        "FLOAT_32",
    ),
    (
        "data type by backend",
        '"data_type": "INT_32"',
        '"data_type": "BACKEND_SPECIFIC"',
        16,
        "unknown",
        "per_core",
    ),
    (
        "unknown data type of a core",
        '"DSP": "UINT_8"',
        '"DSP": "UINT8"',
        8,
        "per_core_data_types, DSP,",
        "UINT_8",
    ),
    (
        "types of an unknown core",
        '"DSP": "UINT_8"',
        '"DSP": "UINT_8", "HTP": "UINT_8"',
        8,
        "unknown core 'HTP'",
        "use one",
    ),
    (
        "a core without type",
        '"FLOAT_32",\n                                                   "DSP": "UINT_8"},',
        '"FLOAT_32"},',
        7,
        "per_core_data_types of input 'data' of operator 'Blur' has no DSP",
        '"DSP": "FLOAT_32"',
    ),
    (
        "types of cores are none",
        RESULT,
        '{"name": "result", "per_core_data_types": {}}',
        13,
        "is empty",
        '"CPU"',
    ),
    (
        "types of cores are a string",
        RESULT,
        '{"name": "result", "per_core_data_types": "FLOAT_32"}',
        13,
        "has to be an object, found the string 'FLOAT_32'",
        "{...}",
    ),
    (
        "type of a core is a number",
        '"DSP": "UINT_8"',
        '"DSP": 8',
        8,
        "be a string, found the number 8",
        "FLOAT_32",
    ),
    (
        "types of cores for a scalar",
        RADIUS,
        '"name": "radius", "per_core_data_types": {"CPU": "INT_32"}',
        16,
        "scalar_param 'radius' of operator 'Blur' has no field 'per_core_data_types'",
        "data_type",
    ),
    (
        "static is a string",
        '"static": true',
        '"static": "true"',
        10,
        "has to be true or false",
        'write "static": true',
    ),
    (
        "static is a number",
        '"static": true',
        '"static": 1',
        10,
        "be true or false, found the number 1",
        'write "static": true',
    ),
    (
        "static output",
        RESULT,
        RESULT[:-1] + ', "static": true}',
        13,
        "output 'result' of operator 'Blur' is static",
        "re",
    ),
    (
        "field of ours without its prefix",
        RESULT,
        RESULT[:-1] + ', "mandatory": true}',
        13,
        "'mandatory'",
        "xdlc_mandatory",
    ),
    ("static scalar", RADIUS, RADIUS + ', "static": true', 16, "has no field 'static'", "use one of"),
    (
        "repeated parameter",
        RADIUS,
        RADIUS + ', "repeated": true',
        16,
        "has no field 'repeated'",
        "use one of",
    ),
    (
        "repeated is null",
        '"static": true',
        '"repeated": null',
        10,
        "has to be true or false, found null",
        "true",
    ),
    (
        "default of an output",
        RESULT,
        RESULT[:-1] + ', "default": 1}',
        13,
        "has no field 'default'",
        "use one of",
    ),
    (
        "unknown layout",
        '"NHWC"',
        '"NWHC"',
        9,
        "tensor_layout of input 'data' of operator 'Blur' is unknown",
        "NHWC",
    ),
    ("layout is a list", '"NHWC"', '["NHWC"]', 9, "has to be a string, found an array", "..."),
    (
        "parameter without name",
        '{"name": "radius", ',
        "{",
        16,
        "scalar_param 0 of operator 'Blur' has no name",
        "add",
    ),
    (
        "parameter with empty name",
        '"radius"',
        '""',
        16,
        "scalar_param 0 of operator 'Blur' has no name",
        "add",
    ),
    ("parameter twice", '"border"', '"radius"', 17, "two parameters 'radius'; first on line 16", "rename"),
    (
        "scalar and tensor of one name",
        '"taps"',
        '"radius"',
        20,
        "two parameters 'radius'; first on line 16",
        "rename",
    ),
    (
        "default in quotes",
        '"default": 1',
        '"default": "1"',
        16,
        "has to be a number, found the string '1'",
        "without q",
    ),
    (
        "default of a whole number is real",
        '"default": 1',
        '"default": 1.5',
        16,
        "has to be a whole number",
        "write a",
    ),
    (
        "default of a number is true",
        '"default": 1',
        '"default": true',
        16,
        "has to be a number, found true",
        "write a",
    ),
    (
        "default of a scalar is an array",
        '"default": 1',
        '"default": [1]',
        16,
        "one value, as the parameter",
        "write",
    ),
    (
        "default is an object",
        '"default": 1',
        '"default": {}',
        16,
        "has to be a number, found an object",
        "write a n",
    ),
    (
        "default of a string is a number",
        '"zero"',
        "0",
        17,
        "has to be a string, found the number 0",
        "write a string",
    ),
    ("default of a string with blanks", '"zero"', '" zero"', 17, "begins or ends with a blank", "remove"),
    (
        "default of a tensor is a number",
        TAPS,
        '"default": 1',
        20,
        "has to be an array like [[1, 2], [3, 4]]",
        "write",
    ),
    (
        "default of a tensor has a string",
        TAPS,
        '"default": [1, "2"]',
        20,
        "has to be a number, found the string '2'",
        "without quotes",
    ),
    (
        "unknown way of quantization",
        '"static": true',
        '"quantization_mode": "QNN"',
        10,
        "is unknown: 'QNN'",
        "use TF",
    ),
    (
        "path is a number",
        '"Filters"',
        '"Filters", "UDO_PACKAGE_PATH": 1',
        26,
        "has to be a string",
        '"UDO_PACKAGE_PATH"',
    ),
    (
        "package name is no identifier",
        '"Filters"',
        '"My-Filters"',
        26,
        "'My-Filters' has '-'",
        "C++ identifier",
    ),
    ("reserved package", '"Filters"', '"qti.aisw"', 26, "'qti.aisw' is reserved", "a name of its own"),
    ("type is no identifier", '"Blur"', '"2Blur"', 5, "begins with a digit", "C++ identifier"),
    (
        "input is no identifier",
        '"weight"',
        '"the weight"',
        10,
        "input name 'the weight' has ' '",
        "C++ identifier",
    ),
    ("parameter is a keyword", '"radius"', '"int"', 16, "'int'", "identifier"),
    ("inputs of one name", '"weight"', '"data"', 10, "'data'", "rename"),
    ("input named like an output", '"weight"', '"result"', 13, "'result'", "rename"),
    (
        "default out of range",
        '"INT_32", "default": 1',
        '"INT_8", "default": 300',
        16,
        "'300'",
        "correct the default",
    ),
    ("default is ragged", TAPS, '"default": [[1, 2], [3]]', 20, "differ in length", "correct the default"),
    ("default is empty", TAPS, '"default": []', 20, "at least one element", "correct the default"),
    (
        "input is optional before a mandatory one",
        '"tensor_layout"',
        '"default": [1], "tensor_layout"',
        10,
        "mandatory",
        "",
    ),
    ("repeated input is not the last", '"tensor_layout"', '"repeated": true, "tensor_layout"', 9, "last", ""),
    ("tensor of strings", WEIGHT, '{"name": "weight", "data_type": "STRING"}', 10, "string", ""),
    ("parameter of strings", '"FLOAT_32", "default": [[1, 2], [3, 4]]', '"STRING"', 20, "string", ""),
    (
        "type twice",
        "      }\n    ],",
        '      }, {"type": "Blur",\n"inputs": [' + RESULT.replace("result", "a") + "],"
        '"outputs": [' + RESULT + '], "core_types": ["CPU"]}\n    ],',
        24,
        "op 'Blur' is there twice",
        "rename",
    ),
    (
        "default is no enumerator",
        '"INT_32", "default": 1',
        '"INT_32", "xdlc_enumeration": ["A"], "default": "B"',
        16,
        "'B'",
        "correct the default",
    ),
    (
        "replaces no native op",
        '"core_types"',
        '"xdlc_use_default_translation": true, "core_types"',
        22,
        "QNN has no operation of this name",
        "",
    ),
    (
        "unknown backend",
        '"core_types"',
        '"xdlc_backends": ["CPUS"], "core_types"',
        22,
        "'CPUS'",
        "nearest: CPU",
    ),
    (
        "unknown rank",
        RESULT,
        RESULT[:-1] + ', "xdlc_rank": "5D"}',
        13,
        "xdlc_rank of output 'result'",
        "nearest: ",
    ),
    (
        "unknown kind of constraint",
        RESULT,
        RESULT[:-1] + ', "xdlc_constraints": [{"type": "Size"}]}',
        13,
        "'Size'",
        "use",
    ),
    (
        "description of two kinds",
        RESULT,
        RESULT[:-1] + ', "xdlc_description": [{"code": "a", "content": "b"}]}',
        13,
        "has content or code",
        "content",
    ),
    (
        "order of unknown parameters",
        '"core_types"',
        '"xdlc_order": ["taps", "tap"], "core_types"',
        22,
        "'tap'",
        "taps",
    ),
    (
        "enumerator is a number",
        '"INT_32", "default": 1',
        '"INT_32", "xdlc_enumeration": [1]',
        16,
        "each of xdlc_enu",
        "a",
    ),
    (
        "unknown supplement",
        '"Operators"',
        '"xdlc_supplements": [{"backend": "HTP", "ops": []}], "Operators"',
        3,
        "supplement for 'HTP' has no field 'ops'",
        "nearest: Operators",
    ),
    (
        "supplement of an unknown op",
        '"Operators"',
        '"xdlc_supplements": [{"backend": "CPU", "Operators": [{"type": "Blurs"}]}], "Operators"',
        3,
        "'Blurs'",
        "Blur",
    ),
]


def problems(path: Path, text: str) -> list[XdlcError]:
    path.write_text(text)
    with pytest.raises(XdlcError) as caught:
        read(path)
    return list(each_problem(caught.value))


@pytest.mark.parametrize(
    ("old", "new", "line", "problem", "fix"), [c[1:] for c in BAD], ids=[c[0] for c in BAD]
)
def test_a_broken_rule_is_one_error_with_its_line(
    old: str, new: str, line: int, problem: str, fix: str, tmp_path: Path
) -> None:
    assert old in GOOD
    path = tmp_path / "filters.json"
    (found,) = problems(path, GOOD.replace(old, new, 1))
    assert isinstance(found, ModelError)
    assert found.where == f"{path}:{line}"
    assert problem in found.problem
    assert found.fix
    assert fix in found.fix


def test_the_good_one_is_good(tmp_path: Path) -> None:
    (tmp_path / "filters.json").write_text(GOOD)
    (filters,) = read(tmp_path / "filters.json")
    assert filters.package == "Filters"


def test_all_problems_come_in_one_run(tmp_path: Path) -> None:
    text = GOOD.replace('"INT_32"', '"INT32"').replace('"v66"', '"v6"').replace('"static"', '"statics"')
    found = problems(tmp_path / "filters.json", text)
    assert [str(one.where).rpartition(":")[2] for one in found] == ["10", "16", "23"]


@pytest.mark.parametrize("order", ['[""]', "[1]", '["radius"]'])
def test_an_order_of_no_parameters(order: str, tmp_path: Path) -> None:
    start, end = GOOD.index('        "scalar_params"'), GOOD.index('        "core_types"')
    text = f'{GOOD[:start]}        "xdlc_order": {order},\n{GOOD[end:]}'
    (found,) = problems(tmp_path / "filters.json", text)
    assert str(found.where).endswith("filters.json:15")
    assert "orders parameters, and there are none" in found.problem
