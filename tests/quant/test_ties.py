"""Tied tensors: one encoding for states, caches and what the user names."""

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from xdlc.errors import UsageError
from xdlc.ir import Tensor
from xdlc.ir.dtype import FLOAT32, INT32, UFIXED8, UFIXED16
from xdlc.prepare.htp import prepare
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.session import HtpSession

MULTIPLY, TANH = 13, 8
CACHE = ("past_key_0_in", "past_key_0_out")


def cached(net, names=CACHE, *, moved=True):
    """Return a model that joins a cache with a new part and multiplies by both."""
    n = net(1, 2, 8)
    query = n.graph.add_input(Tensor("query", (1, 4, 2), FLOAT32))
    past = n.graph.add_input(Tensor(names[0], (1, 2, 24), FLOAT32))
    new = n.neuron(n.x, TANH, "new" if moved else names[1])
    if moved:
        new = n.reshape(new, (1, 2, 8), names[1])
    joined = n.concat([past, new], "joined")
    return n.done(n.op("MatMul", [query, joined], (1, 4, 32), "scores"), new)


def samples_of(model, count=12, scale=1.0, seed=5):
    rng = np.random.default_rng(seed)
    return [
        {t.name: (rng.standard_normal(t.shape) * scale).astype(np.float32) for t in model.main.inputs}
        for _ in range(count)
    ]


def forms(model, *names):
    return {(model.main.tensors[name].dtype, model.main.tensors[name].encoding) for name in names}


@pytest.mark.parametrize(
    "names",
    [CACHE, ("past_key_values.0.value", "present.0.value"), ("h", "h_next"), ("h", "next_h"), ("h", "new_h")],
)
def test_ends_of_a_state_by_name_share_an_encoding(net, names):
    model, notes = cached(net, names), []
    model = quantize(model, samples_of(model), act_bitwidth=16, notify=notes.append)
    assert len(forms(model, *names, "joined")) == 1
    assert sum(all(repr(name) in note for name in names) for note in notes) == 1
    assert not any(note.startswith("warning") for note in notes)


def test_ends_of_unlike_shape_are_no_state(net):
    n = net(1, 8)
    held = n.graph.add_input(Tensor("h", (2, 4), FLOAT32))
    following = n.neuron(n.x, TANH, "h_next")
    model = n.done(following, n.neuron(held, TANH, "y"))
    model = quantize(model, samples_of(model, scale=4.0))
    assert len(forms(model, "h", "h_next")) == 2


@pytest.mark.parametrize("moved", [True, False])
def test_a_cache_of_8_bits_reaches_the_product_unwidened(net, moved):
    model = cached(net, moved=moved)
    quantized = quantize(model, samples_of(model), act_bitwidth=16, act_bitwidth_of={CACHE[0]: 8})
    ((dtype, encoding),) = forms(quantized, *CACHE, "joined")
    assert dtype is UFIXED8
    assert encoding.offset == -128
    graph = quantized.main
    assert {op.type for op in graph.consumers(graph.tensors[CACHE[0]])} == {"Concat"}
    product = graph.tensors["scores"].producer
    assert [tensor.dtype for tensor in product.inputs] == [UFIXED16, UFIXED8]
    tanh = next(op for op in graph.ops if op.type == "ElementWiseNeuron")
    assert tanh.outputs[0].dtype is UFIXED16
    sample = samples_of(model, 1, seed=6)[0]
    exact, rounded = (CpuSession(each).run(sample) for each in (model, quantized))
    np.testing.assert_allclose(rounded["scores"], exact["scores"], atol=0.1)


def test_a_cache_of_the_bits_of_its_op_is_written_by_it(net):
    model = cached(net, moved=False)
    quantized = quantize(model, samples_of(model), act_bitwidth=16, act_bitwidth_of={CACHE[0]: 16})
    assert [op.type for op in quantized.main.ops] == ["ElementWiseNeuron", "Concat", "MatMul"]
    assert len(forms(quantized, *CACHE, "joined")) == 1


def test_a_vector_beside_the_state_keeps_its_bits(net):
    n = net(1, 8)
    held = n.graph.add_input(Tensor("h", (1, 8), FLOAT32))
    joined = n.concat([held, n.x], "joined")
    model = n.done(n.neuron(joined, TANH, "y"), n.binary(held, n.x, MULTIPLY, "h_next"))
    model = quantize(model, samples_of(model), act_bitwidth=16, act_bitwidth_of={"h": 8})
    assert forms(model, "h") == forms(model, "h_next")
    assert {dtype for dtype, _ in forms(model, "joined", "x")} == {UFIXED16}


