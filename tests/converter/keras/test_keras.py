"""Keras files: archives, HDF5, names, weights, calls, nested models, layers."""

import sys
import zipfile

import numpy as np
import pytest

import xdlc
from tests.converter.keras.keras_files import (
    archive,
    call,
    entry,
    functional,
    layer,
    legacy,
    operation,
    ref,
    sequential,
    weights_file,
)
from tests.support.formulas import sigmoid
from xdlc import ir
from xdlc.errors import ModelError, ProblemList, UnsupportedOp, UsageError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 4)).astype(np.float32)
W = RNG.normal(size=(4, 3)).astype(np.float32)
B = RNG.normal(size=3).astype(np.float32)


def outputs(path, *feeds, **options):
    model = xdlc.convert(path, batch=len(feeds[0]), notify=lambda _: None, **options)
    named = {each.name: feed for each, feed in zip(model.main.inputs, feeds, strict=True)}
    return xdlc.run(model, named)


def output(path, *feeds, **options):
    (found,) = outputs(path, *feeds, **options).values()
    return found


def one(tmp_path, made, x, weights=()):
    """The output of a model of one layer, of class ``made["class_name"]``."""
    model = sequential(entry("x", None, *x.shape[1:], dtype=x.dtype.name), made)
    kind = made["class_name"]
    group = f"layers/{ {'LSTM': 'lstm/cell', 'PReLU': 'p_re_lu'}.get(kind, kind.lower()) }"
    groups = {group: list(weights)} if len(weights) else {}
    return output(archive(tmp_path / "m.keras", model, groups), x)


def dense(name="d", inbound=None, **config):
    return layer("Dense", name, inbound, units=3, **{"activation": "linear", "use_bias": True, **config})


# ---------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive(tmp_path, compression):
    path = archive(
        tmp_path / "m.keras", sequential(entry("x", None, 4), dense()), {"layers/dense": [W, B]}, compression
    )
    np.testing.assert_allclose(outputs(path, X)["d"], X @ W + B, rtol=1e-5)


def test_a_folder(tmp_path):
    path = archive(tmp_path / "m.keras", sequential(entry("x", None, 4), dense()), {"layers/dense": [W, B]})
    with zipfile.ZipFile(path) as file:
        file.extractall(tmp_path / "m")
    np.testing.assert_allclose(output(tmp_path / "m", X), X @ W + B, rtol=1e-5)


def test_the_weights_of_a_compressed_archive_are_written(tmp_path):
    model = sequential(entry("x", None, 4), dense())
    path = archive(tmp_path / "m.keras", model, {"layers/dense": [W, B]}, zipfile.ZIP_DEFLATED)
    xdlc.save(xdlc.convert(path, batch=2), tmp_path / "m.dlc")
    (found,) = xdlc.run(tmp_path / "m.dlc", {"x": X}).values()
    np.testing.assert_allclose(found, X @ W + B, rtol=1e-5)


def test_weights_are_ranges_of_the_archive(tmp_path):
    path = archive(
        tmp_path / "m.keras", sequential(entry("x", None, 4, 4), dense()), {"layers/dense": [W, B]}
    )
    model = xdlc.convert(path, batch=2)
    held = [each.data for each in model.main.tensors.values() if each.name == "d/kernel"]
    assert isinstance(held[0], ir.MappedData)
    assert held[0].location[0].path == path
    np.testing.assert_array_equal(held[0].numpy(), W)


@pytest.mark.parametrize(
    "options", [{"chunks": True}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}]
)
def test_compressed_weights(tmp_path, options):
    path = archive(
        tmp_path / "m.keras", sequential(entry("x", None, 4), dense()), {"layers/dense": [W, B]}, **options
    )
    np.testing.assert_allclose(output(path, X), X @ W + B, rtol=1e-5)


