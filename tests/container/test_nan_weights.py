"""Weights that hold NaN are named when written and when quantizing fails."""

import logging
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.conftest import Models
from xdlc.errors import ModelError
from xdlc.ir import ArrayData
from xdlc.ir.data import has_nan

SHAPES = {"MatMul": (8, 40_000), "Conv": (4, 8, 3, 3)}
"""Weights that are copied from the file (several buffers), and ones that are transposed first."""


def network(models: Models, op: str, bad: float, *, kind: str = "float32") -> Path:
    """Return the file of a network whose weight has one ``bad`` element."""
    from onnx import TensorProto, helper

    weight = np.random.default_rng(0).uniform(-1, 1, SHAPES[op]).astype(kind)
    weight.reshape(-1)[-7] = bad
    types = dict.fromkeys("xy", TensorProto.FLOAT16 if kind == "float16" else TensorProto.FLOAT)
    shapes = ([1, 8], [1, 40_000]) if op == "MatMul" else ([1, 8, 6, 6], [1, 4, 4, 4])
    node = helper.make_node(op, ["x", "w"], ["y"])
    return models.save(models.make([node], {"x": shapes[0]}, {"y": shapes[1]}, {"w": weight}, types=types))


@pytest.mark.parametrize("version", ["4.1", "4.0"])
@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("op", SHAPES)
def test_a_weight_with_nan_is_named_when_it_is_written(
    models: Models, tmp_path: Path, caplog: pytest.LogCaptureFixture, op: str, kind: str, version: str
) -> None:
    for bad in (np.nan, np.inf, 0.5):
        caplog.clear()
        model = xdlc.convert(network(models, op, bad, kind=kind))
        with caplog.at_level(logging.WARNING, "xdlc"):
            xdlc.save(model, tmp_path / "net.dlc", version)
        named = [record.getMessage() for record in caplog.records if "holds NaN" in record.getMessage()]
        assert len(named) == (1 if np.isnan(bad) else 0)
        assert all("weight 'w'" in line for line in named)
    xdlc.load(tmp_path / "net.dlc")


@pytest.mark.parametrize("op", SHAPES)
def test_quantizing_blames_the_weight_and_the_fix_works(models: Models, op: str) -> None:
    shape = (1, 8) if op == "MatMul" else (1, 8, 6, 6)
    samples = [np.random.default_rng(number).uniform(-1, 1, shape).astype("float32") for number in range(4)]
    with pytest.raises(ModelError, match="weight 'w' holds NaN") as caught:
        xdlc.quantize(xdlc.convert(network(models, op, np.nan)), samples)
    assert "sample" not in str(caught.value)
    assert "weights from before the training" in str(caught.value.fix)
    xdlc.quantize(xdlc.convert(network(models, op, 0.5)), samples)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_nan_of_each_sign_and_type_is_told_from_infinities(kind: str) -> None:
    import ml_dtypes

    values = np.array([0.5, np.inf, -np.inf, -0.0], getattr(ml_dtypes, kind, None) or kind)
    assert not has_nan(ArrayData(values))
    for nan in (np.nan, -np.nan):
        assert has_nan(ArrayData(np.append(values, np.array(nan, values.dtype))))
    assert not has_nan(ArrayData(values[:0]))


@pytest.mark.parametrize("bits", [0x7F800001, 0xFF800001])
def test_a_signalling_nan_is_one(bits: int) -> None:
    assert has_nan(ArrayData(np.array([0x3F800000, bits], np.uint32).view(np.float32)))
