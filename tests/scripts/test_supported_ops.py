"""docs/reference/supported-ops.md says what the registries say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from scripts import supported_ops

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    figures = json.loads(supported_ops.FIGURES.read_text())
    if figures["onnx"] != onnx.__version__:
        pytest.skip(f"the page is about onnx {figures['onnx']}, installed is {onnx.__version__}")
    on_htp = json.loads(supported_ops.HTP_FIGURES.read_text())
    assert supported_ops.PAGE.read_text() == supported_ops.page(figures, on_htp), (
        "renew it: python scripts/supported_ops.py"
    )


def test_every_operator_is_on_it_once() -> None:
    names = [row.name for row in supported_ops.operators("")]
    assert names == sorted(set(names))
    assert {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain} <= {
        *names
    }
    rows = {row.name: row for row in supported_ops.operators("")}
    assert rows["Relu"].ways[0] == "QNN"
    assert rows["Relu"].versions == (6, 13, 14)
    assert rows["Det"].ways == ("host",)
    assert rows["Loop"].ways == ("control flow",)
    assert rows["SequenceAt"].ways == ("known",)
    assert (rows["StringSplit"].ways, rows["StringSplit"].refusal[:7]) == ((), "strings")
    assert "QNN" in {row.name: row for row in supported_ops.operators("com.microsoft")}["FusedMatMul"].ways


def test_figures_count_tests_of_one_operator(models: Any) -> None:
    def single(kind: str, shape: list[int]) -> Any:
        return models.make([onnx.helper.make_node(kind, ["x"], ["y"])], {"x": shape}, {"y": None})

    verdicts = [
        {"name": "relu", "ours": "right", "ops": ["Relu"]},
        {"name": "det", "ours": "right", "ops": ["Det"]},
        {"name": "det_nd", "ours": "refused", "ops": ["Det"]},
        {"name": "elu_expanded", "ours": "right", "ops": ["Add", "Exp"]},
    ]
    figures = supported_ops.figures(verdicts, {"relu": single("Relu", [2]), "det": single("Det", [2, 2])})
    assert figures["tests"] == {"right": 3, "refused": 1}
    assert figures["operators"] == {
        "Det": {"right": 1, "refused": 1, "types": ["xdlc::Det"]},
        "Relu": {"right": 1, "types": ["ElementWiseNeuron"]},
    }
    on_htp = {
        "onnxruntime-qnn": "2.7.0",
        "tests": {"right": 1, "refused": 2},
        "operators": {"Det": {"refused": 2, "why": ["no mapping"]}, "Relu": {"right": 1, "bound": 1}},
    }
    page = supported_ops.page(figures, on_htp)
    det = "| Det | none | host | xdlc::Det | 1 right, 1 refused | 2 refused | no mapping | ai.onnx | 11, 22 |"
    assert det in page
    assert "| 1 right | 1 right, 1 bound |  | ai.onnx |" in page
    assert "3 right, 1 refused." in page
