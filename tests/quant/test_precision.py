import numpy as np
import pytest

from xdlc.errors import UsageError
from xdlc.ir import ScaleOffset, Tensor, make_op, static, u32
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64, SFIXED8, SFIXED16, UFIXED8, UFIXED16, UINT8
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession

RELU, SIGMOID = 4, 6
ADD, MULTIPLY = 0, 13


def chain(net):
    n = net(1, 8, 8, 3)
    one = n.neuron(n.conv(n.x, 8, "c1"), RELU, "r1")
    two = n.neuron(n.conv(one, 8, "c2"), RELU, "r2")
    return n, n.done(n.conv(two, 4, "c3"))


def converts(model):
    return [op for op in model.main.ops if op.type == "Convert"]


def test_an_op_reads_and_writes_its_own_width(net):
    n, model = chain(net)
    quantized = quantize(model, n.samples(2), act_bitwidth_of={"c2_op": 16, "r2": 16})
    tensors = quantized.main.tensors
    widths = {name: tensors[name].dtype for name in ("x", "c1", "r1", "c2", "r2", "c3")}
    assert widths == {
        "x": UFIXED8, "c1": UFIXED8, "r1": UFIXED8, "c2": UFIXED16, "r2": UFIXED16, "c3": UFIXED8,
    }  # fmt: skip
    up, down = converts(quantized)
    assert (up.inputs[0].name, up.outputs[0].dtype) == ("r1", UFIXED16)
    assert (down.inputs[0].name, down.outputs[0].dtype) == ("r2", UFIXED8)
    assert "'c2_op' computes with 16 bits" in up.origin.reason
    for op in quantized.main.ops:
        if op.type != "Convert":
            acts = [t for t in (*op.inputs, *op.outputs) if not t.is_static]
            assert len({tensor.dtype for tensor in acts}) == 1


def test_a_mixed_network_runs_and_lies_between(net):
    n, model = chain(net)
    expected = [CpuSession(model).run(sample)["c3"] for sample in n.samples(4, seed=3)]

    def noise(**options):
        session = CpuSession(quantize(model, n.samples(8), **options))
        found = [session.run(sample)["c3"] for sample in n.samples(4, seed=3)]
        return np.square(np.subtract(expected, found)).sum()

    most = dict.fromkeys(("c1", "r1", "c2", "r2"), 16)
    all_16 = noise(act_bitwidth=16, weights_bitwidth=16)
    assert all_16 < noise(act_bitwidth=16) < noise(act_bitwidth_of=most) < noise()


def test_readers_of_a_width_share_one_convert(net):
    n = net(1, 4, 4, 3)
    base = n.conv(n.x, 4, "base")
    model = n.done(n.conv(base, 4, "a"), n.conv(base, 4, "b"), n.conv(base, 4, "c"))
    quantized = quantize(model, n.samples(2), act_bitwidth_of={"a": 16, "b": 16})
    (convert,) = converts(quantized)
    assert [op.name for op in quantized.main.consumers(convert.outputs[0])] == ["a_op", "b_op"]
    assert quantized.main.tensors["base"].dtype == UFIXED8


def test_an_input_has_the_width_of_its_widest_reader(net):
    n = net(1, 4, 4, 3)
    model = n.done(n.conv(n.x, 4, "a"), n.conv(n.x, 4, "b"))
    quantized = quantize(model, n.samples(2), act_bitwidth_of={"b": 16})
    assert quantized.main.inputs[0].dtype == UFIXED16
    (convert,) = converts(quantized)
    assert convert.outputs[0].dtype == UFIXED8
    assert not converts(quantize(model, n.samples(2), act_bitwidth_of={"a": 16, "b": 16}))


def moving(net):
    n = net(1, 4, 4, 4)
    conv = n.conv(n.x, 4, "c")
    model = n.done(n.reshape(n.reshape(conv, (1, 16, 4), "r"), (1, 64), "y"), n.reshape(n.x, (1, 64), "z"))
    return n, model


@pytest.mark.parametrize("name", ["c", "r", "y_op"])
def test_ops_that_move_values_stand_for_what_writes_them(net, name):
    n, model = moving(net)
    notes = []
    tensors = quantize(model, n.samples(2), act_bitwidth_of={name: 16}, notify=notes.append).main.tensors
    assert any(repr(name) in note and "'c_op'" in note for note in notes) is (name != "c")
    assert {tensors[name].dtype for name in ("c", "r", "y", "x", "z")} == {UFIXED16}
    assert tensors["y"].encoding == tensors["c"].encoding
    tensors = quantize(model, n.samples(2), act_bitwidth=16, act_bitwidth_of={name: 8}).main.tensors
    assert {tensors[name].dtype for name in ("c", "r", "y")} == {UFIXED8}


