"""Handlers of windows, normalizations, products, attention and recurrences."""

import math

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram, results
from tests.support.formulas import normalized, softmax

INF = math.inf
RANDOM = np.random.default_rng(0)


def f32(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def ramp(*shape):
    return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)


ROW = ramp(1, 1, 5)
IMAGE = ramp(1, 1, 3, 3)
TWO, ONE = np.float32([[[1, 2]]]), np.float32([[[1, 1]]])
X, W = f32(2, 3, 4), f32(5, 4)

WINDOWS = [
    ("conv1d.padding", (ROW, ONE), {"padding": "same"}, [[[1, 3, 5, 7, 4]]]),
    ("conv1d.padding", (ROW, ONE), {"padding": "valid"}, [[[1, 3, 5, 7]]]),
    ("conv1d", (ROW[0], ONE), {"stride": [2]}, [[1, 5]]),
    ("_convolution", (ROW, TWO, None, [2], [0], [1], True, [1], 1, False, False, False, True), {},
     [[[0, 0, 1, 2, 2, 4, 3, 6, 4, 8, 0]]]),
    ("conv_transpose1d", (ONE, ONE), {"dilation": [2], "output_padding": [1]}, [[[1, 1, 1, 1, 0]]]),
    ("max_pool1d", (ROW, [2], [2], [0], [1], True), {}, [[[1, 3, 4]]]),
    ("max_pool1d", (ROW[0], [2], [1], [1], [2]), {}, [[1, 2, 3, 4, 3]]),
    ("avg_pool1d", (ROW, [3], [2], [1], True, True), {}, [[[1 / 3, 2, 7 / 3]]]),
    ("avg_pool1d", (ROW, [3], [2], [1], True, False), {}, [[[0.5, 2, 3.5]]]),
    ("avg_pool2d", (IMAGE, [2, 2], [2, 2], [0, 0], True, True, 3), {}, [[[[8 / 3, 7 / 3], [13 / 3, 8 / 3]]]]),
    ("adaptive_avg_pool1d", (ROW, [2]), {}, [[[1, 3]]]),
    ("adaptive_avg_pool1d", (ROW[0], [1]), {}, [[2]]),
    ("im2col", (IMAGE, [2, 2], [1, 1], [0, 0], [1, 1]), {},
     [[[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]]),
    ("im2col", (IMAGE[0], [3, 2], [1, 1], [0, 0], [1, 1]), {},
     [[0, 1], [1, 2], [3, 4], [4, 5], [6, 7], [7, 8]]),
    ("col2im", (np.ones((1, 4, 4), np.float32), [3, 3], [2, 2], [1, 1], [0, 0], [1, 1]), {},
     [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]),
    ("pixel_unshuffle", (ramp(2, 2, 2), 2), {}, [[[0]], [[1]], [[2]], [[3]], [[4]], [[5]], [[6]], [[7]]]),
    ("pixel_shuffle", (ramp(4, 1, 1), 2), {}, [[[0, 1], [2, 3]]]),
    ("upsample_nearest1d.vec", (ROW, None, [0.7]), {}, [[[0, 1, 2]]]),
    ("upsample_nearest1d.vec", (ROW[..., :3], None, [1.3]), {}, [[[0, 0, 1]]]),
    ("upsample_nearest2d.vec", (IMAGE, None, [1.3, 1.3]), {}, IMAGE),
    ("_upsample_nearest_exact1d", (ROW, [3]), {}, [[[0, 2, 4]]]),
    ("upsample_linear1d", (ROW, [3], True), {}, [[[0, 2, 4]]]),
    ("upsample_linear1d", (ROW, [7], False, 1.5), {}, [[[0, 0.5, 7 / 6, 11 / 6, 2.5, 19 / 6, 23 / 6]]]),
    ("_upsample_bilinear2d_aa", (IMAGE, [3, 1], False), {}, [[[[1], [4], [7]]]]),
]  # fmt: skip


@pytest.mark.parametrize(("target", "given", "named", "like"), WINDOWS)
def test_windows_and_images(tmp_path, target, given, named, like):
    want = np.asarray(like, np.float32)
    np.testing.assert_allclose(results(tmp_path, target, *given, like=want, **named), want, atol=1e-6)


SCALE, SHIFT, VAR = f32(3), f32(3), np.float32([0.5, 1, 2])
WIDE = f32(2, 3, 4, 4)
C = (3, 1, 1)
MASK = np.array([[True, False, True], [False] * 3])
Q, K, V = f32(1, 2, 4), f32(1, 3, 4), f32(1, 3, 5)
HIDDEN = np.where(MASK, 0, -INF).astype(np.float32)
SEEN = softmax(np.where(MASK, Q @ K.swapaxes(1, 2) / 2, -1e30)) * MASK.any(-1, keepdims=True)

FORMULAS = [
    ("batch_norm", (WIDE, SCALE, None, SHIFT, VAR, False, 0.1, 1e-5, True), {},
     (WIDE - SHIFT.reshape(C)) / np.sqrt(VAR.reshape(C) + 1e-5) * SCALE.reshape(C)),
    ("batch_norm", (WIDE, None, SHIFT, None, None, True, 0.1, 1e-5, True), {},
     normalized(WIDE, (0, 2, 3)) + SHIFT.reshape(C)),
    ("instance_norm", (X, None, SHIFT, None, None, True, 0.1, 1e-5, True), {},
     normalized(X, (2,)) + SHIFT[:, None]),
    ("group_norm", (X[..., 0], 1, SCALE), {}, normalized(X[..., 0], (1,)) * SCALE),
    ("layer_norm", (X, [3, 4]), {}, normalized(X, (1, 2))),
    ("rms_norm", (X, [4], None, None), {},
     X / np.sqrt((X**2).mean(-1, keepdims=True) + np.finfo(np.float32).eps)),
    ("_weight_norm", (W, np.full((5, 1), 2, np.float32)), {},
     W / np.linalg.norm(W, axis=1, keepdims=True) * 2),
    ("linear", (X, W, np.ones(5, np.float32)), {}, X @ W.T + 1),
    ("addmm", (f32(1, 5) * np.nan, X[0], W.T.copy()), {"beta": 0, "alpha": 2}, 2 * X[0] @ W.T),
    ("baddbmm", (ramp(2, 1, 1), X, X.swapaxes(1, 2).copy()), {"beta": 2},
     X @ X.swapaxes(1, 2) + 2 * ramp(2, 1, 1)),
    ("tensordot", (X, W, [2], [1]), {}, X @ W.T),
    ("kron", (W, X[0]), {}, np.kron(W, X[0])),
    ("linalg_cross", (X[..., :3].copy(), W[:3, :3].copy()), {}, np.cross(X[..., :3], W[:3, :3])),
    ("softmax.int", (np.asarray(3, np.float32), 0), {}, np.float32(1)),
    ("scaled_dot_product_attention", (Q, K, V, MASK), {}, SEEN @ V),
    ("scaled_dot_product_attention", (Q, K, V, HIDDEN), {}, SEEN @ V),
    ("scaled_dot_product_attention", (Q, K, V), {"is_causal": True, "scale": 1.0},
     softmax(np.where(np.tri(2, 3) > 0, Q @ K.swapaxes(1, 2), -1e30)) @ V),
    ("linalg_inv", (np.float32([[2, 1], [1, 1]]),), {}, np.float32([[1, -1], [-1, 2]])),
    ("logdet", (np.float32([[0, 1], [1, 0]]),), {}, np.float32(np.nan)),
    ("linalg_cholesky", (np.float32([[4, 2], [2, 5]]),), {}, np.float32([[2, 0], [1, 2]])),
    ("_masked_softmax", (W, W > 1), {"dim": 1}, softmax(np.where(W > 1, -1e30, W))),
    ("_fft_c2r", (W, [0], 1, 5), {}, np.fft.irfft(W, 5, axis=0, norm="ortho")),
    ("fft_irfft", (ROW[0],), {}, np.fft.irfft(ROW[0])),
    ("fft_hfft2", (W,), {}, np.fft.irfft(np.fft.ifft(W, axis=0), axis=1) * 5 * 6),
]  # fmt: skip


@pytest.mark.parametrize(("target", "given", "named", "like"), FORMULAS)
def test_formulas(tmp_path, target, given, named, like):
    want = np.asarray(like, np.float32)
    got = results(tmp_path, target, *given, like=want, **named)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


WHOLE = np.array([[[1, -2, 3, 7]]])
INTEGERS = [
    ("conv1d", (WHOLE, np.array([[[2, 1 << 40]]]), None, [2], [1]), [[[1 << 40, 3 * (1 << 40) - 4, 14]]]),
    ("conv_transpose1d", (WHOLE, np.array([[[1, 1]]]), None, [2], [1], [1]), [[[1, -2, -2, 3, 3, 7, 7]]]),
    ("avg_pool1d", (WHOLE, [3], [1]), [[[0, 2]]]),
    ("max_pool1d", (-WHOLE, [2], [2], [1]), [[[-1, 2, -7]]]),
]


@pytest.mark.parametrize(("target", "given", "like"), INTEGERS)
def test_integers_are_exact(tmp_path, target, given, like):
    want = np.asarray(like)
    assert results(tmp_path, target, *given, like=want).tolist() == want.tolist()


def test_places_of_maxima_are_those_of_a_plane(tmp_path):
    x = np.float32([[[1, 5, 2, 5]], [[7, 0, 0, 9]]])
    most, places = results(
        tmp_path, "max_pool1d_with_indices", x, [2], [2],
        like=[np.float32([[[5, 5]], [[7, 9]]]), np.array([[[1, 3]], [[0, 3]]])],
    )  # fmt: skip
    assert most.tolist() == [[[5, 5]], [[7, 9]]]
    assert places.tolist() == [[[1, 3]], [[0, 3]]]
    like = [np.float32([[5, 5]]), np.array([[1, 1]])]
    most, places = results(tmp_path, "adaptive_max_pool1d", x[0, :, :3], [2], like=like)
    assert (most.tolist(), places.tolist()) == ([[5, 5]], [[1, 1]])


def test_factors_are_those_of_lapack(tmp_path):
    a = np.float32([[1, 2, 4], [2, 3, 9], [4, 4, 8]])
    p, lower, upper = results(tmp_path, "linalg_lu", a, like=[a, a, a])
    np.testing.assert_allclose(p @ lower @ upper, a, atol=1e-5)
    assert p.tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    q, r = results(tmp_path, "linalg_qr", a, like=[a, a])
    np.testing.assert_allclose(q @ r, a, atol=1e-5)
    assert r[0, 0] < 0
    sign, size = results(tmp_path, "linalg_slogdet", a, like=[np.float32(0), np.float32(0)])
    np.testing.assert_allclose(sign * np.exp(size), np.linalg.det(a), rtol=1e-4)


@pytest.mark.parametrize(
    ("target", "given", "reason"),
    [
        ("linalg_svd", (W,), "singular"),
        ("batch_norm", (WIDE, None, None, None, None, False, 0.1, 1e-5, True), "statistics"),
        ("upsample_linear1d", (np.arange(3).reshape(1, 1, 3), [2], False), "int64"),
        ("logdet", (f32(40, 40),), "40"),
        ("linalg_matrix_norm", (W, 2), "singular"),
        ("rms_norm", (X, [4], None, "x"), "argument eps"),
        ("linalg_inv", (None, W), "argument A"),
    ],
)
def test_refusals(tmp_path, target, given, reason):
    with pytest.raises(xdlc.XdlcError, match=reason):
        results(tmp_path, target, *given, like=W)


def test_an_encoder_layer_is_its_parts(tmp_path):
    sizes = [(12, 4), (12,), (4, 4), (4,), (4,), (4,), (4,), (4,), (6, 4), (6,), (4, 6), (4,)]
    w, b, proj, shift, *norms, up, up_bias, down, down_bias = weights = [f32(*size) for size in sizes]
    hidden = np.array([[False, False, True], [False, True, False]])
    arguments = [X, 4, 2, *weights[:4], False, False, 1e-5, *weights[4:], hidden, 1]
    q, k, v = (X @ w.T + b).reshape(2, 3, 3, 2, 2).transpose(2, 0, 3, 1, 4)
    scores = np.where(hidden[:, None, None], -1e30, q @ k.swapaxes(2, 3) / 2**0.5)
    attended = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(X.shape) @ proj.T + shift
    first = normalized(X + attended, (2,)) * norms[0] + norms[1]
    second = first + np.maximum(first @ up.T + up_bias, 0) @ down.T + down_bias
    want = (normalized(second, (2,)) * norms[2] + norms[3]).astype(np.float32)
    got = results(tmp_path, "_transformer_encoder_layer_fwd", *arguments, like=want)
    np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("softmax.int", [-1]),
        ("log_softmax.int", [0]),
        ("rms_norm", [[4]]),
        ("scaled_dot_product_attention", ["x", "x", None, 0.0, True]),
    ],
)
def test_bfloat16_is_computed_with_float32(tmp_path, target, given):
    values = {}
    for dtype in ("float32", "bfloat16"):
        made = TinyProgram()
        x = made.input("x", (1, 3, 4), dtype)
        end = made.op(target, x, *[x if each == "x" else each for each in given], shape=(1, 3, 4))
        model = made.convert(tmp_path, [end])
        values[dtype] = xdlc.run(model, {"x": X[:1].astype(model.main.inputs[0].dtype.numpy)})["output_0"]
    np.testing.assert_allclose(values["bfloat16"].astype(np.float32), values["float32"], rtol=0.02, atol=0.02)


