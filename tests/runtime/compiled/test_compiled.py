"""Compiled ops, against the same ops of onnxruntime."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.runtime.htp_arithmetic.test_u8 import CASES, case_of
from tests.support.single_ops import op_graph
from xdlc.ir import AxisScaleOffset, Graph, Model, ScaleOffset, Tensor, f32, make_op, static, u32, u32s
from xdlc.ir import dtype as dt
from xdlc.runtime import compiled, cpu
from xdlc.runtime.cpu import CpuSession

pytest.importorskip("numba")
pytestmark = pytest.mark.slow
RNG = np.random.default_rng(5)


@pytest.fixture(params=["bytes", "halves"], autouse=True)
def numbers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply bytes where the processor has an instruction for that, and 16 bits."""
    from xdlc.runtime.compiled import ops

    if request.param == "bytes" and not ops.HAS_BYTES:
        pytest.skip("the processor multiplies no bytes")
    monkeypatch.setattr(ops, "HAS_BYTES", request.param == "bytes")


def results(model: Model, feeds: dict[str, np.ndarray], threads: int = 1) -> tuple[int, list[np.ndarray]]:
    """Return the number of compiled ops, and what both runs of the first output give."""
    division = compiled.accelerator(model.main, threads)
    assert division is not None
    count = sum(len(ops) for step, ops in division(model.main) if step is not None)
    sessions = CpuSession(model), CpuSession(model, accelerator=division)
    name = model.main.outputs[0].name
    return count, [session.run(feeds, native=True)[name] for session in sessions]


@pytest.mark.parametrize("case", CASES)
def test_products(case: str) -> None:
    model, x, _, _ = case_of(*CASES[case])
    count, (expected, result) = results(model, {"x": x})
    assert count == 1
    np.testing.assert_array_equal(result, expected)
    assert len(np.unique(result)) > 30


