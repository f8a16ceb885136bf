"""The operators of com.microsoft but for attention."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.support.contrib_models import RNG, check, contrib, floats, ints, reference

SCALE = (1,)


@pytest.mark.parametrize("open_axes", [False, True])
@pytest.mark.parametrize(
    ("type", "options"),
    [
        ("Gelu", {}),
        ("QuickGelu", {}),
        ("QuickGelu", dict(alpha=1.3)),
        ("FastGelu", {}),
        ("FastGelu", dict(bias=True)),
        ("BiasGelu", dict(bias=True)),
    ],
)
def test_gelus(models, type, options, open_axes):
    options = dict(options)
    inputs = [floats(2, 5, 8) * 3, *([floats(8)] if options.pop("bias", False) else [])]
    static = (1,) if len(inputs) > 1 else ()
    check(models, type, inputs, static=static, open_axes=open_axes, **options)


def test_split_gelu(models):
    """onnxruntime's CPU provider has no kernel."""
    x, bias = floats(2, 3, 8), floats(8)
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    error = np.vectorize(math.erf)(right / math.sqrt(2))
    wanted = (left * 0.5 * right * (1 + error)).astype(np.float32)
    check(models, "BiasSplitGelu", [x, bias], static=(1,), wanted=[wanted])


def test_additions_with_something_else(models):
    x, bias, skip = floats(2, 3, 8), floats(8), floats(2, 3, 8)
    check(models, "BiasAdd", [x, bias, skip], static=(1,), wanted=[x + bias + skip])
    check(models, "BiasDropout", [x, bias, skip], static=(1,), wanted=[x + bias + skip])
    check(models, "BiasDropout", [x, bias], static=(1,), wanted=[x + bias])
    x, mask = floats(2, 3, 4, 5), floats(2, 1, 1, 5)
    powers = np.exp((x + mask).astype(np.float64))
    wanted = (powers / powers.sum(-1, keepdims=True)).astype(np.float32)
    check(models, "BiasSoftmax", [x, mask], wanted=[wanted], axis=3, is_inner_broadcast=1)
    wanted = (powers / powers.sum((-2, -1), keepdims=True)).astype(np.float32)
    check(models, "BiasSoftmax", [x, mask], wanted=[wanted], axis=2, is_inner_broadcast=1)


SKIPS = {
    "plain": [(2, 5, 8), (8,), (8,), None],
    "bias": [(2, 5, 8), (8,), (8,), (8,)],
    "no_shift": [(2, 5, 8), (8,), None, (8,)],
    "skip_of_rank_2": [(5, 8), (8,), (8,), None],
    "skip_of_one": [(1, 5, 8), (8,), (8,), None],
}


@pytest.mark.parametrize("open_axes", [False, True])
@pytest.mark.parametrize("shapes", SKIPS.values(), ids=SKIPS)
def test_skip_layer_normalization(models, shapes, open_axes):
    inputs = [floats(2, 5, 8), *(None if shape is None else floats(*shape) for shape in shapes)]
    static = [index for index in (2, 3, 4) if inputs[index] is not None]
    options = dict(static=static, open_axes=open_axes, host=open_axes)
    check(models, "SkipLayerNormalization", inputs, **options)
    check(models, "SkipLayerNormalization", inputs, ["y0", "", "", "y3"], epsilon=1e-3, **options)
    if shapes[2] is not None and shapes[0] == (2, 5, 8):
        inputs, options["static"] = (
            inputs[:3] + inputs[4:],
            [index for index in static if index < len(inputs)],
        )
        options["static"] = [index for index in range(2, 4) if inputs[index] is not None]
        check(models, "SkipSimplifiedLayerNormalization", inputs, ["y0", "", "", "y3"], **options)


def test_the_mean_is_left_to_the_host(models):
    inputs = [floats(2, 5, 8), floats(2, 5, 8), floats(8), floats(8)]
    check(models, "SkipLayerNormalization", inputs, static=(2, 3), host=True, outputs=["y0", "y1", "", "y3"])


