"""Operators on shapes: slices, gathers, blocks, scattered elements, diagonals."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.converter.tensorflow.tf_models import Graph, Type, evaluate
from xdlc.errors import ModelError, UnsupportedOp

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


def strided(*entries, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0):
    begin, end, strides = (np.asarray(part, np.int32) for part in zip(*entries, strict=True))
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    return evaluate("StridedSlice", X, begin, end, strides, constant=(1, 2, 3), **masks)


def test_entries_of_a_strided_slice_mean_what_their_masks_state():
    np.testing.assert_array_equal(strided((1, 0, 1), shrink_axis_mask=1), X[1])
    np.testing.assert_array_equal(
        strided((0, 0, 1), (-1, 7, -1), begin_mask=1, end_mask=1, shrink_axis_mask=2), X[:, -1]
    )
    np.testing.assert_array_equal(strided((9, -9, -2), end_mask=1), X[::-2])
    found = strided((0, 0, 1), (0, 0, 1), (1, 9, 2), ellipsis_mask=2, new_axis_mask=1)
    np.testing.assert_array_equal(found, X[np.newaxis, ..., 1::2])
    found = strided((0, 0, 1), (2, 0, 1), ellipsis_mask=1, shrink_axis_mask=2, new_axis_mask=2)
    np.testing.assert_array_equal(found, X[..., np.newaxis])


def test_a_position_outside_of_an_axis_that_is_dropped_is_refused():
    with pytest.raises(ModelError, match=r"position 3 .* axis 0"):
        strided((3, 4, 1), shrink_axis_mask=1)


@pytest.mark.parametrize(
    ("op", "operands", "attributes"),
    [
        ("Gather", [X, np.int32([0, -1])], {}),
        ("GatherNd", [X, np.int32([[0, -1]])], {}),
        ("GatherV2", [X, np.int32([[0], [1]]), np.int32(1)], {"batch_dims": 1}),
        ("OneHot", [np.int32([0]), np.int32(-1), np.float32(1), np.float32(0)], {}),
        ("OneHot", [np.int32([0]), np.int32(2), np.float32(1), np.float32(0)], {"axis": 2}),
        ("Pack", [X, X], {"N": 3}),
        ("Range", [np.int32(0), np.int32(4), np.int32(0)], {}),
        ("ResizeBilinear", [X[None], np.int32([2, 2])], {"align_corners": True, "half_pixel_centers": True}),
        ("ReverseSequence", [X, np.int32([1, 2, 3])], {"seq_dim": -1}),
        ("StridedSlice", [X, np.int32([0]), np.int32([1]), np.int32([0])], {"shrink_axis_mask": 1}),
    ],
)
def test_a_node_that_contradicts_itself_is_refused(op, operands, attributes):
    with pytest.raises(ModelError) as caught:
        evaluate(op, *operands, constant=range(1, len(operands)), **attributes)
    assert caught.value.where


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("axis", "batch"), [(0, 0), (-1, 0), (1, 1), (2, 1), (2, 2)])
def test_gather_of_batches(axis, batch, known):
    indices = np.asarray([[0, 2], [1, 1], [3, 0]], np.int32) % X.shape[axis]
    if batch == 2:
        indices = np.asarray([[0, 1, 2, 3], [4, 0, 1, 2], [3, 4, 0, 1]], np.int32)
    constant = (1, 2) if known else (2,)
    result = evaluate("GatherV2", X, indices, np.int32(axis), constant=constant, batch_dims=batch)
    if batch == 0:
        expected = np.take(X, indices, axis)
    elif batch == 2:
        expected = np.take_along_axis(X, indices[..., None], 2)[..., 0]
    else:
        expected = np.stack([np.take(x, i, axis - 1) for x, i in zip(X, indices, strict=True)])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("block", "pads"), [([2, 2], [[1, 1], [0, 1]]), ([2], [[0, 1]]), ([3], [[1, 0]])])
def test_blocks_become_batches_and_back(block, pads):
    x = np.random.default_rng(0).normal(size=(2, 4, 5, 3)[-2 - len(block) :]).astype(np.float32)
    block, pads = np.asarray(block, np.int32), np.asarray(pads, np.int32)
    split = evaluate("SpaceToBatchND", x, block, pads, constant=(1, 2))
    assert split.shape[0] == x.shape[0] * block.prod()
    back = evaluate("BatchToSpaceND", split, block, pads, constant=(1, 2))
    np.testing.assert_array_equal(back, x)


def test_parts_of_negative_segments_are_dropped_and_empty_ones_have_a_value():
    x = np.asarray([[1, 2], [3, 4], [5, 6]], np.float32)
    ids = np.asarray([2, -1, 2], np.int32)
    total = evaluate("UnsortedSegmentSum", x, ids, np.int32(4), constant=(2,))
    np.testing.assert_array_equal(total, [[0, 0], [0, 0], [6, 8], [0, 0]])
    most = evaluate("UnsortedSegmentMax", x, ids, np.int32(3), constant=(2,))
    np.testing.assert_array_equal(most[2], [5, 6])
    assert (most[:2] == np.finfo(np.float32).min).all()
    mean = evaluate("SegmentMean", x, np.asarray([0, 0, 2], np.int32), constant=(1,))
    np.testing.assert_array_equal(mean, [[2, 3], [0, 0], [5, 6]])


def test_duplicate_indices_add_up():
    indices, updates = np.asarray([[1], [3], [1]], np.int32), np.asarray([1, 2, 4], np.float32)
    found = evaluate("ScatterNd", indices, updates, np.asarray([5], np.int32), constant=(2,))
    np.testing.assert_array_equal(found, [0, 5, 0, 2, 0])


def test_diagonals_are_stored_at_the_ends_that_align_names():
    x = np.asarray([[9, 1, 2], [3, 4, 5], [6, 7, 9]], np.float32)
    operands = (np.asarray([-1, 1], np.int32), np.int32(-1), np.int32(-1), np.float32(0))
    found = evaluate("MatrixDiagV3", x, *operands, constant=(1, 2, 3, 4))
    np.testing.assert_array_equal(found, [[3, 1, 0], [6, 4, 2], [0, 7, 5]])
    left = evaluate(
        "MatrixDiagPartV3", found, operands[0], np.float32(-1), constant=(1, 2), align="LEFT_LEFT"
    )
    np.testing.assert_array_equal(left, [[1, 2, -1], [3, 4, 5], [6, 7, -1]])


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_an_index_outside_of_the_depth_is_off_everywhere(axis):
    indices = np.asarray([1, -1, 3, 0], np.int32)
    numbers = (np.int32(3), np.float32(5), np.float32(2))
    found = evaluate("OneHot", indices, *numbers, constant=(1, 2, 3), axis=axis)
    wanted = np.where(indices[:, None] == np.arange(3), 5.0, 2.0)
    np.testing.assert_array_equal(found, wanted if axis else wanted.T)


def test_narrow_indices_select_from_a_greater_depth():
    indices = np.asarray([43, 255], np.uint8)
    numbers = (np.int32(300), np.float32(1), np.float32(0))
    found = evaluate("OneHot", indices, *numbers, constant=(1, 2, 3), axis=-1)
    np.testing.assert_array_equal(found, indices[:, None] == np.arange(300))


@pytest.mark.parametrize(
    ("op", "numbers", "wanted"),
    [
        ("Erfinv", [-1, 0, 0.5, 1], [-np.inf, 0, 0.47693628, np.inf]),
        ("Lgamma", [-1e-6, 0.5, -1.5], [13.8155112, 0.5723649, 0.8600470]),
        ("Digamma", [-1e-6, 0.5, -1.5], [999999.4, -1.9635100, 0.7031566]),
    ],
)
def test_functions_near_their_poles(op, numbers, wanted):
    np.testing.assert_allclose(evaluate(op, np.asarray(numbers, np.float32)), wanted, rtol=1e-5)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf])
def test_an_impossible_scale_of_an_image_is_refused(scale):
    x, size = np.ones((1, 2, 2, 1), np.float32), np.asarray([2, 2], np.int32)
    factors = np.asarray([scale, 1], np.float32)
    with pytest.raises(ModelError, match="the scale must be finite"):
        evaluate("ScaleAndTranslate", x, size, factors, np.zeros_like(factors), constant=(1, 2, 3))


def test_mirrored_borders():
    x = np.asarray([1, 2, 3], np.float32)
    amounts = np.asarray([[2, 3]], np.int32)
    found = evaluate("MirrorPad", x, amounts, constant=(1,), mode="SYMMETRIC")
    np.testing.assert_array_equal(found, [2, 1, 1, 2, 3, 3, 2, 1])
    found = evaluate("MirrorPad", x, amounts[:, ::-1] - 1, constant=(1,), mode="REFLECT")
    np.testing.assert_array_equal(found, [3, 2, 1, 2, 3, 2])


def test_the_different_elements_come_in_order_of_their_first_places():
    values, places = evaluate(
        "Unique", np.asarray([4, 2, 4, 7, 2], np.int32), outputs=2, out_idx=Type("int32")
    )
    np.testing.assert_array_equal(values, [4, 2, 7])
    np.testing.assert_array_equal(places, [0, 1, 0, 2, 1])


def test_elements_that_leave_come_in_at_the_other_end():
    found = evaluate("Roll", X, np.asarray([1, -2], np.int32), np.asarray([0, -1], np.int32), constant=(1, 2))
    np.testing.assert_array_equal(found, np.roll(X, (1, -2), (0, 2)))


@pytest.mark.parametrize("size", [[1, 4, 2], [1, -1, 2]])
def test_a_part_may_begin_at_a_computed_position(size):
    begin, wanted = np.asarray([2, 0, 1], np.int32), np.asarray(size, np.int32)
    np.testing.assert_array_equal(evaluate("Slice", X, begin, wanted, constant=(2,)), X[2:3, :, 1:3])


def test_a_slice_of_an_open_value(tmp_path):
    graph = Graph().input("x", None, 5)
    for name, values in (("begin", [0, 1]), ("end", [0, 0]), ("strides", [1, 2])):
        graph.const(name, np.asarray(values, np.int32))
    graph.node("StridedSlice", "y", ["x", "begin", "end", "strides"], begin_mask=1, end_mask=3)
    graph.node(
        "StridedSlice", "z", ["x", "begin", "end", "strides"], begin_mask=1, end_mask=1, shrink_axis_mask=2
    )
    model = xdlc.convert(graph.save(tmp_path / "m.pb"), {"x": [-1, 5]}, notify=lambda _: None)
    found = xdlc.run(model, {"x": X[0]})
    np.testing.assert_array_equal(found["y:0"], X[0][:, 1::2])
    np.testing.assert_array_equal(found["z:0"], X[0][:, 1])


@pytest.mark.parametrize(("op", "held"), [("Bincount", np.zeros(0, np.float32)), ("Conv2D", None)])
def test_open_dimensions_that_must_be_known_are_refused(tmp_path, op, held):
    if held is None:
        graph = Graph().input("x", 1, 4, 4, 2).input("w", 3, None, 2, 1)
        graph.node(op, "y", ["x", "w"], strides=[1, 1, 1, 1], padding="SAME")
    else:
        graph = Graph().input("x", 6, None, dtype="int32").const("n", np.int32(4)).const("w", held)
        graph.node("Reshape", "flat", ["x", "all"]).const("all", np.asarray([-1], np.int32))
        graph.node(op, "y", ["flat", "n", "w"])
    with pytest.raises(UnsupportedOp, match="must be static"):
        xdlc.convert(graph.save(tmp_path / "m.pb"))
