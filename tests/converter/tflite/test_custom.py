"""Custom operators of TFLite: options, detections, pools, UDOs, calls."""

import struct
from typing import ClassVar

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.flexbuffer_writer import flexbuffer
from tests.converter.tflite.models import TinyModel
from xdlc.converter.tflite.flexbuffers import decoded
from xdlc.errors import UnsupportedOp, XdlcError
from xdlc.udo import Plugin
from xdlc.udo.plugin import Int, Str, with_shape

OPTIONS = {
    "max_detections": 3,
    "max_classes_per_detection": 1,
    "detections_per_class": 2,
    "use_regular_nms": False,
    "nms_score_threshold": 0.25,
    "nms_iou_threshold": 0.5,
    "num_classes": 2,
    **{f"{axis}_scale": 1.0 for axis in "yxhw"},
}


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": -2.5, "c": True, "d": "text", "e": [1, "x", {"f": []}]},
        {},
        [1, [2, [3]]],
        7,
        b"\xff\xfe",
    ],
)
def test_a_flexbuffer_is_decoded(value):
    assert decoded(flexbuffer(value)) == value


def test_narrow_and_typed_flexbuffers_are_decoded():
    assert decoded(bytes.fromhex("5400010301010100040224 01")) == {"T": 0}
    assert decoded(bytes.fromhex("0301020303 2c01")) == [1, 2, 3]


def test_a_deep_or_cyclic_flexbuffer_is_refused():
    deep = value = []
    for _ in range(100):
        value.append([])
        value = value[0]
    for data in (flexbuffer(deep), b"", bytes(8) + b"\xff\x24\x08"):
        with pytest.raises(ValueError, match=r"\w"):
            decoded(data)


def test_shared_flexbuffers_do_not_expand_without_end():
    # Each vector holds the one before it 100 times over.
    data, place = bytearray(4), 4
    for _ in range(20):
        data += struct.pack("<I", 100)
        start = len(data)
        for index in range(100):
            data += struct.pack("<I", start + 4 * index - place)
        data += bytes([(10 << 2) | 2]) * 100
        place = start
    data += struct.pack("<I", len(data) - place) + bytes([(10 << 2) | 2, 4])
    with pytest.raises(ValueError, match="values"):
        decoded(bytes(data))


def _detections(tmp_path, scores, **options):
    boxes = np.asarray([[0, 0, 0, 0], [0.1, 0, 0, 0], [5, 0, 0, 0], [9, 0, 0, 0]], np.float32)
    builder = TinyModel()
    x, s = builder.tensor("x", [1, 4, 4]), builder.tensor("s", [1, 4, 3])
    anchors = builder.tensor("anchors", data=np.asarray([[0.5, 0.5, 1, 1]] * 4))
    given = {**OPTIONS, **options}
    count = given["max_detections"] * given["max_classes_per_detection"]
    shapes = {"boxes": [1, count, 4], "classes": [1, count], "scores": [1, count], "count": [1]}
    outputs = [builder.tensor(*entry) for entry in shapes.items()]
    builder.op("TFLite_Detection_PostProcess", [x, s, anchors], outputs, custom_options=flexbuffer(given))
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x, s], outputs))
    found = xdlc.run(model, {"x": boxes[None], "s": np.asarray([scores], np.float32)})
    assert {name: list(value.shape) for name, value in found.items()} == shapes
    return [found[name] for name in shapes]


SCORES = [[0.9, 0.8, 0.1], [0.9, 0.2, 0.7], [0.9, 0.1, 0.25], [0.9, 0.1, 0.2]]
"""Of the background and two classes; the first two boxes overlap."""


def test_detections_of_all_classes_suppress_each_other(tmp_path):
    boxes, classes, scores, count = _detections(tmp_path, SCORES)
    assert count == [2]
    np.testing.assert_allclose(scores, [[0.8, 0.25, 0]], rtol=1e-6)
    np.testing.assert_array_equal(classes, [[0, 1, 0]])
    np.testing.assert_allclose(boxes, [[[0, 0, 1, 1], [5, 0, 6, 1], [0, 0, 0, 0]]], rtol=1e-6)


def test_detections_have_the_best_classes_of_their_anchor(tmp_path):
    boxes, classes, scores, count = _detections(tmp_path, SCORES, max_classes_per_detection=2)
    assert count == [2]
    np.testing.assert_allclose(scores, [[0.8, 0.1, 0.25, 0.1, 0, 0]], rtol=1e-6)
    np.testing.assert_array_equal(classes, [[0, 1, 1, 0, 0, 0]])
    np.testing.assert_allclose(boxes[0, :4, 0], [0, 0, 5, 5], rtol=1e-6)


def test_detections_suppress_those_of_their_class(tmp_path):
    boxes, classes, scores, count = _detections(tmp_path, SCORES, use_regular_nms=True)
    assert count == [3]
    np.testing.assert_allclose(scores, [[0.8, 0.7, 0.25]], rtol=1e-6)
    np.testing.assert_array_equal(classes, [[0, 1, 1]])
    np.testing.assert_allclose(boxes[0, :, 0], [0, 0.1, 5], rtol=1e-6)


