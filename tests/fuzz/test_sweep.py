"""The sweep of HTP draws valid networks, and sees a wrong result."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import xdlc
from fuzz.sweep.draft import FAMILIES, Draft, draw, feeds, network
from fuzz.sweep.judge import judge
from fuzz.sweep.run import FIXED_ONLY, plans
from tests.htp_models import needs_htp
from xdlc.errors import ModelError
from xdlc.passes.base import REPORT


def cases(kind: str, count: int) -> list[Draft]:
    return [case for number in range(count) if (case := draw(kind, number)) is not None]


@pytest.mark.parametrize("kind", sorted(FAMILIES.all()))
def test_a_family_draws_valid_networks_of_many_kinds(kind):
    drawn = cases(kind, 12)
    model = network(drawn)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    assert all(np.size(result) for result in session.run(None, dict(feeds(drawn, 0))))
    assert len({case.operators for case in drawn} | {str(case.inputs) for case in drawn}) > 6


def test_a_case_of_a_number_is_always_the_same():
    first, second = (draw("convolution", 0) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.nodes == second.nodes
    assert np.array_equal(first.inputs["x0"], second.inputs["x0"])


def test_every_batch_has_a_mode_that_its_soc_has():
    upcoming = plans(["float", "w8a8"], ["sm8650", "sm8850", "qcs6490"])
    pairs = {next(upcoming)[1:] for _ in range(20)}
    assert len(pairs) == 5
    assert not {("float", soc) for soc in FIXED_ONLY} & pairs


@pytest.mark.vendor
@needs_htp
@pytest.mark.parametrize("mode", ["float", "w8a8"])
def test_a_planted_fault_is_wrong_and_its_neighbours_are_right(mode, monkeypatch):
    drawn = [case for kind in ("gemm", "resize") if (case := draw(kind, 1)) is not None]
    assert {verdict.word for verdict in judge(drawn, mode, "sm8650")} == {"right"}
    run = xdlc.run

    def planted(model, inputs, **options):
        results = run(model, inputs, **options)
        if options.get("runtime") == "htp":
            broken = next(name for name in results if results[name].ndim == 2)
            results[broken] = np.roll(results[broken], 1)
        return results

    monkeypatch.setattr(xdlc, "run", planted)
    words = {verdict.case: verdict.word for verdict in judge(drawn, mode, "sm8650")}
    assert words == {"gemm/1": "wrong", "resize/1": "right"}


def test_a_bug_is_no_refusal(monkeypatch):
    case = draw("gemm", 1)
    assert case is not None
    for bug in (IndexError("list index out of range"), ModelError("a pass fails", fix=REPORT)):

        def fails(*_, bug=bug, **options):
            raise bug

        with monkeypatch.context() as patch:
            patch.setattr(xdlc, "convert", fails)
            assert [verdict.word for verdict in judge([case], "float", "sm8650")] == ["crashed"]
        with monkeypatch.context() as patch:
            patch.setattr(xdlc, "run", fails)
            assert [verdict.word for verdict in judge([case], "float", "sm8650")] == ["crashed"]
