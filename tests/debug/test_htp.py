"""Debugger on the emulation: ops that HTP computes in another way."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import xdlc
from tests.support.faulty_ops import CASES, leave_out_forms
from tests.support.htp_models import needs_htp

pytestmark = needs_htp


@pytest.mark.parametrize("case", ["log-softmax-8", "pooled-signed-volume"])
def test_op_without_its_form_for_htp_is_named(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, feeds = CASES[case]()
    leave_out_forms(tmp_path, monkeypatch)
    wrong = xdlc.debug(model, [feeds], soc="sm8650").first_wrong
    assert wrong is not None
    assert wrong.op == "op"


def test_later_ops_are_right_on_wrong_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], name="sigmoid"),
        helper.make_node("Pad", ["s", "ends"], ["p"], name="pad", mode="edge"),
        helper.make_node("Tanh", ["p"], ["y"], name="tanh"),
    ]
    ends = helper.make_tensor("ends", 7, [8], [0, 0, 0, 1, 0, 0, 0, 1])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, (1, 4, 6, 8))],
        [helper.make_tensor_value_info("y", 1, None)],
        [ends],
    )
    opsets = [helper.make_opsetid("", 18)]
    model = xdlc.convert(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    leave_out_forms(tmp_path, monkeypatch)
    sample = {"x": np.random.default_rng(0).standard_normal((1, 4, 6, 8)).astype("f4")}
    report = xdlc.debug(model, [sample], soc="sm8650")
    assert [row.op for row in report.rows if row.is_wrong] == ["pad"]
    assert report.rows[-1].cumulative.db < 40