@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_layer_normalization(models, axis):
    x = floats(2, 5, 8)
    options = dict(domain="", axis=axis, epsilon=1e-3)
    check(models, "SimplifiedLayerNormalization", [x, floats(*x.shape[axis:])], static=SCALE, **options)


@pytest.mark.parametrize(("size", "options"), [(4, {}), (8, dict(activation="sigmoid", epsilon=1e-2))])
def test_gated_norm(models, size, options):
    x, scale, gate = floats(2, 5, 8), floats(size), floats(2, 5, 8)
    grouped = x.astype(np.float64).reshape(2, 5, -1, size)
    root = np.sqrt((grouped**2).mean(-1, keepdims=True) + options.get("epsilon", 1e-5))
    weight = 1 / (1 + np.exp(-gate)) * (1 if options else gate)
    wanted = ((grouped / root * scale).reshape(x.shape) * weight).astype(np.float32)
    check(models, "GatedRMSNorm", [x, scale, gate], static=SCALE, wanted=[wanted], **options)
    check(models, "GatedAdd", [x, gate, x[..., :1]], wanted=[x + gate * x[..., :1]])


def group_normalized(x, scale, shift, groups, epsilon, activation):
    batch, height, width, channels = x.shape
    apart = x.astype(np.float64).reshape(batch, height * width, groups, channels // groups)
    centred = apart - apart.mean((1, 3), keepdims=True)
    made = centred / np.sqrt(apart.var((1, 3), keepdims=True) + epsilon)
    made = made.reshape(x.shape) * scale + shift
    return (made / (1 + np.exp(-made)) if activation else made).astype(np.float32)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_norm(models, activation, last):
    """onnxruntime's CPU provider has no kernel."""
    x, scale, shift, skip, bias = floats(2, 3, 5, 8), floats(8), floats(8), floats(2, 8), floats(8)

    def lying(array):
        return array if last else np.ascontiguousarray(np.moveaxis(array, -1, 1))

    options = dict(groups=4, activation=activation, channels_last=last)
    expected = group_normalized(x, scale, shift, 4, 1e-5, activation)
    check(models, "GroupNorm", [lying(x), scale, shift], static=(1, 2), wanted=[lying(expected)], **options)
    total = x + skip[:, None, None] + bias
    expected = group_normalized(total, scale, shift, 4, 1e-5, activation)
    inputs = [lying(x), scale, shift, skip, bias]
    results = [lying(expected), lying(total)]
    check(models, "SkipGroupNorm", inputs, 2, static=(1, 2, 4), wanted=results, **options)


WORDS = [
    ints(1, 2, 3, 4, 0, 5).reshape(2, 3),
    ints(0, 1, 1, 0, 0, 1).reshape(2, 3),
    floats(7, 8),
    floats(5, 8),
    floats(2, 8),
    floats(8),
    floats(8),
]
TABLES = (2, 3, 4, 5, 6)


@pytest.mark.parametrize("open_axes", [False, True])
@pytest.mark.parametrize(
    "mask", [None, ints(1, 1, 0, 1, 0, 0), ints(1, 0, 1, 0, 1, 1), ints(2, 1, 0, 5, 5, 5)]
)
def test_embeddings(models, mask, open_axes):
    inputs = [*WORDS, None if mask is None else mask.reshape(2, 3)]
    options = dict(static=TABLES, open_axes=open_axes, host=open_axes)
    check(models, "EmbedLayerNormalization", inputs, 3, **options)


def test_embeddings_of_given_positions(models):
    positions = ints(1, 2, 3, 4, 0, 2).reshape(2, 3)
    outputs = ["y0", "", "y2"]
    check(models, "EmbedLayerNormalization", [*WORDS, None, positions], outputs, static=TABLES, epsilon=1e-5)
    check(models, "EmbedLayerNormalization", [*WORDS, None, positions[:1]], outputs, static=TABLES)
    alone = [array if index not in (1, 4) else None for index, array in enumerate(WORDS)]
    check(models, "EmbedLayerNormalization", alone, ["y0", "y1"], static=(2, 3, 5, 6))


ROTATIONS = {
    "rank_3": ((2, 3, 16), np.arange(6).reshape(2, 3), {}),
    "counted_on": ((2, 3, 16), np.asarray([2]), {}),
    "rank_4": ((2, 2, 3, 8), np.arange(6).reshape(2, 3), {}),
    "some_elements": ((2, 3, 24), np.arange(6).reshape(2, 3), dict(num_heads=2, rotary_embedding_dim=8)),
    "some_of_rank_4": ((2, 2, 3, 12), np.arange(6).reshape(2, 3), dict(num_heads=2, rotary_embedding_dim=8)),
    "one_step": ((2, 1, 16), np.asarray([[3], [4]]), dict(scale=2.0)),
}


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("shape", "positions", "options"), ROTATIONS.values(), ids=ROTATIONS)
def test_rotary_embedding(models, shape, positions, options, interleaved):
    inputs = [floats(*shape), positions, floats(10, 4), floats(10, 4)]
    for static in ((2, 3), (1, 2, 3), ()):
        check(models, "RotaryEmbedding", inputs, static=static, interleaved=interleaved, **options)