def test_an_h5_file_of_keras_2(tmp_path):
    model = sequential(layer("Dense", "d", batch_input_shape=[None, 4], units=3, activation="hard_sigmoid"))
    path = legacy(tmp_path / "m.h5", model, {"d": {"d/kernel:0": W, "d/bias:0": B}})
    np.testing.assert_allclose(output(path, X), np.clip(0.2 * (X @ W + B) + 0.5, 0, 1), atol=1e-6)


def test_a_hard_sigmoid_of_keras_3(tmp_path):
    model = sequential(entry("x", None, 4), dense(activation="hard_sigmoid"))
    found = output(archive(tmp_path / "m.keras", model, {"layers/dense": [W, B]}), X)
    np.testing.assert_allclose(found, np.clip((X @ W + B) / 6 + 0.5, 0, 1), atol=1e-6)


def test_trained_weights_of_an_inner_model_come_first_in_h5(tmp_path):
    norm = layer("BatchNormalization", "n", axis=-1, epsilon=0.0)
    model = sequential(entry("x", None, 4), sequential(norm, dense(), name="inner"))
    scale, shift, mean, variance = (RNG.uniform(0.5, 2, 4).astype(np.float32) for _ in range(4))
    stored = {"n/gamma": scale, "n/beta": shift, "d/kernel": W, "d/bias": B}
    stored |= {"n/moving_mean": mean, "n/moving_variance": variance}
    path = legacy(tmp_path / "m.h5", model, {"inner": stored})
    expected = ((X - mean) / np.sqrt(variance) * scale + shift) @ W + B
    np.testing.assert_allclose(output(path, X), expected, rtol=1e-4, atol=1e-5)


def test_frozen_weights_stay_in_the_order_of_the_layers(tmp_path):
    norm = layer("BatchNormalization", "n", axis=-1, epsilon=0.0, trainable=False)
    model = sequential(entry("x", None, 4), sequential(norm, dense(), name="inner"))
    parts = [RNG.uniform(0.5, 2, 4).astype(np.float32) for _ in range(4)]
    names = ("n/gamma", "n/beta", "n/moving_mean", "n/moving_variance")
    stored = {"d/kernel": W, "d/bias": B, **dict(zip(names, parts, strict=True))}
    expected = ((X - parts[2]) / np.sqrt(parts[3]) * parts[0] + parts[1]) @ W + B
    found = output(legacy(tmp_path / "m.h5", model, {"inner": stored}), X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_weights_alone(tmp_path):
    path = tmp_path / "m.weights.h5"
    path.write_bytes(weights_file({"layers/d": [W]}))
    with pytest.raises(ModelError, match="no architecture"):
        xdlc.convert(path)


def test_missing_h5py(tmp_path, monkeypatch):
    path = archive(tmp_path / "m.keras", sequential(entry("x", None, 4), dense()), {"layers/dense": [W, B]})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UsageError) as caught:
        xdlc.convert(path)
    assert "pip install 'xdlc[keras]'" in caught.value.fix


# ---------------------------------------------------------------------------------------- calls and names


def test_a_layer_called_twice_shares_its_weights(tmp_path):
    square = RNG.normal(size=(4, 4)).astype(np.float32)
    calls = [call("x"), call(ref("d"))]
    model = functional([entry("x", None, 4), dense(inbound=calls, use_bias=False)], ["x"], [["d", 1, 0]])
    found = outputs(archive(tmp_path / "m.keras", model, {"layers/dense": [square]}), X)
    np.testing.assert_allclose(found["d_call1"], X @ square @ square, rtol=1e-4, atol=1e-5)


def test_two_models_of_one_class(tmp_path):
    inner = functional(
        [entry("i", None, 4), dense(inbound=[call("i")], use_bias=False)], ["i"], ["d"], name="f"
    )
    inner["inbound_nodes"] = [call("x"), call("y")]
    add = layer("Subtract", "a", [call([ref("f"), ref("f", 1)])])
    model = functional([entry("x", None, 4), entry("y", None, 4), inner, add], ["x", "y"], ["a", ["f", 2, 0]])
    found = outputs(archive(tmp_path / "m.keras", model, {"layers/functional/layers/dense": [W]}), X, 2 * X)
    np.testing.assert_allclose(found["a"], -X @ W, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["f_call1"], 2 * X @ W, rtol=1e-4, atol=1e-5)


