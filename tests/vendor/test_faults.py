"""Ops that HTP computes wrongly are right in the forms that replace them."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.faulty_ops import CASES, PRECISION
from tests.support.htp_models import needs_htp
from tests.support.running import run, run_htp
from tests.support.single_ops import one_op
from xdlc.ir import Graph, ScaleOffset, Tensor, b8, dtype, f32, make_op, static, u32, u32s
from xdlc.ir.dtype import DType

pytestmark = [pytest.mark.vendor, needs_htp]
RNG = np.random.default_rng(0)


def pool(channels: int, pads: list[list[int]], *, counted: bool) -> tuple[Graph, dict[str, np.ndarray]]:
    params = {"filter_size": u32s([3, 3]), "stride": u32s([1, 1]), "pad_amount": u32s(pads)}
    rows, columns = (10 + sum(pair) for pair in pads)
    params["count_pad_for_edges"] = b8(counted)
    return one_op("PoolAvg2d", [image(channels)], (1, rows, columns, channels), params)


def rounded_up(channels: int) -> tuple[Graph, dict[str, np.ndarray]]:
    params = {"filter_size": u32s([5, 5]), "stride": u32s([3, 3]), "rounding_mode": u32(1)}
    return one_op("PoolAvg2d", [image(channels)], (1, 4, 4, channels), params)


def convolution(kernel: tuple[int, int], pads: list[list[int]]) -> tuple[Graph, dict[str, np.ndarray]]:
    weight = RNG.standard_normal((*kernel, 3, 8)).astype(np.float32)
    params = {"stride": u32s([2, 2]), "pad_amount": u32s(pads), "dilation": u32s([1, 1]), "group": u32(1)}
    sizes = [(12 + sum(pair) - size) // 2 + 1 for pair, size in zip(pads, kernel, strict=True)]
    return one_op("Conv2d", [image(3), static("w", weight)], (1, *sizes, 8), params)


def repeated(
    shape: tuple[int, ...], times: list[int], kind: DType = dtype.FLOAT32
) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return 3 * Tile(3 * x), a product that drops the Tile."""
    graph, feeds = Graph("one"), {"x": RNG.uniform(-1, 1, shape).astype(np.float32)}
    result = tuple(map(int, np.multiply(shape, times)))
    shapes, ends = {"x": shape, "small": shape, "large": result, "y": result}, (1, 3, 3, 9)
    x, small, large, y = (Tensor(name, held, kind) for name, held in shapes.items())
    three = static("three", np.full(1, 1 if kind.is_fixed else 3, kind.numpy), kind)
    if kind.is_fixed:
        three.encoding = ScaleOffset(3.0, 0)
        for tensor, end in zip((x, small, large, y), ends, strict=True):
            tensor.encoding = ScaleOffset(end / 127, -128)
    product = {"operation": u32(13)}
    graph.add_input(x)
    graph.append(make_op(graph, "ElementWiseBinary", [x, three], [small], product, name="first"))
    graph.append(make_op(graph, "Tile", [small], [large], {"multiples": u32s(times)}, name="repeat"))
    graph.append(make_op(graph, "ElementWiseBinary", [large, three], [y], product, name="op"))
    graph.add_output(y)
    return graph, feeds


def pool3d(kernel: int, stride: int) -> tuple[Graph, dict[str, np.ndarray]]:
    params = {
        "filter_size": u32s([kernel] * 3),
        "stride": u32s([stride] * 3),
        "pad_amount": u32s([[1, 1]] * 3),
    }
    params["count_pad_for_edges"] = b8(True)
    size = (10 - kernel) // stride + 1
    x = RNG.standard_normal((1, 8, 8, 8, 4)).astype(np.float32)
    return one_op("PoolAvg3d", [x], (1, size, size, size, 4), params)


def rms_norm(shape: tuple[int, ...]) -> tuple[Graph, dict[str, np.ndarray]]:
    x = RNG.standard_normal(shape).astype(np.float32)
    gamma, beta = (
        static(name, np.full(shape[-1], value, np.float32)) for name, value in (("g", 2), ("b", 0))
    )
    params = {"axes": u32s([len(shape) - 1]), "epsilon": f32(1e-6)}
    return one_op("RmsNorm", [x, gamma, beta], shape, params)