def test_two_widths_of_one_op(net):
    n, model = moving(net)
    with pytest.raises(UsageError, match="16 by 'c' and 8 by 'r'") as caught:
        quantize(model, n.samples(2), act_bitwidth_of={"c": 16, "r": 8})
    assert "'c_op'" in caught.value.fix
    quantize(model, n.samples(2), act_bitwidth_of={"c_op": 16})


def test_an_op_that_writes_no_reals_stands_for_what_writes_its_input(net):
    n = net(1, 4, 4, 3)
    source = n.conv(n.x, 4, "c")
    index = Tensor("i", (1, 4, 4), INT32)
    n.graph.append(make_op(n.graph, "Argmax", [source], [index], {"axis": u32(3)}, name="i_op"))
    tensors = quantize(n.done(index), n.samples(2), act_bitwidth_of={"i": 16}).main.tensors
    assert tensors["c"].dtype == UFIXED16


def test_widths_that_are_named_and_cannot_be_had_are_reported(net):
    n = net(1, 4)
    model = n.done(n.op("ElementWiseUnary", [n.neuron(n.x, RELU, "r")], (1, 4), "y", operation=u32(4)))
    notes = []
    quantize(model, n.samples(2), act_bitwidth_of={"y": 16, "r": 16}, notify=notes.append)
    (note,) = (note for note in notes if "'y_op'" in note)
    assert "'r_op'" not in note


def test_a_relu_of_another_width_has_an_encoding_of_its_own(net):
    n, model = chain(net)
    quantized = quantize(model, n.samples(2), act_bitwidth_of={"c1": 16}, act_quantizer_calibration="min-max")
    tensors = quantized.main.tensors
    spans = {name: tensors[name].encoding.scale * tensors[name].dtype.limits[1] for name in ("c1", "r1")}
    assert tensors["c1"].dtype == UFIXED16
    assert tensors["c1"].encoding != tensors["r1"].encoding
    assert spans["c1"] == pytest.approx(spans["r1"], rel=1e-3)


def test_a_concat_reads_one_width(net):
    n = net(1, 4, 4, 4)
    one, two = n.conv(n.x, 4, "one"), n.conv(n.x, 4, "two")
    model = n.done(n.concat([one, two], "y"))
    quantized = quantize(model, n.samples(2), act_bitwidth_of={"one": 16})
    concat = next(op for op in quantized.main.ops if op.type == "Concat")
    assert {tensor.dtype for tensor in (*concat.inputs, *concat.outputs)} == {UFIXED8}
    assert quantized.main.tensors["two"].encoding == quantized.main.tensors["y"].encoding


def test_fixed_ranges_per_width(net):
    n = net(1, 4)
    gate = n.neuron(n.x, SIGMOID, "s")
    model = n.done(n.binary(gate, gate, ADD, "a"), n.binary(gate, n.x, MULTIPLY, "m"))
    quantized = quantize(model, n.samples(2), act_bitwidth_of={"s": 16, "a": 16})
    assert quantized.main.tensors["s"].encoding == ScaleOffset(1 / 65536)
    assert {op.outputs[0].encoding for op in converts(quantized)} >= {ScaleOffset(1 / 256)}


def test_float_ops_stand_between_dequantize_and_quantize(net):
    n, model = chain(net)
    quantized = quantize(model, n.samples(2), float_ops=["c2", "r2"], act_bitwidth_of={"c3": 16})
    assert [op.type for op in quantized.main.ops] == [
        "Conv2d", "ElementWiseNeuron", "Dequantize", "Conv2d", "ElementWiseNeuron", "Quantize", "Conv2d",
    ]  # fmt: skip
    tensors = quantized.main.tensors
    assert (tensors["c2"].dtype, tensors["c2_w"].dtype, tensors["c3"].dtype) == (FLOAT32, FLOAT32, UFIXED16)


def test_ranges_behind_a_quantized_input_are_those_of_its_steps(net):
    n = net(1, 8)
    n.x.dtype, n.x.encoding = UFIXED8, ScaleOffset(2**-6)  # no negative numbers
    real = n.graph.add_tensor(Tensor("real", (1, 8), FLOAT32))
    n.graph.append(make_op(n.graph, "Dequantize", [n.x], [real]))
    model = n.done(n.binary(real, real, ADD, "y"))
    sample = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
    encoding = quantize(model, [{"x": sample}]).main.tensors["y"].encoding
    assert (encoding.offset, encoding.scale) == (0, pytest.approx(2 / 255))


def test_a_float_tensor_is_quantized_once_for_each_width(net):
    n = net(1, 4, 4, 3)
    base = n.conv(n.x, 4, "base")
    model = n.done(n.conv(base, 4, "a"), n.conv(base, 4, "b"), n.conv(base, 4, "c"))
    quantized = quantize(model, n.samples(2), float_ops=["base"], act_bitwidth_of={"a": 16})
    made = [op.outputs[0] for op in quantized.main.ops if op.type == "Quantize"]
    assert sorted(tensor.dtype.bits for tensor in made) == [8, 16]
    assert sorted(len(quantized.main.consumers(tensor)) for tensor in made) == [1, 2]


