"""The sweep of HTP draws valid networks, and sees a wrong result."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

import xdlc
from fuzz.sweep import judge as judging
from fuzz.sweep.draft import FAMILIES, Draft, draw, feeds, network, prefix
from fuzz.sweep.judge import judge
from fuzz.sweep.run import FIXED_ONLY, plans
from tests.support.htp_models import needs_htp
from xdlc.errors import ModelError
from xdlc.ir import ScaleOffset
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


@pytest.mark.parametrize(
    ("exact", "host", "htp", "is_excused"),
    [
        ([10, 100], [10, 101], [11, 101], True),
        ([10, np.inf], [11, 0], [60, 0], False),
        ([np.nan, np.nan], [1, 1], [1, 1], False),
        ([1, 1], [9, 9], [0, 9], False),
    ],
)
def test_only_a_small_loss_of_the_host_excuses_htp(exact, host, htp, is_excused, monkeypatch):
    case = draw("gemm", 1)
    assert case is not None
    name = next(iter(xdlc.run(judging._model([case], "float"), feeds([case], 0))))
    monkeypatch.setattr(xdlc, "run", lambda *_: {name: np.array(exact, np.float32)})
    tensor = SimpleNamespace(encoding=ScaleOffset(1.0, 0))
    model = SimpleNamespace(main=SimpleNamespace(tensors={name: tensor}))
    results = ({name: np.array(each)} for each in (host, htp))
    assert judging._within_own_loss(case, prefix(0), model, *results) is is_excused
