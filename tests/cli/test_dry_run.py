"""The dry run of the converter: what it prints and writes, and how it ends."""

import csv
import json
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from onnx import helper

from tests.support.commands import invoke as run_tool
from xdlc.cli.text import WIDTH
from xdlc.cli.tools import onnx_to_dlc
from xdlc.runtime.htp import library

LONG = "/encoder/layers.0/attention/self/" + "a_very_long_name_" * 8 + "Odd_17"


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_spec", lambda name: None)


def invoke(*words: object, code: int) -> Result:
    return run_tool(onnx_to_dlc.main, *words, code=code)


@pytest.fixture
def troubled(models: Any) -> Any:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Shape", ["w"], ["s"], "shape"),
        helper.make_node("Expand", ["r", "s"], ["e"], "expand"),
        helper.make_node("Det", ["e"], ["d"], "det"),
        helper.make_node("Odd", ["r"], ["o"], LONG, domain="acme"),
    ]
    model = models.make(nodes, {"x": [2, 2]}, {"d": None, "o": None}, {"w": np.ones((3, 2, 2), "f4")})
    model.opset_import.append(helper.make_opsetid("acme", 1))
    return models.save(model, "net.onnx")


def test_problems_and_counts(troubled: Any) -> None:
    result = invoke("-i", troubled, "--dry-run", code=4)
    lines = result.stdout.splitlines()
    assert lines[0] == f"{troubled}: 1 problem(s)"
    assert [line.strip() for line in lines[1:] if len(line) > WIDTH] == [LONG]
    assert "host-only ops  1: Det 1" in lines
    assert "nodes          5" in lines
    assert lines[-1] == "nothing written: dry run"
    assert not (troubled.parent / "net.dlc").exists()


def test_debug_shows_every_node(troubled: Any) -> None:
    text = invoke("-i", troubled, "--dry-run", "debug", code=4).stdout
    assert "  relu " in text
    assert "ElementWiseNeuron relu" in text
    assert "xdlc::Det" in text
    assert "(its result is known while converting)" in text
    assert "(it could not be imported)" in text
    brief = invoke("-i", troubled, "--dry-run", "info", code=4).stdout
    assert "ElementWiseNeuron relu" not in brief
    assert brief == invoke("-i", troubled, "--dry-run", code=4).stdout


def test_target_says_whose_verdict_it_is(troubled: Any, models: Any) -> None:
    text = invoke("-i", troubled, "--dry-run", "--target", "sm8650", code=4).stdout
    assert text.startswith("target sm8650 (v75); xdlc's tables of HTP judged the ops\n")
    assert "XD102" in text
    assert "by: xdlc = the converter" in text
    fine = invoke("-i", models.save(models.cnn()), "--dry-run", "--target", "sm8650", code=0).stdout
    assert "model.onnx: no problems" in fine
    assert {"  inputs", "  outputs"} <= set(fine.splitlines())
    host = invoke("-i", models.save(models.cnn()), "--dry-run", "--target", "sm8250", code=5).stdout
    assert "has no HTP" in " ".join(host.split())


def test_floats_on_a_soc_without_fp16_are_a_note(models: Any) -> None:
    words = ("-i", models.save(models.cnn()), "--dry_run", "--target", "qcs6490")
    report = json.loads(invoke(*words, "--json", code=0).stdout)
    assert report["problems"] == []
    assert "XD104" in " ".join(report["notices"])
    assert "notice: " in invoke(*words, code=0).stdout


def test_problems_as_json(troubled: Any) -> None:
    report = json.loads(invoke("-i", troubled, "--dry_run", "--json", "--cost", code=4).stdout)
    assert [problem["code"][:3] for problem in report["problems"]] == ["XD4"]
    assert "--cost" in report["notices"][-1]


def test_report_as_json(troubled: Any) -> None:
    path = troubled.parent / "report.json"
    invoke("-i", troubled, "--dry-run", "--report", path, code=4)
    report = json.loads(path.read_text())
    assert [problem["node"] for problem in report["problems"]] == [LONG]
    assert report["host_only"] == {"Det": 1}
    assert len(report["nodes"]) == 5
    assert report["exit_code"] == 4


def test_report_as_csv_starts_no_formula(models: Any) -> None:
    node = helper.make_node("Odd", ["x"], ["y"], "=1+1", domain="acme")
    model = models.make([node], {"x": [2]}, {"y": None})
    model.opset_import.append(helper.make_opsetid("acme", 1))
    path = models.folder / "report.csv"
    invoke("-i", models.save(model, "odd.onnx"), "--dry-run", "--report", path, code=4)
    heads, row = csv.reader(path.read_text().splitlines())
    assert heads == ["node", "op", "by", "code", "why", "fix"]
    assert row[0] == "'=1+1"


def test_flags_that_need_the_dry_run(troubled: Any) -> None:
    assert "require --dry-run" in invoke("-i", troubled, "--target", "sm8650", code=2).stderr
    invoke("-i", troubled, "--dry-run", "--report", troubled, code=2)
    invoke("-i", troubled, "--dry-run", "all", code=2)


def test_conversion_prints_the_same_table(troubled: Any) -> None:
    model = troubled.read_bytes()
    troubled.write_bytes(model)
    result = invoke("-i", troubled, code=4)
    assert LONG in result.stderr  # one problem stays a sentence
