"""Forms for HTP of faults of the sweep: products, logarithms, sums, pools."""

from collections.abc import Callable

import numpy as np
import pytest

from fuzz.sweep.draft import Draft
from fuzz.sweep.judge import judge
from tests.support.htp_models import needs_htp

pytestmark = [pytest.mark.vendor, needs_htp]


def swish(rows: int, columns: int) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        weight = d.weight(16, 3, 3, 3)
        result = d.node("Conv", d.input((1, 3, rows, columns)), weight, pads=[1] * 4)
        d.node("Mul", result, d.node("Sigmoid", result))

    return build


def log(low: float, high: float) -> Callable[[Draft], object]:
    return lambda d: d.node("Log", d.input((50, 4), low, high))


def cumulative(axis: int) -> Callable[[Draft], object]:
    return lambda d: d.node("CumSum", d.input((12, 6), -0.2, 0.5), d.constant(axis, np.int64))


def pool(
    type: str, shape: tuple[int, ...], kernel: list[int], pads: list[int], **more: int
) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        d.opset = 19
        strides = [more.pop("stride", 1)] * len(kernel)
        d.node(type, d.input(shape, -1, 2), kernel_shape=kernel, strides=strides, pads=pads, **more)

    return build


def depthwise(channels: int, each: int, kernel: list[int], strides: list[int]) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        weight = d.weight(channels * each, 1, *kernel)
        d.node("Conv", d.input((1, channels, 18, 9)), weight, group=channels, strides=strides)

    return build


