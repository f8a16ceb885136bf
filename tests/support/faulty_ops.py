"""Ops that the vendor's HTP library computes wrongly, each with an input."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.support.single_ops import one_op
from xdlc.ir import Graph, Model, Param, ScaleOffset, Tensor, dtype, f32, i32, make_op, static, u32, u32s
from xdlc.ir.data import Array
from xdlc.ir.dtype import DType
from xdlc.opdefs.elementwise_enums import ABS, ADD, ATAN, DIVIDE, ELU, EXP, POWER, RELU_MIN_MAX, SIN

Case = tuple[Model, dict[str, Array]]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    """Return numbers of float16."""
    return RNG.standard_normal(shape).astype(np.float16).astype(np.float32)


def weight(*shape: int) -> Tensor:
    return static("w", normal(*shape) / 4)


def conv(
    kind: str, x: tuple[int, ...], w: tuple[int, ...], shape: tuple[int, ...], **of: Sequence[object]
) -> Case:
    """Return a convolution; ``of`` are its windows, and under ``bias`` its bias."""
    bias = [static("b", normal(shape[-1]))] if of.pop("bias", None) else []
    params: dict[str, Param] = {
        "stride": u32s([1] * (len(x) - 2)),
        "pad_amount": u32s([[0, 0]] * (len(x) - 2)),
    }
    params |= {name: u32s(values) for name, values in of.items()}
    if kind == "TransposeConv2d":
        params["group"] = u32(x[-1])
    return whole(one_op(kind, [normal(*x), weight(*w), *bias], shape, params))


def whole(case: tuple[Graph, dict[str, Array]], bits: int | None = None) -> Case:
    """Return a model, quantized where bits of results are given."""
    graph, feeds = case
    model = Model({graph.name: graph})
    return (model if bits is None else xdlc.quantize(model, [feeds], act_bitwidth=bits)), feeds


def rms_norm(bits: int | None) -> Case:
    scale, shift = (static(name, np.full(16, value, np.float32)) for name, value in (("g", 2), ("b", 0)))
    params = {"axes": u32s([2]), "epsilon": f32(1e-6)}
    return whole(one_op("RmsNorm", [normal(16, 1, 16), scale, shift], (16, 1, 16), params), bits)


def group_norm() -> Case:
    scale, shift = static("g", normal(8)), static("b", normal(8))
    params = {"epsilon": f32(1e-5), "group": u32(2)}
    return whole(one_op("GroupNorm", [normal(2, 7, 8), scale, shift], (2, 7, 8), params))


def log_softmax(size: int, bits: int | None = None) -> Case:
    return whole(one_op("LogSoftmax", [normal(5, size)], (5, size), {"axis": u32(1)}), bits)


def edge_pad() -> Case:
    params = {"scheme": u32(3), "pad_amount": u32s([[0, 0], [1, 0], [2, 1]])}
    return whole(one_op("Pad", [normal(2, 4, 6)], (2, 5, 9), params))


def edge_pad_by_three() -> Case:
    params = {"scheme": u32(3), "pad_amount": u32s([[0, 0], [3, 0], [0, 0]])}
    return whole(one_op("Pad", [normal(2, 4, 7)], (2, 7, 7), params))


def edge_pad_of_integers() -> Case:
    params = {"scheme": u32(3), "pad_amount": u32s([[1, 0], [0, 2]])}
    return whole(one_op("Pad", [np.arange(12, dtype=np.int32).reshape(3, 4)], (4, 6), params))


def gather_nd() -> Case:
    places = static("i", np.array([[0], [2], [4], [1]], np.int32))
    return whole(one_op("GatherNd", [normal(4, 5, 6), places], (4, 6), {"batch_dims": u32(1)}))


def gather() -> Case:
    places = static("i", np.array([[0, 1], [1, 0]], np.int32))
    return whole(one_op("Gather", [normal(2, 3, 5, 7), places], (2, 3, 2, 2, 7), {"axis": i32(2)}))


def short_rows(*shape: int, bits: int) -> Case:
    axis = len(shape) - 2
    places = static("i", np.array([shape[axis] - 1, 0, 2] * 20, np.int32))
    result = (*shape[:axis], 60, shape[-1])
    return whole(one_op("Gather", [normal(*shape), places], result, {"axis": i32(axis)}), bits)


def negative_places() -> Case:
    numbers, places = (RNG.integers(-7, 7, shape).astype(np.int32) for shape in ((2, 3, 7, 8), (5, 8)))
    return whole(one_op("Gather", [numbers, places], (2, 3, 5, 8, 8), {"axis": i32(2)}))


def cast() -> Case:
    return whole(one_op("Cast", [9 * normal(1, 64)], (1, 64), {}, dtype.INT64))


def average_pool() -> Case:
    params = {"filter_size": u32s([2, 2]), "stride": u32s([1, 1]), "pad_amount": u32s([[0, 0], [0, 0]])}
    return whole(one_op("PoolAvg2d", [normal(1, 17, 7, 4)], (1, 16, 6, 4), params))


def pooled_volume(kind: DType, depth: int) -> Case:
    """Return an average pool of 8 bits, with ``depth`` planes of padding at the end."""
    windows = {
        "filter_size": [1 + 2 * depth, 2, 2],
        "stride": [1, 2, 1],
        "pad_amount": [[0, depth], [0, 0], [0, 0]],
    }
    params = {name: u32s(numbers) for name, numbers in windows.items()}
    graph, feeds = one_op("PoolAvg3d", [normal(1, 5, 6, 7, 3)], (1, 5 - depth, 3, 6, 3), params)
    for tensor in (*graph.inputs, *graph.outputs):
        tensor.dtype, tensor.encoding = kind, ScaleOffset(0.03, 0 if kind.is_signed else -128)
    return Model({graph.name: graph}), feeds


def power() -> Case:
    operands = [np.abs(normal(5, 1)) + np.float32(0.3), normal(5, 7)]
    return whole(one_op("ElementWiseBinary", operands, (5, 7), {"operation": u32(POWER)}), 8)


def select() -> Case:
    operands = [normal(1, 3, 1, 5, 1) > 0, normal(2, 1, 4, 1, 1), normal(6)]
    return whole(one_op("ElementWiseSelect", operands, (2, 3, 4, 5, 6), {}, dtype.FLOAT32))


def elu(size: float) -> Case:
    x = RNG.uniform(-size, size, (4, 64)).astype(np.float32)
    return whole(one_op("ElementWiseNeuron", [x], x.shape, {"operation": u32(ELU), "alpha": f32(1.0)}), 16)


def clamped_sum(low: float, high: float) -> Case:
    """Return a clamp of 16 bits that reads a sum."""
    graph, shape = Graph("one"), (1, 4, 4, 16)
    encoding = ScaleOffset(32 / (1 << 16), -(1 << 15))
    first, second, total, result = (
        Tensor(name, shape, dtype.UFIXED16, encoding) for name in ("x", "z", "sum", "y")
    )
    for tensor in (first, second):
        graph.add_input(tensor)
    graph.append(
        make_op(graph, "ElementWiseBinary", [first, second], [total], {"operation": u32(ADD)}, name="sum")
    )
    params = {"operation": u32(RELU_MIN_MAX), "min_value": f32(low), "max_value": f32(high)}
    graph.append(make_op(graph, "ElementWiseNeuron", [total], [result], params, name="op"))
    graph.add_output(result)
    values = np.linspace(-15.5, 15.5, 256, dtype=np.float32).reshape(shape)
    return Model({"one": graph}), {"x": values, "z": np.zeros_like(values)}


def product(first: tuple[int, ...], second: tuple[int, ...], bits: int | None = None) -> Case:
    """Return a product of batches, of five axes or more."""
    shape = (*np.broadcast_shapes(first[:-2], second[:-2]), first[-2], second[-1])
    return whole(one_op("MatMul", [normal(*first), normal(*second)], shape, {}), bits)


LARGE = np.array([-65504, -6000, -1000, -15.5, -0.5, 0, 3, 40.25, 710, 60000], np.float32)


def unary(operation: int, x: Array = LARGE) -> Case:
    return whole(one_op("ElementWiseUnary", [x], x.shape, {"operation": u32(operation)}))


def scatter(kind: str, reduction: int, *, updates: float = 1.5e-4) -> Case:
    rows = static("i", np.array([[2], [0]] if kind == "ScatterNd" else [[1, 0, 1], [0, 1, 0]], np.int32))
    params = {"reduction": u32(reduction)} | ({} if kind == "ScatterNd" else {"axis": u32(reduction)})
    graph, feeds = one_op(kind, [normal(4, 3), rows, normal(2, 3)], (4, 3), params)
    for tensor, scale in zip((*graph.inputs, *graph.outputs), (1e-4, updates, 2e-4), strict=True):
        tensor.dtype, tensor.encoding = dtype.UFIXED16, ScaleOffset(scale, -(1 << 15))
    return Model({graph.name: graph}), feeds


def soft_sign() -> Case:
    graph, x = Graph("one"), np.array([-65504, -32000, -1, 0, 0.5, 9000, 40000], np.float32)
    source = graph.add_input(Tensor("x", x.shape, dtype.FLOAT32))
    size, total, y = (Tensor(name, x.shape, dtype.FLOAT32) for name in ("size", "total", "y"))
    one = static("one", np.ones(1, np.float32))
    graph.append(make_op(graph, "ElementWiseUnary", [source], [size], {"operation": u32(ABS)}, name="abs"))
    for name, inputs, result, operation in (
        ("add", [size, one], total, ADD),
        ("op", [source, total], y, DIVIDE),
    ):
        params = {"operation": u32(operation)}
        graph.append(make_op(graph, "ElementWiseBinary", inputs, [result], params, name=name))
    graph.add_output(y)
    return Model({graph.name: graph}), {"x": x}


CASES: dict[str, Callable[[], Case]] = {
    "norm-fixed": lambda: rms_norm(8),
    "group-norm": group_norm,
    "log-softmax": lambda: log_softmax(65),
    "log-softmax-8": lambda: log_softmax(129, 8),
    "log-softmax-16": lambda: log_softmax(65, 16),
    "edge-pad": edge_pad,
    "edge-pad-by-three": edge_pad_by_three,
    "edge-pad-of-integers": edge_pad_of_integers,
    "gather-nd": gather_nd,
    "gather": gather,
    "short-rows": lambda: short_rows(64, 8, bits=16),
    "short-rows-of-batches": lambda: short_rows(3, 7, 32, bits=8),
    "negative-places": negative_places,
    "cast": cast,
    "output-padding": lambda: conv(
        "TransposeConv2d",
        (1, 6, 5, 16),
        (3, 3, 16, 1),
        (1, 12, 10, 16),
        stride=[2, 2],
        pad_amount=[[1, 1], [1, 1]],
        output_padding=[1, 1],
    ),
    "output-padding-alone": lambda: conv(
        "TransposeConv2d", (1, 6, 5, 16), (2, 2, 16, 1), (1, 13, 11, 16), stride=[2, 2], output_padding=[1, 1]
    ),
    "unreached": lambda: conv(
        "TransposeConv2d", (1, 5, 4, 1), (3, 3, 1, 5), (1, 16, 13, 5), stride=[3, 3], output_padding=[1, 1]
    ),
    "unreached-3d": lambda: conv(
        "TransposeConv3d",
        (1, 4, 3, 5, 3),
        (1, 1, 1, 3, 4),
        (1, 8, 6, 10, 4),
        stride=[2, 2, 2],
        output_padding=[1, 1, 1],
        bias=[1],
    ),
    "few-channels": lambda: conv(
        "TransposeConv2d", (1, 9, 4, 4), (5, 5, 4, 1), (1, 21, 11, 4), stride=[2, 2]
    ),
    "wide-padding": lambda: conv(
        "Conv2d", (1, 8, 9, 5), (1, 3, 5, 6), (1, 10, 9, 6), pad_amount=[[1, 1], [1, 1]]
    ),
    "wide-padding-depthwise": lambda: conv(
        "DepthWiseConv2d", (1, 8, 9, 8), (2, 2, 1, 8), (1, 12, 13, 8), pad_amount=[[3, 2], [3, 2]]
    ),
    "wide-padding-3d": lambda: conv(
        "Conv3d", (1, 5, 6, 7, 3), (2, 3, 1, 3, 4), (1, 6, 6, 9, 4), pad_amount=[[1, 1], [1, 1], [1, 1]]
    ),
    "single-tap": lambda: conv(
        "DepthWiseConv2d", (1, 1, 11, 40), (1, 1, 1, 40), (1, 1, 6, 40), stride=[1, 2], bias=[1]
    ),
    "dilated-bias": lambda: conv(
        "DepthWiseConv2d",
        (1, 9, 9, 6),
        (9, 3, 1, 6),
        (1, 9, 9, 6),
        dilation=[2, 1],
        pad_amount=[[8, 8], [1, 1]],
        bias=[1],
    ),
    "average-pool": average_pool,
    "pooled-volume": lambda: pooled_volume(dtype.UFIXED8, 1),
    "pooled-signed-volume": lambda: pooled_volume(dtype.SFIXED8, 0),
    "power": power,
    "select": select,
    "scatter": lambda: scatter("ScatterNd", 0),
    "scatter-into": lambda: scatter("ScatterElements", 0, updates=2e-4),
    "scatter-added": lambda: scatter("ScatterElements", 1),
    "elu-small": lambda: elu(0.01),
    "elu-large": lambda: elu(40000),
    "product": lambda: product((2, 1, 2, 4, 5), (1, 3, 1, 5, 6)),
    "product-of-16-bits": lambda: product((2, 3, 2, 4, 5), (2, 3, 2, 5, 6), 16),
    "clamped-sum": lambda: clamped_sum(-10, 10),
    "clamped-sum-of-six": lambda: clamped_sum(0, 6),
    "arc-tangent": lambda: unary(ATAN),
    "arc-tangent of five axes": lambda: unary(ATAN, LARGE.reshape(1, 2, 1, 5, 1)),
    "exponential": lambda: unary(EXP, np.float32([-65504, -6000, -100, -88.25, -15.5, -0.5, 0, 3, 10.5])),
    "sine": lambda: unary(SIN),
    "soft-sign": soft_sign,
}
"""What makes each case, by name."""

PRECISION = {
    "pooled-volume": 0.03,
    "pooled-signed-volume": 0.03,
    "power": 0.02,
    "scatter": 0.02,
    "scatter-into": 0.02,
    "scatter-added": 0.02,
    "norm-fixed": 0.02,
    "log-softmax-8": 0.02,
    "sine": 6e-3,
}
"""Relative errors of coarse numbers; those of other cases are below 3e-3."""


PLANT = """
import os
from xdlc import passes
from xdlc.passes import base

real = base.stage
left_out = os.environ["PLANTED"].split(",")
base.stage = passes.stage = lambda name: tuple(p for p in real(name) if p.name not in left_out)
"""


def leave_out_forms(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children compile without the forms that avoid faults of the library."""
    (folder / "sitecustomize.py").write_text(PLANT)
    monkeypatch.setenv("PLANTED", "avoid_faults,expand_blocks")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(Path(xdlc.__file__).parents[1])]))
