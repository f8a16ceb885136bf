"""Estimated milliseconds: coefficients, bounds of the fit, known figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from xdlc.cost import times
from xdlc.cost.device import DeviceCost, OpCost
from xdlc.cost.schematic import Traffic
from xdlc.ir import Graph


def _cost(soc: str = "sm8650", vtcm_mb: int = 8, dram: int = 20_000_000) -> DeviceCost:
    traffic = Traffic(dram_read=dram, vtcm_read=150_000_000)
    op = OpCost("conv", "Conv2d", (), (), {"HMX": 800, "DMA": 200}, traffic, 0, 0, 0, 0, "")
    return DeviceCost("net", soc, vtcm_mb, "build", (op,), 0, ())


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Stand in for a float network of two billion products and ten million curves."""
    known = {"products": 2.0, "curves": 10.0}
    plain = times.features
    monkeypatch.setattr(times, "precision", lambda graph: times.FLOAT16)
    monkeypatch.setattr(times, "features", lambda cost, graph: plain(cost, graph) | known)
    return Graph("net")


def test_estimate_is_the_sum_of_the_coefficients(graph: Graph) -> None:
    result = times.milliseconds(_cost(), graph)
    assert isinstance(result, times.Milliseconds)
    fit = next(fit for fit in times.fits().fits if (fit.soc, fit.precision) == ("sm8650", times.FLOAT16))
    units = {"base": 1, "dram": 20, "vtcm": 150, "kernels": 1, "products": 2, "curves": 10}
    assert result.value == pytest.approx(sum(fit.coefficients[name] * units[name] for name in units))
    assert 0 < result.low < result.high


@pytest.mark.parametrize("cost", [_cost(soc="sm8350"), _cost(vtcm_mb=4), _cost(dram=10**12), _cost(dram=1)])
def test_reason_stands_for_a_number_outside_the_fit(cost: DeviceCost, graph: Graph) -> None:
    assert isinstance(times.milliseconds(cost, graph), str)


def test_graph_without_a_type_has_a_reason() -> None:
    assert isinstance(times.milliseconds(_cost(), Graph("net")), str)


def _content() -> dict[str, Any]:
    return json.loads(json.dumps({"schema": times.SCHEMA, **asdict(times.fits())}))


def test_coefficients_survive_a_round_trip() -> None:
    assert asdict(times.read_fits(json.dumps(_content())))["fits"] == tuple(_content()["fits"])


@pytest.mark.parametrize("change", ["schema", "member", "feature", "negative", "lacking"])
def test_malformed_coefficients_are_refused(change: str) -> None:
    content = _content()
    fit = content["fits"][0]
    match change:
        case "schema":
            content["schema"] = "xdlc.times/0"
        case "member":
            fit["more"] = 1
        case "feature":
            del fit["coefficients"]["dram"]
        case "negative":
            fit["coefficients"]["dram"] = -1.0
        case "lacking":
            del content["source"]
    with pytest.raises(ValueError, match=r"."):
        times.read_fits(json.dumps(content))
