"""Networks of one op that HTP lacks or computes wrongly, with feeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support import single_ops
from tests.support.single_ops import Case
from xdlc.ir import (
    HOST_PACKAGE,
    Graph,
    Param,
    Tensor,
    b8,
    dtype,
    f32,
    i32,
    make_op,
    static,
    string,
    u32,
    u32s,
)
from xdlc.opdefs import elementwise_enums as enums

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float16).astype(np.float32)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-9, 9, shape).astype(np.int32)


def one_op(
    kind: str,
    operands: list[np.ndarray | Tensor],
    shape: tuple[int, ...],
    result: dtype.DType | None = None,
    package: str = "qti.aisw",
    **params: Param,
) -> Case:
    return single_ops.one_op(kind, operands, shape, params, result, package)


def unary(operation: int, x: np.ndarray) -> Case:
    return one_op("ElementWiseUnary", [x], x.shape, operation=u32(operation))


def neuron(operation: int, x: np.ndarray, **params: Param) -> Case:
    return one_op("ElementWiseNeuron", [x], x.shape, operation=u32(operation), **params)


def binary(operation: int, x: np.ndarray, y: np.ndarray | Tensor, result: dtype.DType | None = None) -> Case:
    shape = np.broadcast_shapes(x.shape, y.shape)
    return one_op("ElementWiseBinary", [x, y], shape, result, operation=u32(operation))


def quotients(operation: int) -> Case:
    """Return multiples and halves of divisors, where rounded quotients are off by 1."""
    y = np.float32([0.75, -0.75, 1.5, -2, 3, 0.375])
    x = np.arange(-24, 25, dtype=np.float32)[:, None] * 0.5 * y
    return binary(operation, x.astype(np.float32), y)


def sums(*, exclusive: bool, reverse: bool) -> Case:
    params = {"axis": u32(1), "exclusive": b8(exclusive), "reverse": b8(reverse)}
    return one_op("CumulativeSum", [floats(3, 9, 2)], (3, 9, 2), **params)


def scattered(axis: int, reduction: int, *, known: bool) -> Case:
    index = np.argsort(RNG.random((3, 4)), axis).astype(np.int32)
    index[0, 0] -= 3 if axis == 0 else 4  # the same place counted from the end
    inputs = [floats(3, 4), static("i", index) if known else index, floats(3, 4)]
    return one_op("ScatterElements", inputs, (3, 4), axis=u32(axis), reduction=u32(reduction))


def sampled(mode: str, padding: str, align: int, width: int = 6) -> Case:
    grid = RNG.uniform(-1.4, 1.4, (2, 3, 4, 5, 3)).astype(np.float16).astype(np.float32)
    grid = np.round(grid * 4) / 4 if mode == "nearest" else grid  # halves of places are among these
    params = {"mode": string(mode), "padding_mode": string(padding), "align_corners": i32(align)}
    x = floats(2, 3, 4, 5, width)
    return one_op("GridSample", [x, grid], (2, 3, 3, 4, 5), package=HOST_PACKAGE, **params)


def padded(scheme: int) -> Case:
    pads = u32s([[0, 0], [1, 2], [1, 0], [2, 1], [0, 0]])
    return one_op("Pad", [floats(1, 3, 4, 5, 6)], (1, 6, 5, 8, 6), scheme=u32(scheme), pad_amount=pads)


def pooled() -> Case:
    params = {"filter_size": u32s([3, 3, 2]), "stride": u32s([2, 2, 2])}
    pads = u32s([[0, 1], [1, 1], [0, 0]])
    return one_op("PoolMax3d", [floats(2, 8, 9, 10, 3)], (2, 4, 5, 5, 3), pad_amount=pads, **params)


def rooted() -> Case:
    params = {"filter_size": u32s([3, 3]), "stride": u32s([1, 1]), "pad_amount": u32s([[1, 1], [1, 1]])}
    return one_op("L2Pool2d", [floats(1, 8, 8, 4)], (1, 8, 8, 4), **params)


def dilated(stride: int, dilation: int) -> Case:
    size = (15 - 2 * dilation) // stride + 1
    weight = static("w", floats(3, 3, 1, 8))
    params = {
        "stride": u32s([stride] * 2),
        "dilation": u32s([dilation] * 2),
        "pad_amount": u32s([[0, 0]] * 2),
    }
    return one_op("DepthWiseConv2d", [floats(1, 16, 16, 8), weight], (1, size, size, 8), **params)


def transposed(stride: int) -> Case:
    sizes = [(size - 1) * stride + 5 for size in (3, 4, 5)]
    weight = static("w", floats(3, 3, 3, 6, 8))
    params = {"stride": u32s([stride] * 3), "dilation": u32s([2] * 3), "pad_amount": u32s([[0, 0]] * 3)}
    return one_op("TransposeConv3d", [floats(1, 3, 4, 5, 6), weight], (1, *sizes, 8), **params)


def normed(kind: str, shape: tuple[int, ...], **params: Param) -> Case:
    factors = [static(name, np.abs(floats(shape[-1]))) for name in "gb"]
    return one_op(kind, [floats(*shape), *factors], shape, **params)


def permuted(shape: tuple[int, ...], perm: list[int]) -> Case:
    """Return a Transpose of rank 6 or more between Reshapes of a split into windows."""
    graph, rows = Graph("views"), (int(np.prod(shape[:3])), int(np.prod(shape[3:])))
    result = tuple(shape[axis] for axis in perm)
    flat = (int(np.prod(result[:3])), int(np.prod(result[3:])))
    tensors = {"x": rows, "split": shape, "moved": result, "y": flat}
    x, split, moved, y = (Tensor(name, held, dtype.FLOAT32) for name, held in tensors.items())
    graph.add_input(x)
    graph.append(make_op(graph, "Reshape", [x], [split], name="first"))
    graph.append(make_op(graph, "Transpose", [split], [moved], {"perm": u32s(perm)}, name="op"))
    graph.append(make_op(graph, "Reshape", [moved], [y], name="last"))
    graph.add_output(y)
    return graph, {"x": floats(*rows)}


def fused(kind: str, operation: int) -> Case:
    """Return a neuron of the small results of a product, or of a sum of two tensors."""
    graph, feeds = Graph("fused"), {"x": floats(1, 6, 7, 16)}
    x = graph.add_input(Tensor("x", (1, 6, 7, 16), dtype.FLOAT32))
    small, y = (Tensor(name, x.shape, x.dtype) for name in ("small", "y"))
    if kind == "Conv2d":
        weight = static("w", floats(1, 1, 16, 16) / 400)
        params = {"stride": u32s([1, 1]), "pad_amount": u32s([[0, 0], [0, 0]])}
        graph.append(make_op(graph, "Conv2d", [x, weight], [small], params, name="product"))
    else:
        feeds = {"x": feeds["x"] / 100, "z": floats(1, 6, 7, 16) / 100}
        z = graph.add_input(Tensor("z", x.shape, x.dtype))
        graph.append(make_op(graph, "ElementWiseBinary", [x, z], [small], {"operation": u32(0)}, name="sum"))
    graph.append(make_op(graph, "ElementWiseNeuron", [small], [y], {"operation": u32(operation)}, name="op"))
    graph.add_output(y)
    return graph, feeds


VOLUME, WIDE, ROW = (2, 3, 4, 5, 6), (2, 2, 3, 2, 2, 5), np.linspace(-1, 1, 33, dtype=np.float32)
UNEVEN = (3, 1, 5, 6)

CASES: dict[str, Callable[[], Case]] = {
    "pool": pooled,
    "pool-l2": rooted,
    "mod": lambda: quotients(enums.MOD),
    "fmod": lambda: quotients(enums.FMOD),
    "floor-div": lambda: quotients(enums.FLOOR_DIV),
    "asin": lambda: unary(enums.ASIN, ROW),
    "atan-5": lambda: unary(enums.ATAN, floats(2, 3, 2, 2, 4)),
    "neg-int": lambda: unary(enums.NEG, integers(9)),
    "sign-int": lambda: unary(enums.SIGN, integers(9)),
    "pow-0": lambda: binary(enums.POWER, np.float32([0, 0, 1, 2]), np.float32([0, 1, 0, 3])),
    "prod": lambda: one_op("ReduceProd", [floats(3, 7, 5)], (3, 5), axes=u32s([1]), keep_dims=b8(False)),
    "prod-2": lambda: one_op(
        "ReduceProd", [floats(3, 4, 5)], (1, 4, 1), axes=u32s([0, 2]), keep_dims=b8(True)
    ),
    "sum-exclusive": lambda: sums(exclusive=True, reverse=False),
    "sum-reverse": lambda: sums(exclusive=False, reverse=True),
    "sum-both": lambda: sums(exclusive=True, reverse=True),
    "scatter-columns": lambda: scattered(1, 0, known=False),
    "scatter-add": lambda: scattered(0, 1, known=False),
    "scatter-known": lambda: scattered(1, 2, known=True),
    "depthwise": lambda: dilated(3, 2),
    "depthwise-2": lambda: dilated(2, 3),
    "deconvolution": lambda: transposed(1),
    "deconvolution-2": lambda: transposed(2),
    "pad-reflect": lambda: padded(1),
    "pad-symmetric": lambda: padded(2),
    "tanh-5": lambda: neuron(enums.TANH, floats(*VOLUME)),
    "floor-5": lambda: unary(enums.FLOOR, floats(*VOLUME)),
    "max-5": lambda: binary(enums.MAXIMUM, floats(*VOLUME), floats(*UNEVEN)),
    "add-6": lambda: binary(enums.ADD, floats(*WIDE), floats(2, 1, 3, 1, 1, 5)),
    "max-of-axes": lambda: one_op("ReduceMax", [floats(*VOLUME)], (2, 3), axes=u32s([2, 3, 4])),
    "sum-of-6": lambda: one_op("ReduceSum", [floats(*WIDE)], (2, 3, 2, 2), axes=u32s([1, 5])),
    "layer-norm-5": lambda: normed("LayerNorm", VOLUME, axes=u32s([4]), epsilon=f32(1e-5)),
    "batch-norm-5": lambda: normed("Batchnorm", VOLUME),
    "instance-norm-5": lambda: normed("InstanceNorm", VOLUME, epsilon=f32(1e-5)),
    "group-norm-5": lambda: normed("GroupNorm", (2, 3, 4, 5, 6), epsilon=f32(1e-5), group=u32(2)),
    "instance-norm-3": lambda: normed("InstanceNorm", (2, 9, 4), epsilon=f32(1e-5)),
    "sums-5": lambda: one_op("CumulativeSum", [floats(*VOLUME)], VOLUME, axis=u32(2), reverse=b8(True)),
    "sums-5-int": lambda: one_op("CumulativeSum", [integers(*VOLUME)], VOLUME, axis=u32(1)),
    "log-softmax-5": lambda: one_op("LogSoftmax", [floats(*VOLUME)], VOLUME, axis=u32(4)),
    "windows": lambda: permuted(WIDE, [0, 1, 3, 2, 4, 5]),
    "six-groups": lambda: permuted(WIDE, [5, 0, 3, 2, 4, 1]),
    "seven-axes": lambda: permuted((2, 1, 2, 3, 2, 3, 2), [6, 2, 4, 0, 5, 1, 3]),
    "an-axis-of-1": lambda: permuted((2, 1, 3, 5, 2, 2), [0, 3, 2, 1, 4, 5]),
    "log-softmax-of-the-last": lambda: one_op("LogSoftmax", [floats(*VOLUME)], VOLUME),
    "grid": lambda: sampled("linear", "zeros", 0),
    "grid-border": lambda: sampled("linear", "border", 1),
    "grid-reflection": lambda: sampled("linear", "reflection", 0),
    "grid-nearest": lambda: sampled("nearest", "border", 0),
    "grid-wide": lambda: sampled("linear", "reflection", 1, width=65),
    "softplus": lambda: neuron(enums.SOFTPLUS, np.linspace(-7, 7, 33, dtype=np.float32)),
    "softplus-beta": lambda: neuron(enums.SOFTPLUS, 7 * ROW, beta=f32(2.0), threshold=f32(5.0)),
    "tanh-of-conv": lambda: fused("Conv2d", enums.TANH),
    "tanh-of-sum": lambda: fused("Add", enums.TANH),
}
"""Networks by name; the forms of HTP compute each as the host computes it."""
