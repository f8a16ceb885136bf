"""TFLite operators in forms that recorded sets lack, against numpy."""

from collections import Counter

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel, check, converted
from xdlc.errors import ModelError, UnsupportedOp

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)
IMAGE = X[None]
I = np.arange(-12, 12, dtype=np.int32).reshape(2, 3, 4)  # noqa: E741 - beside X


def const(*values, dtype=np.int32):
    return np.asarray(values if len(values) != 1 else values[0], dtype)


@pytest.mark.parametrize(
    ("want", "op", "given", "constants", "options"),
    [
        (np.clip(I + I, 0, 6), "ADD", [I, I], (), {"fused_activation_function": 3}),
        (np.where(X > 0, X, X * np.float32(0.5)), "PRELU", [X, const(0.5, dtype="f4").reshape(1)], (1,), {}),
        (np.where([[[True]], [[False]]], X, -X), "SELECT", [const(1, 0, dtype="?"), X, -X], (), {}),
        (X.reshape(4, 6), "RESHAPE", [X], (), {"new_shape": [4, -1]}),
        (X.reshape(4, 6), "RESHAPE", [X, const(4, 6)], (), {}),
        (X[0, 0, 0], "RESHAPE", [X[:1, 0, 0], const(0).reshape(1)], (1,), {}),
        (X[:, -1], "STRIDED_SLICE", [X, const(0, -1), const(0, 9), const(1, 1)], (1, 2, 3),
         {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
        (X[:, 1:3], "STRIDED_SLICE", [X, const(0, 1), const(2, 2), const(1, 1)], (1, 2, 3), {"offset": True}),
        (X[0, 1:3], "STRIDED_SLICE", [X, const(1, 1), const(2, 3), const(1, 1)], (1, 2, 3),
         {"begin_mask": 1, "shrink_axis_mask": 1}),
        (X[1], "STRIDED_SLICE", [X, const(1).reshape(1), const(2).reshape(1), const(1).reshape(1)], (3,),
         {"shrink_axis_mask": 1}),
        (X[..., None, 0], "STRIDED_SLICE", [X, const(0, 0, 0), const(0, 0, 1), const(1, 1, 1)], (1, 2, 3),
         {"ellipsis_mask": 1, "new_axis_mask": 2, "shrink_axis_mask": 4}),
        (np.take_along_axis(X, const([[0, 2], [1, 1]])[..., None], 1), "GATHER",
         [X, const([[0, 2], [1, 1]])], (), {"axis": 1, "batch_dims": -1}),
        (IMAGE / (5 * np.square(IMAGE) - 1), "LOCAL_RESPONSE_NORMALIZATION", [IMAGE], (),
         {"radius": 0, "bias": -1.0, "alpha": 5.0, "beta": 1.0}),
        (IMAGE * np.float32(np.inf), "LOCAL_RESPONSE_NORMALIZATION", [IMAGE], (),
         {"radius": 1, "bias": 1e-30, "alpha": 0.0, "beta": 20.0}),
        (X, "MEAN", [X, np.zeros(0, np.int32)], (1,), {}),
        (X.sum((0, 1)), "SUM", [X, const(0, 1, -2)], (1,), {}),
        (I.prod(1, keepdims=True), "REDUCE_PROD", [I, const(-2)], (1,), {"keep_dims": True}),
        (X.cumsum(1) - X, "CUMSUM", [X, const(1)], (1,), {"exclusive": True}),
        (np.maximum(X[:, ::3], 0.5), "REDUCE_WINDOW",
         [X, const(0.5, dtype="f4"), const(1, 1, 1, dtype="i8"), const(1, 3, 1, dtype="i8"),
          const(1, 1, 1, dtype="i8")], (1, 2, 3, 4), {"reduce_function": 4}),
        (I[:, :, :3] + I[:, :, 1:] + 1, "REDUCE_WINDOW",
         [I, const(1), const(1, 1, 2, dtype="i8"), const(1, 1, 1, dtype="i8"), const(1, 1, 1, dtype="i8")],
         (1, 2, 3, 4), {"reduce_function": 1}),
        (const(1, 7, 7, 2, 7, 7, 3), "DILATE", [const(1, 2, 3), const(3).reshape(1), const(7)], (1, 2), {}),
        (const([0, 0, 8], [0, 0, 0], [5, 0, 0]), "SCATTER_ND",
         [const([0, 2], [2, 0], [0, 2]), const(3, 5, 5), const(3, 3)], (0, 2), {}),
        (const(1, 3), "BROADCAST_ARGS", [const(1, 1), const(3).reshape(1)], (), {}),
        (const(0, 2, 3), "BUCKETIZE", [const(-2.0, 0.5, 9.0, dtype="f4")], (),
         {"boundaries": [-1.0, 0.5, 1.5]}),
        (I // 5, "FLOOR_DIV", [I, const(5)], (1,), {}),
        (I // -5, "FLOOR_DIV", [I, const(-5)], (), {}),
        ((I - 3) ** 2, "SQUARED_DIFFERENCE", [I, const(3)], (1,), {}),
        (I >> 1, "RIGHT_SHIFT", [I, const(1)], (1,), {}),
        (X.view(np.uint8).reshape(2, 3, 4, 4), "BITCAST", [X], (), {}),
        (np.argwhere(I > 5), "WHERE", [np.maximum(I - 5, 0).astype(np.int8)], (), {}),
    ],
)  # fmt: skip
def test_an_operator(tmp_path, want, op, given, constants, options):
    check(tmp_path, want, op, given, constants, **options)


@pytest.mark.parametrize("keep", [False, True])
def test_a_dense_layer_views_its_input_as_rows(tmp_path, keep):
    weight = RANDOM.normal(size=(5, 4 if keep else 12)).astype(np.float32)
    want = X @ weight.T if keep else X.reshape(-1, 12) @ weight.T
    check(tmp_path, want, "FULLY_CONNECTED", [X, weight, None], (1,), keep_num_dims=keep)
    check(tmp_path, want, "FULLY_CONNECTED", [X, weight], keep_num_dims=keep)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("step", [1, -1])
def test_a_dropped_axis_may_ignore_its_begin(tmp_path, axis, step):
    """As LiteRT; TensorFlow takes the element at begin."""
    begin, steps = np.array([1, 1], np.int32), np.array([1, 1], np.int32)
    steps[axis] = step
    want = X.take(0 if step > 0 else -1, axis)[1:]
    masks = {"begin_mask": 1 << axis, "end_mask": 3, "shrink_axis_mask": 1 << axis}
    check(tmp_path, want, "STRIDED_SLICE", [X, begin, begin + 1, steps], (1, 2, 3), **masks)


def test_an_input_of_4_bits_is_refused(tmp_path):
    builder = TinyModel()
    x = builder.tensor("x", [4], np.int8)
    builder.op("RELU", [x], [builder.tensor("y", [4], np.int8)])
    builder.graphs[0].tensors[x].type = 17
    with pytest.raises(UnsupportedOp, match="int4") as caught:
        xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [1]))
    assert "m.tflite" in caught.value.where


@pytest.mark.parametrize("is_constant", [True, False])
def test_a_gather_of_an_open_batch(tmp_path, is_constant):
    builder, indices = TinyModel(), const([0, 2], [1, 1])
    x = builder.tensor("x", X.shape)
    i = builder.tensor("i", indices.shape, np.int32, indices if is_constant else None)
    y = builder.tensor("y", (2, 2, 4))
    builder.op("GATHER", [x, i], [y], axis=1, batch_dims=1)
    path = builder.write(tmp_path / "m.tflite", [x] if is_constant else [x, i], [y])
    feeds = {"x": X} if is_constant else {"x": X, "i": indices}
    result = xdlc.run(xdlc.convert(path, {"x": [-1, 3, 4]}), feeds)["y"]
    np.testing.assert_array_equal(result, np.take_along_axis(X, indices[..., None], 1))


@pytest.mark.parametrize("kind", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("perm", [[0, 3, 1, 2], [0, 2, 3, 1], [3, 1, 2, 0]])
def test_a_transpose_before_a_resize(tmp_path, kind, perm):
    image = RANDOM.normal(size=(2, 4, 4, 3)).astype(np.float32)
    builder = TinyModel()
    x, t = builder.tensor("x", image.shape), builder.tensor("t", [image.shape[axis] for axis in perm])
    shape = [image.shape[perm[0]], 8, 8, image.shape[perm[3]]]
    builder.op("TRANSPOSE", [x, builder.tensor("p", data=np.array(perm, np.int32))], [t])
    y = builder.tensor("y", shape)
    builder.op(kind, [t, builder.tensor("s", data=np.array([8, 8], np.int32))], [y])
    results = xdlc.run(xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y])), {"x": image})["y"]
    assert results.shape == tuple(shape)
    source = image.transpose(perm)
    steps = np.arange(8) * source.shape[1] // 8, np.arange(8) * source.shape[2] // 8
    same = (
        np.flatnonzero(np.arange(8) * source.shape[1] % 8 == 0),
        np.flatnonzero(np.arange(8) * source.shape[2] % 8 == 0),
    )
    want = source[:, steps[0]][:, :, steps[1]]
    np.testing.assert_allclose(results[:, same[0]][:, :, same[1]], want[:, same[0]][:, :, same[1]], atol=1e-6)


