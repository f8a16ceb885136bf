"""Shifts, casts and products of integers, exact to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import RNG, build, check, node

INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]


def shifted(x, amounts, direction):
    """Return what ONNX 28 says, by Python's integers."""
    info = np.iinfo(x.dtype)
    span = 1 << info.bits
    values = []
    for value, count in zip(x.tolist(), amounts.tolist(), strict=True):
        count = info.bits if not 0 <= count < info.bits else count
        found = (
            value >> count if direction == "RIGHT" else (value << count if count < info.bits else 0) % span
        )
        values.append(found - span if found > info.max else found)
    return np.array(values, x.dtype)


SHIFTS = [(dtype, way) for dtype in INTEGERS for way in ("LEFT", "RIGHT")]
SHIFTS.remove((np.dtype(np.uint64), "RIGHT"))  # is kept for the host


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("dtype", "direction"), SHIFTS, ids=str)
def test_bit_shift(models, dtype, direction, known):
    info = np.iinfo(dtype)
    x = np.array([1, 5, info.max, info.min, info.max // 3, info.max, info.min, info.min + 1, 9], dtype)
    amounts = np.array([1, info.bits - 1, 3, 2, 7, info.bits, info.bits, info.bits - 1, 0], dtype)
    feeds, weights = {"x": x}, {"k": amounts}
    if not known:
        feeds, weights = {**feeds, **weights}, {}
    path = models.save(build([node("BitShift", "x k", direction=direction)], feeds, weights, ("y",), 11))
    found = xdlc.run(xdlc.convert(path), feeds)["y"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, shifted(x, amounts, direction))


@pytest.mark.parametrize(
    ("source", "target"), [("i4", "u4"), ("u4", "i4"), ("i8", "u8"), ("u1", "i1"), ("?", "u1")]
)
def test_bit_cast(models, source, target):
    from onnx import helper

    x = np.array([1, 0, 1], "?") if source == "?" else np.array([0, 1, np.iinfo(source).max], source)
    if source[0] == "i":
        x[0] = np.iinfo(source).min
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    check(models, [node("BitCast", to=kind)], {"x": x}, opset=26, reference=True)


def test_matmul_integer_with_a_zero_point_per_row(models):
    feeds = {"a": RNG.integers(0, 256, (2, 3, 600)).astype(np.uint8), "z": np.array([3, 250, 128], np.uint8)}
    weights = {
        "b": RNG.integers(-128, 128, (600, 5)).astype(np.int8),
        "w": np.array([1, -7, 3, 0, 99], np.int8),
    }
    weights["rows"] = np.array([[3], [250], [128]], np.uint8)
    nodes = [node("MatMulInteger", "a b rows w")]
    model = build(nodes, {"a": feeds["a"]}, weights, ("y",), 17)
    path = models.save(model)
    found = xdlc.run(xdlc.convert(path), {"a": feeds["a"]})["y"]
    wanted = (feeds["a"].astype(np.int64) - weights["rows"]) @ (weights["b"].astype(np.int64) - weights["w"])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("group", [1, 2])
def test_conv_integer_with_a_zero_point_per_channel(models, group):
    feeds = {"x": RNG.integers(0, 256, (2, 4, 7, 6)).astype(np.uint8)}
    weights = {
        "w": RNG.integers(-128, 128, (6, 4 // group, 3, 2)).astype(np.int8),
        "xz": np.array(120, np.uint8),
        "wz": np.array([1, -7, 3, 0, 99, -128], np.int8),
    }
    attributes = {"pads": [1, 0, 1, 1], "strides": [2, 1], "group": group}
    path = models.save(build([node("ConvInteger", "x w xz wz", **attributes)], feeds, weights, ("y",), 17))
    results = xdlc.run(xdlc.convert(path), feeds)["y"]
    plain = [node("Conv", "x w", **attributes)]
    x = feeds["x"].astype(np.float64) - 120
    w = weights["w"].astype(np.float64) - weights["wz"].reshape(-1, 1, 1, 1)
    from onnx.reference import ReferenceEvaluator

    (wanted,) = ReferenceEvaluator(build(plain, {"x": x}, {"w": w}, ("y",), 17)).run(None, {"x": x})
    np.testing.assert_array_equal(results, wanted.astype(np.int32))


def test_remainders_that_become_integers(models):
    """ElementWiseBinary numbers Fmod as ElementWiseNeuron numbers ReluMinMax."""
    narrow, wide = node("Cast", "c", "b", to=3), node("Cast", "b", to=6)
    narrow.name = "narrow"
    nodes = [
        node("Round", "x", "r"),
        node("Mod", "r three", "m", fmod=1),
        node("Clip", "m low high", "c"),
        narrow,
        wide,
    ]
    limits = {"three": np.float32(3), "low": np.float32(-128), "high": np.float32(127)}
    check(models, nodes, {"x": RNG.standard_normal(9).astype(np.float32) * 9}, limits)
