"""Quantization of weights alone: integers in the DLC, floats between ops."""

import tracemalloc

import numpy as np
import pytest

from tests.support.running import run
from xdlc.errors import ModelError, UsageError
from xdlc.ir import (
    ArrayData,
    AxisScaleOffset,
    BlockScaleOffset,
    Graph,
    Model,
    Tensor,
    b8,
    make_op,
    static,
    u32,
    u32s,
)
from xdlc.ir.dtype import FLOAT16, FLOAT32, SFIXED4, SFIXED8
from xdlc.ir.quantization import float_data
from xdlc.quant import quantize
from xdlc.quant.weights_only import block_quantized

RNG = np.random.default_rng(0)


def reals(data, encoding):
    return float_data(static("w", data.numpy(), SFIXED8, encoding)).numpy()


@pytest.mark.parametrize(("bits", "most"), [(2, 0.39), (4, 0.09), (8, 0.008)])
def test_integers_in_blocks_are_near_the_floats(bits, most):
    weight = RNG.standard_normal((7, 96)).astype(np.float32)
    data, encoding = block_quantized(ArrayData(weight), bits, 32)
    assert (data.shape, data.dtype, encoding.block_shape) == ((7, 96), np.int8, (1, 32))
    low = -(1 << (bits - 1))
    assert low <= data.numpy().min() < data.numpy().max() < -low
    assert np.linalg.norm(reals(data, encoding) - weight) < most * np.linalg.norm(weight)
    scales = np.asarray(encoding.scales)
    np.testing.assert_array_equal(scales, scales.astype(np.float16))


def test_the_largest_value_of_a_block_has_the_farthest_integer():
    weight = RNG.uniform(-0.5, 0.5, (2, 16)).astype(np.float32)
    weight[:, 3] = 2, -2
    data, encoding = block_quantized(ArrayData(weight), 4, 16)
    assert list(encoding.offsets) == [1, 0]
    assert (data.numpy()[:, 3] + np.asarray(encoding.offsets)).tolist() == [8, -8]


def test_ranges_of_rows_are_the_whole():
    weight = RNG.standard_normal((9, 64)).astype(np.float32)
    weight[4] = 0
    data, _ = block_quantized(ArrayData(weight), 4, 16)
    assert data.has_rows
    np.testing.assert_array_equal(np.concatenate([data.rows(at, at + 3) for at in (0, 3, 6)]), data.numpy())
    assert not data.numpy()[4].any()


def test_scales_need_no_copy_of_the_weight():
    weight = ArrayData(np.broadcast_to(np.linspace(-1, 1, 2048, dtype=np.float32), (8192, 2048)))
    tracemalloc.start()
    block_quantized(weight, 8, 64)
    assert tracemalloc.get_traced_memory()[1] < 40 << 20  # of 64 MiB
    tracemalloc.stop()


def test_bad_weights_and_blocks_are_refused():
    with pytest.raises(UsageError):
        block_quantized(ArrayData(np.ones((2, 40), np.float32)), 4, 32)
    with pytest.raises(ModelError):
        block_quantized(ArrayData(np.full((2, 32), np.nan, np.float32)), 4, 32)


def network():
    """Return a product, a convolution of 3x3 and a sum that two graphs have."""
    model = Model()
    matrix = RNG.standard_normal((64, 48)).astype(np.float32)
    filters = RNG.standard_normal((3, 3, 48, 8)).astype(np.float32)
    for name in ("prompt", "token"):
        graph = model.add_graph(Graph(name))
        x = graph.add_input(Tensor("x", (1, 4, 4, 64), FLOAT32))
        rows, product = Tensor("rows", (1, 4, 4, 48), FLOAT32), Tensor("y", (1, 2, 2, 8), FLOAT32)
        data = static("m", matrix)
        graph.append(make_op(graph, "MatMul", [x, data], [rows], name="matmul"))
        kernel = static("k", filters)
        params = {"stride": u32s([1, 1]), "pad_amount": u32s([[0, 0], [0, 0]]), "group": u32(1)}
        graph.append(make_op(graph, "Conv2d", [rows, kernel], [product], params, name="conv"))
        graph.add_output(product)
    return model