def test_convolutions_add_activations_and_nothing_else(tmp_path):
    builder = TinyModel()
    shapes = [(1, 8, 8, 3), (1, 4, 4, 6), (1, 4, 4, 6), (1, 4, 4, 2)]
    tensors = [builder.tensor(f"t{place}", shape) for place, shape in enumerate(shapes)]
    strides = {"stride_w": 2, "stride_h": 2}
    for place, (op, shape, options) in enumerate(
        [
            ("CONV_2D", (6, 3, 3, 3), strides | {"fused_activation_function": 3}),
            ("DEPTHWISE_CONV_2D", (1, 3, 3, 6), {"stride_w": 1, "stride_h": 1, "depth_multiplier": 1}),
            ("CONV_2D", (2, 1, 1, 6), {"stride_w": 1, "stride_h": 1, "padding": 1}),
        ]
    ):
        weight = builder.tensor(f"w{place}", data=RANDOM.normal(size=shape).astype(np.float32))
        channels = shape[3] if op.startswith("DEPTH") else shape[0]
        bias = builder.tensor(f"b{place}", data=np.zeros(channels, np.float32))
        builder.op(op, [tensors[place], weight, bias], [tensors[place + 1]], **options)
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", tensors[:1], tensors[-1:]))
    found = Counter(op.type for op in model.main.ops)
    assert found == {"Conv2d": 2, "DepthWiseConv2d": 1, "ElementWiseNeuron": 1}


