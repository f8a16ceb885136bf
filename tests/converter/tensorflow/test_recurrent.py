"""Fused recurrent operators of TensorFlow."""

import numpy as np
import pytest

import xdlc
from tests.converter.tensorflow.tf_models import FLOAT, Function, Graph, Type
from tests.support.formulas import sigmoid
from xdlc.errors import UnsupportedOp

RANDOM = np.random.default_rng(0)
STEPS, BATCH, WIDTH, UNITS = 4, 2, 3, 5
X = RANDOM.normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32)


def weight(*shape):
    return RANDOM.normal(size=shape).astype(np.float32) / 2


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


# ---------------------------------------------------------------------- loops as layers write them


class Loop:
    """The loop of a Keras layer over the rows of a list, and its weights."""

    def __init__(self, gates):
        self.kernel, self.recurrent = weight(WIDTH, gates * UNITS), weight(UNITS, gates * UNITS)
        self.bias, self.second = weight(gates * UNITS), weight(gates * UNITS)
        self.nodes = [
            const("one", 1),
            const("row", [BATCH, WIDTH]),
            const("last", -1),
            ("Const", "w", [], {"value": self.kernel, "dtype": FLOAT}),
            ("Const", "r", [], {"value": self.recurrent, "dtype": FLOAT}),
            ("Const", "b", [], {"value": self.bias, "dtype": FLOAT}),
            ("Const", "b2", [], {"value": self.second, "dtype": FLOAT}),
            ("AddV2", "next", ["i", "one:output:0"], {}),
            ("TensorListGetItem", "x", ["in", "i", "row:output:0"], {"element_dtype": FLOAT}),
            ("MatMul", "xw", ["x:item:0", "w:output:0"], {}),
            ("MatMul", "hr", ["h", "r:output:0"], {}),
            ("BiasAdd", "xb", ["xw:product:0", "b:output:0"], {}),
        ]

    def add(self, op, name, *inputs, **attributes):
        self.nodes.append((op, name, list(inputs), attributes))
        return self

    def model(self, tmp_path, hidden, states, steps=STEPS, starts=(H, C)):
        """Return the model of the loop with the next values of its ``states``."""
        variant, names = Type("variant"), ["h", "c"][: len(states)]
        graph = Graph().input("x", steps, BATCH, WIDTH).const("zero", np.int32(0)).const("n", np.int32(steps))
        graph.const("row", np.asarray([BATCH, WIDTH], np.int32)).const("open", np.int32(-1))
        graph.const("made", np.asarray([BATCH, UNITS], np.int32))
        for name, value in zip(names, starts, strict=False):
            graph.const(name, value)
        graph.node("TensorListFromTensor", "in", ["x", "row"], element_dtype=FLOAT)
        graph.node("TensorListReserve", "out", ["open", "n"], element_dtype=FLOAT)
        formals = ["i", "out", *names, "in"]
        condition = [const("n", steps), ("Less", "less", ["i", "n:output:0"], {})]
        graph.function("cond", formals, {"r": "less:z:0"}, condition)
        self.add("TensorListSetItem", "set", "out", "i", hidden, element_dtype=FLOAT)
        results = ["next:z:0", "set:output_handle:0", *states, "in"]
        graph.function("body", formals, {f"r{k}": value for k, value in enumerate(results)}, self.nodes)
        types = [Type("int32"), variant, *([FLOAT] * len(names)), variant]
        functions = {"cond": Function("cond"), "body": Function("body")}
        graph.node("While", "while", ["zero", "out", *names, "in"], **functions, T=types)
        graph.node("TensorListStack", "all", ["while:1", "made"], element_dtype=FLOAT, num_elements=steps)
        graph.node("Identity", "end", ["while:2"], T=FLOAT)
        return xdlc.convert(graph.save(tmp_path / "m.pb"), importer_options={"out_node": ["all", "end"]})


def const(name, value):
    return ("Const", name, [], {"value": np.asarray(value, np.int32), "dtype": Type("int32")})


def split(loop, name, count):
    loop.add("Split", "g", "last:output:0", name, num_split=count)
    return [f"g:output:{index}" for index in range(count)]


def check(model, step, x):
    results, state, rows = xdlc.run(model, {"x": x}), (H, C), []
    for row in x:
        state = step(row, *state)
        rows.append(state[0])
    np.testing.assert_allclose(results["all:0"], np.stack(rows), atol=1e-5)
    np.testing.assert_allclose(results["end:0"], rows[-1], atol=1e-5)


