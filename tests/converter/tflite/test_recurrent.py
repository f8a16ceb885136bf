"""Recurrent operators of TFLite, loops, branches, and variables."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel
from tests.support.formulas import sigmoid
from xdlc.errors import ModelError, UnsupportedOp

RANDOM = np.random.default_rng(0)
BATCH, STEPS, WIDTH, UNITS = 2, 5, 3, 4
X = RANDOM.normal(size=(BATCH, STEPS, WIDTH)).astype(np.float32)


def weight(*shape):
    return RANDOM.normal(size=shape).astype(np.float32) / 2


def norm(x, weights):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-8) * weights


class Lstm:
    """An LSTM with some of its optional inputs, and its steps in numpy."""

    def __init__(self, cifg=False, peephole=False, projected=False, normed=False, clip=0.0):
        out = 2 if projected else UNITS
        gates = "fco" if cifg else "ifco"
        self.w = {name: weight(UNITS, WIDTH) for name in gates}
        self.r = {name: weight(UNITS, out) for name in gates}
        self.p = {name: weight(UNITS) for name in gates if peephole and name != "c"}
        self.b = {name: weight(UNITS) for name in gates}
        self.n = {name: weight(UNITS) + 1 for name in gates if normed}
        self.projection = [weight(out, UNITS), weight(out)] if projected else [None, None]
        self.clip = clip

    def inputs(self):
        order = [self.w.get(name) for name in "ifco"] + [self.r.get(name) for name in "ifco"]
        order += [self.p.get(name) for name in "ifo"] + [self.b.get(name) for name in "ifco"]
        return [*order, *self.projection], [self.n.get(name) for name in "ifco"]

    def gate(self, name, x, h, c):
        total = x @ self.w[name].T + h @ self.r[name].T + self.p.get(name, 0) * c
        return (norm(total, self.n[name]) if name in self.n else total) + self.b[name]

    def step(self, x, h, c):
        forget = sigmoid(self.gate("f", x, h, c))
        taken = sigmoid(self.gate("i", x, h, c)) if "i" in self.w else 1 - forget
        c = forget * c + taken * np.tanh(self.gate("c", x, h, 0))
        c = np.clip(c, -self.clip, self.clip) if self.clip else c
        h = sigmoid(self.gate("o", x, h, c)) * np.tanh(c)
        if self.projection[0] is not None:
            h = h @ self.projection[0].T + self.projection[1]
        return h, c


def lstm_model(builder, lstm, x, tmp_path, steps=STEPS, **options):
    given, norms = lstm.inputs()
    out = lstm.r["f"].shape[1]
    inputs = [x, *(-1 if one is None else builder.tensor(f"w{i}", data=one) for i, one in enumerate(given))]
    inputs += [builder.tensor(n, [BATCH, size], is_variable=True) for n, size in (("h", out), ("c", UNITS))]
    if norms[1] is not None:
        inputs += [-1 if one is None else builder.tensor(f"n{i}", data=one) for i, one in enumerate(norms)]
    y = builder.tensor("y", [BATCH, steps, out])
    builder.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], fused_activation_function=4, **options)
    return xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))


FORMS = [
    {},
    {"cifg": True},
    {"peephole": True},
    {"cifg": True, "peephole": True, "projected": True},
    {"normed": True},
    {"normed": True, "cifg": True, "clip": 0.2},
]


@pytest.mark.parametrize("form", FORMS)
def test_an_lstm_computes_its_steps_and_hands_its_states_on(tmp_path, form):
    lstm, made = Lstm(**form), TinyModel()
    x = made.tensor("x", X.shape)
    model = lstm_model(made, lstm, x, tmp_path, cell_clip=form.get("clip", 0.0))
    assert [each.name for each in model.main.inputs] == ["x", "h_in", "c_in"]
    assert [each.name for each in model.main.outputs] == ["y", "h_out", "c_out"]
    types = [op.type for op in model.main.ops]
    assert ("Lstm" in types) == (not {"projected", "normed"} & set(form))
    assert "While" not in types
    h, c = np.zeros((BATCH, lstm.r["f"].shape[1])), np.zeros((BATCH, UNITS))
    states = {}
    for _ in range(2):
        rows = []
        for step in range(STEPS):
            h, c = lstm.step(X[:, step], h, c)
            rows.append(h)
        found = xdlc.run(model, {"x": X, **states})  # without states from zeros
        np.testing.assert_allclose(found["y"], np.stack(rows, 1), atol=1e-5)
        states = {"h_in": found["h_out"], "c_in": found["c_out"]}
        np.testing.assert_allclose(found["c_out"], c, atol=1e-5)


def test_states_start_from_zeros_after_the_model_is_read_from_a_file(tmp_path):
    lstm, made = Lstm(), TinyModel()
    model = lstm_model(made, lstm, made.tensor("x", X.shape), tmp_path)
    model.save(tmp_path / "m.dlc")
    found = xdlc.run(xdlc.load(tmp_path / "m.dlc"), {"x": X})
    np.testing.assert_allclose(found["y"], xdlc.run(model, {"x": X})["y"], atol=1e-6)


def test_a_state_that_the_user_fixes_is_no_input(tmp_path):
    lstm, made = Lstm(), TinyModel()
    lstm_model(made, lstm, made.tensor("x", X.shape), tmp_path)
    zeros = np.zeros((BATCH, UNITS), np.float32)
    model = xdlc.convert(tmp_path / "m.tflite", set_inputs={"h_in": zeros, "c_in": zeros}, out_name=["y"])
    assert [each.name for each in model.main.inputs] == ["x"]


def test_an_lstm_without_an_activation_is_refused(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [BATCH, STEPS, WIDTH]), builder.tensor("y", [BATCH, STEPS, UNITS])
    given = [
        -1 if one is None else builder.tensor(f"w{i}", data=one) for i, one in enumerate(Lstm().inputs()[0])
    ]
    states = [builder.tensor(name, [BATCH, UNITS], is_variable=True) for name in "hc"]
    builder.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *given, *states], [y])
    with pytest.raises(UnsupportedOp, match="without an activation"):
        xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))


@pytest.mark.parametrize("form", [{}, {"normed": True}])
@pytest.mark.parametrize("place", [2, 3, 4, 5, 6, 7, 8])
def test_an_lstm_without_weights_is_refused(tmp_path, form, place):
    lstm, builder = Lstm(**form), TinyModel()
    x = builder.tensor("x", X.shape)
    lstm_model(builder, lstm, x, tmp_path)
    operator = builder.graphs[0].operators[-1]
    operator.inputs = [-1 if index == place else tensor for index, tensor in enumerate(operator.inputs)]
    with pytest.raises(ModelError, match=f"input {place} is missing"):
        xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [operator.outputs[0]]))


def test_an_svdf_of_integers_rounds_as_its_tensors(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [1, 2], np.int8, scale=0.5), builder.tensor("y", [1, 1], np.int8, scale=0.25)
    f = builder.tensor("f", dtype=np.int8, data=[[2, 4]], scale=0.5)
    t = builder.tensor("t", dtype=np.int16, data=[[1, 2]], scale=0.5)
    state = builder.tensor("s", [1, 2], np.int16, scale=1.0, is_variable=True)
    builder.op("SVDF", [x, f, t, -1, state], [y], rank=1)
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    found = xdlc.run(model, {"x": np.array([[1, 3]], np.int8)}, native=True)
    assert found["s_out"].tolist() == [[0, 4]]  # 0.5 * 1 + 1.5 * 2 = 3.5, half to even
    assert found["y"].tolist() == [[16]]


@pytest.mark.parametrize("activation", [0, 1, 4])
def test_an_rnn_of_one_step(tmp_path, activation):
    builder, w, r, b = TinyModel(), weight(UNITS, WIDTH), weight(UNITS, UNITS), weight(UNITS)
    x, y = builder.tensor("x", [BATCH, WIDTH]), builder.tensor("y", [BATCH, UNITS])
    state = builder.tensor("h", [BATCH, UNITS], is_variable=True)
    given = [builder.tensor(name, data=data) for name, data in (("w", w), ("r", r), ("b", b))]
    builder.op("RNN", [x, *given, state], [y], fused_activation_function=activation)
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    h = weight(BATCH, UNITS)
    function = {0: lambda v: v, 1: lambda v: np.maximum(v, 0), 4: np.tanh}[activation]
    found = xdlc.run(model, {"x": X[:, 0], "h_in": h})
    np.testing.assert_allclose(found["y"], function(X[:, 0] @ w.T + h @ r.T + b), atol=1e-5)
    np.testing.assert_array_equal(found["h_out"], found["y"])


@pytest.mark.parametrize("merge", [True, False])
def test_two_directions_of_an_rnn_with_an_auxiliary_input(tmp_path, merge):
    builder, weights = (
        TinyModel(),
        [(weight(UNITS, WIDTH), weight(UNITS, UNITS), weight(UNITS)) for _ in "fb"],
    )
    extra = [weight(UNITS, 2) for _ in "fb"]
    x, aux = builder.tensor("x", X.shape), builder.tensor("aux", [BATCH, STEPS, 2])
    inputs = [x]
    for name, held in zip("fb", weights, strict=True):
        inputs += [builder.tensor(f"{name}{i}", data=data) for i, data in enumerate(held)]
        inputs.append(builder.tensor(f"{name}h", [BATCH, UNITS], is_variable=True))
    inputs += [aux, *(builder.tensor(f"e{i}", data=data) for i, data in enumerate(extra))]
    outputs = [builder.tensor("y", [BATCH, STEPS, 2 * UNITS if merge else UNITS])]
    outputs += [] if merge else [builder.tensor("z", [BATCH, STEPS, UNITS])]
    builder.op(
        "BIDIRECTIONAL_SEQUENCE_RNN", inputs, outputs, fused_activation_function=4, merge_outputs=merge
    )
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x, aux], outputs))
    a = weight(BATCH, STEPS, 2)
    want = []
    for (w, r, b), e, order in zip(weights, extra, (range(STEPS), reversed(range(STEPS))), strict=True):
        h, rows = np.zeros((BATCH, UNITS)), [None] * STEPS
        for step in order:
            rows[step] = h = np.tanh(X[:, step] @ w.T + a[:, step] @ e.T + h @ r.T + b)
        want.append(np.stack(rows, 1))
    found = xdlc.run(model, {"x": X, "aux": a})
    both = found["y"] if merge else np.concatenate([found["y"], found["z"]], -1)
    np.testing.assert_allclose(both, np.concatenate(want, -1), atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2])
def test_an_svdf_remembers_the_last_steps(tmp_path, rank):
    filters, memory = 4, 3
    builder, wf, wt, b = TinyModel(), weight(filters, WIDTH), weight(filters, memory), weight(filters // rank)
    x, y = builder.tensor("x", [BATCH, WIDTH]), builder.tensor("y", [BATCH, filters // rank])
    given = [builder.tensor(name, data=data) for name, data in (("f", wf), ("t", wt), ("b", b))]
    state = builder.tensor("s", [BATCH, filters * memory], is_variable=True)
    builder.op("SVDF", [x, *given, state], [y], rank=rank, fused_activation_function=1)
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    held, feeds = np.zeros((BATCH, filters, memory)), {}
    for step in range(STEPS):
        held = np.concatenate([held[:, :, 1:], (X[:, step] @ wf.T)[:, :, None]], 2)
        want = np.maximum((held * wt).sum(2).reshape(BATCH, -1, rank).sum(2) + b, 0)
        found = xdlc.run(model, {"x": X[:, step], **feeds})
        feeds = {"s_in": found["s_out"]}
        np.testing.assert_allclose(found["y"], want, atol=1e-5)


# ---------------------------------------------------------------------- resources, branches, loops


def variable(builder, start, name="v"):
    """Add a variable that a sub-graph initializes; return its handle."""
    main = builder.graph
    index = builder.begin()
    inner = builder.tensor("init", [], np.int32)
    builder.op("VAR_HANDLE", [], [inner], shared_name=name)
    builder.op("ASSIGN_VARIABLE", [inner, builder.tensor("start", data=start)], [])
    builder.graph = main
    builder.op("CALL_ONCE", [], [], init_subgraph_index=index)
    handle = builder.tensor("handle", [], np.int32)
    builder.op("VAR_HANDLE", [], [handle], shared_name=name)
    return handle


@pytest.mark.parametrize("start", [np.ones(3), np.arange(3)])
def test_a_variable_that_is_assigned_is_an_input_and_an_output(tmp_path, start):
    builder = TinyModel()
    x, read, total = (builder.tensor(name, [3]) for name in ("x", "read", "sum"))
    handle = variable(builder, start.astype(np.float32))
    builder.op("READ_VARIABLE", [handle], [read])
    builder.op("ADD", [read, x], [total])
    builder.op("ASSIGN_VARIABLE", [handle, total], [])
    y, again = builder.tensor("y", [3]), builder.tensor("again", [3])
    builder.op("READ_VARIABLE", [handle], [again])
    builder.op("NEG", [again], [y])
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    assert [each.name for each in model.main.inputs] == ["x", "v_in"]
    found = xdlc.run(model, {"x": X[0, 0]})
    np.testing.assert_allclose(found["y"], -(start + X[0, 0]), rtol=1e-6)
    found = xdlc.run(model, {"x": X[0, 0], "v_in": found["sum"]})
    np.testing.assert_allclose(found["y"], -(start + 2 * X[0, 0]), rtol=1e-6)


def test_a_variable_that_nothing_assigns_is_a_constant(tmp_path):
    builder = TinyModel()
    x, read, y = (builder.tensor(name, [3]) for name in ("x", "read", "y"))
    handle = variable(builder, np.ones(3))
    builder.op("READ_VARIABLE", [handle], [read])
    builder.op("ADD", [read, x], [y])
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    assert [each.name for each in model.main.inputs] == ["x"]
    np.testing.assert_allclose(xdlc.run(model, {"x": X[0, 0]})["y"], X[0, 0] + 1)


def test_a_variable_that_nothing_sets_is_refused(tmp_path):
    builder = TinyModel()
    handle, y = builder.tensor("handle", [], np.int32), builder.tensor("y", [3])
    builder.op("VAR_HANDLE", [], [handle], shared_name="v")
    builder.op("READ_VARIABLE", [handle], [y])
    with pytest.raises(ModelError, match="no operator sets"):
        xdlc.convert(builder.write(tmp_path / "m.tflite", [], [y]))


def test_a_handle_that_goes_to_a_branch_is_refused(tmp_path):
    builder = TinyModel()
    p, y = builder.tensor("p", [1], np.bool_), builder.tensor("y", [3])
    handle = variable(builder, np.ones(3))
    builder.op("IF", [p, handle], [y], then_subgraph_index=2, else_subgraph_index=2)
    builder.begin()
    inner, value = builder.tensor("a", [], np.int32), builder.tensor("b", [3])
    builder.op("READ_VARIABLE", [inner], [value])
    builder.graph.inputs, builder.graph.outputs = [inner], [value]
    with pytest.raises(UnsupportedOp, match="handle"):
        xdlc.convert(builder.write(tmp_path / "m.tflite", [p], [y]))


@pytest.mark.parametrize("taken", [True, False])
def test_an_if_runs_one_sub_graph(tmp_path, taken):
    builder = TinyModel()
    p, x, y = builder.tensor("p", [1], np.bool_), builder.tensor("x", [3]), builder.tensor("y", [3])
    builder.op("IF", [p, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    for type in ("NEG", "ABS"):
        builder.begin()
        a, b = builder.tensor("a", [3]), builder.tensor("b", [3])
        builder.op(type, [a], [b])
        builder.graph.inputs, builder.graph.outputs = [a], [b]
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [p, x], [y]))
    found = xdlc.run(model, {"p": np.array([taken]), "x": X[0, 0]})["y"]
    np.testing.assert_array_equal(found, -X[0, 0] if taken else np.abs(X[0, 0]))


@pytest.mark.parametrize("times", [4, 40])
def test_a_while_runs_until_its_condition_fails(tmp_path, times):
    builder = TinyModel()
    x, zero = builder.tensor("x", [3]), builder.tensor("zero", data=np.int32(0), dtype=np.int32)
    ends = [builder.tensor("i", [], np.int32), builder.tensor("y", [3]), builder.tensor("same", [3])]
    builder.op("WHILE", [zero, x, x], ends, cond_subgraph_index=1, body_subgraph_index=2)
    for kind in ("cond", "body"):
        builder.begin()
        i, a, b = builder.tensor("i", [], np.int32), builder.tensor("a", [3]), builder.tensor("b", [3])
        n = builder.tensor("n", data=np.int32(times if kind == "cond" else 1), dtype=np.int32)
        builder.graph.inputs = [i, a, b]
        if kind == "cond":
            builder.graph.outputs = [builder.tensor("go", [], np.bool_)]
            builder.op("LESS", [i, n], builder.graph.outputs)
        else:
            builder.graph.outputs = [builder.tensor("j", [], np.int32), builder.tensor("c", [3]), b]
            builder.op("ADD", [i, n], builder.graph.outputs[:1])
            builder.op("ADD", [a, b], builder.graph.outputs[1:2])
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [ends[1]]))
    assert ("While" in [op.type for op in model.main.ops]) == (times > 16)
    np.testing.assert_allclose(xdlc.run(model, {"x": X[0, 0]})["y"], X[0, 0] * (times + 1), rtol=1e-5)
