"""Float products with integer weights: HTP keeps them, and computes as the host."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from tests.support.running import run, run_cache
from xdlc import passes
from xdlc.ir import (
    ArrayData,
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Graph,
    Model,
    Param,
    Role,
    ScaleOffset,
    Tensor,
    b8,
    make_op,
    packed,
    static,
    u32s,
)
from xdlc.ir.dtype import FLOAT16, FLOAT32, SFIXED4, SFIXED8, UFIXED8, DType
from xdlc.ir.quantization import float_data
from xdlc.passes.stored_weights import expanded_products
from xdlc.prepare.htp import prepare
from xdlc.runtime.htp import structs as st
from xdlc.runtime.htp.lower import Lowering

RNG = np.random.default_rng(0)


def in_blocks(kind: str, features: int, units: int, size: int, bits: int, *, offset: int = 0) -> Encoding:
    scales = (RNG.uniform(0.5, 1, (units, features // size)) / features**0.5 / (1 << bits)).astype(np.float32)
    offsets = RNG.integers(offset - 2, offset + 3, scales.shape).astype(np.int32) if offset else scales * 0
    if kind == "FullyConnected":
        return BlockScaleOffset((1, size), scales.reshape(-1), offsets.reshape(-1).astype(np.int32), bits)
    shape = (1, 1, size, 1)
    return BlockScaleOffset(shape, scales.T.reshape(-1), offsets.T.reshape(-1).astype(np.int32), bits)


def product(
    kind: str,
    features: int,
    units: int,
    encoding: Encoding,
    stored: DType = SFIXED8,
    *,
    bits: int = 8,
    dtype: DType = FLOAT32,
    rows: int = 3,
) -> Graph:
    """Return x[rows, features] times integer weights, plus a bias."""
    graph = Graph("product")
    is_matrix = kind == "FullyConnected"
    low = -(1 << (bits - 1)) if stored is SFIXED8 else 0
    shape = (units, features) if is_matrix else (1, 1, features, units)
    values = RNG.integers(low, low + (1 << bits), shape).astype(stored.numpy)
    weight = static("w", values, stored, encoding)
    bias = static("b", RNG.standard_normal(units).astype(dtype.numpy), dtype)
    before = () if is_matrix else (1, 1)
    x = graph.add_input(Tensor("x", (*before, rows, features), dtype))
    y = Tensor("y", (*before, rows, units), dtype)
    params: dict[str, Param] = {"keep_dims": b8(False)}
    if not is_matrix:
        params = {"stride": u32s([1, 1]), "pad_amount": u32s([[0, 0], [0, 0]])}
    graph.append(make_op(graph, kind, [x, weight, bias], [y], params, name="op"))
    graph.add_output(y)
    return graph


def feeds_of(graph: Graph) -> dict[str, np.ndarray]:
    (x,) = graph.inputs
    return {"x": RNG.standard_normal(x.shape).astype(x.dtype.numpy)}


def error(expected: np.ndarray, result: np.ndarray) -> float:
    wide = expected.astype(np.float64)
    return float(np.linalg.norm(wide - result) / np.linalg.norm(wide))


def weight_of(graph: Graph) -> Tensor:
    (op,) = (op for op in graph.ops if op.type in ("FullyConnected", "Conv2d"))
    assert op.inputs[1] is not None
    return op.inputs[1]


@pytest.mark.parametrize(
    ("size", "bits", "is_kept"),
    [(8, 4, True), (4, 4, False), (24, 4, True), (16, 2, True), (8, 2, False), (4, 8, True), (2, 8, False)],
)
@pytest.mark.parametrize("kind", ["FullyConnected", "Conv2d"])
def test_blocks_stay_integers_if_they_fill_words(kind, size, bits, is_kept):
    graph = product(kind, 48, 5, in_blocks(kind, 48, 5, size, bits), bits=bits)
    feeds = feeds_of(graph)
    expected = run(graph, feeds)["y"]
    passes.run(graph, passes.htp_query())
    weight = weight_of(graph)
    assert (weight.dtype is SFIXED8) is is_kept
    assert isinstance(weight.encoding, BlockScaleOffset) is is_kept
    assert error(expected, run(graph, feeds)["y"]) < 2e-3


def test_unsigned_integers_become_signed_with_the_same_values():
    encoding = in_blocks("FullyConnected", 64, 6, 32, 4, offset=-8)
    graph = product("FullyConnected", 64, 6, encoding, UFIXED8, bits=4)
    values = float_data(weight_of(graph)).numpy()
    passes.run(graph, passes.htp_query())
    assert weight_of(graph).dtype is SFIXED8
    np.testing.assert_array_equal(float_data(weight_of(graph)).numpy(), values)


def test_blocks_turned_round_keep_their_bits():
    """Their (q + 1) * scale reach from -7 to 8 scales, as in ggml's Q4_0."""
    scales = RNG.uniform(0.01, 0.02, 12)
    encoding = BlockScaleOffset((1, 32), scales, (0, 1) * 6, 4)
    graph = product("FullyConnected", 64, 6, encoding, bits=4)
    values = float_data(weight_of(graph)).numpy()
    passes.run(graph, passes.htp_query())
    stored = weight_of(graph).encoding
    assert isinstance(stored, BlockScaleOffset)
    assert (stored.bits, np.sign(stored.scales).tolist()) == (4, [1, -1] * 6)
    np.testing.assert_allclose(float_data(weight_of(graph)).numpy(), values, rtol=2e-7)