def test_complex_values_are_pairs(tmp_path):
    builder = TinyProgram()
    x = builder.input("x", (4,))
    half = builder.op("fft_rfft", x, shape=(3,), dtype="complex64")
    power = builder.op("mul.Tensor", half, builder.op("conj_physical", half))
    end = builder.op(
        "view_as_real", builder.op("slice.Tensor", power, 0, 1, 3), shape=(2, 2), dtype="float32"
    )
    model = builder.convert(tmp_path, [end])
    data = np.float32([1, 2, -1, 4])
    (got,) = xdlc.run(model, {"x": data}).values()
    want = np.abs(np.fft.rfft(data))[1:] ** 2
    np.testing.assert_allclose(got, np.stack([want, 0 * want], -1), atol=1e-5)
    sine = TinyProgram()
    pair = sine.op("fft_rfft", sine.input("x", (4,)), shape=(3,), dtype="complex64")
    sine.op("sin", pair)
    with pytest.raises(xdlc.XdlcError, match="complex"):
        sine.convert(tmp_path)


@pytest.mark.parametrize("given", [[None, [1.5]], [[7], None]])
def test_images_of_an_open_batch(tmp_path, given):
    made = TinyProgram(examples={"s0": 2})
    made.op("upsample_nearest1d.vec", made.input("x", ("s0", 1, 5)), *given, shape=("s0", 1, 7))
    model = made.convert(tmp_path, input_dims={"x": [-1, 1, 5]})
    for batch in (1, 3):
        (got,) = xdlc.run(model, {"x": np.repeat(ROW, batch, 0)}).values()
        assert got.tolist() == [[[0, 0, 1, 2, 2, 3, 4]]] * batch
