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