def lstm_loop(activation="Sigmoid"):
    loop = Loop(4)
    loop.add("AddV2", "sum", "xb:output:0", "hr:product:0")
    i, f, c, o = split(loop, "sum:z:0", 4)
    for name, value in (("si", i), ("sf", f)):
        loop.add("Sigmoid", name, value)
    loop.add(activation, "so", o).add("Tanh", "tc", c)
    loop.add("Mul", "kept", "sf:y:0", "c").add("Mul", "new", "si:y:0", "tc:y:0")
    loop.add("AddV2", "cell", "kept:z:0", "new:z:0").add("Tanh", "shown", "cell:z:0")
    return loop.add("Mul", "hidden", "so:y:0", "shown:y:0")


@pytest.mark.parametrize("steps", [STEPS, 30])
@pytest.mark.parametrize("activation", ["Sigmoid", "Tanh"])
def test_a_loop_that_is_surely_an_lstm_becomes_one(tmp_path, steps, activation):
    loop = lstm_loop(activation)
    model = loop.model(tmp_path, "hidden:z:0", ["hidden:z:0", "cell:z:0"], steps)
    assert ("Lstm" in [op.type for op in model.main.ops]) == (activation == "Sigmoid")

    def step(x, h, c):
        i, f, g, o = np.split(x @ loop.kernel + h @ loop.recurrent + loop.bias, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return (sigmoid(o) if activation == "Sigmoid" else np.tanh(o)) * np.tanh(c), c

    check(model, step, RANDOM.normal(size=(steps, BATCH, WIDTH)).astype(np.float32))


@pytest.mark.parametrize("steps", [STEPS, 30])
def test_a_loop_that_is_surely_a_gated_unit_becomes_one(tmp_path, steps):
    loop = Loop(3)
    loop.add("AddV2", "hb", "hr:product:0", "b2:output:0")
    z, r, n = split(loop, "xb:output:0", 3)
    loop.add("Split", "k", "last:output:0", "hb:z:0", num_split=3)
    for name, value, index in (("z", z, 0), ("r", r, 1)):
        loop.add("AddV2", f"a{name}", value, f"k:output:{index}").add("Sigmoid", f"s{name}", f"a{name}:z:0")
    loop.nodes.append(("Const", "unit", [], {"value": np.float32(1), "dtype": FLOAT}))
    loop.add("Mul", "scaled", "sr:y:0", "k:output:2").add("AddV2", "an", n, "scaled:z:0").add(
        "Tanh", "tn", "an:z:0"
    )
    loop.add("Mul", "kept", "sz:y:0", "h").add("Sub", "rest", "unit:output:0", "sz:y:0")
    loop.add("Mul", "new", "rest:z:0", "tn:y:0").add("AddV2", "hidden", "kept:z:0", "new:z:0")
    model = loop.model(tmp_path, "hidden:z:0", ["hidden:z:0"], steps)
    assert "While" not in [op.type for op in model.main.ops]

    def step(x, h, *_):
        (z, r, n), (kz, kr, kn) = (
            np.split(value, 3, 1) for value in (x @ loop.kernel + loop.bias, h @ loop.recurrent + loop.second)
        )
        z = sigmoid(z + kz)
        return (z * h + (1 - z) * np.tanh(n + sigmoid(r + kr) * kn),)

    check(model, step, RANDOM.normal(size=(steps, BATCH, WIDTH)).astype(np.float32))


@pytest.mark.parametrize(("scale", "is_layer"), [(False, True), (True, False)])
def test_a_loop_that_is_surely_a_recurrent_layer_becomes_one(tmp_path, scale, is_layer):
    loop, steps = Loop(1), 30
    loop.add("AddV2", "sum", "xb:output:0", "hr:product:0").add("Tanh", "hidden", "sum:z:0")
    if scale:
        loop.add("Mul", "twice", "hidden:y:0", "hidden:y:0")
    end = "twice:z:0" if scale else "hidden:y:0"
    model = loop.model(tmp_path, end, [end], steps)
    assert ("While" not in [op.type for op in model.main.ops]) == is_layer

    def step(x, h, *_):
        made = np.tanh(x @ loop.kernel + h @ loop.recurrent + loop.bias)
        return (made * made if scale else made,)

    check(model, step, RANDOM.normal(size=(steps, BATCH, WIDTH)).astype(np.float32))