def test_an_override_of_one_end_is_that_of_the_other(net):
    model = cached(net)
    entry = {"bitwidth": 8, "scale": 0.05, "offset": -128, "is_symmetric": "True"}
    overrides = {"activation_encodings": {CACHE[0]: [entry]}, "param_encodings": {}}
    model = quantize(model, samples_of(model), act_bitwidth=16, quantization_overrides=overrides)
    ((dtype, encoding),) = forms(model, *CACHE, "joined")
    assert dtype is UFIXED8
    assert encoding.scale == pytest.approx(0.05)


def test_an_override_of_another_width_than_the_option_is_refused(net):
    model = cached(net)
    entry = {"bitwidth": 16, "scale": 0.001, "offset": -32768, "is_symmetric": "True"}
    overrides = {"activation_encodings": {CACHE[1]: [entry]}, "param_encodings": {}}
    with pytest.raises(UsageError) as caught:
        quantize(model, [], act_bitwidth_of={CACHE[0]: 8}, quantization_overrides=overrides)
    assert all(name in caught.value.problem for name in CACHE)
    assert "act_bitwidth_of" in caught.value.where


def test_weights_alone_leave_nothing_to_tie(net):
    with pytest.raises(UsageError) as caught:
        quantize(cached(net), [], weights_only=True, tie=[CACHE])
    assert "tie" in caught.value.where


def test_named_tensors_share_an_encoding(net):
    n = net(1, 8)
    wide = n.binary(n.x, n.x, MULTIPLY, "wide")
    model = n.done(n.neuron(n.x, TANH, "y"), wide)
    quantized = quantize(model, n.samples(8, scale=3.0), tie=[("y", "wide")])
    assert len(forms(quantized, "y", "wide")) == 1
    assert len(forms(quantize(model, n.samples(8, scale=3.0)), "y", "wide")) == 2


def test_ties_that_meet_are_one(net):
    n = net(1, 8)
    wide = n.binary(n.x, n.x, MULTIPLY, "wide")
    model = n.done(n.neuron(n.x, TANH, "y"), wide)
    quantized = quantize(model, n.samples(8, scale=3.0), tie=[("y", "wide"), ("wide", "x")])
    assert len(forms(quantized, "x", "y", "wide")) == 1


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("past_key_0_on", "query"), "past_key_0_in"),
        (("query",), "name two or more tensors"),
        (("query", "number"), "omit this name"),
    ],
)
def test_names_that_cannot_be_tied_are_refused(net, names, hint):
    model = cached(net)
    model.main.add_input(Tensor("number", (1,), INT32))
    with pytest.raises(UsageError) as caught:
        quantize(model, [], tie=[names])
    assert "tie" in caught.value.where
    assert hint in caught.value.fix


def test_overrides_that_contradict_a_tie_name_both(net):
    model = cached(net)
    entries = {
        name: [{"bitwidth": 8, "scale": scale, "offset": -128, "is_symmetric": "True"}]
        for name, scale in zip(CACHE, (0.05, 0.1), strict=True)
    }
    overrides = {"activation_encodings": entries, "param_encodings": {}}
    with pytest.raises(UsageError) as caught:
        quantize(model, samples_of(model), quantization_overrides=overrides, tie=[CACHE])
    assert all(name in caught.value.problem for name in CACHE)
    notes = []
    quantize(model, samples_of(model), quantization_overrides=overrides, notify=notes.append)
    assert any(note.startswith("warning") and all(name in note for name in CACHE) for note in notes)


def test_unlike_widths_of_a_tie_are_refused(net):
    n = net(1, 8)
    wide = n.binary(n.x, n.x, MULTIPLY, "wide")
    model = n.done(n.neuron(n.x, TANH, "y"), wide)
    with pytest.raises(UsageError, match="cannot share"):
        quantize(model, n.samples(8), tie=[("y", "wide")], act_bitwidth_of={"wide": 16})


@pytest.mark.vendor
@needs_htp
def test_htp_multiplies_by_a_cache_of_8_bits(net):
    model = cached(net)
    quantized = quantize(
        model, samples_of(model), act_bitwidth=16, act_bitwidth_of={CACHE[0]: 8}, target="sm8650"
    )
    sample = samples_of(model, 1, seed=6)[0]
    with HtpSession(prepare(quantized, ["sm8650"])) as session:
        found = session.run(sample)
    for name, wanted in CpuSession(quantized).run(sample).items():
        np.testing.assert_allclose(found[name], wanted, atol=0.05)