def test_weights_of_single_ops(net):
    n, model = chain(net)
    widths = {"c1": 4, "c2": 16}
    quantized = quantize(model, n.samples(2), act_bitwidth=16, weights_bitwidth_of=widths)
    tensors = quantized.main.tensors
    assert tensors["c1_w"].encoding.bits == 4
    assert (tensors["c2_w"].dtype, tensors["c3_w"].dtype) == (SFIXED16, SFIXED8)


def test_weights_of_what_moves_a_result_are_those_of_its_op(net):
    n, notes = net(1, 4, 4, 3), []
    joined = n.concat([n.conv(n.x, 4, "c"), n.conv(n.x, 4, "d")], "joined")
    model = n.done(n.neuron(n.reshape(joined, (1, 128), "flat"), RELU, "y"))
    options = {"weights_bitwidth_of": {"flat": 4, "y": 4}, "notify": notes.append}
    tensors = quantize(model, n.samples(2), **options).main.tensors
    assert [tensors[name].encoding.bits for name in ("c_w", "d_w")] == [4, 4]
    assert sum("'y'" in note and note.startswith("warning") for note in notes) == 1


def test_constants_have_the_width_of_their_op(net):
    n = net(1, 4, 4, 3)
    factor = static("f", np.float32([0.5, 1.5, 2.5]))
    wide, narrow = n.binary(n.x, factor, MULTIPLY, "wide"), n.binary(n.x, factor, ADD, "narrow")
    quantized = quantize(n.done(wide, narrow), n.samples(2), act_bitwidth_of={"wide": 16})
    dtypes = {op.outputs[0].name: op.inputs[1].dtype for op in quantized.main.ops if op.type != "Convert"}
    assert dtypes == {"wide": UFIXED16, "narrow": UFIXED8}


def test_the_second_factor_of_a_product_may_be_narrower(net):
    n = net(1, 2, 8, 8)
    one, two = n.neuron(n.x, RELU, "one"), n.neuron(n.x, SIGMOID, "two")
    model = n.done(n.op("MatMul", [one, two], (1, 2, 8, 8), "y"))
    quantized = quantize(model, n.samples(2), act_bitwidth_of={"y": 16})
    product = next(op for op in quantized.main.ops if op.type == "MatMul")
    assert [tensor.dtype for tensor in (*product.inputs, *product.outputs)] == [UFIXED16, UFIXED8, UFIXED16]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"float_ops": "c9_op"}, "nearest: c3_op"),
        ({"act_bitwidth_of": {"c1": 12}}, "act_bitwidth_of of 'c1': expected one of 8, 16, found 12"),
        ({"weights_bitwidth_of": {"c1": 3}}, "expected one of 2, 4, 8, 16"),
        ({"weights_bitwidth_of": {"c1": 16}}, "'c1_op'"),
    ],
)
def test_what_cannot_be(net, options, text):
    n, model = chain(net)
    with pytest.raises(UsageError) as caught:
        quantize(model, n.samples(1), **options)
    assert text in str(caught.value)


@pytest.mark.parametrize(("kind", "bits"), [(INT64, 8), (INT64, 16), (UINT8, 8), (BOOL8, 16)])
def test_integers_become_reals_before_they_are_quantized(net, kind, bits):
    # HTP's Cast to fixed point takes integers for stored ones.
    n = net(1, 4)
    mask = n.graph.add_input(Tensor("mask", (4,), kind))
    real = n.op("Cast", [mask], (4,), "real")
    model = n.done(n.binary(n.x, n.reshape(real, (1, 4), "row"), MULTIPLY, "y"))
    values = np.array([0, 1, 1, 0]).astype(kind.numpy)
    samples = [{**sample, "mask": values} for sample in n.samples(2)]
    quantized = quantize(model, samples, act_bitwidth=bits)
    assert [op.type for op in quantized.main.ops] == ["Cast", "Quantize", "Reshape", "ElementWiseBinary"]
    assert quantized.main.tensors["real"].dtype == FLOAT32
    wanted, found = (CpuSession(held).run(samples[0])["y"] for held in (model, quantized))
    assert np.abs(wanted - found).max() < 0.02 * np.abs(wanted).max()


def test_reals_become_integers_as_reals(net):
    n = net(1, 4)
    whole = Tensor("i", (4,), INT32)
    row = n.reshape(n.neuron(n.x, RELU, "r"), (4,), "row")
    n.graph.append(make_op(n.graph, "Cast", [row], [whole], {}, name="i_op"))
    quantized = quantize(n.done(whole), n.samples(2)).main
    types = [op.type for op in quantized.ops]
    assert types == ["ElementWiseNeuron", "Reshape", "Dequantize", "Cast"]