def test_calls_of_a_model_count_from_1_in_keras_2(tmp_path):
    inner = functional([entry("i", None, 4), dense(inbound=[[["i", 0, 0, {}]]])], ["i"], ["d"], name="f")
    inner["inbound_nodes"] = [[["x", 0, 0, {}]]]
    relu = layer("Activation", "r", [[["f", 1, 0, {}]]], activation="relu")
    model = functional([entry("x", None, 4), inner, relu], ["x"], ["r", ["f", 1, 0]])
    path = legacy(tmp_path / "m.h5", model, {"f": {"d/kernel:0": W, "d/bias:0": B}})
    np.testing.assert_allclose(outputs(path, X)["r"], np.maximum(X @ W + B, 0), rtol=1e-5, atol=1e-6)


def test_an_input_that_is_an_output(tmp_path):
    model = functional([entry("x", None, 4), dense(inbound=[call("x")])], ["x"], ["x", "d"])
    found = outputs(archive(tmp_path / "m.keras", model, {"layers/dense": [W, B]}), X)
    np.testing.assert_array_equal(found["x_output"], X)


def test_operations(tmp_path):
    key = [{"class_name": "__slice__", "config": {"start": None, "stop": None, "step": None}}, 1]
    layers = [
        entry("x", None, 4),
        operation("Multiply", "m", [call("x", 2.0)]),
        operation("Subtract", "s", [call(1, ref("m"))]),
        operation("Clip", "l", [call("s")], x_min=-1e9, x_max=float("inf")),
        operation("GetItem", "e", [call("l", [])]),
        operation("GetItem", "g", [call("e", key)]),
    ]
    found = output(archive(tmp_path / "m.keras", functional(layers, ["x"], ["g"]), {}), X)
    np.testing.assert_allclose(found, (1 - 2 * X)[:, 1], rtol=1e-6)


def test_operations_in_a_type_of_their_own(tmp_path):
    layers = [
        entry("x", None, 4),
        operation("Cumsum", "c", [call("x")], axis=1, dtype="int32"),
        operation("Array", "a", [call("x")], dtype="int32"),
    ]
    found = outputs(archive(tmp_path / "m.keras", functional(layers, ["x"], ["c", "a"]), {}), X * 3)
    whole = (X * 3).astype(np.int32)
    np.testing.assert_array_equal(found["c"], whole.cumsum(1))
    np.testing.assert_array_equal(found["a"], whole)


def test_an_operation_in_h5_is_no_layer_of_its_name(tmp_path):
    layers = [entry("x", None, 4), operation("Multiply", "m", [call("x", 3.0)])]
    path = legacy(tmp_path / "m.h5", functional(layers, ["x"], ["m"]), {}, version="3.15.1")
    np.testing.assert_allclose(output(path, X), 3 * X, rtol=1e-6)


