"""Small graphs for tests of the HTP backend, and the mark of its library."""

from __future__ import annotations

import functools
import platform
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from xdlc.errors import raise_all
from xdlc.ir import AxisScaleOffset, Graph, Model, Param, ScaleOffset, Tensor, make_op, static, u32
from xdlc.ir import dtype as dt
from xdlc.prepare.htp import prepare
from xdlc.runtime.htp import unsupported_ops
from xdlc.runtime.htp.unsupported_op import problems_of

needs_htp = pytest.mark.skipif(
    find_spec("onnxruntime_qnn") is None or (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="needs the package onnxruntime-qnn on Linux x86_64",
)
RELU = 4
_U8, _U32 = "uint8", "uint32"


def _window(**given: Any) -> dict[str, Param]:
    return {name: static(name, np.array(value, _U32)) for name, value in given.items()}


def add(graph: Graph, kind: str, inputs: list[Tensor | None], out: Tensor, **params: Param) -> Tensor:
    graph.append(make_op(graph, kind, inputs, [out], params, name=f"{kind.lower()}_{out.name}"))
    return out


def cnn(*, quantized: bool) -> Model:
    """Return conv, relu, max pool, reshape, fully connected: x[1,8,8,4] to y[1,5]."""
    rng = np.random.default_rng(7)
    graph = Graph("cnn")

    def act(name: str, shape: tuple[int, ...], low: float, high: float) -> Tensor:
        if not quantized:
            return Tensor(name, shape, dt.FLOAT32)
        scale = (high - low) / 255
        return Tensor(name, shape, dt.UFIXED8, ScaleOffset(scale, round(low / scale)))

    def weight(name: str, real: np.ndarray, axis: int) -> Tensor:
        if not quantized:
            return static(name, real.astype("float32"))
        others = tuple(index for index in range(real.ndim) if index != axis)
        scales = np.abs(real).max(axis=others) / 127
        along = scales.reshape([-1 if index == axis else 1 for index in range(real.ndim)])
        encoding = AxisScaleOffset(axis, tuple(scales.tolist()))
        return static(name, np.rint(real / along).astype("int8"), dt.SFIXED8, encoding)

    def bias(name: str, real: np.ndarray, source: Tensor, weights: Tensor) -> Tensor:
        if not quantized:
            return static(name, real.astype("float32"))
        assert isinstance(source.encoding, ScaleOffset)
        assert isinstance(weights.encoding, AxisScaleOffset)
        scales = source.encoding.scale * np.array(weights.encoding.scales)
        encoding = AxisScaleOffset(0, tuple(scales.tolist()))
        return static(name, np.rint(real / scales).astype("int32"), dt.SFIXED32, encoding)

    x = graph.add_input(act("x", (1, 8, 8, 4), -1, 1))
    w = weight("w", rng.normal(size=(3, 3, 4, 8)) / 6, 3)
    conv = add(
        graph,
        "Conv2d",
        [x, w, bias("b", rng.normal(size=8) / 4, x, w)],
        act("conv", (1, 8, 8, 8), -2, 2),
        **_window(stride=[1, 1], pad_amount=[[1, 1], [1, 1]], dilation=[1, 1]),
        group=u32(1),
    )
    relu = add(graph, "ElementWiseNeuron", [conv], act("relu", (1, 8, 8, 8), 0, 2), operation=u32(RELU))
    pool = add(
        graph,
        "PoolMax2d",
        [relu],
        act("pool", (1, 4, 4, 8), 0, 2),
        **_window(filter_size=[2, 2], stride=[2, 2], pad_amount=[[0, 0], [0, 0]]),
    )
    flat = add(graph, "Reshape", [pool], act("flat", (1, 128), 0, 2))
    v = weight("v", rng.normal(size=(5, 128)) / 16, 0)
    y = add(
        graph,
        "FullyConnected",
        [flat, v, bias("c", rng.normal(size=5) / 4, flat, v)],
        act("y", (1, 5), -2, 2),
    )
    graph.add_output(y)
    return Model({graph.name: graph})


def prepared_cnn(*socs: str, quantized: bool = True) -> Model:
    """Return a copy of ``cnn`` with caches, which are compiled once a process."""
    return _prepared(socs, quantized).clone()


@functools.cache
def _prepared(socs: tuple[str, ...], quantized: bool) -> Model:
    return prepare(cnn(quantized=quantized), socs)


def cnn_reference(model: Model, x: np.ndarray) -> np.ndarray:
    """Return what the float ``cnn`` computes, in float64."""
    graph = model.main
    w, b, v, c = (graph.tensors[name].numpy().astype("float64") for name in "wbvc")
    padded = np.pad(x.astype("float64"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    conv = sum(padded[:, i : i + 8, j : j + 8] @ w[i, j] for i in range(3) for j in range(3)) + b
    pooled = np.maximum(conv, 0).reshape(1, 4, 2, 4, 2, 8).max(axis=(2, 4))
    return np.asarray(pooled.reshape(1, 128) @ v.T + c)


def validate(model: Any, **options: Any) -> None:
    """Raise an error for each op that HTP refuses."""
    raise_all(problems_of(unsupported_ops(model, "sm8650", **options), "model: sm8650"))


def refused() -> Model:
    """Return a graph with two ops that HTP refuses: ``softmax`` and ``tile``."""
    graph = Graph("refused")
    x = graph.add_input(Tensor("x", (1, 4, 4, 8), dt.FLOAT32))
    y = Tensor("y", x.shape, dt.FLOAT32)
    graph.append(make_op(graph, "Softmax", [x], [y], {"axis": u32(1)}, name="softmax"))
    graph.add_output(y)
    deep = graph.add_input(Tensor("deep", (1, 2, 2, 2, 2, 8), dt.FLOAT32))
    z = Tensor("z", (2, 2, 2, 2, 2, 8), dt.FLOAT32)
    multiples = {"multiples": static("", np.array([2, 1, 1, 1, 1, 1], _U32))}
    graph.append(make_op(graph, "Tile", [deep], [z], multiples, name="tile"))
    graph.add_output(z)
    return Model({graph.name: graph})


def partly(*, quantized: bool) -> Model:
    """Return ``c = a + conv(softmax(a))``, ``a = conv(x)``; HTP refuses the softmax."""
    rng = np.random.default_rng(3)
    graph = Graph("my graph")

    def act(name: str, channels: int, low: float, high: float) -> Tensor:
        if not quantized:
            return Tensor(name, (1, 8, 8, channels), dt.FLOAT32)
        scale = (high - low) / 255
        return Tensor(name, (1, 8, 8, channels), dt.UFIXED8, ScaleOffset(scale, round(low / scale)))

    def conv(source: Tensor, name: str) -> Tensor:
        real = rng.normal(size=(3, 3, source.shape[3], 8)) / 6
        weight = static(f"{name}_w", real.astype("float32"))
        if quantized:
            scales = np.abs(real).max(axis=(0, 1, 2)) / 127
            encoding = AxisScaleOffset(3, tuple(scales.tolist()))
            weight = static(f"{name}_w", np.rint(real / scales).astype("int8"), dt.SFIXED8, encoding)
        window = _window(stride=[1, 1], pad_amount=[[1, 1], [1, 1]], dilation=[1, 1])
        return add(graph, "Conv2d", [source, weight], act(name, 8, -2, 2), **window, group=u32(1))

    a = conv(graph.add_input(act("x", 4, -1, 1)), "a")
    b = conv(add(graph, "Softmax", [a], act("s", 8, 0, 1), axis=u32(1)), "b")
    graph.add_output(add(graph, "ElementWiseBinary", [a, b], act("c", 8, -3, 3), operation=u32(0)))
    return Model({graph.name: graph})