@pytest.mark.parametrize("float_bitwidth", [32, 16])
def test_weights_are_integers_beside_floats(float_bitwidth):
    model, notes = network(), []
    options = {"weights_bitwidth": 4, "weights_block_size": 32, "float_bitwidth": float_bitwidth}
    stored = quantize(model, [], weights_only=True, notify=notes.append, **options)
    for graph in stored.graphs.values():
        ops = {op.type: op for op in graph.ops}
        matrix, kernel = ops["FullyConnected"].inputs[1], ops["Conv2d"].inputs[1]
        assert (matrix.dtype, type(matrix.encoding)) == (SFIXED4, BlockScaleOffset)
        assert (kernel.dtype, type(kernel.encoding)) == (SFIXED8, AxisScaleOffset)
    (op,) = (op for op in stored.main.ops if op.type == "FullyConnected")
    assert op.outputs[0].dtype is {32: FLOAT32, 16: FLOAT16}[float_bitwidth]
    assert any("one scale per channel" in note for note in notes)
    feeds = {"x": RNG.standard_normal((1, 4, 4, 64)).astype(np.float32)}
    expected, result = run(model.main, feeds)["y"], run(stored.main, feeds)["y"]
    assert np.linalg.norm(expected - result) < 0.2 * np.linalg.norm(expected)


def test_states_that_stay_float_have_no_note_on_encodings():
    model, notes = network(), []
    x = model.main.inputs[0]
    following = Tensor("x_next", x.shape, FLOAT32)
    model.main.append(make_op(model.main, "Relu", [x], [following], name="relu"))
    model.main.add_output(following)
    quantize(model, [], weights_only=True, notify=notes.append)
    assert not any("'x_next'" in note for note in notes)


def test_no_graph_is_said_to_stay_float():
    model, notes = network(), []
    other = network()
    other.main.name = "other"
    model.add_graph(other.main)
    quantize(model, [], weights_only=True, notify=notes.append)
    assert notes
    assert not any("'other' stays float" in note for note in notes)


def test_a_note_on_blocks_names_the_bits_of_its_ops():
    notes = []
    options = {"weights_block_size": 4, "weights_bitwidth": 8, "weights_bitwidth_of": {"rows": 4}}
    quantize(network(), [], weights_only=True, notify=notes.append, **options)
    assert any("'matmul_fc'" in note and "multiple of 8 " in note for note in notes)


def test_rows_have_a_scale_each_without_a_size_of_blocks():
    stored = quantize(network(), [], weights_only=True)
    (op,) = (op for op in stored.main.ops if op.type == "FullyConnected")
    assert isinstance(op.inputs[1].encoding, AxisScaleOffset)
    assert op.inputs[1].dtype is SFIXED8


def test_a_weight_read_as_values_stays_float():
    model = Model()
    graph = model.add_graph(Graph("g"))
    x = graph.add_input(Tensor("x", (8, 64), FLOAT32))
    weight = static("w", RNG.standard_normal((8, 64)).astype(np.float32))
    total, y = Tensor("sum", (8, 64), FLOAT32), Tensor("y", (8, 8), FLOAT32)
    graph.append(make_op(graph, "ElementWiseBinary", [x, weight], [total], {"operation": u32(0)}, name="add"))
    graph.append(make_op(graph, "FullyConnected", [total, weight], [y], {"keep_dims": b8(False)}, name="fc"))
    graph.add_output(y)
    with pytest.raises(UsageError):
        quantize(model, [], weights_only=True)


@pytest.mark.parametrize(
    "options",
    [
        {"use_lpbq": True, "weights_block_size": 32},
        {"algorithms": "cle"},
        {"fail_below": 20.0},
        {"target": "sm8350", "weights_block_size": 32},
    ],
)
def test_options_of_fixed_point_are_refused(options):
    with pytest.raises(UsageError):
        quantize(network(), [], weights_only=True, **options)


def test_a_target_with_blocks_beside_floats_is_supported():
    stored = quantize(network(), [], weights_only=True, target="sm8650", weights_block_size=32)
    (op,) = (op for op in stored.main.ops if op.type == "FullyConnected")
    assert isinstance(op.inputs[1].encoding, BlockScaleOffset)