TRANSPOSITIONS = list(itertools.product((0, 1), repeat=4))


@pytest.mark.parametrize(("a", "b", "batch_a", "batch_b"), TRANSPOSITIONS)
def test_fused_matmul(models, a, b, batch_a, batch_b):
    left, right = floats(2, 4, 3) if a else floats(2, 3, 4), floats(2, 5, 4) if b else floats(2, 4, 5)
    inputs = [
        np.ascontiguousarray(np.moveaxis(array, 1, 0)) if across else array
        for array, across in ((left, batch_a), (right, batch_b))
    ]
    options = dict(transA=a, transB=b, transBatchA=batch_a, transBatchB=batch_b, alpha=0.5)
    check(models, "FusedMatMul", inputs, **options)
    check(models, "FusedMatMul", inputs, open_axes=True, host=True, **options)
    if not batch_a and not batch_b:
        check(models, "FusedMatMul", [array[0] for array in inputs], static=(1,), transA=a, transB=b)
        check(models, "TransposeMatMul", inputs, transA=a, transB=b)


def test_fused_matmul_of_vectors_and_rank_4(models):
    check(models, "FusedMatMul", [floats(4), floats(4, 5)], transA=1)
    check(models, "FusedMatMul", [floats(3, 4), floats(4)], transB=1)
    check(models, "FusedMatMul", [floats(4, 2, 3, 5), floats(2, 3, 5, 6)], transBatchA=1)


@pytest.mark.parametrize(
    ("activation", "params"),
    [
        ("Relu", {}),
        ("LeakyRelu", dict(alpha=0.3)),
        ("Sigmoid", {}),
        ("Tanh", {}),
        ("HardSigmoid", dict(alpha=0.3, beta=0.4)),
        ("Elu", dict(alpha=0.7)),
        ("Softplus", {}),
        ("Softsign", {}),
        ("ThresholdedRelu", dict(alpha=0.5)),
    ],
)
def test_fused_gemm(models, activation, params):
    options = {f"activation_{name}": value for name, value in params.items()}
    inputs = [floats(3, 4), floats(4, 5), floats(5)]
    check(models, "FusedGemm", inputs, static=(1, 2), activation=activation, alpha=0.5, beta=2.0, **options)
    turned = [floats(4, 3), floats(5, 4), floats(3, 5)]
    check(models, "FusedGemm", turned, activation=activation, transA=1, transB=1, **options)


def test_fused_gemm_with_a_gelu(models):
    """onnxruntime's CPU provider has no kernel: what is fused is compared."""
    x, weight, bias = floats(2, 3, 4), floats(4, 5), floats(5)
    wanted = reference(*contrib(models, "FastGelu", [x @ weight, bias]))["y0"]
    check(models, "GemmFastGelu", [x, weight, bias], static=(1, 2), wanted=[wanted])
    check(models, "GemmFastGelu", [x, weight, bias], wanted=[wanted])


