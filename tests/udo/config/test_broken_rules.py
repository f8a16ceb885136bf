"""Each rule of a configuration, broken once: one error with place and fix."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.opdefs.user_configs import BLEND
from xdlc.errors import ModelError, XdlcError, each_problem
from xdlc.opdefs.xml_reader import parse_collection, read_valid, validate_xml
from xdlc.opdefs.xml_writer import write_collection
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
RADIUS = '"name": "radius", "data_type": "INT_32", "default": 1'
TABLE = tomllib.loads(Path(__file__).with_name("broken_rules.toml").read_text())


def problems(path: Path, text: str) -> list[XdlcError]:
    path.write_text(text)
    with pytest.raises(XdlcError) as caught:
        read(path)
    return list(each_problem(caught.value))


@pytest.mark.parametrize("name", TABLE["xml"])
def test_a_broken_rule_is_one_error_with_its_line(name: str, tmp_path: Path) -> None:
    old, new, at, problem = TABLE["xml"][name]
    assert old in BLEND
    text = BLEND.replace(old, new) if old == "OpDefCollection" else BLEND.replace(old, new, 1)
    line = text.count("\n", 0, text.index(at) if at else None) + 1
    path = tmp_path / "bad.xml"
    (error,) = problems(path, text)
    assert (error.problem.count(problem), error.where) == (1, f"{path}:{line}")
    assert error.fix
    assert [each.problem for each in validate_xml(path)] == [error.problem]


@pytest.mark.parametrize("name", TABLE["json"])
def test_a_broken_rule_is_one_error_with_its_path(name: str, tmp_path: Path) -> None:
    old, new, place, problem = TABLE["json"][name]
    old = GOOD if old == "GOOD" else old
    assert old in GOOD
    path = tmp_path / "filters.json"
    (error,) = problems(path, GOOD.replace(old, new, 1))
    assert isinstance(error, ModelError)
    assert error.where == (f"{path}: {place}" if place else str(path))
    assert problem in error.problem
    assert error.fix


def test_the_configurations_they_are_made_from_are_valid(tmp_path: Path) -> None:
    (tmp_path / "good.xml").write_text(BLEND)
    assert validate_xml(tmp_path / "good.xml") == []
    collection = read_valid(tmp_path / "good.xml")
    assert parse_collection(write_collection(collection).encode(), "written") == collection
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
