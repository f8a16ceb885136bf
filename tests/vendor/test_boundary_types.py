"""HTP's emulation with types, constants and sizes that HTP lacks."""

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import relative_error
from tests.support.htp_models import needs_htp
from tests.support.onnx_models import build, expected, floats, node

pytestmark = [pytest.mark.vendor, needs_htp]
TOLERANCE = 1e-3
SCALE = np.float32(0.01)
WORDS = np.array([[7, -3, 100], [0, 1, -128]])


def _moved(dtype: str) -> tuple:
    """Transpose and Concat of integers, which nothing computes with."""
    nodes = [node("Transpose", "x", "t"), node("Concat", "t t", "y", axis=1)]
    return nodes, np.abs(WORDS).astype(dtype), {}, ("y",)


def _stored(dtype: str) -> tuple:
    """QuantizeLinear to an output by way of a Reshape, and DequantizeLinear of it."""
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("Reshape", "q n", "y"),
        node("DequantizeLinear", "y s z", "w"),
    ]
    return nodes, floats(2, 3), {"s": SCALE, "z": np.array(3, dtype), "n": np.array([6])}, ("y", "w")


CASES = {
    **{f"moved_{dtype}": _moved(dtype) for dtype in ("int8", "int16", "uint16", "float64")},
    **{f"stored_{dtype}": _stored(dtype) for dtype in ("int8", "int16", "uint16")},
    "casts": ([node("Cast", "x", "y", to=1), node("Cast", "x", "z", to=6)], WORDS.astype("int8"), {}, "yz"),
    "cut": ([node("Cast", "x", "y", to=3)], np.array([1.9, -1.9, 100.5, 0], "f"), {}, "y"),
    "back": (
        [node("Cast", "x", "t", to=3), node("Cast", "t", "y", to=1), node("Cast", "t", "z", to=6)],
        *(np.array([1.9, -1.9, 10.5, 0], "f"), {}, "yz"),
    ),
    "per_axis": (
        [node("DequantizeLinear", "x s z", axis=1)],
        WORDS.astype("int8"),
        {"s": np.array([0.5, 1, 2], "f"), "z": np.array([1, 0, -5], "int8")},
        "y",
    ),
    "real": ([node("MatMul", "x w")], floats(2, 3).astype("float64"), {"w": np.ones((3, 4))}, "y"),
    "constants": ([node("Shape"), node("Size", "x", "z")], floats(2, 3), {}, "yz"),
    "input_and_constant": ([node("Identity"), node("Size", "x", "z")], floats(2, 3), {}, "yz"),
    "no_elements": (
        [node("MatMul", "x a", "m"), node("MatMul", "m b", "n"), node("Concat", "n c", "y", axis=0)],
        floats(2, 3),
        {"a": np.zeros((3, 0), "f"), "b": np.zeros((0, 4), "f"), "c": np.zeros((0, 4), "f")},
        "y",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_htp_outputs_the_same(models, name):
    nodes, x, weights, outputs = CASES[name]
    for index, entry in enumerate(nodes):
        entry.name = f"n_{index}"
    model = build(nodes, {"x": x}, weights, outputs, 21)
    converted = xdlc.convert(models.save(model))
    with xdlc.session(converted, "htp", soc="sm8650") as session:
        found = session.run({"x": x}), session.run({"x": x}, native=True)
    for output, wanted in zip(outputs, expected(model, {"x": x}, reference=False), strict=True):
        given = next(results[output] for results in found if results[output].dtype == wanted.dtype)
        assert given.shape == wanted.shape
        assert relative_error(given, wanted) <= (TOLERANCE if wanted.dtype.kind == "f" else 0)