@pytest.mark.parametrize(
    "encoding",
    [
        ScaleOffset(0.01),
        ScaleOffset(0.01, 3, 4),
        AxisScaleOffset(0, tuple(np.linspace(0.01, 0.02, 6))),
        BlockwiseExpansion(0, tuple(np.linspace(0.01, 0.02, 6)), (0,) * 6, 2, 4, tuple(range(1, 13))),
    ],
)
def test_coarser_scales_become_blocks_with_the_same_values(encoding):
    graph = product("FullyConnected", 32, 6, encoding, bits=4)
    values = float_data(weight_of(graph)).numpy()
    passes.run(graph, passes.htp_query())
    assert isinstance(weight_of(graph).encoding, BlockScaleOffset)
    np.testing.assert_allclose(float_data(weight_of(graph)).numpy(), values, rtol=2e-7)


@pytest.mark.parametrize("factor", [1e-4, 1e7])
def test_scales_beyond_float16_leave_float_weights(factor):
    encoding = in_blocks("FullyConnected", 64, 6, 32, 8)
    assert isinstance(encoding, BlockScaleOffset)
    scaled = replace(encoding, scales=[scale * factor for scale in encoding.scales])
    graph = product("FullyConnected", 64, 6, scaled)
    passes.run(graph, passes.htp_query())
    assert weight_of(graph).dtype.is_float


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("stored", [SFIXED8, UFIXED8, SFIXED4])
def test_matrices_of_integers_become_rows(stored, is_turned):
    shape, size = ((6, 64), (1, 32)) if is_turned else ((64, 6), (32, 1))
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (2, 3, 64), FLOAT32))
    low = 0 if stored is UFIXED8 else -8
    values = ArrayData(RNG.integers(low, low + 16, shape).astype(stored.numpy))
    encoding = BlockScaleOffset(
        size, RNG.uniform(0.1, 0.2, 12), (-8 - low,) * 12, 4 if stored.bits > 4 else None
    )
    data = packed(values) if stored is SFIXED4 else values
    weight = Tensor("w", shape, stored, encoding, data, Role.STATIC)
    y = Tensor("y", (2, 3, 6), FLOAT32)
    params: dict[str, Param] = {"transpose_in0": b8(False), "transpose_in1": b8(is_turned)}
    graph.append(make_op(graph, "MatMul", [x, weight], [y], params, name="op"))
    graph.add_output(y)
    feeds = feeds_of(graph)
    expected = run(graph, feeds)["y"]
    passes.run(graph, passes.htp_query())
    assert weight_of(graph).dtype is SFIXED8
    assert weight_of(graph).shape == (6, 64)
    assert error(expected, run(graph, feeds)["y"]) < 2e-3


def test_a_matrix_that_one_product_transposes_has_the_values_of_each():
    graph = Graph("product")
    x = graph.add_input(Tensor("x", (3, 64), FLOAT32))
    weight = static("w", RNG.integers(-8, 8, (64, 64)).astype(np.int8), SFIXED8, ScaleOffset(0.125, 0))
    for name, is_turned in (("a", False), ("b", True), ("c", False)):
        y = Tensor(name, (3, 64), FLOAT32)
        graph.append(make_op(graph, "MatMul", [x, weight], [y], {"transpose_in1": b8(is_turned)}, name=name))
        graph.add_output(y)
    feeds = feeds_of(graph)
    expected = run(graph, feeds)
    passes.run(graph, passes.htp_query())
    graph.verify()
    products = [op.inputs[1] for op in graph.ops if op.type == "FullyConnected"]
    assert [weight.dtype for weight in products if weight is not None] == [SFIXED8] * 3
    assert all(error(values, run(graph, feeds)[name]) < 2e-3 for name, values in expected.items())


@pytest.mark.parametrize(
    "encoding",
    [
        BlockScaleOffset((1, 32), (0.5,) * 11, (), 4),
        BlockScaleOffset((2, 32), (0.5,) * 6, (), 4),
        AxisScaleOffset(0, (0.5,) * 5),
        BlockwiseExpansion(0, (0.5,) * 6, (0,) * 6, 2, 4, (1,) * 11),
    ],
)
def test_encodings_that_do_not_fit_are_no_blocks(encoding):
    graph = product("FullyConnected", 64, 6, encoding, bits=4)
    assert not passes.find("multiply_blocks").apply(graph)


