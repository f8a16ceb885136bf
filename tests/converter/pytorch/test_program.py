"""Tests of programs of torch.export: values, weights, names."""

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram, results

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("target", "arguments", "keywords", "wanted"),
    [
        ("relu", [X], {}, np.maximum(X, 0)),
        ("add.Tensor", [X, X], {"alpha": 2}, 3 * X),
        ("add.Tensor", [X, np.int64([1, 2, 3])], {}, X + np.float32([1, 2, 3])),
    ],
)
def test_an_operator(tmp_path, target, arguments, keywords, wanted):
    got = results(tmp_path, target, *arguments, like=wanted, **keywords)
    np.testing.assert_allclose(got, wanted)
    assert got.dtype == wanted.dtype


def test_a_weight_keeps_its_name(tmp_path):
    made = TinyProgram()
    x = made.input("x", (2, 3))
    made.op("add.Tensor", x, made.weight("layer.shift", np.float32([1, 2, 3])))
    model = made.convert(tmp_path)
    assert "layer.shift" in model.main.tensors
    got = xdlc.run(model, {"x": X})
    np.testing.assert_allclose(got["add"], X + np.float32([1, 2, 3]))
