"""Operators of com.microsoft on integers that stand for reals."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.support.contrib_models import RNG, check, contrib, floats, ints
from xdlc.ir.dtype import SFIXED4


def unsigned(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def signed(*shape):
    return RNG.integers(-128, 128, shape).astype(np.int8)


def scale(*shape):
    return np.asarray(RNG.uniform(0.01, 0.05, shape), np.float32)


def zero(value, dtype=np.int8):
    return np.asarray(value, dtype)


def known(inputs, *computed):
    """Return the positions of the inputs that are constants."""
    return [index for index, array in enumerate(inputs) if array is not None and index not in computed]


@pytest.mark.parametrize(
    ("bits", "zeros"),
    [  # onnxruntime's kernel takes no real zero points for 8 bits
        (bits, zeros) for bits in (2, 4, 8) for zeros in ("middle", "packed", "real")[: 2 if bits == 8 else 3]
    ],
)
@pytest.mark.parametrize(("width", "units", "size"), [(64, 5, 16), (40, 3, 32), (16, 1, 16)])
@pytest.mark.parametrize("signs", [1, -1])
def test_products_with_blocks(models, bits, width, units, size, signs, zeros):
    count = -(-width // size)
    steps = (np.abs(floats(units, count)) + 0.1) * signs
    if signs < 0:
        steps[0, 0] = 0
    weights = {
        "middle": None,
        "packed": unsigned(units, -(-count * bits // 8)),
        "real": floats(units, count) + 2,
    }[zeros]
    inputs = [
        floats(2, 3, width),
        unsigned(units, count, size * bits // 8),
        steps,
        weights,
        None,
        floats(units),
    ]
    options = dict(K=width, N=units, bits=bits, block_size=size)
    graph = check(models, "MatMulNBits", inputs, static=known(inputs, 0), tol=1e-4, **options)
    assert "FullyConnected" in [op.type for op in graph.ops]


def test_blocks_of_an_unknown_input(models):
    inputs = [floats(2, 3, 32), unsigned(4, 2, 8), np.abs(floats(4, 2))]
    options = dict(K=32, N=4, bits=4, block_size=16, open_axes=True, host=True)
    check(models, "MatMulNBits", inputs, static=(1, 2), **options)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("packed", [False, True])
def test_rows_in_blocks(models, bits, dtype, packed):
    zeros = unsigned(7, -(-4 * bits // 8)) if packed else None
    rows = np.asarray([[1, 2, 6], [0, 3, 3]], dtype)
    inputs = [unsigned(7, 64 * bits // 8), rows, np.abs(floats(7, 4)) + 0.1, zeros]
    options = dict(bits=bits, block_size=16, gather_axis=0, quantize_axis=1)
    check(models, "GatherBlockQuantized", inputs, static=known(inputs, 1), **options)


@pytest.mark.parametrize(("bits", "marked"), [(4, None), (2, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_weights_of_small_integers_remember_them(models, bits, marked, dtype):
    inputs = [floats(2, 32), unsigned(4, 2, 2 * bits), np.abs(floats(4, 2))]
    inputs = [array if array.dtype == np.uint8 else array.astype(dtype) for array in inputs]
    path, _ = contrib(models, "MatMulNBits", inputs, static=(1, 2), K=32, N=4, bits=bits, block_size=16)
    model = xdlc.convert(path)
    op = next(op for op in model.main.ops if op.type == "FullyConnected")
    held = op.inputs[1]
    assert (held.encoding.block_shape, held.dtype, held.encoding.bits) == ((1, 16), SFIXED4, marked)
    (result,) = xdlc.run(model, {model.main.inputs[0].name: inputs[0]}).values()
    packed = inputs[1].reshape(4, 2, -1, 1) >> np.arange(0, 8, bits, dtype=np.uint8) & ((1 << bits) - 1)
    weight = (packed.reshape(4, 2, 16) - float(1 << (bits - 1))) * inputs[2][..., None]
    np.testing.assert_allclose(result, inputs[0] @ weight.reshape(4, 32).T, rtol=3e-3, atol=3e-3)


@pytest.mark.parametrize("case", ["tensor", "columns", "no_zero", "zero_of_columns"])
@pytest.mark.parametrize("kind", ["mixed", "positive", "nothing"])
def test_products_of_rounded_inputs(models, case, kind):
    x = {
        "mixed": floats(2, 3, 16),
        "positive": np.abs(floats(3, 16)),
        "nothing": np.zeros((3, 16), np.float32),
    }
    columns = scale(5) if "column" in case else scale()
    start = {"no_zero": None, "zero_of_columns": signed(5), "columns": None}.get(case, zero(2))
    inputs = [x[kind], signed(16, 5), columns, start, floats(5)]
    check(models, "DynamicQuantizeMatMul", inputs, static=known(inputs, 0), tol=1e-4)


def test_products_with_computed_scales_are_left_to_the_host(models):
    # onnxruntime's sums of two products with larger weights saturate on CPUs without VNNI.
    inputs = [floats(3, 16), signed(16, 5) // 2, scale(), zero(0)]
    check(models, "DynamicQuantizeMatMul", inputs, host=True)
    inputs = [floats(3, 16), signed(16, 5), scale(), zero(2)]
    check(models, "DynamicQuantizeMatMul", inputs, static=(1, 2, 3), open_axes=True, host=True)


@pytest.mark.parametrize("start", [None, zero(7, np.uint8)])
@pytest.mark.parametrize("computed", [(0,), (0, 2, 4)])
def test_products_of_integers(models, start, computed):
    inputs = [unsigned(2, 3, 16), signed(16, 5), scale(), scale(), start, zero(3), floats(5)]
    check(models, "MatMulIntegerToFloat", inputs, static=known(inputs, *computed), tol=1e-4)
    inputs = [signed(2, 3, 16), signed(16, 5), scale(), scale(5), None, signed(5)]
    check(models, "MatMulIntegerToFloat", inputs, static=known(inputs, *computed), tol=1e-4)


HEADS, HIDDEN = 2, 8


@pytest.mark.parametrize("case", ["unsigned", "signed", "columns", "mask", "past"])
def test_quantized_attention(models, case):
    weights, start = signed(8, 3 * HIDDEN), zero(2)
    if case == "unsigned":
        weights, start = unsigned(8, 3 * HIDDEN), zero(120, np.uint8)
    steps = scale(3 * HIDDEN) if case == "columns" else scale()
    start = np.zeros(3 * HIDDEN, np.int8) if case == "columns" else start
    mask = ints(3, 4) if case == "mask" else None
    past = floats(2, 2, HEADS, 3, 4) if case == "past" else None
    inputs = [
        unsigned(2, 4, 8),
        weights,
        floats(3 * HIDDEN),
        scale(),
        steps,
        mask,
        zero(128, np.uint8),
        start,
    ]
    inputs += [past]
    options = dict(num_heads=HEADS, unidirectional=int(case in ("mask", "past")), tol=1e-4)
    check(models, "QAttention", inputs, 2, static=known(inputs, 0, 5, 8), **options)


U8 = np.uint8
REAL = (scale(), zero(120, U8))
OPEN = {
    "QLinearAdd": ([unsigned(2, 3), *REAL, unsigned(3), *REAL, scale(), zero(9, U8)], (0, 3), {}),
    "QLinearSigmoid": ([unsigned(2, 3), *REAL, scale(), zero(9, U8)], (0,), {}),
    "QLinearLeakyRelu": ([unsigned(2, 3), *REAL, scale(), zero(9, U8)], (0,), {}),
    "QLinearConcat": ([*REAL, unsigned(2, 3), *REAL, unsigned(2, 4), *REAL], (2, 5), dict(axis=1)),
    "QLinearWhere": (
        [np.asarray([[True], [False]]), unsigned(2, 3), *REAL, unsigned(3), *REAL, *REAL],
        (0, 1, 4),
        {},
    ),
    "QLinearGlobalAveragePool": ([unsigned(1, 4, 4, 3), *REAL, *REAL], (0,), dict(channels_last=1)),
    "QLinearAveragePool": (
        [unsigned(1, 4, 4, 3), *REAL, *REAL],
        (0,),
        dict(channels_last=1, kernel_shape=[2, 2]),
    ),
    "QLinearConv": (
        [unsigned(1, 5, 5, 3), *REAL, unsigned(4, 3, 3, 3), *REAL, *REAL],
        (0,),
        dict(channels_last=1),
    ),
    "QGemm": ([unsigned(2, 8), *REAL, unsigned(4, 8), *REAL], (0,), dict(transB=1)),
    "DynamicQuantizeLSTM": (
        [floats(5, 2, 4), signed(1, 4, 12), signed(1, 3, 12), floats(1, 24), None, None, None, None]
        + [scale(1), np.zeros(1, np.int8)] * 2,
        (0,),
        dict(hidden_size=3),
    ),
}


@pytest.mark.parametrize("type", OPEN)
def test_unknown_extents(models, type):
    inputs, computed, options = OPEN[type]
    outputs = 3 if type == "DynamicQuantizeLSTM" else 1
    static = known(inputs, *computed)
    check(models, type, inputs, outputs, static=static, open_axes=True, host=True, **options)