def test_an_input_of_several_products_is_cast_once():
    graph = product("FullyConnected", 64, 6, in_blocks("FullyConnected", 64, 6, 32, 4), bits=4)
    (op,) = graph.ops
    again = Tensor("z", (3, 6), FLOAT32)
    graph.append(make_op(graph, "FullyConnected", op.inputs, [again], op.params, name="again"))
    graph.add_output(again)
    passes.run(graph, passes.htp_query())
    assert [op.type for op in graph.ops].count("Cast") == 3
    assert "w" in graph.tensors


def test_the_library_gets_scales_by_output_channel():
    encoding = in_blocks("Conv2d", 16, 3, 8, 4, offset=-3)
    assert isinstance(encoding, BlockScaleOffset)
    weight = static("w", np.zeros((1, 1, 16, 3), np.int8), SFIXED8, encoding)
    lowering = Lowering()
    struct = lowering.tensor(weight)
    assert struct.quantize.encoding == st.FLOAT_BLOCK
    block = st.QnnFloatBlock.from_buffer(struct, st.QnnTensor.quantize.offset + 8)
    assert block.bits == 4
    assert list(block.block_shape[:4]) == [1, 1, 8, 1]
    pairs = np.frombuffer((ctypes.c_float * 12).from_address(block.items), np.float32).reshape(3, 2, 2)
    np.testing.assert_array_equal(pairs[..., 0], np.reshape(encoding.scales, (2, 3)).T)
    np.testing.assert_array_equal(pairs[..., 1], np.reshape(encoding.offsets, (2, 3)).T)


SHAPES = [
    ("FullyConnected", 1024, 1024, 32, 4, 0, "sm8650"),
    ("FullyConnected", 128, 512, 32, 4, -2, "sm8850"),
    ("FullyConnected", 512, 100, 64, 2, 0, "sm8450"),
    ("FullyConnected", 120, 60, 40, 8, 0, "sm8650"),
    ("Conv2d", 256, 512, 16, 4, 0, "sm8850"),
    ("Conv2d", 96, 33, 96, 4, 5, "sm8550"),
]


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize(("kind", "features", "units", "size", "bits", "offset", "soc"), SHAPES)
def test_a_prepared_product_is_the_hosts_and_small(kind, features, units, size, bits, offset, soc):
    encoding = in_blocks(kind, features, units, size, bits, offset=offset)
    graph = product(kind, features, units, encoding, bits=bits)
    feeds = feeds_of(graph)
    record = prepare(Model({graph.name: graph}), [soc]).records[f"htp.cache.{soc}.0"]
    assert error(run(graph, feeds)["y"], run_cache(record, feeds)["y"]) < 1e-3
    weights = features * units * ((8 if offset else bits) / 8 + 2 / size)
    assert len(record.numpy()) < 1.05 * weights + 70_000


@pytest.mark.parametrize(("size", "expanded"), [(32, []), (4, ["op"])])
def test_products_with_float_weights_are_named(size, expanded):
    graph = product("FullyConnected", 64, 6, in_blocks("FullyConnected", 64, 6, size, 4), bits=4)
    assert expanded_products(graph, has_blocks=True) == expanded
    assert expanded_products(graph, has_blocks=False) == ["op"]


@needs_htp
@pytest.mark.vendor
def test_preparing_reports_expanded_weights_by_soc():
    graph = product("FullyConnected", 64, 6, in_blocks("FullyConnected", 64, 6, 32, 4), bits=4)
    notices: list[str] = []
    prepare(Model({graph.name: graph}), ["sm8350", "sm8650"], notify=notices.append, verify=False)
    (notice,) = (notice for notice in notices if "'op'" in notice)
    assert notice.startswith("sm8350:")


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize("soc", ["sm8450", "sm8650", "sm8850"])
def test_prepared_blocks_turned_round_are_the_hosts(soc):
    encoding = BlockScaleOffset((1, 32), RNG.uniform(0.01, 0.02, 96 * 8), (0, 1) * 96 * 4, 4)
    graph = product("FullyConnected", 256, 96, encoding, bits=4)
    feeds = {"x": RNG.random((3, 256)).astype(np.float32)}
    record = prepare(Model({graph.name: graph}), [soc]).records[f"htp.cache.{soc}.0"]
    assert error(run(graph, feeds)["y"], run_cache(record, feeds)["y"]) < 1e-3


@needs_htp
@pytest.mark.vendor
def test_a_prepared_float16_product_is_the_hosts():
    graph = product(
        "FullyConnected", 256, 96, in_blocks("FullyConnected", 256, 96, 32, 4), bits=4, dtype=FLOAT16
    )
    feeds = feeds_of(graph)
    record = prepare(Model({graph.name: graph}), ["sm8650"]).records["htp.cache.sm8650.0"]
    assert error(run(graph, feeds)["y"], run_cache(record, feeds)["y"]) < 1e-3