def test_functions_of_tensorflow(tmp_path):
    def function(name, path, *inbound):
        return layer("TFOpLambda", name, list(inbound), function=path)

    spec = [{"start": None, "stop": None, "step": None}, {"start": 1, "stop": None, "step": 2}]
    layers = [
        entry("x", None, 4),
        function("a", "math.add", ["x", 0, 0, {"y": 1.5, "name": None}]),
        function("b", "math.subtract", ["_CONSTANT_VALUE", -1, 2.0, {"y": ["a", 0, 0]}]),
        function("c", "concat", [["a", 0, 0, {"axis": -1}], ["b", 0, 0, {"axis": -1}]]),
        layer("SlicingOpLambda", "s", [["c", 0, 0, {"slice_spec": spec}]], function="__operators__.getitem"),
        function("r", "math.reduce_mean", ["s", 0, 0, {"axis": 1, "keepdims": True}]),
    ]
    found = output(legacy(tmp_path / "m.h5", functional(layers, ["x"], ["r"]), {}), X)
    whole = np.concatenate([X + 1.5, 2 - (X + 1.5)], -1)
    np.testing.assert_allclose(found, whole[:, 1::2].mean(1, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("option", ["antialias", "preserve_aspect_ratio"])
def test_resizing_of_keras_2(tmp_path, option):
    given = {"size": [2, 2], "method": "bilinear", "name": None, option: True}
    made = layer("TFOpLambda", "r", [["x", 0, 0, given]], function="image.resize")
    path = legacy(tmp_path / "m.h5", functional([entry("x", 1, 4, 4, 1), made], ["x"], ["r"]), {})
    if option != "antialias":
        with pytest.raises((UnsupportedOp, ProblemList), match=option):
            xdlc.convert(path)
        return
    image = RNG.normal(size=(1, 4, 4, 1)).astype(np.float32)
    weights = np.array([[3, 3, 1, 0], [0, 1, 3, 3]]) / 7
    np.testing.assert_allclose(
        output(path, image)[0, ..., 0], weights @ image[0, ..., 0] @ weights.T, rtol=1e-5, atol=1e-6
    )


def test_tensors_among_the_named_arguments_of_keras_2(tmp_path):
    inbound = [[["x", 0, 0, {"mask": None}], ["y", 0, 0, {"mask": None}]]]
    made = layer("Attention", "a", inbound, use_scale=False, causal=False)
    where = layer("TFOpLambda", "w", [["x", 0, 0, {"y": ["a", 0, 0], "name": None}]], function="math.maximum")
    layers = [entry("x", None, 4, 3), entry("y", None, 4, 3), made, where]
    found = output(legacy(tmp_path / "m.h5", functional(layers, ["x", "y"], ["w"]), {}), STEPS, 2 * STEPS)
    scores = np.exp(2 * STEPS @ STEPS.swapaxes(1, 2))
    expected = np.maximum(STEPS, scores / scores.sum(-1, keepdims=True) @ (2 * STEPS))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_wrappers_of_tuples_and_arrays_in_keras_2(tmp_path):
    pairs = {"class_name": "__tuple__", "items": [{"class_name": "__tuple__", "items": [0, 1]}, [1, 0]]}
    model = sequential(
        layer("ZeroPadding2D", "p", batch_input_shape=[None, 5, 6, 2], padding=pairs),
        layer("LeakyReLU", "l", alpha={"type": "ndarray", "value": 0.25}),
    )
    padded = np.pad(IMAGE, ((0, 0), (0, 1), (1, 0), (0, 0)))
    found = output(legacy(tmp_path / "m.h5", model, {}), IMAGE)
    np.testing.assert_allclose(found, np.where(padded > 0, padded, padded / 4), rtol=1e-6)


def test_time_major_sequences_are_refused(tmp_path):
    made = layer("LSTM", "l", units=2, time_major=True, batch_input_shape=[None, 4, 3])
    names = ("l/lstm_cell/kernel:0", "l/lstm_cell/recurrent_kernel:0", "l/lstm_cell/bias:0")
    path = legacy(tmp_path / "m.h5", sequential(made), {"l": dict(zip(names, CELL, strict=True))})
    with pytest.raises(UnsupportedOp, match="time_major"):
        xdlc.convert(path, batch=2)


# ---------------------------------------------------------------------------------------- layers

IMAGE = RNG.normal(size=(1, 5, 6, 2)).astype(np.float32)
STEPS = RNG.normal(size=(2, 4, 3)).astype(np.float32)


def test_a_convolution_with_channels_first(tmp_path):
    kernel = RNG.normal(size=(1, 1, 5, 3)).astype(np.float32)
    made = layer("Conv2D", "c", filters=3, kernel_size=[1, 1], data_format="channels_first", use_bias=False)
    found = one(tmp_path, made, IMAGE, [kernel])
    np.testing.assert_allclose(found, np.einsum("nchw,co->nohw", IMAGE, kernel[0, 0]), rtol=1e-4, atol=1e-5)


def test_padding_same_puts_the_odd_element_at_the_end(tmp_path):
    made = layer("Conv2D", "c", kernel_size=[2, 2], padding="same", use_bias=False)
    found = one(tmp_path, made, IMAGE, [np.ones((2, 2, 2, 1))])
    padded = np.pad(IMAGE.sum(-1), ((0, 0), (0, 1), (0, 1)))
    expected = padded[:, :-1, :-1] + padded[:, 1:, :-1] + padded[:, :-1, 1:] + padded[:, 1:, 1:]
    np.testing.assert_allclose(found[..., 0], expected, rtol=1e-4, atol=1e-5)


def lstm(x, kernel, recurrence, bias, mask=None):
    """All hidden states of an LSTM, gates i f c o."""

    hidden = cell = np.zeros((len(x), recurrence.shape[0]), np.float32)
    states = []
    for step in range(x.shape[1]):
        i, f, g, o = np.split(x[:, step] @ kernel + hidden @ recurrence + bias, 4, -1)
        new = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        shown = sigmoid(o) * np.tanh(new)
        active = np.ones((len(x), 1), bool) if mask is None else mask[:, step : step + 1]
        cell, hidden = np.where(active, new, cell), np.where(active, shown, hidden)
        states.append(hidden)
    return np.stack(states, 1)


CELL = [RNG.normal(size=shape).astype(np.float32) for shape in ((3, 8), (2, 8), (8,))]


@pytest.mark.parametrize("backwards", [False, True])
def test_an_lstm(tmp_path, backwards):
    made = layer("LSTM", "l", units=2, return_sequences=True, go_backwards=backwards)
    expected = lstm(STEPS[:, ::-1] if backwards else STEPS, *CELL)
    np.testing.assert_allclose(one(tmp_path, made, STEPS, CELL), expected, rtol=1e-4, atol=1e-5)


def test_an_lstm_skips_masked_steps(tmp_path):
    table = RNG.normal(size=(5, 3)).astype(np.float32)
    indices = np.array([[1, 0, 2, 3], [0, 4, 4, 0]], np.int32)
    layers = [
        entry("x", None, 4, dtype="int32"),
        layer("Embedding", "e", input_dim=5, output_dim=3, mask_zero=True),
        layer("Dropout", "p", rate=0.5),
        layer("LSTM", "l", units=2),
    ]
    groups = {"layers/embedding": [table], "layers/lstm/cell": CELL}
    found = output(archive(tmp_path / "m.keras", sequential(*layers), groups), indices)
    expected = lstm(table[indices], *CELL, mask=indices != 0)[:, -1]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_layers_of_each_step(tmp_path):
    inner = {**layer("Dense", "d", units=2, use_bias=False)}
    made = layer("TimeDistributed", "t", layer=inner)
    kernel = RNG.normal(size=(3, 2)).astype(np.float32)
    model = sequential(entry("x", None, 4, 3), made)
    path = archive(tmp_path / "m.keras", model, {"layers/time_distributed/layer": [kernel]})
    np.testing.assert_allclose(output(path, STEPS), STEPS @ kernel, rtol=1e-4, atol=1e-5)


def test_attention_of_two_heads(tmp_path):
    kernels = {part: RNG.normal(size=(3, 2, 4)).astype(np.float32) for part in ("query", "key", "value")}
    last = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    groups = {f"layers/multi_head_attention/{part}_dense": [kernel] for part, kernel in kernels.items()}
    groups["layers/multi_head_attention/output_dense"] = [last]
    made = layer("MultiHeadAttention", "m", [call("x", ref("x"))], num_heads=2, key_dim=4, use_bias=False)
    path = archive(tmp_path / "m.keras", functional([entry("x", None, 4, 3), made], ["x"], ["m"]), groups)
    query, key, value = (np.einsum("ntc,chd->nhtd", STEPS, kernels[part]) for part in kernels)
    scores = np.exp(query @ key.swapaxes(-1, -2) / 2)
    mixed = (scores / scores.sum(-1, keepdims=True)) @ value
    np.testing.assert_allclose(
        output(path, STEPS), np.einsum("nhtd,hdo->nto", mixed, last), rtol=1e-4, atol=1e-5
    )


CASES = {
    "ReLU": (
        layer("ReLU", "l", max_value=1.0, negative_slope=0.5, threshold=0.0),
        lambda x: np.minimum(np.where(x > 0, x, x / 2), 1),
    ),
    "Flatten": (
        layer("Flatten", "l", data_format="channels_first"),
        lambda x: x.transpose(0, 2, 3, 1).reshape(1, -1),
    ),
    "Permute": (layer("Permute", "l", dims=[3, 1, 2]), lambda x: x.transpose(0, 3, 1, 2)),
    "Reshape": (layer("Reshape", "l", target_shape=[-1, 4]), lambda x: x.reshape(1, 15, 4)),
    "Cropping2D": (layer("Cropping2D", "l", cropping=[[1, 0], [2, 1]]), lambda x: x[:, 1:, 2:-1]),
    "ZeroPadding2D": (
        layer("ZeroPadding2D", "l", padding=[[1, 0], [2, 1]]),
        lambda x: np.pad(x, ((0, 0), (1, 0), (2, 1), (0, 0))),
    ),
    "UpSampling2D": (layer("UpSampling2D", "l", size=[2, 3]), lambda x: x.repeat(2, 1).repeat(3, 2)),
    "GlobalAveragePooling2D": (
        layer("GlobalAveragePooling2D", "l", keepdims=True),
        lambda x: x.mean((1, 2), keepdims=True),
    ),
    "MaxPooling2D": (
        layer("MaxPooling2D", "l", pool_size=[5, 2], strides=None),
        lambda x: x.reshape(1, 1, 5, 3, 2, 2).max((2, 4)),
    ),
    "Rescaling": (
        layer("Rescaling", "l", scale=2.0, offset=[1.0, 2.0]),
        lambda x: x * 2 + np.array([1, 2], np.float32),
    ),
    "CenterCrop": (layer("CenterCrop", "l", height=2, width=3), lambda x: x[:, 1:3, 1:4]),
    "Resizing": (
        layer("Resizing", "l", height=10, width=6, interpolation="nearest", pad_to_aspect_ratio=True),
        lambda x: np.pad(x, ((0, 0), (2, 2), (0, 0), (0, 0)))[:, (np.arange(10) * 0.9 + 0.45).astype(int)],
    ),
    "UnitNormalization": (
        layer("UnitNormalization", "l", axis=[1, 2]),
        lambda x: x / np.sqrt((x * x).sum((1, 2), keepdims=True)),
    ),
    "Dropout": (layer("Dropout", "l", rate=0.3), lambda x: x),
}


@pytest.mark.parametrize("name", CASES)
def test_layers(tmp_path, name):
    made, expected = CASES[name]
    np.testing.assert_allclose(one(tmp_path, made, IMAGE), expected(IMAGE), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------------------- refusals


def refused(tmp_path, *layers, kind=UnsupportedOp, weights=None):
    path = archive(tmp_path / "m.keras", sequential(entry("x", None, 4), *layers), weights or {})
    with pytest.raises((kind, ProblemList)) as caught:
        xdlc.convert(path, batch=1)
    return str(caught.value)


@pytest.mark.parametrize(
    "made",
    [
        layer("Lambda", "l", function={"class_name": "__lambda__", "config": {"code": "4wEA"}}),
        layer("Mine", "l"),
        layer("Dense", "l", module="mine.layers"),
        layer("Dense", "l", module="keras_extras.layers"),
        layer("Dense", "l", units=3, activation="mine"),
        layer(
            "Dense", "l", units=3, activation={"module": "mine", "class_name": "function", "config": "relu"}
        ),
    ],
    ids=["lambda", "unknown", "own class", "class of another package", "activation", "own function"],
)
def test_code_of_the_model_is_refused(tmp_path, made):
    assert "model.export" in refused(tmp_path, made, weights={"layers/dense": [W, B]})


@pytest.mark.parametrize("made", [("Round", {"decimals": 1}), ("Sort", {})])
def test_operations_without_a_handler_are_refused(tmp_path, made):
    layers = [entry("x", None, 4), operation(made[0], "o", [call("x")], **made[1])]
    path = archive(tmp_path / "m.keras", functional(layers, ["x"], ["o"]), {})
    with pytest.raises((UnsupportedOp, ProblemList), match=r"decimals|does not support"):
        xdlc.convert(path, batch=1)


@pytest.mark.parametrize(
    "made", [("Repeat", {"repeats": 10**8, "axis": 1}), ("UpSampling1D", {"size": 10**8})]
)
def test_absurd_repetitions_are_refused(tmp_path, made):
    make = operation if made[0] == "Repeat" else layer
    layers = [entry("x", 1, 4, 4), make(made[0], "o", [call("x")], **made[1])]
    path = archive(tmp_path / "m.keras", functional(layers, ["x"], ["o"]), {})
    with pytest.raises((UnsupportedOp, ProblemList), match="table of 400000000"):
        xdlc.convert(path)


def test_quantized_layers_are_refused(tmp_path):
    policy = {"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8", "source_name": "float32"}}
    assert "xdlc quantize" in refused(tmp_path, dense(dtype=policy))


def test_an_unknown_option_is_refused(tmp_path):
    assert "twist" in refused(tmp_path, dense(twist=3), weights={"layers/dense": [W, B]})


def test_stateful_layers_are_refused(tmp_path):
    path = archive(
        tmp_path / "m.keras",
        sequential(entry("x", None, 4, 3), layer("LSTM", "l", units=2, stateful=True)),
        {"layers/lstm/cell": CELL},
    )
    with pytest.raises(UnsupportedOp, match="stateful"):
        xdlc.convert(path, batch=1)


@pytest.mark.parametrize("kind", ["Dropout", "BatchNormalization"])
def test_calls_in_training_of_keras_2(tmp_path, kind):
    inbound = [[["x", 0, 0, {"training": True}]]]
    made = layer(kind, "l", inbound, **({"rate": 0.5} if kind == "Dropout" else {"axis": -1}))
    model = functional([entry("x", None, 4), made], ["x"], ["l"])
    names = ["l/gamma", "l/beta", "l/moving_mean", "l/moving_variance"] if kind != "Dropout" else []
    path = legacy(tmp_path / "m.h5", model, {"l": dict.fromkeys(names, np.ones(4))})
    notices = []
    if kind == "Dropout":
        xdlc.convert(path, batch=2, notify=notices.append)
        assert any("training=True" in each for each in notices)
    else:
        with pytest.raises(UnsupportedOp, match="training"):
            xdlc.convert(path, batch=2)


def test_mixed_precision_is_noticed(tmp_path):
    policy = {"class_name": "DTypePolicy", "config": {"name": "mixed_float16"}}
    path = archive(
        tmp_path / "m.keras", sequential(entry("x", None, 4), dense(dtype=policy)), {"layers/dense": [W, B]}
    )
    notices = []
    xdlc.convert(path, batch=2, notify=notices.append)
    assert any("float16" in each for each in notices)


def test_missing_weights(tmp_path):
    assert "'kernel'" in refused(tmp_path, dense(), kind=ModelError)
    assert "'bias'" in refused(tmp_path, dense(), kind=ModelError, weights={"layers/dense": [W]})


def test_weights_in_another_order(tmp_path):
    model = sequential(layer("Dense", "d", batch_input_shape=[None, 4], units=3))
    path = legacy(tmp_path / "m.h5", model, {"d": {"d/bias:0": B, "d/kernel:0": W}})
    with pytest.raises(ModelError, match="in the place of"):
        xdlc.convert(path)
