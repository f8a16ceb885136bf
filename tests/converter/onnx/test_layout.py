"""Axis orders: transposes are at the boundary or where the source has them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import xdlc

RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def node(type, inputs, output, **attributes):
    return helper.make_node(type, inputs.split(), [output], name=output, **attributes)


def transposes(models, nodes, inputs, outputs, weights):
    graph = xdlc.convert(models.save(models.make(nodes, inputs, outputs, weights))).main
    return [op for op in graph.ops if op.type == "Transpose"]


def conv(x, output, weight="w"):
    return node("Conv", f"{x} {weight}", output, pads=[1, 1, 1, 1])


def test_one_transpose_at_each_boundary(models):
    nodes = [conv("x", "a"), node("Relu", "a", "b"), conv("b", "c"), node("Add", "c b", "y")]
    found = transposes(models, nodes, {"x": [1, 4, 6, 6]}, {"y": [1, 4, 6, 6]}, {"w": floats(4, 4, 3, 3)})
    assert [op.origin.reason for op in found] == [
        "input 'x' is channel-first, the graph works channel-last",
        "output 'y' keeps the source's axis order",
    ]


def test_slices_and_joins_before_the_first_convolution_follow_it(models):
    nodes = [
        node("Slice", "x s e a p", "left"),
        node("Slice", "x s2 e a p", "right"),
        node("Concat", "left right", "both", axis=1),
        conv("both", "c"),
        node("GlobalAveragePool", "c", "g"),
        node("Flatten", "g", "y"),
    ]
    weights = {
        "w": floats(5, 6, 3, 3),
        "s": np.asarray([0]),
        "s2": np.asarray([1]),
        "e": np.asarray([100]),
        "a": np.asarray([2]),
        "p": np.asarray([2]),
    }
    found = transposes(models, nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 5]}, weights)
    assert [op.origin.reason for op in found] == ["input 'x' is channel-first, the graph works channel-last"]


def test_channel_last_source_needs_none(models):
    nodes = [
        node("Transpose", "x", "first", perm=[0, 3, 1, 2]),
        conv("first", "c"),
        node("Transpose", "c", "y", perm=[0, 2, 3, 1]),
    ]
    assert not transposes(models, nodes, {"x": [1, 6, 6, 4]}, {"y": [1, 6, 6, 4]}, {"w": floats(4, 4, 3, 3)})


def test_detection_head_is_reshaped_as_it_lies(models):
    nodes = [
        conv("x", "c"),
        node("Reshape", "c shape", "r"),
        node("Transpose", "r", "y", perm=[0, 2, 1]),
    ]
    weights = {"w": floats(4, 4, 3, 3), "shape": np.asarray([1, 4, -1])}
    found = transposes(models, nodes, {"x": [1, 4, 6, 6]}, {"y": [1, 36, 4]}, weights)
    assert [op.origin.reason for op in found] == ["input 'x' is channel-first, the graph works channel-last"]


def test_channel_shuffle_is_one_transpose(models):
    nodes = [
        conv("x", "a"),
        node("Reshape", "a apart", "b"),
        node("Transpose", "b", "c", perm=[0, 2, 1, 3, 4]),
        node("Reshape", "c together", "d"),
        conv("d", "e"),
        node("GlobalAveragePool", "e", "y"),
    ]
    weights = {
        "w": floats(6, 6, 3, 3),
        "apart": np.asarray([1, 2, 3, 4, 5]),
        "together": np.asarray([1, 6, 4, 5]),
    }
    found = transposes(models, nodes, {"x": [1, 6, 4, 5]}, {"y": [1, 6, 1, 1]}, weights)
    assert [list(op.param("perm")) for op in found] == [[0, 2, 3, 1], [0, 1, 2, 4, 3]]


@pytest.mark.parametrize("last", ["Gemm", "MatMul"])
def test_flattened_image_moves_its_order_into_the_weights(models, last):
    nodes = [conv("x", "c"), node("Flatten", "c", "f"), node(last, "f v", "y")]
    weights = {"w": floats(4, 4, 3, 3), "v": floats(144, 5)}
    found = transposes(models, nodes, {"x": [1, 4, 6, 6]}, {"y": [1, 5]}, weights)
    assert [op.origin.reason for op in found] == ["input 'x' is channel-first, the graph works channel-last"]


def test_source_transposes_join_and_are_no_more_than_in_the_source(models):
    nodes = [
        node("Reshape", "x shape", "r"),
        node("Transpose", "r", "heads", perm=[0, 2, 1, 3]),
        node("Transpose", "heads", "k", perm=[0, 1, 3, 2]),
        node("MatMul", "heads k", "s"),
        node("Softmax", "s", "y", axis=-1),
    ]
    found = transposes(
        models, nodes, {"x": [1, 5, 12]}, {"y": [1, 3, 5, 5]}, {"shape": np.asarray([1, 5, 3, 4])}
    )
    assert len(found) <= 2


def test_square_constant_follows_the_order_of_its_partner(models):
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Mul", "t c", "y")]
    weights = {"c": floats(4, 4)}
    path = models.save(models.make(nodes, {"x": [2, 4, 4]}, {"y": None}, weights))
    x = floats(2, 4, 4)
    found = xdlc.run(xdlc.convert(path), {"x": x})["y"]
    np.testing.assert_allclose(found, x.transpose(0, 2, 1) * weights["c"], rtol=1e-6)


def test_layouts_of_inputs_and_outputs_are_noted_where_known(models):
    assert xdlc.convert(models.save(models.cnn())).metadata["layouts"] == {"x": "NCHW"}
    nodes = [node("Conv", "x w", "y", pads=[1, 1]), node("Relu", "z", "u")]
    shapes = {"x": [1, 3, 8], "z": [1, 3, 8]}
    weights = {"w": np.ones((4, 3, 3), np.float32)}
    made = xdlc.convert(models.save(models.make(nodes, shapes, {"y": [1, 4, 8], "u": [1, 3, 8]}, weights)))
    assert made.metadata["layouts"] == {"x": "NCF", "y": "NCF"}