@pytest.mark.parametrize(
    ("activation", "params"),
    [
        ("Relu", None),
        ("LeakyRelu", [0.2]),
        ("Tanh", None),
        ("Sigmoid", None),
        ("Clip", [-0.3, 0.6]),
        ("HardSigmoid", [0.3, 0.4]),
        ("HardSwish", None),
    ],
)
@pytest.mark.parametrize("added", [False, True])
def test_fused_conv(models, activation, params, added):
    inputs = [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4), *([floats(1, 4, 6, 6)] if added else [])]
    options = dict(activation_params=params) if params else {}
    check(models, "FusedConv", inputs, static=(1, 2), activation=activation, pads=[1, 1, 1, 1], **options)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("static", [(), (1,)])
def test_distances(models, metric, static):
    check(models, "CDist", [floats(4, 6), floats(5, 6)], static=static, metric=metric)


NAMESAKES = {
    "pad": ("Pad", [floats(2, 3), np.asarray([1, 0, 0, 2]), np.float32(3)], (1, 2), dict(mode="constant")),
    "reflected": ("Pad", [floats(4, 3), np.asarray([1, 0, 0, 2])], (1,), dict(mode="reflect")),
    "trilu": ("Trilu", [floats(2, 3, 4), np.asarray(1)], (1,), dict(upper=0)),
    "gather": ("GatherND", [floats(3, 4, 5), np.asarray([[0, 1], [2, 3]])], (), {}),
    "grid": ("GridSample", [floats(1, 2, 4, 4), floats(1, 3, 3, 2)], (), dict(padding_mode="border")),
    "axis": ("ExpandDims", [floats(2, 3), np.asarray(-1, np.int32)], (1,), {}),
    "pool": ("NhwcMaxPool", [RNG.integers(0, 256, (1, 6, 6, 3), np.uint8)], (), dict(kernel_shape=[3, 2])),
}


@pytest.mark.parametrize(("type", "inputs", "static", "options"), NAMESAKES.values(), ids=NAMESAKES)
def test_namesakes_of_onnx(models, type, inputs, static, options):
    inputs = [np.asarray(array) for array in inputs]
    check(models, type, inputs, static=static, **options)
    check(models, type, inputs, static=static, open_axes=True, host=True, **options)


LEFT = {
    "pads": ("Pad", [floats(2, 3), np.asarray([1, 0, 0, 2])], 1, {}),
    "inverse": ("Inverse", [floats(2, 3, 3)], 1, {}),
    "range": ("Range", [np.asarray(value, np.float32) for value in (0, 5, 0.5)], 1, {}),
    "unique": ("Unique", [np.asarray([1, 3, 1, 2], np.float32)], 3, {}),
    "unfold": ("UnfoldTensor", [floats(2, 8)], 1, dict(size=3, step=2)),
    "crop": (
        "CropAndResize",
        [floats(2, 3, 6, 6), np.abs(floats(2, 4)), ints(0, 1), ints(3, 4)],
        1,
        dict(mode="nearest"),
    ),
    "repeats": ("NGramRepeatBlock", [np.asarray([[1, 2, 1, 2, 1]]), floats(1, 5)], 1, dict(ngram_size=2)),
    "hash": ("MurmurHash3", [ints(1, 2, 3)], 1, {}),
    "masked_pool": (
        "MaxpoolWithMask",
        [floats(1, 1, 6, 6), np.ones((1, 1, 6, 6), np.int32)],
        1,
        dict(kernel_shape=[2, 2]),
    ),
    "four_bits": (
        "MatMulBnb4",
        [floats(2, 32), RNG.integers(0, 256, 64, np.uint8), np.abs(floats(8))],
        1,
        dict(K=32, N=4, block_size=16, quant_type=1),
    ),
}


@pytest.mark.parametrize("open_axes", [False, True])
@pytest.mark.parametrize(("type", "inputs", "outputs", "options"), LEFT.values(), ids=LEFT)
def test_what_is_left_to_the_host(models, type, inputs, outputs, options, open_axes):
    check(models, type, inputs, outputs, host=True, open_axes=open_axes, **options)
