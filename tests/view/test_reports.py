"""Reports of other tools as overlays."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.htp_models import cnn
from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.ir import Model
from xdlc.view.content import side
from xdlc.view.findings import Findings
from xdlc.view.graphs import FIRST_WRONG
from xdlc.view.reports import add_report, report_findings

OPS = ("conv2d_conv", "elementwiseneuron_relu", "poolmax2d_pool", "reshape_flat", "fullyconnected_y")


def quant(**more: Any) -> dict[str, Any]:
    """Return a report of quantizing ``cnn``."""
    ops = [
        {
            "name": name,
            "nodes": [],
            "reason": None,
            "raised": None,
            "cumulative": 30.0 - place,
            "isolated": 40,
        }
        for place, name in enumerate(OPS)
    ]
    ops[1] |= {"reason": "kept as floats", "sensitivity_weights": 50.0, "sensitivity_activation": 40.0}
    histogram = {"low": -1.0, "width": 0.5, "counts": [1, 2, 3]}
    tensors = [
        {"name": "relu", "role": "activation", "seen_low": 0, "seen_high": 2.0, "histogram": histogram},
        {"name": "w", "role": "weight", "histogram": histogram},
    ]
    outputs = [{"name": "fc", "sqnr": 27.9, "judged": 28.16, "task": "top-1 equal"}]
    return {
        "schema": 1, "ops": ops, "tensors": tensors, "outputs": outputs, "verdict": "good",
        "warn_db": 20.0, "alarm_db": 10.0, **more,
    }  # fmt: skip


def costs(**more: Any) -> dict[str, Any]:
    """Return a report of the cost of ``cnn``."""
    traffic = {"dram_read": 100, "dram_write": 20, "vtcm_read": 5, "vtcm_write": 5}
    op = {
        "op": OPS[1], "nodes": [], "fused": [OPS[0]], "kernels": {"HMX": 3, "HVX": 1}, "traffic": traffic,
        "spilled": 7, "share": 0.25, "reason": "few channels",
    }  # fmt: skip
    port = {**op, "op": "(inputs and outputs)", "fused": []}
    device = {
        "graph": "cnn", "soc": "sm8650", "vtcm_mb": 8, "milliseconds": {"value": 2.0}, "notes": [],
        "ops": [port, op],
    }  # fmt: skip
    return {"schema": 1, "static": [], "devices": [device], "refused": [], **more}


def debug(**more: Any) -> dict[str, Any]:
    """Return a report of a debug run of ``cnn``."""
    rows = [
        {"tensor": "conv", "op": OPS[0], "fault": "", "cumulative": {"db": 50.0}, "isolated": {"db": None}},
        {"tensor": "relu", "op": OPS[1], "fault": "9 dB", "cumulative": {"db": 9.0}, "isolated": {"db": 9.0}},
        {"tensor": "pool", "op": OPS[2], "fault": "8 dB", "cumulative": {"db": 8.0}, "isolated": None},
    ]
    return {
        "schema": 1, "reference": "host", "candidate": "htp", "first_wrong": "relu", "tensors": rows, **more
    }  # fmt: skip


KINDS: list[Callable[..., dict[str, Any]]] = [quant, costs, debug]


def found(*reports: dict[str, Any], model: Model | None = None) -> Findings:
    findings = Findings()
    for report in reports:
        add_report(findings, model or cnn(quantized=True), json.loads(json.dumps(report)), "r.json")
    return findings


def by_key(findings: Findings) -> dict[str, Any]:
    return {overlay.key: overlay for overlay in findings.overlays}


def test_accuracy() -> None:
    findings = found(quant())
    overlays = by_key(findings)
    assert overlays["cumulative"].values == [[30, 29, 28, 27, 26]]
    assert overlays["cumulative"].marks == (10, 20)
    assert overlays["isolated"].low_is_bad
    assert overlays["isolated"].source == "r.json"
    assert findings.facts == [("accuracy", "good"), ("accuracy of fc", "28.2 dB, top-1 equal")]
    assert overlays["cumulative"].notes[0] == {1: "kept as floats"}
    assert overlays["sensitivity"].notes[0] == {1: "weights 50.0 dB, activation 40.0 dB"}
    assert not any(overlays["isolated"].notes)
    assert list(findings.activations[0]) == ["relu"]
    assert findings.notices == []


def test_a_ratio_of_0_db_is_a_figure_and_a_mark() -> None:
    report = quant(alarm_db=0.0)
    for op in report["ops"]:
        op["cumulative"] = 0.0
    overlay = by_key(found(report))["cumulative"]
    assert not overlay.is_empty
    assert overlay.marks == (0, 20)


def test_the_ratio_of_an_output_is_stated_once() -> None:
    report = quant()
    report["outputs"][0]["task"] = "top-1 equal in 100.0%, 28.2 dB"
    assert ("accuracy of fc", "top-1 equal in 100.0%, 28.2 dB") in found(report).facts


def test_two_reports_of_one_kind_are_both_shown() -> None:
    model, findings = cnn(quantized=True), Findings()
    for name in ("first.json", "second.json"):
        add_report(findings, model, quant(), name)
    shown = {overlay["key"]: overlay for overlay in side(model, findings=[findings])["overlays"]}
    assert [overlay["from"] for overlay in shown.values()][:4] == ["first.json"] * 2 + ["second.json"] * 2
    assert len({overlay["title"] for overlay in shown.values()}) == len(shown)


def test_histograms_of_activations_reach_the_page() -> None:
    only = side(cnn(quantized=True), findings=[found(quant())])
    rows = {tensor[0]: tensor[5] for tensor in only["graphs"][0]["tensors"]}
    assert rows["conv"] == 0
    record = only["graphs"][0]["stats"][rows["relu"] - 1]
    assert (record["of"], record["n"], record["bars"], record["high"]) == (
        "activations", 6, [-1, 0.5, [1, 2, 3]], 2,
    )  # fmt: skip
    assert only["graphs"][0]["stats"][rows["w"] - 1]["of"] == "weights"
    assert only["overlays"][0]["key"] == "cumulative"


def test_cost() -> None:
    findings = found(costs())
    overlays = by_key(findings)
    key = "sm8650:8MB"
    assert overlays[f"dram:{key}"].values[0][:2] == [None, 120]
    assert overlays[f"ms:{key}"].values[0][1] == 0.5
    assert overlays[f"spilled:{key}"].values[0][1] == 7
    assert overlays[f"engine:{key}"].values[0][:2] == ["fused", "matrix unit"]
    assert overlays[f"engine:{key}"].notes[0][1] == "few channels"
    assert OPS[1] in overlays[f"engine:{key}"].notes[0][0]
    assert findings.facts == [("estimated time on sm8650, 8 MB", "2 ms")]


def test_refused_plans_are_problems() -> None:
    assert found(costs(refused=["sm8450: refused"])).problems == [("sm8450: refused", None, None)]


def test_debug_run() -> None:
    findings = found(debug())
    overlays = by_key(findings)
    assert overlays["debug"].values[0] == ["right", "first wrong", "wrong", None, None]
    assert overlays["debug:cumulative"].values[0][:3] == [50, 9, 8]
    assert overlays["debug:isolated"].values[0][:3] == [None, 9, None]
    assert findings.flags == {(0, 1): FIRST_WRONG}
    assert findings.problems[0][1:] == (0, 1)
    assert "own error" in findings.problems[0][0]


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_match_nothing_are_counted(kind: Callable[..., dict[str, Any]]) -> None:
    report = json.loads(json.dumps(kind()).replace("relu", "gone").replace("conv2d", "missing"))
    (notice,) = found(report).notices
    assert f"r.json: {1 if kind is costs else 2} of " in notice


@pytest.mark.parametrize("kind", KINDS)
def test_reports_of_another_schema_or_form_are_refused(kind: Callable[..., dict[str, Any]]) -> None:
    for report in (kind(schema=2), kind(schema="1")):
        with pytest.raises(ModelError):
            found(report)
    for key in ("ops", "tensors", "devices"):
        for value in (3, [3], [{"name": 3, "op": 3, "ops": 3, "tensor": 3}], {}):
            if key in kind():
                with pytest.raises(ModelError):
                    found(kind(**{key: value}))


@pytest.mark.parametrize("kind", KINDS)
def test_any_value_in_place_of_another_is_an_error_or_harmless(kind: Callable[..., dict[str, Any]]) -> None:
    model = cnn(quantized=True)
    odd: list[Any] = [None, True, -1, 1e308, 10**400, "x", [], {}, [[]], {"a": []}]

    def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        return [path, *(place for key, each in inner for place in places(each, (*path, key)))]

    for path in places(kind())[1:]:
        for value in odd:
            report = json.loads(json.dumps(kind()))
            holder = report
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            try:
                findings = found(report, model=model)
            except XdlcError:
                continue
            json.dumps(side(model, findings=[findings], statistics=False), allow_nan=False)


def test_other_files_are_refused(tmp_path: Path) -> None:
    model = cnn(quantized=True)
    for text in ("", "{", "[]", "{}", '{"schema": 1}', "\udcff", "[" * 100_000):
        path = tmp_path / "r.json"
        path.write_text(text, "utf-8", "surrogateescape")
        with pytest.raises(UsageError) as caught:
            report_findings(model, [path])
        assert caught.value.where == str(path)
        assert caught.value.fix
    with pytest.raises(XdlcError):
        report_findings(model, [tmp_path / "none.json"])


def test_reports_that_xdlc_writes(tmp_path: Path) -> None:
    model = cnn(quantized=False)
    rng = np.random.default_rng(0)
    samples = [{"x": rng.normal(size=(1, 8, 8, 4)).astype(np.float32)} for _ in range(4)]
    (tmp_path / "cost.json").write_text(xdlc.cost(model).as_json())
    xdlc.debug(model, samples, reference="float", candidate="cpu").write(tmp_path / "debug.json")
    findings = report_findings(model, [tmp_path / "cost.json", tmp_path / "debug.json"])
    assert by_key(findings)["debug"].values == [["right"] * 5]
    assert findings.notices == []
