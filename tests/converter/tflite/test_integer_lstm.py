"""Integer LSTMs against the integers of LiteRT's kernel and of formulas."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.integer_lstms import integer_lstm
from tests.converter.tflite.models import TinyModel
from tests.support.htp_models import needs_htp
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.runtime.ops.neuron import table

FORMS = {
    "plain": {},
    "cifg": {"cifg": True, "batch": 2},
    "peephole": {"peephole": True},
    "projection": {"outputs": 6, "proj_clip": 0.2},
    "a hidden zero that no byte is": {"outputs": 5, "hidden_zero": -128},
    "peephole and projection": {"peephole": True, "outputs": 3, "batch": 2},
    "norms": {"normed": True},
    "norms of 7 units in rough steps": {"normed": True, "cifg": True, "units": 7, "sums": 1e-2},
    "one step": {"type": "LSTM", "cell_clip": 0.25},
    "time first": {"time_major": True, "batch": 4},
    "a loop": {"steps": 24, "units": 16},
}


def rounded(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def scaled(x, factor):
    """Return integers times a factor, rounded twice: to bits, then to integers."""
    shift = min(np.frexp(np.float32(factor))[1], 0)
    return rounded(np.floor(x * float(np.float32(factor)) * 2.0**-shift + 0.5) * 2.0**shift)


def kernel(random_of, x, **form):
    """Return the hidden states of a plain LSTM from the integers of ``integer_lstm``."""
    random, units, width = random_of(), form.get("units", 8), 5
    gates = "ifco"
    w = {g: random.integers(-127, 128, (units, width)) for g in gates}
    r = {g: random.integers(-127, 128, (units, units)) for g in gates}
    scales = {g: (1 + index / 8) / np.sqrt(width) / 127 for index, g in enumerate(gates)}
    steps = {g: (random.normal(size=units) / 4 + (g == "f")) / (0.02 * scales[g]) for g in gates}
    bias = {g: np.rint(steps[g]).astype(int) for g in gates}
    h, c = np.zeros((len(x), units)), np.zeros((len(x), units))
    rows = []
    for step in range(x.shape[1]):
        sums = {}
        for g in gates:
            first = scaled((x[:, step].astype(int) - 3) @ w[g].T + bias[g], 0.02 * scales[g] * 4096)
            second = scaled(h @ r[g].T, 1 / 128 * 1.7 / np.sqrt(units) / 127 * 4096)
            sums[g] = np.clip(np.clip(first, -32768, 32767) + second, -32768, 32767).astype(int)
        taken, forget, shown = (table("Sigmoid", 3)[sums[g] + 32768].astype(int) - 32768 for g in "ifo")
        new = table("Tanh", 3)[sums["c"] + 32768].astype(int) - 32768
        c = np.clip(rounded(forget * c / 2**15) + rounded(taken * new / 2**18), -32768, 32767).astype(int)
        bright = table("Tanh", 3)[c + 32768].astype(int) - 32768
        h = np.clip(rounded(shown * bright * 2.0**-23), -128, 127)
        rows.append(h)
    return np.stack(rows, 1)


def test_a_plain_lstm_has_the_integers_of_the_kernel(tmp_path):
    path = integer_lstm(tmp_path / "m.tflite", np.random.default_rng(3), batch=2, steps=6)
    x = np.random.default_rng(4).integers(-128, 128, (2, 6, 5)).astype(np.int8)
    want = kernel(lambda: np.random.default_rng(3), x)
    got = xdlc.run(xdlc.convert(path), {"x": x}, native=True)
    assert want.std() > 10
    np.testing.assert_allclose(got["y"], want, atol=1)


def litert(path, feeds):
    """Return several invocations' outputs of LiteRT's reference kernels, by name."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    engine = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    engine.allocate_tensors()
    results = []
    for feed in feeds:
        for place in engine.get_input_details():
            engine.set_tensor(place["index"], feed[place["name"]])
        engine.invoke()
        places = engine.get_output_details()
        results.append({each["name"]: engine.get_tensor(each["index"]) for each in places})
    return results


@pytest.mark.frameworks
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_integer_lstm_is_litert_s_to_a_step(tmp_path, form):
    random = np.random.default_rng(0)
    path = integer_lstm(tmp_path / "m.tflite", random, **form)
    model = xdlc.convert(path)
    feeds = [{"x": random.integers(-128, 128, model.main.inputs[0].shape).astype(np.int8)} for _ in range(2)]
    states = {}
    for want, feed in zip(litert(path, feeds), feeds, strict=True):
        found = xdlc.run(model, {**feed, **states}, native=True)
        np.testing.assert_allclose(found["y"].astype(int), want["y"].astype(int), atol=1)
        states = {"h_in": found["h_out"], "c_in": found["c_out"]}


