"""Quantized variables: calibration, one encoding for both ends, errors."""

import numpy as np
import pytest

from tests.support.accuracy import sqnr
from tests.support.htp_models import needs_htp
from xdlc.errors import XdlcError
from xdlc.ir import Tensor, static
from xdlc.ir.dtype import FLOAT32, UFIXED8, UFIXED16
from xdlc.prepare.htp import prepare
from xdlc.quant import quantize
from xdlc.quant.states import InOrder
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.session import HtpSession

ADD, MULTIPLY, TANH = 0, 13, 10
STEPS = 100


def integrator(net, decay=0.9, initial=2.0):
    """Return a model of ``h_next = decay * h + x`` with ``h`` from ``initial``."""
    n = net(1, 8)
    h = n.graph.add_input(Tensor("h", (1, 8), FLOAT32))
    kept = n.binary(h, static("decay", np.float32([decay])), MULTIPLY, "kept")
    following = n.binary(kept, n.x, ADD, "h_next")
    model = n.done(n.binary(following, static("half", np.float32([0.5])), MULTIPLY, "y"), following)
    model.metadata["states"] = {"h": {"output": "h_next", "initial": initial}}
    return n, model


def sequence(session, samples):
    """Return the output ``y`` of each step, the state handed on."""
    held, outputs = {}, []
    for sample in samples:
        results = session.run({**sample, **held})
        held = {"h": results["h_next"]}
        outputs.append(results["y"])
    return np.concatenate(outputs)


def test_samples_without_a_state_have_the_one_that_was_left(net):
    _n, model = integrator(net)
    ones = [{"x": np.ones((1, 8), np.float32)} for _ in range(3)]
    anew = {"x": np.ones((1, 8), np.float32), "h": np.zeros((1, 8), np.float32)}
    filled = InOrder([*ones, anew, ones[0]], model, None)
    np.testing.assert_allclose([sample["h"][0, 0] for sample in filled], [2, 2.8, 3.52, 0, 1], rtol=1e-6)
    assert filled.filled == [["h"], ["h"], ["h"], [], ["h"]]


def test_a_sample_that_does_not_fit_is_named(net):
    _, model = integrator(net)
    with pytest.raises(XdlcError, match="calibration sample 0"):
        quantize(model, [{"x": np.zeros((1, 7), np.float32)}, {"x": np.zeros((1, 8), np.float32)}])


@pytest.mark.parametrize(("bits", "dtype", "least"), [(8, UFIXED8, 25.0), (16, UFIXED16, 70.0)])
def test_a_state_has_one_encoding_and_the_range_of_its_course(net, bits, dtype, least):
    n, model = integrator(net)
    notes = []
    quantized = quantize(model, n.samples(STEPS, seed=3), act_bitwidth=bits, notify=notes.append)
    held, following = (quantized.main.tensors[name] for name in ("h", "h_next"))
    assert held.dtype is following.dtype is dtype
    assert held.encoding == following.encoding
    assert held.encoding.scale * (2**bits - 1) > 6  # the first value alone spans 2
    samples = n.samples(STEPS, seed=4)
    found = sequence(CpuSession(quantized), samples)
    assert sqnr(sequence(CpuSession(model), samples), found) > least
    assert any("over 32 steps" in note for note in notes)
    assert not any(note.startswith("warning") for note in notes)


def test_an_unfed_state_of_a_quantized_model_has_its_first_value(net):
    n, model = integrator(net)
    quantized = quantize(model, n.samples(STEPS, seed=3))
    sample = {"x": np.zeros((1, 8), np.float32)}
    fed = {**sample, "h": np.full((1, 8), 2.0, np.float32)}
    results = CpuSession(quantized).run(sample)
    np.testing.assert_array_equal(results["y"], CpuSession(quantized).run(fed)["y"])
    np.testing.assert_allclose(results["y"], 0.9, atol=0.05)


def test_errors_that_add_up_are_warned_of(net):
    _n, model = integrator(net, decay=1.0, initial=0.0)
    notes = []
    samples = [{"x": np.full((1, 8), 0.013, np.float32)} for _ in range(STEPS)]
    quantize(model, samples, notify=notes.append)
    assert any(note.startswith("warning: output 'h_next'") and "32 steps" in note for note in notes)


def test_a_sample_that_holds_a_state_starts_anew(net):
    _n, model = integrator(net, decay=1.0, initial=0.0)
    notes = []
    samples = [{"x": np.full((1, 8), 0.013, np.float32)} for _ in range(STEPS)]
    for sample in samples[1::2]:
        sample["h"] = np.zeros((1, 8), np.float32)
    quantize(model, samples, notify=notes.append)
    assert any("over 32 steps" in note for note in notes)
    assert not any(note.startswith("warning: output") for note in notes)


def test_fed_states_have_figures_of_single_steps(net):
    n, model = integrator(net)
    notes = []
    samples = [{**sample, "h": sample["x"]} for sample in n.samples(10)]
    quantize(model, samples, notify=notes.append)
    assert any("single steps" in note for note in notes)


def test_a_state_is_as_wide_as_what_writes_it(net):
    n, model = integrator(net)
    quantized = quantize(model, n.samples(STEPS), act_bitwidth_of={"h_next": 16})
    held, following = (quantized.main.tensors[name] for name in ("h", "h_next"))
    assert held.dtype is following.dtype is UFIXED16
    assert held.encoding == following.encoding


def test_encodings_that_differ_are_warned_of(net):
    n, model = integrator(net)
    entry = {"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "offset": -128}
    overrides = {
        "activation_encodings": {"h": [entry | {"scale": 0.1}], "h_next": [entry | {"scale": 0.05}]},
        "param_encodings": {},
    }
    notes = []
    quantize(model, n.samples(10), quantization_overrides=overrides, notify=notes.append)
    (warning,) = (note for note in notes if "rounds a state again" in note)
    assert "scale=0.1" in warning
    assert "scale=0.05" in warning


def test_arrays_and_files_need_no_states(net, tmp_path):
    n, model = integrator(net)
    arrays = [sample["x"] for sample in n.samples(10)]
    np.savez(tmp_path / "x.npz", x=np.stack(arrays))
    np.save(tmp_path / "x.npy", np.stack(arrays))
    for number, array in enumerate(arrays):
        array.tofile(tmp_path / f"{number}.raw")
    (tmp_path / "list.txt").write_text("".join(f"{tmp_path}/{number}.raw\n" for number in range(10)))
    wanted = quantize(model, arrays).main.tensors["h"].encoding
    for name in ("x.npz", "x.npy", "list.txt"):
        assert quantize(model, tmp_path / name).main.tensors["h"].encoding == wanted


@pytest.mark.vendor
@needs_htp
@pytest.mark.parametrize("bits", [None, 8, 16])
def test_htp_and_host_agree_over_steps_from_the_first_value_on(net, bits):
    n, model = integrator(net)
    model = model if bits is None else quantize(model, n.samples(STEPS, seed=3), act_bitwidth=bits)
    samples = n.samples(STEPS, seed=4)
    wanted = sequence(CpuSession(model), samples)
    with HtpSession(prepare(model, ["sm8650"])) as session:
        assert sqnr(wanted, sequence(session, samples)) > (55 if bits is None else 60)
