"""Layers of SNPE 1, translated and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import xdlc
from xdlc.container.read3 import PACKAGE
from xdlc.converter.snpe.translate import has_layers, translate
from xdlc.errors import ProblemList, UnsupportedOp
from xdlc.ir import Graph, Model, Op, ScaleOffset, Tensor, b8, f32, i32, static, string
from xdlc.ir.dtype import FLOAT32, UFIXED8


def _param(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return b8(value)
    if isinstance(value, int):
        return i32(value)
    if isinstance(value, float):
        return f32(value)
    if isinstance(value, str):
        return string(value)
    return static(name, np.asarray(value, np.float32 if isinstance(value[0], float) else np.int32))


class Net:
    """A chain of layers, as the reader of format 3 gives them."""

    def __init__(self, *shape: int, name: str = "x") -> None:
        self.graph = Graph("model")
        self.last: list[Tensor] = [self.graph.add_input(Tensor(name, shape, FLOAT32))]

    def layer(
        self,
        type: str,
        outputs: Sequence[Sequence[int]],
        attributes: Mapping[str, Any] | None = None,
        inputs: Sequence[Tensor] | None = None,
        **weights: np.ndarray,
    ) -> list[Tensor]:
        name = f"{type}_{len(self.graph)}"
        tensors = [Tensor(f"{name}:{index}", tuple(shape), FLOAT32) for index, shape in enumerate(outputs)]
        given = [static(f"{name}.{key}", value) for key, value in weights.items()]
        params = {key: _param(key, value) for key, value in (attributes or {}).items()}
        params["layer_id"] = i32(len(self.graph) + 1)
        reads = self.last if inputs is None else list(inputs)
        self.graph.append(Op(type, [*reads, *given], tensors, params, name=name, package=PACKAGE))
        self.last = tensors
        return tensors

    def model(self) -> Model:
        for tensor in self.last:
            self.graph.add_output(tensor)
        model = Model(metadata={"history": [], "properties": {}})
        model.add_graph(self.graph)
        return model

    def run(self, x: np.ndarray) -> list[np.ndarray]:
        return list(xdlc.run(self.model(), {"x": x}).values())


def window(**attributes: int) -> dict[str, Any]:
    plain = {"stride": 1, "stride_y": 1, "padding": 0, "padding_y": 0, "padding_strategy": 4}
    return {"dilation_x": 1, "dilation_y": 1, "groups": 1, "padding_mode": 0, **plain, **attributes}


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def correlate(x: np.ndarray, weight: np.ndarray, stride: int, begin: int, out: int) -> np.ndarray:
    """Slide a window over an image of one batch; beyond the image are zeros."""
    size = weight.shape[0]
    padded = np.pad(x[0], ((begin, size + stride), (begin, size + stride), (0, 0)))
    output = np.zeros((1, out, out, weight.shape[-1]), np.float32)
    for row in range(out):
        for column in range(out):
            patch = padded[row * stride : row * stride + size, column * stride : column * stride + size]
            output[0, row, column] = np.tensordot(patch, weight, 3)
    return output


@pytest.mark.parametrize(
    ("strategy", "begin", "stride", "out"), [(4, 1, 1, 6), (4, 1, 2, 3), (3, 0, 2, 3), (2, 0, 1, 4)]
)
def test_convolutional(strategy, begin, stride, out):
    net, x, weight = Net(1, 6, 6, 2), image(1, 6, 6, 2), image(3, 3, 2, 4)
    attributes = window(
        padding=begin, padding_y=begin, stride=stride, stride_y=stride, padding_strategy=strategy
    )
    net.layer("Convolutional", [(1, out, out, 4)], attributes, weights_0=weight, bias=np.ones(4, np.float32))
    (found,) = net.run(x)
    np.testing.assert_allclose(found, correlate(x, weight, stride, begin, out) + 1, rtol=1e-5, atol=1e-5)


def test_depthwise_convolution():
    net, x, weight = Net(1, 6, 6, 3), image(1, 6, 6, 3), image(3, 3, 1, 3)
    net.layer("Convolutional", [(1, 4, 4, 3)], window(groups=3), weights_0=weight)
    model = net.model()
    assert [op.type for op in translate(model).main.ops] == ["DepthWiseConv2d"]
    spread = weight * np.eye(3, dtype=np.float32)[None, None]
    (found,) = xdlc.run(model, {"x": x}).values()
    np.testing.assert_allclose(found, correlate(x, spread, 1, 0, 4), rtol=1e-5, atol=1e-5)


def test_deconvolution_without_overlap():
    net, x, weight = Net(1, 3, 3, 2), image(1, 3, 3, 2), image(2, 2, 2, 4)
    net.layer("Deconvolution", [(1, 6, 6, 4)], window(stride=2, stride_y=2), weights_0=weight)
    expected = np.einsum("nhwi,klio->nhkwlo", x, weight).reshape(1, 6, 6, 4)
    np.testing.assert_allclose(net.run(x)[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [0, 1])
def test_pooling(kind):
    net, x = Net(1, 4, 4, 3), image(1, 4, 4, 3)
    attributes = {
        "type": kind,
        "size_x": 2,
        "size_y": 2,
        "stride_x": 2,
        "stride_y": 2,
        "pad_x": 0,
        "pad_y": 0,
    }
    attributes |= {"padding_size_strategy": 2, "pool_region_include_padding": False}
    net.layer("Pooling", [(1, 2, 2, 3)], attributes)
    cells = x.reshape(1, 2, 2, 2, 2, 3)
    expected = cells.mean(axis=(2, 4)) if kind else cells.max(axis=(2, 4))
    np.testing.assert_allclose(net.run(x)[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("type", "attributes", "function"),
    [
        ("Neuron", {"type": 1, "a": 1.0, "b": 0.0}, lambda x: np.maximum(x, 0)),
        ("Neuron", {"type": 3}, lambda x: 1 / (1 + np.exp(-x))),
        ("Neuron", {"type": 4, "min_clamp": 0.0, "max_clamp": 0.5}, lambda x: np.clip(x, 0, 0.5)),
        ("ElementwiseUnaryOp", {"op": 8}, np.abs),
    ],
)
def test_one_operand(type, attributes, function):
    net, x = Net(2, 3), image(2, 3)
    net.layer(type, [(2, 3)], attributes)
    np.testing.assert_allclose(net.run(x)[0], function(x), rtol=1e-5)


@pytest.mark.parametrize(
    ("type", "attributes"),
    [("ElementwiseBinaryOp", {"op": 0}), ("ElementwiseOp", {"op": 0, "coeffs": [1.0, 1.0]})],
)
def test_a_sum_of_a_tensor_with_itself(type, attributes):
    net, x = Net(2, 3), image(2, 3)
    net.layer(type, [(2, 3)], attributes, net.last * 2)
    np.testing.assert_array_equal(net.run(x)[0], x + x)


def test_constants():
    net, x = Net(3), image(3)
    source = net.last
    two = net.layer("Const", [(1,)], {}, [], value=np.full(1, 2, np.float32))
    net.layer("ElementwiseBinaryOp", [(3,)], {"op": 0}, [*source, *two])
    np.testing.assert_array_equal(net.run(x)[0], x + 2)


def test_slices_and_joins():
    net, x = Net(1, 2, 2, 6), image(1, 2, 2, 6)
    parts = net.layer("Slice", [(1, 2, 2, 2), (1, 2, 2, 4)], {"axis": 3, "slice_points": [2]})
    net.layer("Concat", [(1, 2, 2, 6)], {"axis": 3}, parts[::-1])
    masks = {"begin_mask": 0, "end_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    ranges = {"begin": [0, 0, 0, 1], "end": [1, 2, 1, 6], "strides": [1, 1, 1, 2]}
    net.layer("StridedSlice", [(1, 2, 1, 3)], {**ranges, **masks})
    net.layer("Reshape", [(2, 3)])
    joined = np.concatenate([x[..., 2:], x[..., :2]], axis=-1)
    np.testing.assert_array_equal(net.run(x)[0], joined[:, :, 0:1, 1:6:2].reshape(2, 3))


def test_scaling_with_aligned_corners():
    net, x = Net(1, 2, 2, 1), np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
    net.layer("Scaling", [(1, 3, 3, 1)], {"align_corners": True, "resize_mode": 0})
    np.testing.assert_allclose(net.run(x)[0].reshape(3, 3), [[0, 0.5, 1], [1, 1.5, 2], [2, 2.5, 3]])


def test_positions_are_exact_numbers():
    net, x = Net(1, 2, 2, 5), image(1, 2, 2, 5)
    (output,) = net.layer("ArgMax", [(1, 2, 2)], {"axis": 3, "keep_dims": False, "op": "ARGMAX"})
    output.dtype, output.encoding = UFIXED8, ScaleOffset(0.1, 0)
    (found,) = net.run(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, x.argmax(axis=3))


def quantized(tensor: Tensor, scale: float, offset: int) -> None:
    tensor.dtype, tensor.encoding = UFIXED8, ScaleOffset(scale, offset)


def test_encodings_stay():
    net, x = Net(2, 3), image(2, 3)
    quantized(net.last[0], 0.5, -3)
    quantized(*net.layer("Neuron", [(2, 3)], {"type": 1}), 0.25, 0)
    model = net.model()
    graph = translate(model).main
    assert graph.inputs[0].encoding == ScaleOffset(0.5, -3)
    assert graph.outputs[0].encoding == ScaleOffset(0.25, 0)
    assert [op.type for op in graph.ops] == ["ElementWiseNeuron"]
    assert all("layer_id" not in op.params for op in graph.ops)
    (found,) = xdlc.run(model, {"x": x}).values()
    np.testing.assert_allclose(found, np.maximum(np.round(np.clip(x, -1.5, None) / 0.5) * 0.5, 0))


def test_float_layers_between_quantized_ones():
    net, x = Net(2, 3), image(2, 3)
    quantized(net.last[0], 0.5, -3)
    net.layer("ElementwiseUnaryOp", [(2, 3)], {"op": 8})
    quantized(*net.layer("Neuron", [(2, 3)], {"type": 1}), 1.0, 0)
    model = net.model()
    graph = translate(model).main
    types = ["Dequantize", "ElementWiseUnary", "ElementWiseNeuron", "Quantize"]
    assert [op.type for op in graph.ops] == types
    (found,) = xdlc.run(model, {"x": x}).values()
    np.testing.assert_allclose(found, np.round(np.abs(np.round(np.clip(x, -1.5, None) / 0.5) * 0.5)))


def test_all_unknown_layers_and_numbers_are_told_at_once():
    net = Net(1, 4, 4, 2)
    net.layer("Neuron", [(1, 4, 4, 2)], {"type": 99})
    net.layer("Poolin", [(1, 4, 4, 2)])
    net.layer(
        "Convolutional",
        [(1, 4, 4, 2)],
        window(padding=1, padding_y=1, padding_strategy=7),
        weights_0=image(3, 3, 2, 2),
    )
    net.layer("Scaling", [(1, 4, 4, 2)], {"maintain_aspect_ratio": True, "resize_mode": 0})
    model = net.model()
    assert has_layers(model)
    with pytest.raises(ProblemList) as caught:
        translate(model, "old.dlc")
    texts = [str(problem) for problem in caught.value.problems]
    assert len(texts) == 4
    assert all(text.startswith("old.dlc: layer '") and "fix: " in text for text in texts)
    assert "'type' is 99; supported values are 1 rectifier" in texts[0]
    assert "nearest: Pooling" in texts[1]
    assert "padding_strategy' is 7" in texts[2]
    assert "aspect ratio" in texts[3]


def test_missing_weights_are_told():
    net = Net(1, 4, 4, 2)
    net.layer("Convolutional", [(1, 4, 4, 2)], window())
    with pytest.raises(UnsupportedOp, match="no weights 'weights_0'"):
        translate(net.model())


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"stride": -1}, "has strides .* -1"),
        ({"dilation_x": -3}, "has dilation"),
        ({"padding": -2}, "has padding"),
        ({"stride": 2**31 - 1, "stride_y": 2**31 - 1, "dilation_y": 2**31 - 1}, "has padding"),
        ({"groups": -1}, "attribute 'groups' is -1"),
    ],
)
def test_windows_of_damaged_files_are_refused(attributes, problem):
    net = Net(1, 4, 4, 2)
    weight = np.zeros((3, 3, 2, 2), np.float32)
    net.layer("Convolutional", [(1, 4, 4, 2)], window(**attributes), weights_0=weight)
    with pytest.raises(UnsupportedOp, match=problem):
        translate(net.model())


def test_slices_of_damaged_files_are_refused():
    net = Net(1, 4)
    net.layer("Slice", [(1, 2), (1, 2)], {"axis": 1, "slice_points": [-2]})
    with pytest.raises(UnsupportedOp, match="has points"):
        translate(net.model())


@pytest.mark.parametrize(
    ("type", "attributes", "problem"),
    [
        ("Neuron", {"type": "1"}, "'type' is '1', not a whole number"),
        (
            "Neuron",
            {"type": 4, "min_clamp": float("nan"), "max_clamp": 1.0},
            "'min_clamp' is nan, not a number",
        ),
        ("Concat", {"axis": 0.5}, "'axis' is 0.5, not a whole number"),
        ("Scaling", {"resize_mode": 0, "align_corners": [1, 0]}, "'align_corners' is .*, not a whole number"),
        ("ArgMax", {"op": [1, 2], "axis": 1}, "attribute 'op' is"),
        ("ElementwiseOp", {"op": 0, "coeffs": "1"}, "no attribute 'coeffs' that lists numbers"),
    ],
)
def test_attributes_of_another_kind_are_refused(type, attributes, problem):
    net = Net(1, 2, 2, 2)
    net.layer(type, [(1, 2, 2, 2)], attributes)
    with pytest.raises(UnsupportedOp, match=problem):
        translate(net.model())


def test_a_clamp_may_be_open():
    net = Net(1, 4)
    bounds = {"min_clamp": -1.0, "max_clamp": float("inf")}
    net.layer("Neuron", [(1, 4)], {"type": 4, **bounds})
    (op,) = translate(net.model()).main.ops
    assert op.param("max_value") == float("inf")


def test_ids_of_layers_survive_format_4(tmp_path):
    net = Net(1, 4)
    net.layer("Reshape", [(2, 2)])
    net.layer("Reshape", [(4, 1)])
    model = translate(net.model())
    model.save(tmp_path / "m.dlc")
    assert xdlc.load(tmp_path / "m.dlc").metadata["layers"] == model.metadata["layers"]


def test_a_static_input_that_is_no_weight_of_the_layer():
    net = Net(1, 4)
    net.layer("Neuron", [(4,)], {"type": 1}, [static("other", np.float32([1, -1, 2, -2]))])
    assert net.run(np.zeros((1, 4), np.float32))[0].tolist() == [1, 0, 2, 0]