def fused(operation: int) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return Tanh or another neuron of small results of FullyConnected."""
    graph, feeds = Graph("one"), {"x": RNG.standard_normal((4, 64)).astype(np.float32)}
    x = graph.add_input(Tensor("x", (4, 64), dtype.FLOAT32))
    weight = static("w", RNG.uniform(-1, 1, (64, 64)).astype(np.float32) / 400)
    small, y = Tensor("small", (4, 64), x.dtype), Tensor("y", (4, 64), x.dtype)
    graph.append(make_op(graph, "FullyConnected", [x, weight], [small], {"keep_dims": b8(False)}, name="fc"))
    graph.append(make_op(graph, "ElementWiseNeuron", [small], [y], {"operation": u32(operation)}, name="op"))
    graph.add_output(y)
    return graph, feeds


def softplus(kind: str) -> tuple[Graph, dict[str, np.ndarray]]:
    x = np.array([-1000, -600, -100, -30, -10, -1, 0, 1, 30], kind)
    params = {"operation": u32(7), "beta": f32(0.5), "threshold": f32(20.0)}
    return one_op("ElementWiseNeuron", [x], x.shape, params)


def negative_indices(*, known: bool) -> tuple[Graph, dict[str, np.ndarray]]:
    index = np.array([[-1, 0], [1, -2]], np.int32)
    return one_op("GatherElements", [integers((2, 2)), static("i", index) if known else index], (2, 2), {})


def negative_places() -> tuple[Graph, dict[str, np.ndarray]]:
    index = np.array([[-1, 0], [1, -2]], np.int32)
    return one_op("ScatterNd", [image(3)[0, 0, :4], index, image(3)[0, 0, 0, :2]], (4, 3), {})


def integers(shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(-9, 9, shape).astype(np.int32)


def image(channels: int) -> np.ndarray:
    return RNG.standard_normal((1, 12, 12, channels)).astype(np.float32)


MORE: dict[str, Callable[[], tuple[Graph, dict[str, np.ndarray]]]] = {
    "one-channel": lambda: pool(1, [[1, 1], [1, 1]], counted=True),
    "uneven": lambda: pool(3, [[1, 0], [1, 0]], counted=True),
    "uneven-uncounted": lambda: pool(3, [[0, 1], [0, 1]], counted=False),
    "wide": lambda: pool(4, [[2, 2], [2, 2]], counted=False),
    "rows": lambda: convolution((9, 3), [[4, 5], [1, 1]]),
    "columns": lambda: convolution((4, 10), [[1, 2], [4, 4]]),
    "rounded-one": lambda: rounded_up(1),
    "rounded": lambda: rounded_up(4),
    "repeated": lambda: repeated((4, 1), [1, 64]),
    "repeated-twice": lambda: repeated((2, 3, 1), [1, 2, 8]),
    "repeated-fixed": lambda: repeated((4, 1), [1, 64], dtype.UFIXED8),
    "counted-3d": lambda: pool3d(3, 1),
    "strided-3d": lambda: pool3d(4, 4),
    "norm": lambda: rms_norm((32, 4, 32)),
    "norm-of-heads": lambda: rms_norm((1, 9, 4, 32)),
    "tanh": lambda: fused(8),
    "softplus": lambda: softplus("float32"),
    "softplus-half": lambda: softplus("float16"),
    "indices": lambda: negative_indices(known=False),
    "known-indices": lambda: negative_indices(known=True),
    "places": negative_places,
}
"""Further cases by name, with relative errors of at most 5e-3."""


@pytest.mark.parametrize("name", [*MORE, *CASES])
def test_emulation_computes_the_numbers_of_the_host(name):
    model, feeds = MORE[name]() if name in MORE else CASES[name]()
    expected, found = run(model, feeds)["y"], run_htp(model, feeds)["y"]
    limit = 5e-3 if name in MORE else PRECISION.get(name, 3e-3)
    assert np.linalg.norm(found - expected) <= limit * np.linalg.norm(expected)
