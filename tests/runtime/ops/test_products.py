"""Matrix products, normalization and recurrence against numpy."""

import numpy as np
import pytest

from tests.support.single_ops import op_graph
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import HOST_PACKAGE, ScaleOffset, Tensor, string
from xdlc.ir.dtype import BY_NAME
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.host_kernels import DOMAIN, MICROSOFT


@pytest.mark.parametrize(
    ("shape", "target", "keep"),
    [
        ((3, 8), (3, 5), False),
        ((2, 4, 8), (8, 5), False),
        ((2, 2, 2, 2), (2, 5), False),
        ((2, 4, 8), (2, 4, 5), True),
    ],
)
def test_fully_connected(one_op, rng, shape, target, keep):
    x = rng.normal(size=shape).astype(np.float32)
    w, bias = rng.normal(size=(5, 8)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    found = one_op("FullyConnected", [x, w, bias], [target], {"keep_dims": keep}, static_inputs=(1, 2))
    np.testing.assert_allclose(found, (x.reshape(-1, 8) @ w.T + bias).reshape(target), rtol=1e-4, atol=1e-5)


def test_fully_connected_that_does_not_fit(one_op):
    with pytest.raises(ModelError, match="do not fit"):
        one_op("FullyConnected", [np.zeros((2, 7), np.float32), np.zeros((5, 8), np.float32)], [(2, 5)])


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_matmul(one_op, rng, first, second):
    x, y = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=(4, 5)).astype(np.float32)
    bias = rng.normal(size=5).astype(np.float32)
    given = [x.swapaxes(1, 2) if first else x, y.T if second else y, bias]
    params = {"transpose_in0": first, "transpose_in1": second}
    found = one_op("MatMul", [np.ascontiguousarray(a) for a in given], [(2, 3, 5)], params)
    np.testing.assert_allclose(found, x @ y + bias, rtol=1e-4, atol=1e-5)


A_SCALE, W_SCALE, RESULT_SCALE = (np.float32(value) for value in (0.01, 0.02, 0.5))
"""Scales of the factors and the result of products of bytes at the ends of their range."""


@pytest.mark.parametrize(
    ("type", "order", "dtype"),
    [
        ("MatMulInteger", "a w az wz", "int32"),
        ("MatMulIntegerToFloat", "a w as ws az wz", "float32"),
        ("DynamicQuantizeMatMul", "x w ws wz", "float32"),
        ("DynamicQuantizeMatMul", "x w ws", "float32"),
        ("QGemm", "a as az w ws wz", "float32"),
        ("QLinearMatMul", "a as az w ws wz ys yz", "uint8"),
        ("QLinearConv", "image as az kernel ws wz ys yz", "uint8"),
    ],
)
@pytest.mark.parametrize("is_static", [False, True])
def test_products_of_unsigned_by_signed_bytes_do_not_saturate(one_op, type, order, dtype, is_static):
    stored, weight = np.full((4, 8), 255, np.uint8), np.full((8, 4), 127, np.int8)
    factors = {
        "a": stored,
        "image": stored.T.reshape(1, 8, 4, 1),
        "x": stored * A_SCALE,
        "w": weight,
        "kernel": weight.T.reshape(4, 8, 1, 1),
        "as": A_SCALE,
        "az": np.uint8(0),
        "ws": W_SCALE,
        "wz": np.int8(0),
        "ys": RESULT_SCALE,
        "yz": np.uint8(0),
    }
    names = order.split()
    is_onnx = type in ("MatMulInteger", "QLinearMatMul", "QLinearConv")
    result = one_op(
        type,
        [np.asarray(factors[name]) for name in names],
        [((1, 4, 4, 1) if type == "QLinearConv" else (4, 4), dtype)],
        {} if is_onnx else {DOMAIN: string(MICROSOFT)},
        package=HOST_PACKAGE,
        static_inputs=range(1, len(names)) if is_static else (),
    )
    product = 8 * 255 * 127 * (1 if dtype == "int32" else A_SCALE * W_SCALE)
    expected = np.rint(product / RESULT_SCALE) if dtype == "uint8" else product
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_product_of_unsigned_by_signed_activations_does_not_saturate():
    x = Tensor("x", (4, 8), BY_NAME["ufixed8"], ScaleOffset(float(A_SCALE), 0))
    w = Tensor("w", (8, 4), BY_NAME["sfixed8"], ScaleOffset(float(W_SCALE), 0))
    y = Tensor("y", (4, 4), BY_NAME["ufixed8"], ScaleOffset(float(RESULT_SCALE), 0))
    graph = op_graph("MatMul", [x, w], [y], {}, name="product")
    feeds = {"x": np.full((4, 8), 255, np.uint8), "w": np.full((8, 4), 127, np.int8)}
    result = CpuSession(graph, threads=1, plain=True).run(feeds, native=True)["y"]
    np.testing.assert_array_equal(result, round(8 * 255 * 127 * float(A_SCALE * W_SCALE / RESULT_SCALE)))


