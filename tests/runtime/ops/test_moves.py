"""Ops that move, pick and count elements against numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdlc.errors import ModelError


@pytest.fixture
def x(rng):
    return rng.normal(size=(2, 3, 4, 6)).astype(np.float32)


def test_reshapes_and_transpose(one_op, x):
    np.testing.assert_array_equal(one_op("Reshape", [x], [(6, 24)]), x.reshape(6, 24))
    np.testing.assert_array_equal(one_op("ExpandDims", [x], [(2, 1, 3, 4, 6)], {"axis": 1}), x[:, None])
    np.testing.assert_array_equal(one_op("Squeeze", [x[:1]], [(3, 4, 6)]), x[0])
    found = one_op("Transpose", [x], [(4, 2, 6, 3)], {"perm": (2, 0, 3, 1)})
    np.testing.assert_array_equal(found, x.transpose(2, 0, 3, 1))


def test_reshape_to_another_size_is_refused(one_op, x):
    with pytest.raises(ModelError, match="as many elements"):
        one_op("Reshape", [x], [(5, 5)])


def test_concat_pack_split_unpack(one_op, x):
    parts = [x[:, :1], x[:, 1:]]
    np.testing.assert_array_equal(one_op("Concat", parts, [x.shape], {"axis": 1}), x)
    np.testing.assert_array_equal(
        one_op("Pack", [x, x + 1], [(2, 2, 3, 4, 6)], {"axis": 1}), np.stack([x, x + 1], 1)
    )
    for part, want in zip(
        one_op("Split", [x], [(2, 3, 1, 6), (2, 3, 2, 6), (2, 3, 1, 6)], {"axis": 2, "split_index": (1, 3)}),
        np.split(x, [1, 3], 2),
        strict=True,
    ):
        np.testing.assert_array_equal(part, want)
    for index, part in enumerate(one_op("UnPack", [x], [(2, 4, 6)] * 3, {"axis": 1})):
        np.testing.assert_array_equal(part, x[:, index])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_strided_slice(one_op, data):
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    ranges, picks = [], []
    for dim in x.shape:
        step = data.draw(st.sampled_from([1, 2, -1, -2]))
        begin = data.draw(st.integers(0, dim - 1))
        end = data.draw(st.integers(begin + 1, dim) if step > 0 else st.integers(-1, begin - 1))
        ranges.append((begin, end, step))
        picks.append(np.arange(begin, end, step))
    want = x[np.ix_(*picks)]
    np.testing.assert_array_equal(one_op("StridedSlice", [x], [want.shape], {"ranges": ranges}), want)


@pytest.mark.parametrize(
    ("params", "index"),
    [
        ({"ranges": ((0, 5, 1), (3, 4, 1)), "begin_mask": 2}, np.s_[:, :4]),
        ({"ranges": ((0, 5, 1), (3, 4, 1)), "end_mask": 2}, np.s_[:, 3:]),
        ({"ranges": ((4, 0, -1), (0, 6, 1)), "end_mask": 1}, np.s_[::-1]),
        ({"ranges": ((2, 3, 1), (0, 6, 1)), "shrink_axes": 1}, np.s_[2]),
        ({"ranges": ((0, 5, 1), (-4, -1, 2))}, np.s_[:, -4:-1:2]),
        ({"ranges": ((0, 5, 1), (0, 6, 1)), "new_axes_mask": 2}, np.s_[:, None]),
    ],
)
def test_strided_slice_masks(one_op, params, index):
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    np.testing.assert_array_equal(one_op("StridedSlice", [x], [x[index].shape], params), x[index])


@pytest.mark.parametrize(("scheme", "mode"), [(0, "constant"), (1, "symmetric"), (2, "reflect"), (3, "edge")])
def test_pad(one_op, rng, scheme, mode):
    x = rng.normal(size=(3, 4)).astype(np.float32)
    extra = {"constant_values": 1.5} if scheme == 0 else {}
    want = np.pad(x, [(1, 2), (0, 3)], mode=mode, **extra)
    params = {"scheme": scheme, "pad_amount": ((1, 2), (0, 3)), "pad_constant_value": 1.5}
    np.testing.assert_array_equal(one_op("Pad", [x], [want.shape], params), want)


def test_tile(one_op, rng):
    x = rng.normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_array_equal(one_op("Tile", [x], [(4, 9)], {"multiples": (2, 3)}), np.tile(x, (2, 3)))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_gathers(one_op, x, dtype):
    index = np.array([[2, 0], [1, 1]], dtype)
    rows = one_op("Gather", [x, index], [(2, 2, 2, 4, 6)], {"axis": 1})
    np.testing.assert_array_equal(rows, np.take(x, index, 1))
    pairs = np.array([[1, 2], [0, 0]], dtype)
    np.testing.assert_array_equal(one_op("GatherNd", [x, pairs], [(2, 4, 6)]), x[[1, 0], [2, 0]])
    line, at = x[0, 0], np.array([[5, 0], [1, 1], [2, 3], [0, 4]], dtype)
    rows = one_op("GatherElements", [line, at], [(4, 2)], {"axis": 1})
    np.testing.assert_array_equal(rows, np.take_along_axis(line, at.astype(np.int64), 1))


@pytest.mark.parametrize("reduction", [0, 1, 2, 3])
def test_scatters(one_op, rng, reduction):
    x, updates = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(2, 3)).astype(np.float32)
    rows = np.array([[3], [1]], np.int32)
    change = [lambda a, b: b, np.add, np.multiply, np.maximum][reduction]
    want = x.copy()
    want[rows[:, 0]] = change(x[rows[:, 0]], updates)
    np.testing.assert_allclose(
        one_op("ScatterNd", [x, rows, updates], [(4, 3)], {"reduction": reduction}), want
    )
    spread = np.repeat(rows, 3, 1)
    params = {"reduction": reduction, "axis": 0}
    np.testing.assert_allclose(one_op("ScatterElements", [x, spread, updates], [(4, 3)], params), want)


REDUCTIONS = {
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceMean": np.mean,
    "ReduceSum": np.sum,
    "ReduceProd": np.prod,
    "ReduceSumSquare": lambda a, **how: np.sum(a * a, **how),
}


@pytest.mark.parametrize("type", REDUCTIONS)
@pytest.mark.parametrize(("axes", "keep"), [((1, 2), True), ((3,), False), ((0, 2), False)])
def test_reductions(one_op, x, type, axes, keep):
    want = REDUCTIONS[type](x, axis=axes, keepdims=keep)
    found = one_op(type, [x], [want.shape], {"axes": axes, "keep_dims": keep})
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)


def test_moments(one_op, x):
    mean, variance = one_op("Moments", [x], [(2, 6), (2, 6)], {"axes": (1, 2), "keep_dims": False})
    np.testing.assert_allclose(mean, x.mean((1, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, x.var((1, 2)), rtol=1e-4)


def test_extrema(one_op):
    x = np.array([[0, 3, 1, 3, 2], [5, 4, 5, 0, 0]], np.float32)
    for type, pick in (("Argmax", np.argmax), ("Argmin", np.argmin)):
        found = one_op(type, [x], [((2, 1), "int32")], {"axis": 1, "keep_dims": True})
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found[:, 0], pick(x, 1))
    values, at = one_op("TopK", [x], [(2, 2), ((2, 2), "uint32")], {"k": 2})
    np.testing.assert_array_equal(values, [[3, 3], [5, 5]])
    np.testing.assert_array_equal(at, [[1, 3], [0, 2]])
    smallest, _ = one_op("TopK", [x], [(2, 1), ((2, 1), "int32")], {"k": 1, "largest": False})
    np.testing.assert_array_equal(smallest, [[0], [0]])


def test_one_hot(one_op):
    params = {"depth": 3, "on_value": 2.0, "off_value": -1.0}
    found = one_op("OneHot", [np.array([2, 0], np.int32)], [(2, 3)], params)
    np.testing.assert_array_equal(found, [[-1, -1, 2], [2, -1, -1]])


def test_cumulative_sum(one_op):
    x = np.array([[1, 2, 3]], np.float32)
    np.testing.assert_array_equal(one_op("CumulativeSum", [x], [(1, 3)], {"axis": 1}), [[1, 3, 6]])
    params = {"axis": 1, "exclusive": True, "reverse": True}
    np.testing.assert_array_equal(one_op("CumulativeSum", [x], [(1, 3)], params), [[5, 3, 0]])


@pytest.mark.parametrize("mode", [0, 1])
def test_depth_to_space_and_back(one_op, rng, mode):
    x = rng.normal(size=(1, 2, 3, 12)).astype(np.float32)
    want = np.zeros((1, 4, 9, 2), np.float32)
    for row in range(4):
        for column in range(9):
            block = row % 2 * 3 + column % 3
            for channel in range(2):
                depth = block * 2 + channel if mode == 0 else channel * 6 + block
                want[0, row, column, channel] = x[0, row // 2, column // 3, depth]
    params = {"block_size": (2, 3), "mode": mode}
    np.testing.assert_array_equal(one_op("DepthToSpace", [x], [want.shape], params), want)
    np.testing.assert_array_equal(one_op("SpaceToDepth", [want], [x.shape], params), x)


def test_space_to_batch_and_back(one_op, rng):
    x = rng.normal(size=(1, 3, 4, 2)).astype(np.float32)
    padded = np.pad(x, [(0, 0), (1, 0), (0, 2), (0, 0)])
    want = np.concatenate([padded[:, i::2, j::2] for i in range(2) for j in range(2)])
    params = {"block_size": (2, 2), "pad_amount": ((1, 0), (0, 2))}
    np.testing.assert_array_equal(one_op("SpaceToBatch", [x], [want.shape], params), want)
    params = {"block_size": (2, 2), "crops": ((1, 0), (0, 2))}
    np.testing.assert_array_equal(one_op("BatchToSpace", [want], [x.shape], params), x)


def test_channel_shuffle(one_op, x):
    found = one_op("ChannelShuffle", [x], [x.shape], {"num_groups": 3})
    np.testing.assert_array_equal(found, x.reshape(2, 3, 4, 3, 2).swapaxes(3, 4).reshape(x.shape))


def test_shapes_as_values(one_op, x):
    np.testing.assert_array_equal(one_op("Shape", [x], [((2,), "uint32")], {"start": 1, "end": 3}), [3, 4])
    dims = np.array([2, 2], np.uint32)
    found = one_op("ConstantOfShape", [dims], [(2, 2)], {"value": 1.5})
    np.testing.assert_array_equal(found, np.full((2, 2), 1.5))
    flags = np.array([[0, 1], [2, 0]], np.float32)
    np.testing.assert_array_equal(one_op("NonZero", [flags], [((4, 2), "int32")]), [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("source", "target", "values", "want"),
    [
        (np.float32, "int32", [1.9, -1.9], [1, -1]),
        (np.int32, "uint8", [300, -1], [44, 255]),
        (np.int64, "int8", [200, -200], [-56, 56]),
        (np.float32, "bool8", [0, 0.5], [False, True]),
        (np.bool_, "float32", [False, True], [0, 1]),
        (np.uint8, "float16", [3, 255], [3, 255]),
        (np.float64, "float32", [1.5, 2.5], [1.5, 2.5]),
    ],
)
def test_cast(one_op, source, target, values, want):
    np.testing.assert_array_equal(one_op("Cast", [np.array(values, source)], [((2,), target)]), want)
