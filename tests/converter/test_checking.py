"""``check`` reports every problem at once, the verdict, the fate of nodes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import xdlc
from tests.support.htp_models import needs_htp
from xdlc.errors import ConstraintError, ModelError, StorageError, UnsupportedOp, UsageError
from xdlc.runtime.htp import library

node = helper.make_node


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_spec", lambda name: None)


def troubled(models: Any, *, custom: bool = True) -> Path:
    """Return a model with unknown operators, a host's one and a wide integer."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv", pads=[1] * 4),
        node("Relu", ["c"], ["r"], "relu"),
        node("Det", ["m"], ["d"], "det"),
        node("Add", ["ids", "wide"], ["i"], "add"),
        node("Neg", ["x"], ["nobody"], "neg"),
    ]
    outputs: dict[str, Any] = {"r": None, "d": None, "i": None}
    if custom:
        nodes += [
            node("Odd", ["r"], ["o"], "odd", domain="acme"),
            node("Odder", ["o"], ["p"], "odder", domain="acme"),
        ]
        outputs["p"] = None
    model = models.make(
        nodes,
        {"x": [1, 3, 8, 8], "m": [2, 4, 4], "ids": [2]},
        outputs,
        {"w": np.ones((4, 3, 3, 3), "f4"), "wide": np.array([0, 2**40])},
        types={"ids": TensorProto.INT64, "i": TensorProto.INT64},
    )
    model.opset_import.append(helper.make_opsetid("acme", 1))
    return models.save(model)


def test_all_problems_are_listed_without_raising(models: Any) -> None:
    path = troubled(models)
    report = xdlc.check(path)
    assert [(each.node, each.op, each.kind) for each in report.problems] == [
        ("odd", "Odd", "UnsupportedOp"),
        ("odder", "Odder", "UnsupportedOp"),
    ]
    assert all(each.fix and each.by == "xdlc" and "acme::" in each.why for each in report.problems)
    assert report.exit_code == UnsupportedOp.exit_code
    assert (report.target, report.judge) == (None, None)
    with pytest.raises(xdlc.XdlcError) as caught:
        xdlc.convert(path)
    assert [each.problem for each in caught.value.problems] == [each.why for each in report.problems]


def test_what_could_be_converted_is_counted(models: Any) -> None:
    report = xdlc.check(troubled(models))
    assert report.qnn_ops["Conv2d"] == report.qnn_ops["ElementWiseNeuron"] == 1
    assert report.host_only == {"Det": 1}
    assert "Transpose: input 'x' is channel-first, the graph works channel-last" in report.inserted
    fates = {each.node: each for each in report.nodes}
    assert fates["conv"].ops == ("Conv2d conv",)
    assert fates["det"].ops[0].startswith("xdlc::Det ")
    assert fates["odd"].reason == fates["odder"].reason == "it could not be imported"
    assert fates["neg"].reason == "no output of the model needs it"


@pytest.mark.parametrize("installed", [pytest.param(True, marks=needs_htp), False])
def test_the_target_is_asked_about_what_could_be_converted(
    models: Any, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not installed:
        monkeypatch.setattr(library, "find_spec", lambda name: None)
    report = xdlc.check(troubled(models), target="sm8650")
    assert report.target == "sm8650 (v75)"
    assert ("vendor" in report.judge) is installed
    assert {each.node for each in report.problems} == {"odd", "odder", "det", "add"}
    wide = next(each for each in report.problems if each.node == "add")
    assert "1099511627776" in wide.why
    fine = xdlc.check(models.save(models.cnn(), "cnn.onnx"), target="SM8650")
    assert (fine.problems, fine.exit_code) == ((), 0)


@needs_htp
def test_the_vendors_refusals_name_the_source_nodes(models: Any) -> None:
    axes = ["a", "b", "c", "d", "e", "f"]
    nodes = [node("Tile", ["x", "times"], ["y"], "deep")]
    times = np.array([2, 1, 1, 1, 1, 1])
    path = models.save(models.make(nodes, {"x": axes}, {"y": None}, {"times": times}))
    report = xdlc.check(path, target="sm8650", input_dims={"x": (2, 3, 4, 5, 6, 7)})
    assert [(each.node, each.by, each.kind) for each in report.problems] == [
        ("deep", "vendor", "ConstraintError")
    ]
    assert "rank 6" in report.problems[0].why
    assert report.exit_code == ConstraintError.exit_code


@pytest.mark.usefixtures("tables")
def test_socs_differ(models: Any) -> None:
    path = models.save(models.cnn())
    assert xdlc.check(path, target="sm8650").problems == ()
    (problem,) = xdlc.check(path, target="sm8250").problems
    assert "no HTP" in problem.why
    report = xdlc.check(path, target="sm6450")
    assert not report.problems
    assert any("quantize" in notice for notice in report.notices)


def test_a_failing_library_is_one_more_problem(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from xdlc.runtime.htp import process, support

    monkeypatch.setattr(support, "_has_library", lambda: True)
    monkeypatch.setattr(process, "library_folder", lambda: models.folder)
    monkeypatch.setattr(process, "SERVICE", "no_module_of_this_name")
    report = xdlc.check(models.save(models.cnn()), target="sm8650")
    assert [each.kind for each in report.problems] == ["ChildDiedError"]
    assert report.exit_code == 7


def test_reports_are_values(models: Any) -> None:
    path = models.save(models.cnn())
    report = xdlc.check(path)
    assert report == xdlc.check(path)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.exit_code = 1  # type: ignore[misc]


def test_what_is_no_model_is_an_error(models: Any) -> None:
    with pytest.raises(StorageError):
        xdlc.check(models.folder / "gone.onnx")
    (models.folder / "text.onnx").write_text("hello")
    with pytest.raises(ModelError):
        xdlc.check(models.folder / "text.onnx")
    path = models.save(models.cnn())
    with pytest.raises(UsageError, match="sm8650"):
        xdlc.check(path, target="sm8560")
    with pytest.raises(UsageError, match="no option"):
        xdlc.check(path, bach=1)
    with pytest.raises(UsageError, match="input_dims names 'z'"):
        xdlc.check(path, input_dims={"z": (1,)})


@pytest.mark.parametrize("inputs", [[], ["x", "x"]])
def test_nodes_whose_inputs_do_not_fit_are_problems(models: Any, inputs: list[str]) -> None:
    path = models.save(models.make([node("Conv", inputs, ["y"], "conv")], {"x": [1, 3]}, {"y": None}))
    (problem,) = xdlc.check(path).problems
    assert problem.node == "conv"


def test_the_fix_of_a_misfit_names_the_checker_of_onnx(models: Any) -> None:
    path = models.save(
        models.make([node("Add", ["x", "z"], ["y"], "add")], {"x": [2], "z": [3]}, {"y": None})
    )
    (problem,) = xdlc.check(path).problems
    assert "onnx.checker" in str(problem.fix)
