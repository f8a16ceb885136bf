"""Fused recurrent operators of TensorFlow."""

import numpy as np
import pytest

import xdlc
from tests.converter.tensorflow.tf_models import FLOAT, Graph
from xdlc.errors import UnsupportedOp

RANDOM = np.random.default_rng(0)
STEPS, BATCH, WIDTH, UNITS = 4, 2, 3, 5
X = RANDOM.normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32)


def weight(*shape):
    return RANDOM.normal(size=shape).astype(np.float32) / 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


W, B, H, C = weight(WIDTH + UNITS, 4 * UNITS), weight(4 * UNITS), weight(BATCH, UNITS), weight(BATCH, UNITS)
PEEPHOLES = dict(zip("ifo", (weight(UNITS) for _ in range(3)), strict=True))


def lstm_step(x, h, c, order, forget_bias=0.0, clip=0.0, peepholes=None):
    """Return i, cs, f, o, ci, co, h."""
    gate = dict(zip(order, np.split(np.concatenate([x, h], 1) @ W + B, 4, 1), strict=True))
    seen = peepholes or dict.fromkeys("ifo", 0)
    i, f = sigmoid(gate["i"] + seen["i"] * c), sigmoid(gate["f"] + seen["f"] * c + forget_bias)
    new = np.tanh(gate["c"])
    c = f * c + i * new
    c = np.clip(c, -clip, clip) if clip else c
    o = sigmoid(gate["o"] + seen["o"] * c)
    return [i, c, f, o, new, np.tanh(c), o * np.tanh(c)]


def block(op, *shape, **attributes):
    graph = Graph().input("x", *shape).const("n", np.int64(STEPS)).const("cs", C).const("h", H)
    graph.const("w", W).const("b", B)
    for name, value in PEEPHOLES.items():
        graph.const(f"w{name}", value)
    inputs = [*(["n"] if op.startswith("Block") else []), "x", "cs", "h", "w", "wi", "wf", "wo", "b"]
    return graph.node(op, "cell", inputs, T=FLOAT, **attributes)


def outputs(graph, tmp_path, feed, count=7):
    ends = [f"cell:{index}" for index in range(count)]
    model = xdlc.convert(graph.save(tmp_path / "m.pb"), importer_options={"out_node": ends})
    found = xdlc.run(model, {"x": feed})
    return [found[end] for end in ends]


@pytest.mark.parametrize("peephole", [True, False])
def test_a_cell_returns_its_gates(tmp_path, peephole):
    graph = block("LSTMBlockCell", BATCH, WIDTH, use_peephole=peephole, cell_clip=0.3, forget_bias=0.5)
    want = lstm_step(X[0], H, C, "icfo", 0.5, 0.3, PEEPHOLES if peephole else None)
    for got, value in zip(outputs(graph, tmp_path, X[0]), want, strict=True):
        np.testing.assert_allclose(got, value, atol=1e-5)


@pytest.mark.parametrize(("op", "order", "bias"), [("BlockLSTM", "icfo", 1.0), ("BlockLSTMV2", "ifco", 0.0)])
def test_a_sequence_returns_the_gates_of_each_step(tmp_path, op, order, bias):
    got = outputs(block(op, STEPS, BATCH, WIDTH, cell_clip=-1.0), tmp_path, X)
    h, c = H, C
    for step in range(STEPS):
        want = lstm_step(X[step], h, c, order, bias)
        h, c = want[6], want[1]
        for all_steps, value in zip(got, want, strict=True):
            np.testing.assert_allclose(all_steps[step], value, atol=1e-5)


def test_a_gated_unit_returns_its_gates(tmp_path):
    both, new = weight(WIDTH + UNITS, 2 * UNITS), weight(WIDTH + UNITS, UNITS)
    graph = Graph().input("x", BATCH, WIDTH).const("h", H).const("ru", both).const("c", new)
    graph.const("bru", B[: 2 * UNITS]).const("bc", B[:UNITS])
    graph.node("GRUBlockCell", "cell", ["x", "h", "ru", "c", "bru", "bc"], T=FLOAT)
    r, u = np.split(sigmoid(np.concatenate([X[0], H], 1) @ both + B[: 2 * UNITS]), 2, 1)
    c = np.tanh(np.concatenate([X[0], r * H], 1) @ new + B[:UNITS])
    for got, value in zip(outputs(graph, tmp_path, X[0], 4), [r, u, c, u * H + (1 - u) * c], strict=True):
        np.testing.assert_allclose(got, value, atol=1e-5)


def test_weights_packed_for_a_gpu_are_refused(tmp_path):
    graph = (
        Graph().input("x", STEPS, BATCH, WIDTH).const("w", W).node("CudnnRNN", "cell", ["x", "x", "x", "w"])
    )
    with pytest.raises(UnsupportedOp, match="packed"):
        xdlc.convert(graph.save(tmp_path / "m.pb"), importer_options={"out_node": ["cell"]})