@pytest.mark.parametrize("type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(one_op, rng, type, axis):
    x = rng.normal(size=(3, 4)).astype(np.float32)
    power = np.exp(2 * x)
    want = power / power.sum(axis, keepdims=True)
    found = one_op(type, [x], [(3, 4)], {"axis": axis, "beta": 2.0})
    np.testing.assert_allclose(found, want if type == "Softmax" else np.log(want), rtol=1e-5, atol=1e-6)


@pytest.fixture
def image(rng):
    return rng.normal(1, 2, size=(2, 3, 4, 6)).astype(np.float32)


@pytest.fixture
def affine(rng):
    return [rng.normal(size=6).astype(np.float32) for _ in range(2)]


def test_batchnorm_and_prelu(one_op, image, affine):
    found = one_op("Batchnorm", [image, *affine], [image.shape], static_inputs=(1, 2))
    np.testing.assert_allclose(found, image * affine[0] + affine[1], rtol=1e-5, atol=1e-6)
    found = one_op("Prelu", [image, affine[0]], [image.shape], static_inputs=(1,))
    np.testing.assert_allclose(found, np.where(image < 0, image * affine[0], image), rtol=1e-6)


@pytest.mark.parametrize("axes", [(3,), (2, 3), (1, 3), (1,)])
@pytest.mark.parametrize("with_factors", [False, True])
def test_layer_and_rms_norm(one_op, rng, image, axes, with_factors):
    dims = tuple(image.shape[axis] for axis in axes)
    spread = [image.shape[axis] if axis in axes else 1 for axis in range(4)]
    factors = [rng.normal(size=dims).astype(np.float32) for _ in range(2)] if with_factors else []
    centred = image - image.mean(axes, keepdims=True)
    layer = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 0.01)
    rms = image / np.sqrt((image**2).mean(axes, keepdims=True) + 0.01)
    for type, want in (("LayerNorm", layer), ("RmsNorm", rms)):
        if factors:
            want = want * factors[0].reshape(spread) + factors[1].reshape(spread)
        found = one_op(
            type, [image, *factors], [image.shape], {"axes": axes, "epsilon": 0.01}, static_inputs=(1, 2)
        )
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_instance_norm(one_op, image, affine):
    centred = image - image.mean((1, 2), keepdims=True)
    want = centred / np.sqrt((centred**2).mean((1, 2), keepdims=True) + 0.1) * affine[0] + affine[1]
    found = one_op("InstanceNorm", [image, *affine], [image.shape], {"epsilon": 0.1})
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    rms = image / np.sqrt((image**2).mean(3, keepdims=True) + 0.1) * affine[0]
    found = one_op("InstanceNorm", [image, *affine], [image.shape], {"epsilon": 0.1, "mode": 1, "region": 1})
    np.testing.assert_allclose(found, rms, rtol=1e-4, atol=1e-5)


