"""Prelu with several 16-bit slopes: HTP computes what the host does."""

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from tests.support.running import run, run_htp
from xdlc import passes
from xdlc.ir import AxisScaleOffset, Graph, ScaleOffset, Tensor, make_op, static, u32, u32s
from xdlc.ir.dtype import SFIXED8, UFIXED8, UFIXED16

SCALE = 1 / 8000


def activation(name: str, shape: tuple[int, ...], scale: float = SCALE, **kinds) -> Tensor:
    return Tensor(name, shape, UFIXED16, ScaleOffset(scale, -32768), **kinds)


def prelu(
    shape: tuple[int, ...], slopes: tuple[int, ...], *, bits: int = 16, product: int | None = None
) -> Graph:
    """Return a sum, maybe a depthwise convolution, and Prelu."""
    rng, graph = np.random.default_rng(0), Graph("slopes")
    x, channels = graph.add_input(activation("x", shape)), shape[-1]
    inner = activation("a", shape)
    graph.append(make_op(graph, "ElementWiseBinary", [x, x], [inner], {"operation": u32(0)}, name="add"))
    if product is not None:
        weight = static(
            "w",
            rng.integers(-127, 128, (product, product, 1, channels)).astype(np.int8),
            SFIXED8,
            AxisScaleOffset(3, (1 / 400,) * channels),
        )
        read, inner = inner, activation("p", shape)
        params = {"stride": u32s([1, 1]), "pad_amount": u32s([[product // 2] * 2] * 2)}
        graph.append(make_op(graph, "DepthWiseConv2d", [read, weight], [inner], params, name="product"))
    kind, steps = {8: (UFIXED8, 255), 16: (UFIXED16, 65535)}[bits]
    encoding = ScaleOffset(2.5 / steps, -round(steps / 2.5))
    numbers = rng.integers(0, steps + 1, slopes).astype(kind.numpy)
    y = activation("y", shape, SCALE * 1.13)
    graph.append(make_op(graph, "Prelu", [inner, static("s", numbers, kind, encoding)], [y], {}, name="op"))
    graph.add_output(y)
    return graph


def feeds_of(graph: Graph) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal(graph.tensors["x"].shape).astype(np.float32)}


SHAPES = [
    ((1, 6, 6, 32), (32,)),
    ((1, 6, 6, 256), (256,)),  # the kernel of 8-bit slopes that rounds to 7 bits
    ((1, 4, 4, 300), (1, 1, 300)),  # too many channels for a single tap
    ((1, 3, 5, 8), (3, 5, 8)),
    ((5, 48), (48,)),
    ((2, 3, 48), (48,)),
    ((2, 2, 3, 3, 16), (16,)),
    ((2, 2, 3, 3, 16), (1, 3, 3, 16)),
    ((2, 3, 3, 16), (2, 3, 3, 16)),
]


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize(("shape", "slopes"), SHAPES)
@pytest.mark.parametrize("name", ["multiply_slopes", "widen_slopes"])
def test_htp_computes_what_the_host_does(shape, slopes, name):
    graph = prelu(shape, slopes, bits=16 if name == "multiply_slopes" else 8)
    host = run(graph, feeds_of(graph))["y"]
    assert passes.find(name).apply(graph)
    graph.verify()
    assert not passes.find(name).apply(graph)
    steps = 6 if shape[-1] > 256 else 2
    device = run_htp(graph, feeds_of(graph))["y"]
    np.testing.assert_allclose(device, host, rtol=0, atol=(steps + 0.5) * SCALE * 1.13)


@pytest.mark.parametrize(
    ("channels", "taps", "stays"), [(8, 3, True), (300, 3, True), (256, 1, True), (257, 1, False)]
)
def test_a_prelu_after_a_product_stays_unless_htp_fuses_none(channels, taps, stays):
    graph = prelu((1, 4, 4, channels), (channels,), product=taps)
    assert passes.find("multiply_slopes").apply(graph) is not stays


def test_a_product_with_another_reader_is_not_fused():
    graph = prelu((1, 4, 4, 8), (8,), product=3)
    graph.add_output(graph.tensors["p"])
    assert passes.find("multiply_slopes").apply(graph)


@pytest.mark.parametrize("slopes", [(1,), (1, 1, 1, 1, 8), (2, 4, 4, 8)])
def test_one_slope_and_slopes_of_more_axes_than_an_image_stay(slopes):
    graph = prelu((1, 2, 4, 4, 8), slopes)
    assert not passes.find("multiply_slopes").apply(graph)
    assert [op.type for op in graph.ops] == ["ElementWiseBinary", "Prelu"]


def test_unknown_sizes_stay():
    graph = prelu((1, 4, 4, 8), (8,), bits=8)
    for name in ("x", "a", "y"):
        graph.tensors[name].dynamic_axes = (0,)
    assert not passes.find("widen_slopes").apply(graph)
