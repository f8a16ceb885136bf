"""Estimated milliseconds: coefficients, bounds of the fit, known figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from xdlc.cost import times
from xdlc.cost.device import DeviceCost, OpCost
from xdlc.cost.schematic import Traffic
from xdlc.ir import Graph, Tensor, make_op, static, u32
from xdlc.ir import dtype as dt
from xdlc.opdefs.elementwise_enums import MULTIPLY


def _cost(soc: str = "sm8650", vtcm_mb: int = 8, dram: int = 20_000_000) -> DeviceCost:
    traffic = Traffic(dram_read=dram, vtcm_read=150_000_000)
    op = OpCost("conv", "Conv2d", (), (), {"HMX": 800, "DMA": 200}, traffic, 0, 0, 0, 0, "")
    return DeviceCost("net", soc, vtcm_mb, "build", (op,), 90_000_000, 0, ())


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Stand in for a float network of two billion products and a million curves."""
    counts = {"products": 2.0, "curves": 1.0}
    plain = times.features
    monkeypatch.setattr(times, "precision", lambda graph: times.FLOAT16)
    monkeypatch.setattr(times, "features", lambda cost, graph: plain(cost, graph) | counts)
    return Graph("net")


def test_estimate_joins_memory_and_the_rest(graph: Graph) -> None:
    result = times.milliseconds(_cost(), graph)
    assert isinstance(result, times.Milliseconds)
    fit = next(fit for fit in times.fits().fits if (fit.soc, fit.precision) == ("sm8650", times.FLOAT16))
    units = {"vector": 90, "kernels": 1, "products": 2, "curves": 1, "narrow": 0, "outputs": 0}
    memory = 20 * fit.coefficients["dram"]
    rest = sum(fit.coefficients[name] * units[name] for name in units)
    inside = result.value - fit.coefficients["base"]
    assert max(memory, rest) <= inside <= memory + rest
    assert 0 < result.low < result.high


def test_colours_scaled_apart_count_as_a_block() -> None:
    def features(shape: tuple[int, ...], scale: tuple[int, ...]) -> dict[str, float]:
        graph = Graph("net")
        image = graph.add_input(Tensor("image", shape, dt.FLOAT32))
        inputs = [image, static("factor", np.ones(scale, np.float32))]
        result = Tensor("scaled", shape, dt.FLOAT32)
        params = {"operation": u32(MULTIPLY)}
        graph.append(make_op(graph, "ElementWiseBinary", inputs, [result], params, name="scale"))
        return times.features(_cost(), graph)

    assert features((1, 8, 8, 3), (3,))["narrow"] == pytest.approx(2 * 8 * 8 * 32 / 1e6)
    assert features((1, 8, 8, 3), ())["narrow"] == pytest.approx(8 * 8 * 32 / 1e6)
    assert features((1, 8, 8, 32), (32,))["narrow"] == 0


@pytest.mark.parametrize("cost", [_cost(soc="sm8350"), _cost(vtcm_mb=4), _cost(dram=10**12), _cost(dram=1)])
def test_reason_stands_for_a_number_outside_the_fit(cost: DeviceCost, graph: Graph) -> None:
    assert isinstance(times.milliseconds(cost, graph), str)


def test_interval_is_wider_just_outside_of_the_fit(graph: Graph) -> None:
    fit = next(fit for fit in times.fits().fits if (fit.soc, fit.precision) == ("sm8650", times.FLOAT16))
    least = int(fit.ranges["dram"][0] * 1e6)
    spans = []
    for dram in (least + 1000, int(least * 0.95)):
        result = times.milliseconds(_cost(dram=dram), graph)
        assert isinstance(result, times.Milliseconds)
        spans.append(result.high / result.low)
    assert spans[1] > 1.1 * spans[0]
    assert isinstance(times.milliseconds(_cost(dram=int(least * 0.85)), graph), str)


def test_types_are_those_of_the_ops_that_multiply() -> None:
    graph = Graph("net")
    source = graph.add_input(Tensor("x", (1, 4), dt.FLOAT32))
    product, result = Tensor("y", (1, 4), dt.FLOAT32), Tensor("z", (1, 4), dt.UFIXED16)
    inputs = [source, static("w", np.ones((4, 4), np.float32))]
    graph.append(make_op(graph, "FullyConnected", inputs, [product], name="fc"))
    graph.append(make_op(graph, "Quantize", [product], [result], name="quantize"))
    assert times.precision(graph) == times.FLOAT16


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
