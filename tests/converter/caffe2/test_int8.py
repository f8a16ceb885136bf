"""Caffe2's Int8 operators: fixed point throughout, encodings, names."""

import numpy as np
import pytest

import xdlc
from tests.converter.caffe2.operators import RNG, model_of, pooled_last
from xdlc import ir


def fill(name, array, scale, zero=0):
    type = "Int8GivenTensorFill" if array.dtype == np.uint8 else "Int8GivenIntTensorFill"
    return (type, [], [name], {"values": ir.ArrayData(array), "Y_scale": scale, "Y_zero_point": zero})


def steps(x, scale, zero):
    return np.clip(np.round(np.asarray(x) / scale) + zero, 0, 255)


def reals(x, scale, zero):
    return (steps(x, scale, zero) - zero) * scale


def between(nodes, inputs, scales):
    """Return nodes between an Int8Quantize of each input and an Int8Dequantize."""
    before = [
        ("Int8Quantize", [name], [f"{name}q"], {"Y_scale": scale, "Y_zero_point": zero})
        for name, (scale, zero) in zip(inputs, scales, strict=True)
    ]
    return [*before, *nodes, ("Int8Dequantize", ["q"], ["y"], {})]


IMAGE = RNG.uniform(-1, 1, (1, 5, 6, 4)).astype(np.float32)
SECOND = RNG.uniform(-1, 1, (1, 5, 6, 4)).astype(np.float32)
OUT = {"Y_scale": 0.05, "Y_zero_point": 110}
INT8 = {
    "Int8AveragePool": (1, {"kernel": 2, **OUT}, lambda x: pooled_last(x, np.mean)),
    "Int8MaxPool": (1, {"kernel": 2}, lambda x: pooled_last(x, np.max)),
    "Int8Add": (2, OUT, np.add),
    "Int8SumRelu": (2, OUT, lambda a, b: np.maximum(a + b, 0)),
    "Int8Concat": (2, {"axis": 3}, lambda a, b: np.concatenate([a, b], 3)),
    "Int8LeakyRelu": (1, {"alpha": 0.3, **OUT}, lambda x: np.where(x > 0, x, 0.3 * x)),
    "Int8Slice": (1, {"starts": [0, 1, 0, 0], "ends": [-1, 3, -1, -1]}, lambda x: x[:, 1:3]),
    "Int8Transpose": (1, {"axes": [0, 3, 1, 2]}, lambda x: x.transpose(0, 3, 1, 2)),
    "Int8Reshape": (1, {"shape": [1, -1]}, lambda x: x.reshape(1, -1)),
    "Int8ResizeNearest": (1, {"height_scale": 2.0}, lambda x: x.repeat(2, 1)),
    "Int8ChannelShuffle": (1, {"group": 2}, lambda x: x[..., [0, 2, 1, 3]]),
}  # fmt: skip


@pytest.mark.parametrize("type", INT8)
def test_int8_operators_become_operations_on_fixed_point(type):
    count, args, formula = INT8[type]
    values = dict(zip(("a", "b"), (IMAGE, SECOND)[:count], strict=False))
    scales = [(0.01, 128)] * count
    nodes = between([(type, [f"{name}q" for name in values], ["q"], args)], values, scales)
    model = model_of(nodes, values, {}, ["y"])
    assert all(tensor.dtype.is_fixed or tensor.is_static for op in model.main.ops for tensor in op.outputs)
    got = xdlc.run(model, values)["y"]
    scale, zero = args.get("Y_scale", 0.01), args.get("Y_zero_point", 128)
    want = reals(formula(*(reals(x, 0.01, 128) for x in values.values())), scale, zero)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 1.01 * scale


def test_int8_products_take_the_scale_of_their_bias_from_the_others():
    weight = RNG.integers(0, 255, (3, 120)).astype(np.uint8)
    bias = RNG.integers(-500, 500, 3).astype(np.int32)
    nodes = [
        fill("w", weight, 0.02, 120),
        fill("b", bias, 1.0),  # states no scale
        *between(
            [("Int8FC", ["aq", "w", "b"], ["f"], OUT), ("Int8Relu", ["f"], ["q"], OUT)], ["a"], [(0.01, 128)]
        ),
    ]
    model = model_of(nodes, {"a": IMAGE}, {}, ["y"])
    assert [op.type for op in model.main.ops] == ["Reshape", "FullyConnected", "ElementWiseNeuron"]
    assert model.main.tensors["f"].encoding == ir.ScaleOffset(0.05, -110)
    full = reals(IMAGE, 0.01, 128).reshape(1, -1) @ ((weight - 120.0) * 0.02).T + bias * 0.0002
    want = np.maximum(reals(full, 0.05, 110), 0)
    assert np.abs(xdlc.run(model, {"a": IMAGE})["y"] - want).max() <= 0.0505


@pytest.mark.parametrize("args", [{"Y_scale": 0.5}, {"Y_zero_point": 3}])
def test_an_encoding_that_contradicts_the_one_that_is_kept_is_noticed(args):
    notices = []
    nodes = between([("Int8MaxPool", ["aq"], ["q"], {"kernel": 2, **args})], ["a"], [(0.01, 128)])
    model_of(nodes, {"a": IMAGE}, {}, ["y"], notices)
    (notice,) = notices
    assert "'q' (Int8MaxPool)" in notice
    assert "0.01 and zero point 128" in notice