@pytest.mark.vendor
@needs_htp
@pytest.mark.parametrize("form", [FORMS["plain"], FORMS["peephole and projection"], FORMS["norms"]])
def test_an_integer_lstm_runs_on_htp(tmp_path, form):
    random = np.random.default_rng(0)
    model = xdlc.convert(integer_lstm(tmp_path / "m.tflite", random, **form))
    feeds = {"x": random.integers(-128, 128, model.main.inputs[0].shape).astype(np.int8)}
    found = xdlc.run(model, feeds, runtime="htp", soc="sm8650", native=True)
    want = xdlc.run(model, feeds, native=True)
    np.testing.assert_allclose(found["y"].astype(int), want["y"].astype(int), atol=2)


def basic_lstm(path, random, batch=2, units=8, width=8):
    """Write an LSTM of the basic kernel."""
    builder, bytes_of = TinyModel(), {"scale": 1 / 128, "zero": 128}
    x = builder.tensor("x", [batch, width], np.uint8, **bytes_of)
    h = builder.tensor("h", [batch, units], np.uint8, **bytes_of)
    weights = random.integers(0, 256, (4 * units, width + units))
    w = builder.tensor("w", dtype=np.uint8, data=weights, scale=0.01, zero=120)
    b = builder.tensor("b", dtype=np.int32, data=random.integers(-9000, 9000, 4 * units), scale=0.01 / 128)
    c = builder.tensor("c", [batch, units], np.int16, scale=2.0**-11)
    y = builder.tensor("y", [batch, units], np.uint8, **bytes_of)
    following = builder.tensor("next", [batch, units], np.int16, scale=2.0**-11)
    joined = builder.tensor("joined", [batch, width + units], np.uint8, **bytes_of)
    sums = builder.tensor("sums", [batch, 4 * units], np.int16, scale=2.0**-12)
    outputs = [y, following, joined, sums]
    builder.op("LSTM", [x, h, w, b, c], outputs, fused_activation_function=4, kernel_type=1)
    return builder.write(path, [x, h, c], [y, following])


@pytest.mark.frameworks
def test_an_lstm_of_the_basic_kernel_is_litert_s_to_a_step(tmp_path):
    random = np.random.default_rng(0)
    path = basic_lstm(tmp_path / "m.tflite", random)
    feeds = {name: random.integers(0, 256, (2, 8)).astype(np.uint8) for name in "xh"}
    feeds["c"] = random.integers(-6000, 6000, (2, 8)).astype(np.int16)
    (want,) = litert(path, [feeds])
    found = xdlc.run(xdlc.convert(path), feeds, native=True)
    for name in ("y", "next"):
        np.testing.assert_allclose(found[name].astype(int), want[name].astype(int), atol=1)


@pytest.mark.frameworks
@pytest.mark.parametrize(("type", "bits"), [("LOGISTIC", 3), ("TANH", 3), ("TANH", 4)])
def test_functions_of_16_bits_are_litert_s_to_the_bit(tmp_path, type, bits):
    made = TinyModel()
    x = made.tensor("x", [1 << 16], np.int16, scale=2.0 ** (bits - 15))
    y = made.tensor("y", [1 << 16], np.int16, scale=2.0**-15)
    made.op(type, [x], [y])
    path = made.write(tmp_path / "m.tflite", [x], [y])
    from ai_edge_litert.interpreter import Interpreter

    engine, values = Interpreter(str(path)), np.arange(-(1 << 15), 1 << 15).astype(np.int16)
    engine.allocate_tensors()
    engine.set_tensor(engine.get_input_details()[0]["index"], values)
    engine.invoke()
    want = engine.get_tensor(engine.get_output_details()[0]["index"])
    np.testing.assert_array_equal(xdlc.run(xdlc.convert(path), {"x": values}, native=True)["y"], want)


@pytest.mark.parametrize("intermediates", [0, 4])
def test_integers_of_another_kernel_are_refused(tmp_path, intermediates):
    path = integer_lstm(tmp_path / "m.tflite", np.random.default_rng(0), intermediates=intermediates)
    with pytest.raises(UnsupportedOp, match="intermediate"):
        xdlc.convert(path)


def test_an_lstm_without_states_is_refused(tmp_path):
    builder = TinyModel()
    x, y = (
        builder.tensor("x", [1, 2, 3], np.int8, scale=0.1),
        builder.tensor("y", [1, 2, 4], np.int8, scale=0.1),
    )
    inputs = [x, *[-1] * 17]
    builder.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], fused_activation_function=4)
    with pytest.raises(ModelError, match="input 18 is missing"):
        xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))
