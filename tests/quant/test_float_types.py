import numpy as np
import pytest

from xdlc.ir import static
from xdlc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, UFIXED8
from xdlc.quant import quantize
from xdlc.quant.float_types import store_floats
from xdlc.runtime.cpu import CpuSession

RELU, ADD, MULTIPLY = 4, 0, 13


def chain(net):
    n = net(1, 8, 8, 3)
    one = n.neuron(n.conv(n.x, 8, "c1"), RELU, "r1")
    two = n.conv(one, 8, "c2")
    return n, n.done(n.conv(two, 4, "c3"))


@pytest.mark.parametrize(("width", "dtype"), [(16, FLOAT16), ("bf16", BFLOAT16), (32, FLOAT32)])
def test_what_stays_float_between_quantized_ops(net, width, dtype):
    n, model = chain(net)
    quantized = quantize(model, n.samples(2), float_ops=["c2"], float_bitwidth=width)
    conv = next(op for op in quantized.main.ops if op.name == "c2_op")
    assert {tensor.dtype for tensor in (*conv.inputs, *conv.outputs)} == {dtype}
    assert [op.type for op in quantized.main.ops] == [
        "Conv2d", "ElementWiseNeuron", "Dequantize", "Conv2d", "Quantize", "Conv2d",
    ]  # fmt: skip
    sample = n.samples(1)[0]
    wanted, found = (CpuSession(m).run(sample)["c3"] for m in (model, quantized))
    assert np.abs(wanted - found).max() < 0.05 * np.abs(wanted).max()


def test_inputs_and_outputs_keep_their_type(net):
    n, model = chain(net)
    quantized = quantize(model, n.samples(2), float_ops=["c1", "r1", "c3"], float_bitwidth=16).main
    tensors = quantized.tensors
    assert (tensors["x"].dtype, tensors["c3"].dtype, tensors["c2"].dtype) == (FLOAT32, FLOAT32, UFIXED8)
    casts = [op for op in quantized.ops if op.type == "Cast"]
    assert [(op.inputs[0].dtype, op.outputs[0].dtype) for op in casts] == [
        (FLOAT32, FLOAT16),
        (FLOAT16, FLOAT32),
    ]
    assert [op.outputs[0].name for op in casts][1] == "c3"
    assert "float16" in casts[0].origin.reason


def test_an_output_that_is_read_inside_too(net):
    n = net(1, 4, 4, 3)
    inner = n.conv(n.x, 3, "inner")
    model = n.done(inner, n.conv(inner, 2, "y"))
    quantized = quantize(model, n.samples(1), float_ops=["inner", "y"], float_bitwidth=16).main
    assert quantized.tensors["inner"].dtype == FLOAT32
    reader = next(op for op in quantized.ops if op.name == "y_op")
    assert reader.inputs[0].dtype == FLOAT16


def test_ops_of_other_packages_keep_float32(net):
    n = net(1, 4, 4, 3)
    custom = n.op("Mystery", [n.conv(n.x, 3, "c")], (1, 4, 4, 3), "m", package="my.ops")
    graph = n.done(n.conv(custom, 2, "y")).main
    store_floats(graph, 16)
    graph.verify()
    (op,) = (op for op in graph.ops if op.type == "Mystery")
    assert (op.inputs[0].dtype, op.outputs[0].dtype) == (FLOAT32, FLOAT32)
    assert [op.type for op in graph.ops] == ["Cast", "Conv2d", "Cast", "Mystery", "Cast", "Conv2d", "Cast"]
    assert {op.inputs[1].dtype for op in graph.ops if op.type == "Conv2d"} == {FLOAT16}


def test_constants_beyond_float16_become_its_largest(net):
    n = net(1, 4)
    mask = static("mask", np.float32([0.0, -1e30, 1e9, 1.5]))
    model = n.done(n.binary(n.x, mask, ADD, "y"))
    notes = []
    quantized = quantize(model, n.samples(1), float_bitwidth=16, notify=notes.append)
    assert quantized.main.tensors["mask"].numpy().tolist() == [0.0, -65504.0, 65504.0, 1.5]
    assert [note for note in notes if "float16" in note] == [
        "'mask' spans -1e+30 to 1e+09: xdlc clips it to float16"
    ]


def test_a_constant_of_both_is_stored_twice(net):
    n = net(1, 4)
    factor = static("factor", np.float32([0.5, 1.0, 1.5, 2.0]))
    one, two = n.binary(n.x, factor, MULTIPLY, "one"), n.binary(n.x, factor, ADD, "two")
    quantized = quantize(n.done(one, two), n.samples(1), float_ops=["one"], float_bitwidth=16).main
    dtypes = {op.outputs[0].name: op.inputs[1].dtype for op in quantized.ops if len(op.inputs) > 1}
    assert sorted(map(str, dtypes.values())) == ["float16", "ufixed8"]


@pytest.mark.parametrize(("value", "count"), [(1e-8, 1), (1e-6, 0), (0.0, 0), (1e3, 0)])
def test_numbers_that_float16_does_not_hold_are_named(net, value, count):
    n = net(1, 4)
    model = n.done(n.binary(n.x, static("epsilon", np.float32([value])), ADD, "y"))
    notes = []
    quantize(model, n.samples(2), float_ops=["y"], float_bitwidth=16, notify=notes.append)
    assert sum("'epsilon'" in note for note in notes) == count


def test_figures_are_those_of_floats_of_the_target(net):
    n = net(1, 4, 4, 2)
    small = n.binary(n.conv(n.x, 3, "c"), static("small", np.float32([1e-9])), MULTIPLY, "s")
    model = n.done(n.binary(small, static("large", np.float32([1e9])), MULTIPLY, "y"))
    for target, is_lost in ((None, False), ("sm8650", True)):
        notes = []
        quantize(model, n.samples(8), float_ops=["s", "y"], target=target, notify=notes.append)
        assert any("output 'y' is likely useless" in note for note in notes) is is_lost
    n = net(1, 4, 4, 2)
    large = n.binary(n.conv(n.x, 3, "c"), static("large", np.float32([1e5])), MULTIPLY, "s")
    model = n.done(n.binary(large, static("small", np.float32([1e-5])), MULTIPLY, "y"))
    notes = []
    quantize(model, n.samples(8), float_ops=["s", "y"], target="sm8650", notify=notes.append)
    assert not any("NaN or infinite" in note for note in notes)  # HTP's floats saturate