@pytest.mark.parametrize("start", [(0, 0, 0), (1, -5, 9)])
@pytest.mark.parametrize("constants", [(), (2,)])
def test_an_updated_slice_is_moved_inside(tmp_path, start, constants):
    update, want = np.full((1, 2, 4), 5, np.int32), I.copy()
    first = np.clip(start, 0, np.subtract(I.shape, update.shape))
    want[tuple(slice(at, at + size) for at, size in zip(first, update.shape, strict=True))] = 5
    check(tmp_path, want, "DYNAMIC_UPDATE_SLICE", [I, update, const(start)], constants)


def test_top_k_of_a_computed_number(tmp_path):
    made = TinyModel()
    x, k = made.tensor("x", [4]), made.tensor("k", [], np.int32)
    outputs = [made.tensor("y", [1]), made.tensor("i", [1], np.int32)]
    made.op("TOPK_V2", [x, k], outputs)
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x, k], outputs))
    found = xdlc.run(model, {"x": np.float32([3, 1, 4, 1]), "k": np.int32(2)})
    np.testing.assert_array_equal(found["y"], [4, 3])
    np.testing.assert_array_equal(found["i"], [2, 0])


def test_complex_values_pass_operators_that_move_them(tmp_path):
    builder, signal = TinyModel(), RANDOM.normal(size=(1, 2, 8)).astype(np.float32)
    x, size = builder.tensor("x", signal.shape), builder.tensor("n", data=const(2, 8))
    whole, flat, y = builder.tensor("w", [1, 2, 5]), builder.tensor("f", [10]), builder.tensor("y", [10])
    for place in (whole, flat):
        builder.graph.tensors[place].type = 8
    builder.op("RFFT2D", [x, size], [whole])
    builder.op("RESHAPE", [whole], [flat], new_shape=[10])
    builder.op("COMPLEX_ABS", [flat], [y])
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    want = np.abs(np.fft.rfft2(signal)).reshape(-1)
    np.testing.assert_allclose(xdlc.run(model, {"x": signal})["y"], want, rtol=1e-4, atol=1e-5)
    builder.op("LOG", [flat], [builder.tensor("z", [10])])
    with pytest.raises(UnsupportedOp, match="complex"):
        xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y, y + 1]))


def test_values_of_4_bits_are_rounded(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [5]), builder.tensor("y", [5])
    q = builder.tensor("q", [5], "uint4", scale=0.5, zero=4)
    builder.op("QUANTIZE", [x], [q])
    builder.op("DEQUANTIZE", [q], [y])
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    found = xdlc.run(model, {"x": np.float32([-9, -0.3, 0.3, 1.1, 9])})["y"]
    np.testing.assert_allclose(found, [-2, -0.5, 0.5, 1, 5.5], atol=1e-6)


def test_an_output_that_is_an_input_has_a_name_of_its_own(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [4]), made.tensor("y", [4])
    made.op("NEG", [x], [y])
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x], [x, y]))
    found = xdlc.run(model, {"x": np.arange(4, dtype=np.float32)})
    np.testing.assert_array_equal(found["x:0"], np.arange(4))


def test_random_numbers_are_the_hosts_with_a_notice(tmp_path):
    builder = TinyModel()
    shape, y = builder.tensor("s", data=const(2, 3)), builder.tensor("y", [2, 3])
    x, z = builder.tensor("x", [2, 3]), builder.tensor("z", [2, 3])
    builder.op("RANDOM_UNIFORM", [shape], [y], seed=1)
    builder.op("ADD", [x, y], [z])
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [z]))
    found = xdlc.run(model, {"x": np.zeros((2, 3), np.float32)})["z"]
    assert ((found >= 0) & (found < 1)).all()


