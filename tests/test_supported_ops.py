"""docs/supported-ops.md says what the registries say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("supported_ops", ROOT / "scripts" / "supported_ops.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as dataclasses look there for the module that they are in
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    found = json.loads(script.FIGURES.read_text())
    if found["onnx"] != onnx.__version__:
        pytest.skip(f"the page is about onnx {found['onnx']}, installed is {onnx.__version__}")
    assert script.PAGE.read_text() == script.page(found), "renew it: python scripts/supported_ops.py"


def test_every_operator_is_on_it_once(script: ModuleType) -> None:
    names = [row.name for row in script.operators("")]
    assert names == sorted(set(names))
    assert {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain} <= {
        *names
    }
    rows = {row.name: row for row in script.operators("")}
    assert rows["Relu"].ways[0] == "QNN"
    assert rows["Relu"].versions == (6, 13, 14)
    assert rows["Det"].ways == ("host",)
    assert rows["Loop"].ways == ("control flow",)
    assert rows["SequenceAt"].ways == ("known",)
    assert (rows["StringSplit"].ways, rows["StringSplit"].refusal[:7]) == ((), "strings")
    assert "QNN" in {row.name: row for row in script.operators("com.microsoft")}["FusedMatMul"].ways


def test_figures_count_tests_of_one_operator(script: ModuleType, models: Any) -> None:
    def single(kind: str, shape: list[int]) -> Any:
        return models.make([onnx.helper.make_node(kind, ["x"], ["y"])], {"x": shape}, {"y": None})

    verdicts = [
        {"name": "relu", "ours": "right", "ops": ["Relu"]},
        {"name": "det", "ours": "right", "ops": ["Det"]},
        {"name": "det_nd", "ours": "refused", "ops": ["Det"]},
        {"name": "elu_expanded", "ours": "right", "ops": ["Add", "Exp"]},
    ]
    found = script.figures(verdicts, {"relu": single("Relu", [2]), "det": single("Det", [2, 2])})
    assert found["tests"] == {"right": 3, "refused": 1}
    assert found["operators"] == {
        "Det": {"right": 1, "refused": 1, "types": ["xdlc::Det"]},
        "Relu": {"right": 1, "types": ["ElementWiseNeuron"]},
    }
    page = script.page(found)
    assert "| host | xdlc::Det | 1 | 1 |" in page
    assert "3 right, 1 refused." in page
