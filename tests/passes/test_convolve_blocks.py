"""Products with scales per block: HTP computes what the host does."""

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from tests.support.running import run, run_cache
from xdlc import passes
from xdlc.ir import (
    AxisScaleOffset,
    BlockwiseExpansion,
    Graph,
    Model,
    Param,
    ScaleOffset,
    Tensor,
    b8,
    make_op,
    static,
    u32s,
)
from xdlc.ir.dtype import SFIXED8, SFIXED32, UFIXED16
from xdlc.ir.quantization import float_data
from xdlc.passes.convolve_blocks import block_parts
from xdlc.prepare.htp import prepare


def product(kind: str, features: int, units: int, block: int, *, rows: int = 5) -> Graph:
    """Return x[rows, features] times 4-bit weights in blocks, plus a bias."""
    rng = np.random.default_rng(0)
    graph, count = Graph("product"), features // block
    scales = rng.uniform(0.5, 1, units) / 300
    steps = rng.integers(1, 17, units * count)
    axis, shape = (0, (units, features)) if kind == "FullyConnected" else (3, (1, 1, features, units))
    encoding = BlockwiseExpansion(axis, tuple(scales), (0,) * units, count, 4, tuple(steps.tolist()))
    weight = static("w", rng.integers(-8, 8, shape).astype(np.int8), SFIXED8, encoding)
    bias = static(
        "b",
        rng.integers(-50000, 50000, units).astype(np.int32),
        SFIXED32,
        AxisScaleOffset(0, tuple(scales / 8000)),
    )
    x_shape, y_shape = ((rows, features), (rows, units))
    params: dict[str, Param] = {"keep_dims": b8(False)}
    if kind == "Conv2d":
        x_shape, y_shape = (1, 1, *x_shape), (1, 1, *y_shape)
        params = {"stride": u32s([1, 1]), "pad_amount": u32s([[0, 0], [0, 0]])}
    x = graph.add_input(Tensor("x", x_shape, UFIXED16, ScaleOffset(1 / 8000, -32768)))
    y = Tensor("y", y_shape, UFIXED16, ScaleOffset(max(features, 64) ** 0.5 / 32768, -32768))
    graph.append(make_op(graph, kind, [x, weight, bias], [y], params, name="op"))
    graph.add_output(y)
    return graph


def samples_of(graph: Graph) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal(graph.tensors["x"].shape).astype(np.float32)}


def sqnr(expected: np.ndarray, found: np.ndarray) -> float:
    wide = expected.astype(np.float64)
    return float(10 * np.log10((wide**2).sum() / max(((wide - found) ** 2).sum(), 1e-30)))


SHAPES = [
    ("FullyConnected", 128, 160, 32),  # more channels out than in
    ("FullyConnected", 96, 257, 16),
    ("FullyConnected", 448, 64, 64),  # a number of blocks whose cache ends the library
    ("FullyConnected", 96, 48, 48),
    ("FullyConnected", 144, 64, 16),  # channels that are no multiple of 32
    ("FullyConnected", 96, 64, 8),
    ("Conv2d", 512, 64, 64),
    ("Conv2d", 96, 64, 24),
]


@pytest.mark.parametrize(("kind", "features", "units", "block"), SHAPES)
@pytest.mark.parametrize("name", ["convolve_blocks", "expand_blocks"])
def test_host_computes_the_same_before_and_after(kind, features, units, block, name):
    graph = product(kind, features, units, block)
    feeds, weight = samples_of(graph), float_data(graph.tensors["w"]).numpy()
    expected = run(graph, feeds)["y"]
    assert passes.find(name).apply(graph) or name == "convolve_blocks"
    graph.verify()
    assert sqnr(expected, run(graph, feeds)["y"]) > 70  # 8-bit weights round sums as HTP does
    values = float_data(graph.tensors["w"]).numpy()[0, 0]
    np.testing.assert_allclose(values, weight.T if weight.ndim == 2 else weight[0, 0], rtol=3e-7)
    (op,) = (op for op in graph.ops if op.type != "Reshape")
    assert op.type == "Conv2d"
    encoding = op.inputs[1].encoding
    if isinstance(encoding, BlockwiseExpansion) and name == "expand_blocks":
        assert block_parts(features // encoding.blocks_per_axis, encoding.blocks_per_axis) == 1


@pytest.mark.parametrize(
    ("size", "count", "parts"),
    [
        (16, 6, 1),
        (32, 7, 1),
        (64, 6, 1),
        (64, 7, 2),
        (96, 8, 3),
        (48, 2, 3),
        (48, 3, 0),
        (24, 4, 0),
        (8, 1, 0),
    ],
)
def test_parts_of_a_block(size, count, parts):
    assert block_parts(size, count) == parts


def test_a_shared_weight_is_turned_once():
    graph = product("FullyConnected", 64, 32, 32)
    op = graph.ops[0]
    again = Tensor("z", (5, 32), UFIXED16, op.outputs[0].encoding)
    graph.append(make_op(graph, "FullyConnected", op.inputs, [again], {"keep_dims": b8(False)}, name="again"))
    graph.add_output(again)
    assert passes.find("convolve_blocks").apply(graph)
    kernels = {op.inputs[1] for op in graph.ops if op.type == "Conv2d"}
    assert [kernel.name for kernel in kernels] == ["w"]


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize(("kind", "features", "units", "block"), SHAPES)
def test_a_prepared_product_is_the_hosts(kind, features, units, block):
    graph = product(kind, features, units, block)
    feeds = samples_of(graph)
    prepared = prepare(Model({graph.name: graph}), ["sm8550"])
    found = run_cache(prepared.records["htp.cache.sm8550.0"], feeds)["y"]
    assert sqnr(run(graph, feeds)["y"], found) > 60
