"""Further entry graphs: encodings of the main one, weights as the same data."""

import numpy as np
import pytest

from xdlc.errors import UsageError
from xdlc.ir import Graph, Model, Tensor, make_op, static, u32
from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import FLOAT32, INT32, UFIXED8
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession

WEIGHTS = {
    name: ArrayData(np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32))
    for seed, name in enumerate(("w", "w2"))
}
BIAS = np.float32([0.5] * 8)


def layers(name, rows, weights=WEIGHTS, *, last="y"):
    """Return a graph of two layers on some rows, with a cache of 8 rows in all."""
    graph = Graph(name)
    x = graph.add_input(Tensor("x", (rows, 8), FLOAT32))
    past = graph.add_input(Tensor("past_a_in", (8 - rows, 8), FLOAT32))
    for number, (key, data) in enumerate(weights.items()):
        weight = static(key, np.zeros((8, 8), np.float32))
        weight.data = data
        bias = static(f"{key}_b", BIAS + number)
        x = add(graph, "FullyConnected", [x, weight, bias], (rows, 8), "past_a_out" if number else "mid")
    joined = add(graph, "Concat", [past, x], (8, 8), "joined", axis=u32(0))
    graph.add_output(add(graph, "MatMul", [x, joined], (rows, 8), last))
    graph.add_output(x)
    graph.verify()
    return graph


def add(graph, kind, inputs, shape, name, **params):
    result = Tensor(name, shape, FLOAT32)
    graph.append(make_op(graph, kind, inputs, [result], params, name=f"{name}_op"))
    return result


def model_of(*graphs):
    model = Model()
    for graph in graphs:
        model.add_graph(graph)
    return model


def samples_of(graph, count=12, scale=1.0, seed=1):
    rng = np.random.default_rng(seed)
    return [
        {t.name: (rng.standard_normal(t.shape) * scale).astype(np.float32) for t in graph.inputs}
        for _ in range(count)
    ]


def unlike(first, second):
    """Return the names of tensors of two graphs whose encodings differ."""
    return [
        name
        for name, tensor in second.tensors.items()
        if (twin := first.tensors.get(name)) is not None
        and (twin.dtype, twin.encoding) != (tensor.dtype, tensor.encoding)
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"act_bitwidth": 16, "act_bitwidth_of": {"past_a_in": 8}},
        {"algorithms": "adaround", "weights_bitwidth": 4},
        {"algorithms": "bias_correction"},
        {"weights_bitwidth": 16, "act_bitwidth": 16, "target": "sm8450"},
        {"target": "sm8650", "act_bitwidth": 16},
    ],
)
def test_graphs_of_the_same_weights_have_one_set_of_encodings(options):
    model, notes = model_of(layers("prompt", 4), layers("token", 1)), []
    quantized = quantize(model, samples_of(model.main), notify=notes.append, **options)
    prompt, token = quantized.graphs.values()
    assert (prompt.name, token.name) == ("prompt", "token")
    token.verify()
    assert not unlike(prompt, token)
    assert all(op.outputs[0].dtype.is_fixed for op in token.ops)
    statics = [tensor for tensor in token.tensors.values() if tensor.is_static]
    assert len(statics) >= 4
    assert all(tensor.data is prompt.tensors[tensor.name].data for tensor in statics)
    assert any("'token'" in note and "shares" in note for note in notes)
    assert not any(note.startswith("warning: each step") for note in notes)


def test_a_token_equals_a_row_of_the_prompt():
    model = model_of(layers("prompt", 4), layers("token", 1))
    quantized = quantize(model, samples_of(model.main), act_bitwidth=16)
    rows = samples_of(model.main, 1, seed=3)[0]
    prompt = CpuSession(quantized).run(rows)
    token = CpuSession(model_of(quantized.graphs["token"]))
    one = token.run(
        {"x": rows["x"][:1], "past_a_in": np.concatenate([rows["past_a_in"], prompt["past_a_out"][:3]])}
    )
    np.testing.assert_array_equal(one["past_a_out"], prompt["past_a_out"][:1])


def test_equal_bytes_are_shared_too():
    copies = {name: ArrayData(data.numpy().copy()) for name, data in WEIGHTS.items()}
    model = model_of(layers("prompt", 4), layers("token", 1, copies))
    prompt, token = quantize(model, samples_of(model.main)).graphs.values()
    assert token.tensors["w"].data is prompt.tensors["w"].data
    assert token.tensors["w2"].dtype.is_fixed


def test_samples_of_each_graph_widen_the_ranges_of_both():
    model = model_of(layers("prompt", 4), layers("token", 1))
    prompt, token = model.graphs.values()
    alone = quantize(model, samples_of(prompt), act_quantizer_calibration="min-max").main
    wide = {"prompt": samples_of(prompt), "token": samples_of(token, scale=10.0)}
    both = quantize(model, wide, act_quantizer_calibration="min-max")
    assert both.main.tensors["x"].encoding.scale > 2 * alone.tensors["x"].encoding.scale
    assert not unlike(*both.graphs.values())


def test_a_tensor_of_its_own_has_the_range_of_samples_in_its_shapes():
    model = model_of(layers("prompt", 4), layers("token", 1, last="z"))
    prompt, token = model.graphs.values()
    notes, scales = [], []
    for samples in (samples_of(prompt), {"prompt": samples_of(prompt), "token": samples_of(token)}):
        quantized = quantize(model, samples, notify=notes.append)
        result = quantized.graphs["token"].tensors["z"]
        assert result.dtype is UFIXED8
        scales.append(result.encoding.scale)
    assert 0.5 < scales[0] / scales[1] < 2
    assert sum("'z'" in note for note in notes) == 1


def test_a_graph_of_other_weights_stays_float():
    others = {name: ArrayData(data.numpy() + 1) for name, data in WEIGHTS.items()}
    model, notes = model_of(layers("prompt", 4), layers("other", 4, others)), []
    quantized = quantize(model, samples_of(model.main), notify=notes.append)
    assert quantized.graphs["other"].tensors["x"].dtype is FLOAT32
    assert any("'other' stays float" in note for note in notes)


@pytest.mark.parametrize("names", [("prompt", "tokens"), ("token",)])
def test_samples_of_unknown_graphs_are_refused(names):
    model = model_of(layers("prompt", 4), layers("token", 1))
    with pytest.raises(UsageError):
        quantize(model, {name: samples_of(model.main) for name in names})


def test_an_input_without_samples_is_an_error():
    token = layers("token", 1)
    extra = token.add_input(Tensor("extra", (1, 8), FLOAT32))
    total = add(token, "ElementWiseBinary", [extra, token.tensors["y"]], (1, 8), "total", operation=u32(0))
    token.add_output(total)
    model = model_of(layers("prompt", 4), token)
    with pytest.raises(UsageError, match="extra"):
        quantize(model, samples_of(model.main))


def test_a_width_of_an_input_of_integers_is_an_error():
    graph = layers("prompt", 4)
    graph.add_input(Tensor("ids", (4,), INT32))
    samples = [sample | {"ids": np.zeros(4, np.int32)} for sample in samples_of(layers("prompt", 4))]
    with pytest.raises(UsageError, match="ids"):
        quantize(model_of(graph), samples, act_bitwidth_of={"ids": 8})
