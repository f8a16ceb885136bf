"""Operators that draw random numbers."""

import numpy as np
import pytest

import xdlc
from tests.converter.tensorflow.tf_models import FLOAT, Graph, Type


@pytest.mark.parametrize("rows", [400, None])
@pytest.mark.parametrize("op", ["RandomUniform", "RandomStandardNormal", "StatelessRandomUniformV2"])
def test_numbers_have_the_shape_and_the_distribution(tmp_path, op, rows):
    graph = Graph().input("x", rows, 50).node("Shape", "s", ["x"]).node(op, "r", ["s"], dtype=FLOAT, seed=3)
    notices = []
    path = graph.node("AddV2", "y", ["r", "x"]).save(tmp_path / "m.pb")
    model = xdlc.convert(path, {"x": [rows or -1, 50]}, notify=notices.append)
    found = xdlc.run(model, {"x": np.zeros((400, 50), np.float32)})["y:0"]
    mean, deviation = (0, 1) if "Normal" in op else (0.5, 12**-0.5)
    assert abs(found.mean() - mean) < 0.03
    assert abs(found.std() - deviation) < 0.03
    assert any("'r'" in each for each in notices)


def test_random_integers_are_in_their_range(tmp_path):
    graph = Graph().input("x", 1000, dtype="int32").node("Shape", "s", ["x"])
    graph.const("low", np.int32(-2)).const("high", np.int32(3))
    graph.node("RandomUniformInt", "r", ["s", "low", "high"], T=Type("int32"), Tout=Type("int32"))
    model = xdlc.convert(graph.node("AddV2", "y", ["r", "x"]).save(tmp_path / "m.pb"), notify=lambda _: None)
    found = xdlc.run(model, {"x": np.zeros(1000, np.int32)})["y:0"]
    assert sorted(set(found.tolist())) == [-2, -1, 0, 1, 2]


@pytest.mark.parametrize("op", ["RandomUniform", "TruncatedNormal", "StatelessRandomNormalV2"])
def test_numbers_are_an_input_if_that_is_requested(tmp_path, op):
    graph = Graph().input("x", 4, 5).const("s", np.array([4, 5], np.int32)).node(op, "r", ["s"], dtype=FLOAT)
    notices = []
    path = graph.node("AddV2", "y", ["r", "x"]).save(tmp_path / "m.pb")
    model = xdlc.convert(path, random="as-input", notify=notices.append)
    names = [tensor.name for tensor in model.main.inputs]
    assert len(names) == 2
    assert not any(op.package == "xdlc" for op in model.main.ops)
    assert [names[1] in notice for notice in notices] == [True]
    feeds = {names[0]: np.zeros((4, 5), np.float32), names[1]: np.full((4, 5), 0.5, np.float32)}
    expected = 0.0 if op == "TruncatedNormal" else 0.5  # the middle of the distribution
    np.testing.assert_allclose(xdlc.run(model, feeds)["y:0"], expected, atol=1e-6)


def test_nodes_with_seeds_of_their_own_draw_apart(tmp_path):
    graph = Graph().input("x", 64).const("s", np.array([64], np.int32))
    for seed in (1, 2):
        graph.node("RandomUniform", f"r{seed}", ["s"], dtype=FLOAT, seed=87654321, seed2=seed)
    path = graph.node("Sub", "d", ["r1", "r2"]).node("AddV2", "y", ["d", "x"]).save(tmp_path / "m.pb")
    model = xdlc.convert(path, notify=lambda _: None)
    assert xdlc.run(model, {"x": np.zeros(64, np.float32)})["y:0"].any()