def test_group_norm(one_op, image, affine):
    grouped = image.reshape(2, 12, 3, 2)
    centred = grouped - grouped.mean((1, 3), keepdims=True)
    want = centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 0.1)
    found = one_op("GroupNorm", [image, *affine], [image.shape], {"epsilon": 0.1, "group": 3})
    np.testing.assert_allclose(found, want.reshape(image.shape) * affine[0] + affine[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("epsilon", [1e-12, 30.0])
def test_l2_norm_takes_epsilon_as_a_floor(one_op, image, epsilon):
    want = image / np.sqrt(np.maximum((image**2).sum(3, keepdims=True), epsilon))
    found = one_op("L2Norm", [image], [image.shape], {"axis": 3, "epsilon": epsilon})
    np.testing.assert_allclose(found, want, rtol=1e-5)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _cell(x, h, c, inputs):
    forget, cell, output = (x @ inputs[1 + k].T + h @ inputs[4 + k].T + inputs[7 + k] for k in range(3))
    forget = forget + (0 if inputs[19] is None else c * inputs[19])
    if inputs[16] is None:
        gate = 1 - _sigmoid(forget)
    else:
        peep = 0 if inputs[18] is None else c * inputs[18]
        gate = _sigmoid(x @ inputs[16].T + h @ inputs[17].T + inputs[21] + peep)
    c = _sigmoid(forget) * c + gate * np.tanh(cell)
    output = output + (0 if inputs[20] is None else c * inputs[20])
    return _sigmoid(output) * np.tanh(c), c


def _lstm_inputs(rng, x, *, coupled, peepholes):
    def draw(*shape):
        return rng.normal(0, 0.5, shape).astype(np.float32)

    units, width, batch = 4, 5, 2
    inputs = [x, *(draw(units, width) for _ in range(3)), *(draw(units, units) for _ in range(3))]
    inputs += [*(draw(units) for _ in range(3)), draw(batch, units), draw(batch, units), *[None] * 12]
    if not coupled:
        inputs[16], inputs[17], inputs[21] = draw(units, width), draw(units, units), draw(units)
    if peepholes:
        inputs[18:21] = (None if coupled else draw(units)), draw(units), draw(units)
    return inputs


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("form", ["time_major", "batch_major", "reverse", "step", "peepholes", "computed"])
def test_lstm(one_op, rng, form, coupled):
    steps = 1 if form == "step" else 3
    sequence = rng.normal(size=(steps, 2, 5)).astype(np.float32)
    inputs = _lstm_inputs(rng, sequence, coupled=coupled, peepholes=form == "peepholes")
    h, c, states = inputs[10], inputs[11], {}
    for step in range(steps)[:: -1 if form == "reverse" else 1]:
        h, c = _cell(sequence[step], h, c, inputs)
        states[step] = h
    every = np.stack([states[step] for step in range(steps)])
    swapped = form == "batch_major"
    if swapped:
        inputs[0], every = np.ascontiguousarray(sequence.swapaxes(0, 1)), every.swapaxes(0, 1)
    if form == "step":
        inputs[0], every = sequence[0], every[0]
    weights = () if form == "computed" else range(1, 24)
    params = {"time_major": not swapped, "direction": int(form == "reverse")}
    found = one_op("Lstm", inputs, [every.shape, (2, 4), (2, 4)], params, static_inputs=weights)
    for have, want in zip(found, (every, c, h), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_lstm_with_projection_says_so(one_op, rng):
    inputs = _lstm_inputs(rng, rng.normal(size=(2, 5)).astype(np.float32), coupled=True, peepholes=False)
    inputs[22] = np.zeros((4, 4), np.float32)
    with pytest.raises(UnsupportedOp, match="projection"):
        one_op("Lstm", inputs, [(2, 4)] * 3, static_inputs=range(1, 24))


def test_lstm_without_mandatory_weights_says_so(one_op, rng):
    inputs = _lstm_inputs(rng, rng.normal(size=(2, 5)).astype(np.float32), coupled=True, peepholes=False)
    inputs[5] = None
    with pytest.raises(ModelError, match="input 5 of the op is missing"):
        one_op("Lstm", inputs, [(2, 4)] * 3, static_inputs=range(1, 24))


@pytest.mark.parametrize("form", ["time_major", "batch_major", "reverse", "bare"])
@pytest.mark.parametrize("after", [0, 1])
def test_gru(one_op, rng, form, after):
    sequence = rng.normal(size=(3, 2, 5)).astype(np.float32)
    w, r = rng.normal(size=(3, 4, 5)).astype(np.float32), rng.normal(size=(3, 4, 4)).astype(np.float32)
    b, h = rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=(1, 2, 4)).astype(np.float32)
    if form == "bare":
        b, h = b * 0, h * 0
    state, states = h[0], {}
    for step in range(3)[:: -1 if form == "reverse" else 1]:
        x = sequence[step]
        z, g = (1 / (1 + np.exp(-(x @ w[i].T + b[i] + state @ r[i].T + b[i + 3]))) for i in (0, 1))
        inner = g * (state @ r[2].T + b[5]) if after else (g * state) @ r[2].T + b[5]
        state = states[step] = (1 - z) * np.tanh(x @ w[2].T + b[2] + inner) + z * state
    every = np.stack([states[step] for step in range(3)])
    if form == "batch_major":
        sequence, every = np.ascontiguousarray(sequence.swapaxes(0, 1)), every.swapaxes(0, 1)
    inputs = [sequence, *w, *r] + ([None] * 7 if form == "bare" else [*b, h])
    params = {"time_major": form != "batch_major", "direction": int(form == "reverse")}
    params["linear_before_reset"] = after
    found = one_op("Gru", inputs, [every.shape, (1, 2, 4)], params, static_inputs=range(1, 13))
    for have, want in zip(found, (every, state[None]), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
