"""An LSTM of each framework: one formula, and one home for the order of its gates."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.converter.caffe import nets
from tests.converter.keras.keras_files import archive, entry, layer, sequential
from tests.converter.pytorch.programs import TinyProgram
from tests.converter.tensorflow.test_recurrent import lstm_loop
from tests.converter.tensorflow.tf_models import FLOAT, Graph
from tests.converter.tflite.models import TinyModel
from tests.support.formulas import sigmoid
from tests.support.onnx_models import build, node
from xdlc.opdefs.cells import OPERATIONS

RANDOM = np.random.default_rng(0)
STEPS, BATCH, WIDTH, UNITS = 4, 2, 3, 5
"""Sizes of the loop of the tests of TensorFlow."""


def weight(*shape):
    return RANDOM.normal(0, 0.5, shape).astype(np.float32)


X, H, C = weight(STEPS, BATCH, WIDTH), weight(BATCH, UNITS), weight(BATCH, UNITS)
W, R, B = ({gate: weight(UNITS, *shape) for gate in "ifco"} for shape in ((WIDTH,), (UNITS,), ()))


def rows(gates, order):
    return np.concatenate([gates[gate] for gate in order])


def columns(gates, order):
    return np.concatenate([gates[gate].T for gate in order], 1)


def expected(hidden, cell):
    """Return the hidden state of each step, the last one, and the cell."""

    states = []
    for row in X:
        gate = {name: row @ W[name].T + hidden @ R[name].T + B[name] for name in "ifco"}
        cell = sigmoid(gate["f"]) * cell + sigmoid(gate["i"]) * np.tanh(gate["c"])
        hidden = sigmoid(gate["o"]) * np.tanh(cell)
        states.append(hidden)
    return np.stack(states), hidden, cell


def onnx(tmp_path):
    weights = {
        "w": rows(W, "iofc")[None],
        "r": rows(R, "iofc")[None],
        "b": np.concatenate([rows(B, "iofc"), np.zeros(4 * UNITS, np.float32)])[None],
        "h": H[None],
        "c": C[None],
    }
    nodes = [node("LSTM", "x w r b - h c", "y h1 c1", hidden_size=UNITS)]
    ends = ["y", "h1", "c1"]
    return xdlc.convert(build(nodes, {"x": X}, weights, ends, 19)), {"x": X}, ends


def pytorch(tmp_path):
    builder = TinyProgram()
    arrays = {"w": rows(W, "ifco"), "u": rows(R, "ifco"), "b": rows(B, "ifco"), "z": np.zeros(4 * UNITS)}
    params = [builder.weight(name, array.astype(np.float32)) for name, array in arrays.items()]
    inputs = [builder.input("h", (1, *H.shape)), builder.input("c", (1, *C.shape))]
    results = [((STEPS, BATCH, UNITS), "float32"), *[((1, BATCH, UNITS), "float32")] * 2]
    options = (params, True, 1, 0.0, False, False, False)
    ends = builder.op("lstm.input", builder.input("x", X.shape), inputs, *options, results=results)
    model = builder.convert(tmp_path, ends)
    return model, {"x": X, "h": H[None], "c": C[None]}, [end.name for end in model.main.outputs]


def keras(tmp_path):
    layers = [entry("x", None, STEPS, WIDTH), layer("LSTM", "l", units=UNITS, return_sequences=True)]
    weights = [columns(W, "ifco"), columns(R, "ifco"), rows(B, "ifco")]
    path = archive(tmp_path / "m.keras", sequential(*layers), {"layers/lstm/cell": weights})
    model = xdlc.convert(path, batch=BATCH, notify=lambda _: None)
    return model, {model.main.inputs[0].name: X.swapaxes(0, 1)}, [model.main.outputs[0].name]


def tflite(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", X.shape), builder.tensor("y", [STEPS, BATCH, UNITS])
    arrays = [gates[gate] for gates in (W, R) for gate in "ifco"] + [None] * 3 + [B[gate] for gate in "ifco"]
    inputs = [
        -1 if array is None else builder.tensor(f"w{at}", data=array) for at, array in enumerate(arrays)
    ]
    states = [builder.tensor(name, [BATCH, UNITS], is_variable=True) for name in ("h", "c")]
    options = {"fused_activation_function": 4, "time_major": True}
    builder.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *inputs, -1, -1, *states], [y], **options)
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
    return model, {"x": X, "h_in": H, "c_in": C}, ["y", "h_out", "c_out"]


def tensorflow(tmp_path):
    loop = lstm_loop()
    for own, array in ((loop.kernel, columns(W, "ifco")), (loop.recurrent, columns(R, "ifco"))):
        own[:] = array
    loop.bias[:] = rows(B, "ifco")
    model = loop.model(tmp_path, "hidden:z:0", ["hidden:z:0", "cell:z:0"], starts=(H, C))
    return model, {"x": X}, ["all:0", "end:0"]


def block(op):
    def convert(tmp_path):
        order = {"BlockLSTM": "icfo", "BlockLSTMV2": "ifco"}[op]
        graph = Graph().input("x", *X.shape).const("n", np.int64(STEPS)).const("cs", C).const("h", H)
        graph.const("w", np.concatenate([columns(W, order), columns(R, order)])).const("b", rows(B, order))
        graph.const("p", B["i"])
        options = {"forget_bias": 0.0, "cell_clip": -1.0} if op == "BlockLSTM" else {"cell_clip": -1.0}
        graph.node(op, "cell", ["n", "x", "cs", "h", "w", "p", "p", "p", "b"], T=FLOAT, **options)
        model = xdlc.convert(graph.save(tmp_path / "m.pb"), importer_options={"out_node": ["cell:6"]})
        return model, {"x": X}, ["cell:6"]

    return convert


def caffe(tmp_path):
    inputs = {"x": X, "cont": np.ones((STEPS, BATCH), np.float32), "h": H[None], "c": C[None]}
    text = "".join(nets.data(*array.shape, name=name) for name, array in inputs.items())
    param = f"recurrent_param {{ num_output: {UNITS} expose_hidden: true }}"
    text += nets.layer("LSTM", param, "x cont h c", "y h1 c1")
    weights = {"y": [rows(W, "ifoc"), rows(B, "ifoc"), rows(R, "ifoc")]}
    net, files = nets.write(tmp_path, text, weights)
    model = xdlc.convert(net, **files, set_inputs={"cont": inputs.pop("cont")})
    return model, inputs, ["y", "h1", "c1"]


ONE_OP = {
    "ONNX": onnx,
    "PyTorch": pytorch,
    "Keras": keras,
    "TFLite": tflite,
    "Caffe": caffe,
    "TensorFlow": tensorflow,
}
FRAMEWORKS = {**ONE_OP, "BlockLSTM": block("BlockLSTM"), "BlockLSTMV2": block("BlockLSTMV2")}


def is_right(framework, converted):
    model, feeds, names = converted
    results = xdlc.run(model, feeds)
    start = (0 * H, 0 * C) if framework == "Keras" else (H, C)
    states, *lasts = expected(*start)
    values = [states.swapaxes(0, 1) if framework == "Keras" else states, *lasts]
    return all(
        np.allclose(results[name].reshape(value.shape), value, atol=1e-4)
        for name, value in zip(names, values, strict=False)
    )


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_lstm_is_the_formula(framework, tmp_path):
    converted = FRAMEWORKS[framework](tmp_path)
    assert is_right(framework, converted)
    assert [op.type for op in converted[0].main.ops].count("Lstm") == (framework in ONE_OP)


@pytest.mark.parametrize("framework", ONE_OP)
def test_a_swapped_gate_shows_in_every_framework(framework, tmp_path, monkeypatch):
    positions = dict(OPERATIONS["LSTM"].inputs["w"])
    positions["i"], positions["o"] = positions["o"], positions["i"]
    with monkeypatch.context() as planted:
        planted.setitem(OPERATIONS["LSTM"].inputs, "w", positions)
        converted = ONE_OP[framework](tmp_path)
    assert not is_right(framework, converted)