def transposed(kernel: list[int], pads: list[int], groups: int = 1) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        weight = d.weight(4, 4 // groups, *kernel)
        d.node("ConvTranspose", d.input((1, 4, 9, 3, 4)), weight, pads=pads * 2, group=groups)

    return build


def lstm(direction: str, steps: int) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        ways = 2 if direction == "bidirectional" else 1
        weights = d.weight(ways, 64, 10), d.weight(ways, 64, 16)
        x = d.input((steps, 2, 10), -1, 1)
        d.several("LSTM", [x, *weights], 3, hidden_size=16, direction=direction)

    return build


def integers(type: str, shape: tuple[int, ...], *axes: int) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        axis = d.constant(axes[0], np.int64) if type == "CumSum" else d.indices(*axes)
        d.node(type, d.integers(shape, -9, 9), axis)

    return build


def led(channels: int, groups: int, strides: list[int], pads: list[int]) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        weight = d.weight(groups if groups > 1 else 8, channels // groups, 3, 3)
        d.node("Conv", d.input((1, channels, 7, 15)), weight, group=groups, strides=strides, pads=pads)

    return build


def cubed(low: float, high: float) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        d.node("Pow", d.input((4, 16), low, high), d.constant(3.0))

    return build


def single(kernel: list[int], dilation: int = 1) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        pads = [(size - 1) * (dilation - 1) // 2 for size in kernel] * 2
        weight = d.weight(5, 4, *kernel)
        d.node("Conv", d.input((1, 4, *kernel)), weight, dilations=[dilation] * 2, pads=pads)

    return build


def normed(shape: tuple[int, ...]) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        d.node("BatchNormalization", d.input(shape), *(d.constant([n]) for n in (1.3, 0.45, 0.0, 1.0)))

    return build


def multiple(factor: int) -> Callable[[Draft], object]:
    def build(d: Draft) -> None:
        divisor = d.input((500,), 0.5, 3)
        d.node("Mod", d.node("Mul", divisor, d.constant(factor)), divisor, fmod=1)

    return build


def negative(d: Draft) -> None:
    result = d.node("Gemm", d.input((16, 8), -1, 1), d.weight(8, 5), d.constant([-1] * 5))
    d.node("HardSwish", result)


CASES = {
    ("negative sums", "w8a8"): [negative],
    ("product of one number", "w8a8"): [lambda d: d.node("Gemm", d.input((1, 1)), d.weight(1, 3))],
    ("many bytes", "w8a8"): [
        lambda d: d.node("Gather", d.input((3, 33)), d.constant(np.arange(270) % 33, np.int64), axis=1),
        lambda d: d.node("Gather", d.input((1, 4, 257)), d.constant(np.arange(256), np.int64), axis=2),
    ],
    ("lstm", "float"): [lstm("bidirectional", 3), lstm("forward", 1)],
    ("integers", "float"): [
        integers("CumSum", (7, 37), 0),
        integers("CumSum", (1, 36, 40), 1),
        integers("ReduceSum", (4, 3, 4, 4, 3), 0),
        integers("ReduceSum", (4, 3, 4, 4, 3), 0, 2),
        integers("ReduceMin", (4, 3, 4, 4, 3), 0),
        integers("ReduceSum", (1, 4, 7, 4, 7), 0),
    ],
    ("batches", "float"): [
        lambda d: d.node(
            "GatherND", d.input((1, 6, 1)), d.constant([[[5, 0], [0, 0]]], np.int64), batch_dims=1
        )
    ],
    ("transposed in four groups", "float"): [
        lambda d: d.node("ConvTranspose", d.input((1, 8, 17)), d.weight(8, 2, 3), group=4, strides=[2]),
        lambda d: d.node("ConvTranspose", d.input((1, 4, 17, 17)), d.weight(4, 2, 3, 1), group=4),
    ],
    ("transposed volumes", "float"): [
        transposed([2, 3, 1], [0, 1, 0]),
        transposed([2, 3, 3], [0, 1, 1]),
        transposed([3, 3, 3], [1, 1, 1]),
        transposed([3, 3, 3], [0, 1, 1], groups=2),
    ],
    ("grouped transposed volumes", "w8a8"): [
        transposed([1, 3, 3], [0, 0, 0], groups=2),
        transposed([3, 3, 3], [0, 0, 0], groups=4),
    ],
    ("padded last axis", "float"): [
        lambda d: d.node("Pad", d.input((1, 8, 6, 33)), d.indices(0, 0, 0, 0, 0, 0, 3, 1), d.constant(0)),
        lambda d: d.node("Pad", d.input((1, 3, 7, 40)), d.indices(0, 0, 2, 1, 0, 0, 0, 1), d.constant(0.5)),
    ],
    ("reduction of one", "float"): [
        lambda d: d.node("ReduceSum", d.input((42, 1)), d.indices(1), keepdims=0),
        lambda d: d.node("Sigmoid", d.node("ReduceProd", d.input((4, 1)), d.indices(1))),
    ],
    ("reduction of one", "w8a8"): [
        lambda d: d.node("ReduceMax", d.input((1, 8, 1, 1)), d.indices(2, 3), keepdims=0)
    ],
    ("several results of a channel", "w8a8"): [
        depthwise(2, 2, [1, 5], [1, 1]),
        depthwise(15, 3, [3, 3], [2, 2]),
        depthwise(32, 2, [3, 3], [1, 2]),
    ],
    ("several results of a channel", "float"): [
        depthwise(5, 2, [1, 5], [3, 3]),
        depthwise(32, 3, [2, 2], [3, 3]),
        depthwise(5, 2, [1, 3], [2, 1]),
    ],
    ("taps of 2x2", "w8a8"): [depthwise(2, 1, [2, 2], [2, 2]), depthwise(36, 1, [2, 2], [2, 2])],
    ("padding as high as the kernel", "w8a8"): [
        led(64, 64, [1, 2], [3, 2, 1, 1]),
        led(8, 1, [1, 1], [4, 1, 1, 1]),
        led(1, 1, [1, 1], [3, 3, 1, 1]),
        led(16, 1, [1, 2], [3, 0, 1, 0]),
        led(4, 1, [1, 1], [3, 0, 1, 2]),
    ],
    ("padding as high as the kernel", "w8a16"): [
        led(8, 8, [1, 1], [3, 1, 0, 0]),
        led(4, 1, [1, 1], [3, 0, 1, 2]),
    ],
    ("an odd power", "w8a16"): [cubed(-3, 0.1), cubed(-0.3, 0.2)],
    ("a row of two columns", "w8a8"): [normed((1, 1, 2)), normed((3, 1, 1, 2))],
    ("a row of two columns", "w8a16"): [normed((1, 1, 2)), normed((3, 1, 1, 2))],
    ("remainders", "float"): [multiple(4), multiple(16)],
    ("wide edges", "float"): [
        lambda d: d.node("Pad", d.input((3, 6, 5)), d.indices(0, 3, 0, 1, 1, 0), mode="edge"),
        lambda d: d.node("Pad", d.input((1, 8, 2)), d.indices(2, 3, 1, 3, 0, 1), mode="edge"),
    ],
    ("swish", "w8a16"): [swish(9, 9), swish(12, 40), swish(16, 7), swish(33, 3)],
    ("log", "w8a16"): [log(1.5, 3.3), log(0.5, 0.9), log(0.99, 1.01), log(0.05, 8)],
    ("cumulative sum", "w8a8"): [cumulative(0), cumulative(1)],
    ("average of one channel", "w8a8"): [
        pool("AveragePool", (2, 1, 7, 9), [5, 3], [0, 1, 0, 1]),
        pool("AveragePool", (1, 1, 7, 9), [3, 3], [1, 1, 1, 1], stride=2),
    ],
    ("counted volumes", "w8a16"): [
        pool("AveragePool", (1, 3, 5, 8, 7), [3, 4, 3], [0] * 6, count_include_pad=1),
        pool("AveragePool", (1, 3, 5, 8, 7), [3, 3, 3], [1] * 6, count_include_pad=1),
    ],
    ("single window", "float"): [single([3, 3], 2), single([5, 3], 3), single([5, 1]), single([1, 5], 2)],
    ("axes of one", "w8a16"): [
        lambda d: d.node("ReduceLogSumExp", d.input((1, 1, 48, 4)), d.indices(0, 2)),
        lambda d: d.node("ReduceLogSumExp", d.input((1, 1, 48, 4)), d.indices(0, 1, 2)),
    ],
    ("clamp to nothing", "w8a16"): [
        lambda d: d.node("Clip", d.input((9,), -2, -1), d.constant(0), d.constant(1))
    ],
    ("padded rows", "float"): [
        pool("AveragePool", (1, 33, 30, 8), [3, 1], [1, 0, 1, 0]),
        pool("AveragePool", (1, 48, 30, 2), [4, 2], [1, 0, 1, 0], stride=2),
    ],
    ("padded planes", "w8a8"): [
        pool("AveragePool", (1, 2, 10, 7), [2, 1], [1, 0, 1, 0]),
        pool("AveragePool", (1, 8, 9, 9), [3, 3], [1, 0, 1, 0], stride=3),
        pool("AveragePool", (1, 8, 9, 9), [3, 3], [2, 2, 2, 2]),
        pool("AveragePool", (1, 8, 9, 9), [3, 3], [0, 0, 0, 1], stride=2, ceil_mode=1),
        pool("AveragePool", (1, 8, 9, 9), [2, 2], [1, 1, 1, 1], stride=2, count_include_pad=1),
    ],
    ("padded planes", "w8a16"): [
        pool("AveragePool", (1, 3, 1, 5), [1, 5], [0, 1, 0, 0], stride=2, count_include_pad=1),
        pool("AveragePool", (1, 48, 30, 1), [4, 1], [1, 0, 1, 0], stride=2),
    ],
    ("depth alone", "float"): [
        pool("AveragePool", (1, 8, 6, 6, 8), [3, 1, 3], [1, 0, 0, 0, 0, 0], ceil_mode=1, count_include_pad=1),
        pool("AveragePool", (1, 8, 6, 6, 8), [3, 2, 2], [1, 0, 0, 1, 0, 0], stride=2),
    ],
    ("even maximum", "float"): [
        pool("MaxPool", (1, 4, 8, 32), [3, 2], [1, 1, 0, 1], stride=2),
        pool("MaxPool", (1, 4, 9, 9), [1, 4], [0, 1, 0, 0], stride=2),
    ],
}


@pytest.mark.parametrize(("what", "mode"), list(CASES))
def test_htp_computes_what_the_host_computes(what, mode):
    drafts = []
    for number, build in enumerate(CASES[what, mode]):
        drafts.append(Draft("form", number))
        build(drafts[-1])
    assert {verdict.word for verdict in judge(drafts, mode, "sm8650")} == {"right"}