@pytest.mark.parametrize(
    ("op", "given", "constants", "options"),
    [
        ("FULLY_CONNECTED", [X, np.ones((5, 7), np.float32)], (1,), {}),
        ("PAD", [X, np.int32([[0, -1], [0, 0], [0, 0]])], (1,), {}),
        ("SPLIT", [const(1), X], (0,), {"num_splits": 2}),
        ("TRANSPOSE", [X, const(0, 0, 1)], (1,), {}),
        ("DYNAMIC_UPDATE_SLICE", [X, np.ones((3, 3, 4), np.float32), const(0, 0, 0)], (2,), {}),
        ("MAX_POOL_2D", [X.reshape(1, 2, 3, 4)], (), {"stride_w": 1, "stride_h": 1}),
        ("CONV_2D", [X.reshape(1, 2, 3, 4), np.ones((2, 1, 1, 3), np.float32)], (1,),
         {"stride_w": 1, "stride_h": 1}),
        *(
            (pool, [X.reshape(1, 2, 3, 4)], (),
             {"padding": 1, "stride_w": 1, "stride_h": 1, "filter_width": 1, "filter_height": 4})
            for pool in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D")
        ),
        ("CONV_2D", [X.reshape(1, 2, 3, 4), np.ones((2, 3, 1, 4), np.float32)], (1,),
         {"stride_w": 1, "stride_h": 1, "padding": 1}),
        ("REDUCE_WINDOW", [X, *(const(9, 1, 1, dtype="i8"),) * 4], (1, 2, 3, 4), {"reduce_function": 1}),
        ("LOCAL_RESPONSE_NORMALIZATION", [IMAGE], (), {"bias": 1.0, "alpha": -1.0, "beta": 0.5}),
    ],
)  # fmt: skip
def test_an_operator_that_contradicts_itself_is_refused(tmp_path, op, given, constants, options):
    outs = [((1,), np.float32)] * (2 if op == "SPLIT" else 1)
    with pytest.raises((ModelError, UnsupportedOp)):
        converted(tmp_path, op, given, outs, constants, **options)


# Two unit squares that share a half of each (a third of their union), one apart, one on top of the first.
BOXES = np.float32([[0, 0, 1, 1], [0, 0.5, 1, 1.5], [5, 5, 6, 6], [0, 0, 1, 1]])
SCORES = np.float32([0.9, 0.8, 0.7, 0.6])


@pytest.mark.parametrize(
    ("overlap", "count", "chosen"),
    [
        (0.5, 3, [0, 1, 2]),
        (float(np.float32(0.5) / np.float32(1.5)), 3, [0, 2]),  # at the limit they are dropped
        (1.0, 6, [0, 1, 2]),
        (0.0, 3, [0]),
        (0.5, 0, []),
    ],
)
@pytest.mark.parametrize("sigma", [None, 0.0, 1e3])
def test_boxes_that_overlap_up_to_a_limit_are_kept(tmp_path, overlap, count, chosen, sigma):
    inputs = [BOXES, SCORES, np.int32(count), np.float32(overlap), np.float32(0.1)]
    outs = [([count], np.int32), ([], np.int32)]
    if sigma is not None:
        inputs.append(np.float32(sigma))
        outs.insert(1, ([count],))
    type = f"NON_MAX_SUPPRESSION_V{4 if sigma is None else 5}"
    model, feeds = converted(tmp_path, type, inputs, outs, range(2, len(inputs)))
    results = xdlc.run(model, feeds, native=True)
    padding = [0] * (count - len(chosen))
    assert results["y0"].tolist() == chosen + padding
    assert results[f"y{len(outs) - 1}"] == len(chosen)
    if sigma is not None:
        np.testing.assert_allclose(results["y1"], [*SCORES[chosen], *padding], atol=1e-3)


def test_a_product_of_16_and_8_bits_is_that_of_the_numbers(tmp_path):
    """LiteRT has no kernel of it and leaves the result zero."""
    random = np.random.default_rng(0)
    x, weights = random.integers(-9999, 9999, (2, 3, 8)), random.integers(-127, 128, (8, 5))
    made = TinyModel()
    a = made.tensor("x", x.shape, np.int16, scale=1e-4)
    y = made.tensor("y", [2, 3, 5], np.int16, scale=1e-4)
    made.op("BATCH_MATMUL", [a, made.tensor("w", dtype=np.int8, data=weights, scale=0.002)], [y])
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [a], [y]))
    found = xdlc.run(model, {"x": x.astype(np.int16)}, native=True)["y"]
    want = np.clip(np.rint(x @ weights * 0.002), -32768, 32767)
    np.testing.assert_allclose(found, want, atol=1)