class Network:
    """A graph of 8 bits that grows op by op."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.graph = Graph("g")
        self.last = self.graph.add_input(Tensor("x", shape, dt.UFIXED8, ScaleOffset(0.02, -117)))

    def add(self, kind: str, inputs: list[Tensor], shape: tuple[int, ...], encoding: ScaleOffset, **params):
        name = f"t{len(self.graph.ops)}"
        target = Tensor(name, shape, dt.UFIXED8, encoding)
        self.graph.append(make_op(self.graph, kind, inputs, [target], params, name=f"op_{name}"))
        self.last = target
        return target

    def convolve(self, kind: str, size, units: int, stride, dilation, pads, encoding: ScaleOffset):
        source = self.last
        depth = 1 if kind.startswith("Depth") else source.shape[-1]
        values = RNG.integers(-128, 128, (*size, depth, units)).astype(np.int8)
        scales = RNG.uniform(0.002, 0.01, units)
        steps = tuple(float(source.encoding.scale * scale) for scale in scales)
        name = f"{len(self.graph.ops)}"
        weights = static(f"w{name}", values, dt.SFIXED8, AxisScaleOffset(3, tuple(map(float, scales))))
        bias = RNG.integers(-4000, 4000, units).astype(np.int32)
        shape = [
            (source.shape[1 + axis] + sum(pads[axis]) - dilation[axis] * (size[axis] - 1) - 1) // stride[axis]
            + 1
            for axis in range(2)
        ]
        inputs = [source, weights, static(f"b{name}", bias, dt.SFIXED32, AxisScaleOffset(0, steps))]
        params = {"stride": u32s(stride), "dilation": u32s(dilation), "pad_amount": u32s(pads)}
        params |= {"group": u32(1)} if kind == "Conv2d" else {}
        return self.add(kind, inputs, (source.shape[0], *shape, units), encoding, **params)

    def model(self) -> Model:
        self.graph.add_output(self.last)
        return Model({"g": self.graph})


def test_a_network_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_LEAST", 1)
    net = Network((2, 23, 20, 5))
    net.convolve("Conv2d", (3, 2), 37, (2, 1), (1, 2), [[1, 2], [0, 1]], ScaleOffset(0.03, 0))
    net.add("ElementWiseNeuron", [net.last], net.last.shape, net.last.encoding, operation=u32(4))
    net.convolve("DepthWiseConv2d", (3, 3), 37, (1, 1), (2, 1), [[2, 2], [1, 1]], ScaleOffset(0.02, -90))
    first = net.convolve("Conv2d", (1, 1), 64, (1, 1), (1, 1), [[0, 0], [0, 0]], ScaleOffset(0.03, -128))
    second = net.convolve("Conv2d", (1, 1), 64, (1, 1), (1, 1), [[0, 0], [0, 0]], ScaleOffset(0.05, -100))
    net.add("ElementWiseBinary", [first, second], first.shape, ScaleOffset(0.06, -117), operation=u32(0))
    six = {"operation": u32(5), "min_value": f32(0.0), "max_value": f32(3.0)}
    net.add("ElementWiseNeuron", [net.last], net.last.shape, net.last.encoding, **six)
    window = {"filter_size": u32s([3, 2]), "stride": u32s([2, 2]), "pad_amount": u32s([[1, 1], [0, 0]])}
    shape = net.last.shape
    pooled = (2, (shape[1] + 2 - 3) // 2 + 1, (shape[2] - 2) // 2 + 1, 64)
    net.add("PoolMax2d", [net.last], pooled, net.last.encoding, **window)
    net.convolve("DepthWiseConv2d", (2, 2), 64, (2, 2), (1, 1), [[0, 0], [1, 1]], ScaleOffset(0.03, -60))
    model = net.model()
    x = RNG.integers(0, 256, model.main.inputs[0].shape).astype(np.uint8)
    count, (expected, result) = results(model, {"x": x}, threads=3)
    assert count == len(model.main.ops)
    np.testing.assert_array_equal(result, expected)
    assert len(np.unique(result)) > 30


def test_a_branch_without_values() -> None:
    net = Network((1, 8, 8, 4))
    full = net.convolve("Conv2d", (1, 1), 16, (1, 1), (1, 1), [[0, 0], [0, 0]], ScaleOffset(0.02, -128))
    net.last = net.graph.add_input(Tensor("empty", (0, 8, 8, 4), dt.UFIXED8, ScaleOffset(0.02, -117)))
    net.convolve("DepthWiseConv2d", (1, 1), 4, (1, 1), (1, 1), [[0, 0], [0, 0]], ScaleOffset(0.02, -128))
    net.graph.add_output(full)
    model = net.model()
    feeds = {tensor.name: np.zeros(tensor.shape, np.uint8) for tensor in model.main.inputs}
    count, (expected, result) = results(model, feeds)
    assert count == 2
    np.testing.assert_array_equal(result, expected)


def test_a_session_changes_to_compiled_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, _, _ = case_of(*CASES["convolution"])
    session = CpuSession(model)
    expected, plan = session.run({"x": x})["y"], session._plan
    assert session._plan is plan
    monkeypatch.setattr(cpu, "COMPILED_AFTER", 0.0)
    session.run({"x": x})
    assert session._plan is not plan
    np.testing.assert_array_equal(session.run({"x": x})["y"], expected)


def test_ops_that_htp_computes_in_other_ways_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Network((1, 8, 8, 4))
    net.convolve("Conv2d", (1, 1), 16, (1, 1), (1, 1), [[0, 0], [0, 0]], ScaleOffset(0.02, -128))
    net.add("ElementWiseNeuron", [net.last], net.last.shape, ScaleOffset(0.01, 0), operation=u32(4))
    assert compiled.accelerator(net.model().main) is None
    wide = Tensor("x", (8, 4), dt.FLOAT32), Tensor("y", (8, 4), dt.FLOAT32)
    graph = op_graph("ElementWiseNeuron", [wide[0]], [wide[1]], {"operation": u32(4)})
    assert compiled.accelerator(graph) is None
    monkeypatch.setitem(sys.modules, "xdlc.runtime.compiled.ops", None)  # as if numba were missing
    assert compiled.accelerator(case_of(*CASES["convolution"])[0].main) is None


def test_values_that_are_no_numbers_are_the_least() -> None:
    from xdlc.runtime.compiled.ops import stored_values

    tensor = Tensor("x", (4,), dt.UFIXED8, ScaleOffset(0.5, -10))
    values = np.float32([np.nan, -np.inf, np.inf, 0.75])
    np.testing.assert_array_equal(stored_values(values, tensor), [0, 0, 255, 12])


def test_kernels_fit_the_processor_that_numba_compiles_for() -> None:
    code = "from xdlc.runtime.compiled.microkernel import HAS_BYTES; print(HAS_BYTES)"
    words = {**os.environ, "NUMBA_CPU_NAME": "generic"}
    done = subprocess.run([sys.executable, "-c", code], env=words, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
