"""Quantized sources: encodings of tensors, and results compared with onnxruntime."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import xdlc
from xdlc import ir

RNG = np.random.default_rng(11)
BORDERS = {"Quantize", "Dequantize", "Convert", "Reinterpret"}


class Source:
    """Nodes of a quantized model under construction, with scales as initializers."""

    def __init__(self) -> None:
        self.nodes = []
        self.weights = {}

    def node(self, type, inputs, output, domain="", **attributes):
        self.nodes.append(
            helper.make_node(type, inputs, [output], f"n_{output}", domain=domain, **attributes)
        )
        return output

    def put(self, name, array):
        self.weights[name] = np.asarray(array)
        return name

    def encoding(self, name, scale, zero):
        return [self.put(f"{name}_s", np.asarray(scale, np.float32)), self.put(f"{name}_z", zero)]

    def quantized(self, x, scale, zero, **attributes):
        """Append Quantize and Dequantize of a float; return the name of the result."""
        parameters = self.encoding(f"{x}_q", scale, zero)
        stored = self.node("QuantizeLinear", [x, *parameters], f"{x}_q", **attributes)
        return self.node("DequantizeLinear", [stored, *parameters], f"{x}_d", **attributes)

    def weight(self, name, array, scale, zero, **attributes):
        """Append Dequantize of stored integers."""
        stored = self.put(f"{name}_q", array)
        return self.node("DequantizeLinear", [stored, *self.encoding(name, scale, zero)], name, **attributes)


def integers(*shape, dtype=np.int8):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def check(models, source, feeds, outputs=("y",), *, opset=21, plain=False):
    """Convert, save, load and run; compare every bit with onnxruntime on the source."""
    model = models.make(
        source.nodes,
        {name: array.shape for name, array in feeds.items()},
        dict.fromkeys(outputs),
        source.weights,
        opset=opset,
        types={
            **{name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()},
            **dict.fromkeys(outputs, TensorProto.UNDEFINED),
        },
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for output in model.graph.output:
        output.ClearField("type")
    path = models.save(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if plain:  # integer kernels round otherwise where a result lies between two steps
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    wanted = session.run(list(outputs), feeds)
    xdlc.convert(path).save(path.with_suffix(".dlc"))
    converted = xdlc.load(path.with_suffix(".dlc"))
    found = xdlc.run(converted, feeds)
    for name, expected in zip(outputs, wanted, strict=True):
        assert found[name].dtype == expected.dtype
        np.testing.assert_array_equal(found[name], expected)
    return converted.main


def kinds(graph):
    return Counter(op.type for op in graph.ops)


def is_fixed(graph):
    """Whether nothing but fixed point is left, borders included."""
    return not BORDERS & kinds(graph).keys() and all(
        tensor.dtype.is_fixed for tensor in graph.tensors.values() if tensor.dtype.is_float
    )


def reals(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("activation", [np.uint8, np.int8, np.uint16])
@pytest.mark.parametrize("per_channel", [False, True])
def test_convolution(models, activation, per_channel):
    source, zero = Source(), activation(np.iinfo(activation).max // 2)
    step = 4 / np.iinfo(activation).max
    scale = RNG.uniform(0.01, 0.02, 5).astype(np.float32) if per_channel else np.float32(0.01)
    x = source.quantized("x", step, zero)
    w = source.weight("w", integers(5, 3, 3, 3), scale, np.zeros(scale.shape, np.int8), axis=0)
    bias_scale = np.broadcast_to(np.float32(step) * scale, (5,) if per_channel else ())
    bias = integers(5, dtype=np.int16).astype(np.int32)
    b = source.weight("b", bias, bias_scale, np.zeros(bias_scale.shape, np.int32), axis=0)
    source.node("Conv", [x, w, b], "c")
    source.node("Relu", ["c"], "r")
    y = source.quantized("r", 8 * step, zero)
    source.node("Identity", [y], "y")
    graph = check(models, source, {"x": reals(1, 3, 6, 6)})
    assert is_fixed(graph)
    (conv,) = (op for op in graph.ops if op.type == "Conv2d")
    _, weight, stored = conv.inputs
    assert (weight.dtype, stored.dtype) == (ir.dtype.SFIXED8, ir.dtype.SFIXED32)
    np.testing.assert_array_equal(stored.numpy(), bias)
    if per_channel:
        assert weight.encoding == ir.AxisScaleOffset(3, tuple(scale.tolist()))
        assert stored.encoding.axis == 0
    least = np.iinfo(activation).min
    assert graph.inputs[0].encoding == ir.ScaleOffset(step, int(least) - int(zero))
    assert not graph.inputs[0].dtype.is_signed


def test_values_that_move_keep_their_encoding(models):
    source = Source()
    x = source.quantized("x", 0.03, np.uint8(100))
    pooled = source.node("MaxPool", [x], "p", kernel_shape=[2, 2], strides=[2, 2])
    left = source.node(
        "Slice", [pooled, *(source.put(n, [v]) for n, v in (("i", 0), ("j", 1), ("k", 1)))], "l"
    )
    joined = source.node("Concat", [left, pooled], "c", axis=1)
    flat = source.node("Reshape", [joined, source.put("shape", [1, -1])], "f")
    source.node("Transpose", [flat], "y", perm=[1, 0])
    graph = check(models, source, {"x": reals(1, 2, 4, 4)})
    assert is_fixed(graph)
    assert {tensor.encoding for tensor in graph.tensors.values()} == {ir.ScaleOffset(0.03, -100)}


def test_readers_of_unrounded_values_still_get_them(models):
    source = Source()
    x = source.quantized("x", 0.03, np.uint8(100))
    source.node("Sigmoid", [x], "s")
    rounded = source.quantized("s", 1 / 256, np.uint8(0))
    source.node("Sub", ["s", rounded], "y")
    graph = check(models, source, {"x": reals(3, 4)})
    assert kinds(graph)["Quantize"] == 1
    assert graph.outputs[0].dtype is ir.dtype.FLOAT32


def test_another_encoding_is_a_conversion(models):
    source = Source()
    x = source.quantized("x", 0.03, np.uint8(100))
    source.node("Identity", [source.quantized(x, 0.05, np.int8(3))], "y")
    assert kinds(check(models, source, {"x": reals(3, 4)})) == {"Convert": 1}


def test_integers_that_are_computed_with_stay_integers(models):
    source = Source()
    parameters = source.encoding("x", 0.03, np.uint8(100))
    stored = source.node("QuantizeLinear", ["x", *parameters], "q")
    source.node("Cast", [stored], "y", to=TensorProto.FLOAT)
    turned = source.node("Transpose", [stored], "t")
    source.node("DequantizeLinear", [turned, *parameters], "z")
    graph = check(models, source, {"x": reals(3, 4)}, ("y", "z", "t"))
    assert kinds(graph)["Reinterpret"] >= 1


def test_integers_that_are_given(models):
    source = Source()
    x = source.node("DequantizeLinear", ["x", *source.encoding("x", 0.03, np.uint8(100))], "d")
    source.node("Sigmoid", [x], "s")
    source.node("QuantizeLinear", ["s", *source.encoding("y", 1 / 256, np.uint8(0))], "y")
    feeds = {"x": integers(3, 4, dtype=np.uint8)}
    graph = check(models, source, feeds)
    assert kinds(graph) == {"ElementWiseNeuron": 1, "Reinterpret": 1}
    assert graph.inputs[0].dtype is ir.dtype.UFIXED8


def test_constants_of_one_number_are_fixed_point(models):
    source = Source()
    x = source.quantized("x", 0.03, np.int8(-3))
    source.node("Mul", [x, source.put("half", np.float32(-0.5))], "m")
    source.node("LeakyRelu", [source.quantized("m", 0.019, np.int8(5))], "l", alpha=0.11)  # no ties
    source.node("Identity", [source.quantized("l", 0.019, np.int8(5))], "y")
    assert is_fixed(check(models, source, {"x": reals(3, 4)}))


def test_other_constants_leave_the_operation_on_reals(models):
    source = Source()
    x = source.quantized("x", 0.03, np.uint8(100))
    source.node("Mul", [x, source.put("c", reals(4))], "m")
    source.node("Identity", [source.quantized("m", 0.02, np.uint8(90))], "y")
    graph = check(models, source, {"x": reals(3, 4)})
    assert kinds(graph) == {"Dequantize": 1, "ElementWiseBinary": 1, "Quantize": 1}


def test_operations_of_the_host_read_reals(models):
    source = Source()
    x = source.quantized("x", 0.3, np.uint8(100))
    source.node("Identity", [source.quantized(source.node("Det", [x], "t"), 0.1, np.uint8(90))], "y")
    graph = check(models, source, {"x": reals(2, 3, 3)})
    assert [op.inputs[0].dtype.is_float for op in graph.ops if op.type == "Det"] == [True]


@pytest.mark.parametrize("zero", [np.uint8(100), np.int8(0)])
def test_operations_that_htp_has_for_unsigned_values_only(models, zero):
    source = Source()
    source.node("Exp", [source.quantized("x", 0.01, zero)], "e")
    source.node("Identity", [source.quantized("e", 0.02, zero)], "y")
    assert is_fixed(check(models, source, {"x": reals(3, 4)}))


def test_scales_along_an_axis_of_activations_stay_borders(models):
    source = Source()
    scales, zeros = [0.01, 0.02, 0.03], np.asarray([1, 2, 3], np.uint8)
    x = source.quantized("x", scales, zeros, axis=1)
    source.node("Sigmoid", [x], "y")
    assert kinds(check(models, source, {"x": reals(2, 3)}))["Quantize"] == 1


@pytest.mark.parametrize(
    ("dtype", "zero"), [("int4", 0), ("int4", 3), ("uint4", 0), ("uint4", 3), ("uint4", 8)]
)
def test_weights_of_four_bits(models, dtype, zero):
    source, narrow = Source(), getattr(ml_dtypes, dtype)
    x = source.quantized("x", 0.02, np.uint8(128))
    low = -8 if dtype == "int4" else 0
    w = source.weight("w", RNG.integers(low, low + 16, (6, 5)).astype(narrow), 0.1, np.asarray(zero, narrow))
    source.node("MatMul", [x, w], "m")
    source.node("Identity", [source.quantized("m", 0.1, np.uint8(128))], "y")
    graph = check(models, source, {"x": reals(2, 6)}, plain=True)
    (weight,) = (tensor for tensor in graph.tensors.values() if tensor.is_static)
    assert weight.encoding.bits == 4
    signed = dtype == "int4" or zero == 8
    assert weight.dtype is (ir.dtype.SFIXED8 if signed else ir.dtype.UFIXED8)


@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
@pytest.mark.parametrize("factored", [True, False])
def test_blocks_whose_scales_are_integers_over_one_of_the_channel(models, kind, factored):
    source = Source()
    window = (1, 1) if kind == "Conv" else ()
    integral = RNG.integers(1, 17, (5, 4, *window))
    integral[:, 0] = 16
    scales = integral * np.float32(0.003) if factored else RNG.uniform(0.001, 0.05, integral.shape)
    x = source.quantized("x", 0.02, np.uint8(128))
    stored = RNG.integers(-8, 8, (5, 16, *window)).astype(ml_dtypes.int4)
    zeros = np.zeros(integral.shape, ml_dtypes.int4)
    w = source.weight("w", stored, scales, zeros, axis=1, block_size=4)
    source.node(kind, [x, w], "m", **({} if window else {"transB": 1}))
    source.node("Identity", [source.quantized("m", 0.02, np.uint8(128))], "y")
    shape = (1, 16, 3, 3) if window else (3, 16)
    graph = check(models, source, {"x": reals(*shape)}, plain=True)
    assert is_fixed(graph) == factored
    if factored:
        (found,) = (tensor.encoding for tensor in graph.tensors.values() if tensor.is_static)
        assert isinstance(found, ir.BlockwiseExpansion)
        assert found.blocks_per_axis == 4


@pytest.mark.parametrize("signed", [False, True])
def test_gated_values_are_rounded_as_the_source_does(models, signed):
    """HTP would not round the gate, nor between a convolution and Prelu."""
    source, zero = Source(), np.int8(0) if signed else np.uint8(128)
    x = source.quantized("x", 0.05, zero)
    source.node("Sigmoid", [x], "s")
    source.node("Mul", [x, source.quantized("s", 1 / 128, zero)], "m")
    source.node("Identity", [source.quantized("m", 0.03, zero)], "y")
    assert is_fixed(check(models, source, {"x": reals(20, 20)}))


MICROSOFT = "com.microsoft"
UNARY = {
    "QLinearSigmoid": {},
    "QLinearLeakyRelu": {"alpha": 0.2},
    "QLinearSoftmax": {"opset": 13, "axis": -1},
    "QLinearGlobalAveragePool": {"channels_last": 0},
    "QLinearAveragePool": {"kernel_shape": [2, 2], "channels_last": 0},
    "QLinearReduceMean": {"axes": [1], "keepdims": 1},
}


def stored_input(source):
    return source.node("QuantizeLinear", ["x", *source.encoding("x", 0.05, np.uint8(110))], "q")


def given_back(source, stored, out):
    source.node("DequantizeLinear", [stored, *out], "y")


@pytest.mark.parametrize("type", [name for name in UNARY if name != "QLinearReduceMean"])
def test_operators_on_integers_with_one_operand(models, type):
    source = Source()
    q = stored_input(source)
    out = source.encoding("y", 1 / 100, np.uint8(60))
    given_back(source, source.node(type, [q, "x_s", "x_z", *out], "o", MICROSOFT, **UNARY[type]), out)
    graph = check(models, source, {"x": reals(1, 3, 4, 4)})
    assert is_fixed(graph)


@pytest.mark.parametrize("type", ["QLinearAdd", "QLinearMul"])
def test_operators_on_integers_with_two_operands(models, type):
    source = Source()
    q, out = stored_input(source), source.encoding("y", 0.07, np.uint8(100))
    other = source.put("c", integers(4, dtype=np.uint8))
    inputs = [q, "x_s", "x_z", other, *source.encoding("c", 0.02, np.uint8(128)), *out]
    given_back(source, source.node(type, inputs, "o", MICROSOFT), out)
    assert is_fixed(check(models, source, {"x": reals(3, 4)}))


def test_concat_of_integers(models):
    source = Source()
    q, out = stored_input(source), source.encoding("y", 0.07, np.uint8(100))
    other = source.node("QuantizeLinear", ["z", *source.encoding("z", 0.02, np.uint8(90))], "r")
    inputs = [*out, q, "x_s", "x_z", other, "z_s", "z_z"]
    given_back(source, source.node("QLinearConcat", inputs, "o", MICROSOFT, axis=1), out)
    assert is_fixed(check(models, source, {"x": reals(3, 4), "z": reals(3, 2)}))


@pytest.mark.parametrize("per_column", [False, True])
def test_products_of_integers(models, per_column):
    source = Source()
    q, out = stored_input(source), source.encoding("y", 0.07, np.uint8(100))
    scale = RNG.uniform(0.01, 0.02, 5) if per_column else 0.01
    zero = np.zeros(5, np.int8) if per_column else np.int8(0)
    inputs = [q, "x_s", "x_z", source.put("w", integers(4, 5)), *source.encoding("w", scale, zero), *out]
    given_back(source, source.node("QLinearMatMul", inputs, "o"), out)
    assert is_fixed(check(models, source, {"x": reals(3, 4)}))


def test_affine_layer_of_integers(models):
    source = Source()
    q, out = stored_input(source), source.encoding("y", 0.07, np.uint8(100))
    weight = [source.put("w", integers(5, 4)), *source.encoding("w", 0.01, np.int8(0))]
    inputs = [q, "x_s", "x_z", *weight, source.put("b", integers(5).astype(np.int32)), *out]
    given_back(source, source.node("QGemm", inputs, "o", MICROSOFT, transB=1), out)
    assert is_fixed(check(models, source, {"x": reals(3, 4)}))


@pytest.mark.parametrize("scale", [0.0, np.nan])
def test_scales_that_are_no_positive_numbers_are_told(models, scale):
    source = Source()
    source.node("QuantizeLinear", ["x", *source.encoding("x", scale, np.uint8(0))], "y")
    model = models.make(source.nodes, {"x": [2]}, {"y": None}, source.weights)
    converted = xdlc.convert(models.save(model))
    assert [(op.package, "positive" in op.origin.reason) for op in converted.main.ops] == [("xdlc", True)]


@pytest.mark.parametrize("condition", [True, False])
def test_branches_compute_in_fixed_point_between_reals(models, condition):
    parameters = {"s": np.float32(0.02), "z": np.uint8(100)}

    def branch(name, kind):
        source = Source()
        stored = source.node("QuantizeLinear", ["x", "s", "z"], f"{name}_q")
        real = source.node("DequantizeLinear", [stored, "s", "z"], f"{name}_d")
        rounded = source.node(
            "QuantizeLinear", [source.node(kind, [real], f"{name}_r"), "s", "z"], f"{name}_p"
        )
        result = source.node("DequantizeLinear", [rounded, "s", "z"], f"{name}_y")
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, [3, 4])
        return helper.make_graph(source.nodes, name, [], [output])

    choice = helper.make_node(
        "If", ["c"], ["y"], "choice", then_branch=branch("t", "Sigmoid"), else_branch=branch("e", "Tanh")
    )
    model = models.make(
        [choice], {"c": [], "x": [3, 4]}, {"y": [3, 4]}, parameters, types={"c": TensorProto.BOOL}
    )
    path = models.save(model)
    converted = xdlc.convert(path)
    inner = [graph for graph in converted.graphs.values() if graph is not converted.main]
    assert [[op.type for op in graph.ops] for graph in inner] == [
        ["Quantize", "ElementWiseNeuron", "Dequantize"]
    ] * 2
    feeds = {"c": np.asarray(condition), "x": reals(3, 4)}
    wanted = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["y"], feeds)[0]
    np.testing.assert_array_equal(xdlc.run(converted, feeds)["y"], wanted)


@pytest.mark.parametrize("second_input", ["static", "computed"])
def test_stored_integers_beside_plain_ones(models, second_input):
    source, feeds = Source(), {"x": reals(1, 3)}
    parameters = source.encoding("x", 0.03, np.int8(0))
    stored = source.node("QuantizeLinear", ["x", *parameters], "q")
    moved = source.node("Transpose", [stored], "t", perm=[0, 1])
    beside = source.put("c", integers(1, 2))
    if second_input == "computed":
        feeds["i"] = integers(1, 2).astype(np.int32)
        beside = source.node("Cast", ["i"], "c8", to=TensorProto.INT8)
    joined = source.node("Concat", [moved, beside], "j", axis=1)
    source.node("DequantizeLinear", [joined, *parameters], "y")
    graph = check(models, source, feeds)
    assert is_fixed(graph) == (second_input == "static")


@pytest.mark.parametrize("kind", ["Pad", "Relu"])
def test_zero_among_stored_integers_is_another_number(models, kind):
    source = Source()
    parameters = source.encoding("x", 0.02, np.int8(30))
    source.node("QuantizeLinear", ["x", *parameters], "q")
    pads = [source.put("pads", np.asarray([0, 0, 1, 1, 0, 0, 1, 1]))] if kind == "Pad" else []
    source.node(kind, ["q", *pads], "p")
    source.node("DequantizeLinear", ["p", *parameters], "y")
    check(models, source, {"x": reals(1, 2, 3, 3)})


def test_signed_values_that_no_operation_computes_with_stay_signed(models):
    """Reals that are an output keep the convolution on reals and the integers signed."""
    source = Source()
    parameters = source.encoding("y", 1 / 128, np.int8(0))
    source.node("Sigmoid", [source.quantized("x", 0.03, np.int8(3))], "y")
    stored = source.node("QuantizeLinear", ["y", *parameters], "q")
    source.node("DequantizeLinear", [stored, *parameters], "z")
    graph = check(models, source, {"x": reals(3, 4)}, ("y", "q", "z"))
    assert kinds(graph)["Convert"] == 0