@pytest.mark.parametrize("change", [{"num_classes": 9}, {"max_detections": -1}, {"y_scale": 0.0}])
def test_detections_that_do_not_fit_are_refused(tmp_path, change):
    with pytest.raises(XdlcError):
        _detections(tmp_path, SCORES, **change)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [((2, 2), (2, 2), 1), ((2, 2), (2, 3), 2)])
def test_unpooling_puts_back_what_pooling_took(tmp_path, kernel, stride, padding):
    options = struct.pack("<5i", padding, stride[1], stride[0], kernel[1], kernel[0]) + bytes(20)
    builder = TinyModel()
    x = builder.tensor("x", [1, 4, 8, 2])
    most, places, y = (builder.tensor(name, [1, 1, 1, 1]) for name in ("most", "places", "y"))
    builder.op("MaxPoolingWithArgmax2D", [x], [most, places], custom_options=options)
    builder.op("MaxUnpooling2D", [most, places], [y], custom_options=options)
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [places, y]))
    values = np.random.default_rng(3).normal(size=(1, 4, 8, 2)).astype(np.float32)
    got = xdlc.run(model, {"x": values})
    expected = np.zeros_like(got["y"])
    for _, row, column, channel in np.ndindex(got["places"].shape):
        window = (
            slice(row * stride[0], row * stride[0] + kernel[0]),
            slice(column * stride[1], column * stride[1] + kernel[1]),
        )
        cell = values[0, *window, channel]
        assert got["places"][0, row, column, channel] == cell.argmax()
        expected[0, *window, channel] = np.where(cell == cell.max(), cell, 0)
    np.testing.assert_array_equal(got["y"], expected)


def test_a_transposed_convolution_of_mediapipe(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [1, 2, 2, 1]), builder.tensor("y", [1, 4, 4, 1])
    w = builder.tensor("w", data=np.arange(4).reshape(1, 2, 2, 1))
    b = builder.tensor("b", data=[10])
    options = struct.pack("<3i", 1, 2, 2)
    builder.op("Convolution2DTransposeBias", [x, w, b], [y], custom_options=options)
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    values = np.asarray([[1, 2], [3, 4]], np.float32)
    got = xdlc.run(model, {"x": values.reshape(1, 2, 2, 1)})["y"][0, :, :, 0]
    np.testing.assert_array_equal(got, np.kron(values, [[0, 1], [2, 3]]) + 10)


@pytest.mark.parametrize("type", ["DISPATCH_OP", "NPU_OP"])
def test_what_is_compiled_already_is_refused(tmp_path, type):
    made = TinyModel()
    x, y = made.tensor("x", [4]), made.tensor("y", [4])
    made.op(type, [x], [y], custom_options=b"Partition_0")
    with pytest.raises(UnsupportedOp, match="compiled"):
        xdlc.convert(made.write(tmp_path / "m.tflite", [x], [y]))


def test_an_operator_of_tensorflow_has_the_handler_of_tensorflow(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [2, 3]), builder.tensor("y", [3, 2])
    permutation = builder.tensor("p", dtype=np.int32, data=[1, 0])
    node = b"\x12\x09Transpose*\x07\n\x01T\x12\x020\x01"
    builder.op("FlexTranspose", [x, permutation], [y], custom_options=flexbuffer(["Transpose", node]))
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(xdlc.run(model, {"x": values})["y"], values.T)


class Blur(Plugin):
    framework = "tflite"
    op_type = "Blur"
    package = "Filters"
    inputs = ("data",)
    outputs = ("result",)
    params: ClassVar = {"radius": Int(), "border": Str()}

    def infer_shape_and_type(self, op):
        """Add two columns."""
        return with_shape(op.inputs[0], (2, 5))


def _blur(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [2, 3]), made.tensor("y", [2, 5])
    made.op("Blur", [x], [y], custom_options=flexbuffer({"radius": 3, "border": "wrap"}))
    return made.write(tmp_path / "m.tflite", [x], [y])


def test_a_plugin_takes_a_custom_operator(tmp_path):
    (made_op,) = xdlc.convert(_blur(tmp_path), plugin=[Blur]).main.ops
    assert (made_op.package, made_op.type, made_op.outputs[0].shape) == ("Filters", "Blur", (2, 5))


def test_a_composite_is_its_decomposition(tmp_path):
    builder = TinyModel()
    x, y, z = (builder.tensor(name, [3]) for name in "xyz")
    for ends in ([x], [y]), ([y], [z]):
        builder.op("STABLEHLO_COMPOSITE", *ends, name="odml.scaled", decomposition_subgraph_index=1)
    builder.graph.inputs, builder.graph.outputs = [x], [z]
    builder.begin()
    x, y = builder.tensor("x", [3]), builder.tensor("y", [3])
    w = builder.tensor("w", data=[2, 3, 4])
    builder.op("MUL", [x, w], [y])
    builder.graph.inputs, builder.graph.outputs = [x], [y]
    model = xdlc.convert(builder.write(tmp_path / "m.tflite"))
    assert {op.type for op in model.main.ops} == {"ElementWiseBinary"}
    got = xdlc.run(model, {"x": np.ones(3, np.float32)})["z"]
    np.testing.assert_array_equal(got, [4, 9, 16])
