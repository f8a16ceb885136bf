import numpy as np
import pytest

from tests.quant.conftest import window
from xdlc.errors import ConstraintError, ProblemList, UsageError
from xdlc.ir import ScaleOffset, b8, f32, static, u32
from xdlc.ir.dtype import FLOAT32, UFIXED8, UFIXED16
from xdlc.quant import quantize
from xdlc.quant.capabilities import check_ops, fit_options, supports
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import place
from xdlc.quant.precision import Precision
from xdlc.runtime.cpu import CpuSession
from xdlc.targets import all_socs, find_soc

RELU, SIGMOID, COS, RECIPROCAL = 4, 6, 4, 10


def checked(model, options, precision=None):
    precision = precision or Precision(options.act_bitwidth, options.weights_bitwidth)
    precision.soc = options.soc
    return check_ops(model.main, place(model.main, precision), precision, options)


def conv(net):
    n = net(1, 4, 4, 3)
    return n, n.done(n.conv(n.x, 4, "y"))


def attention(net):
    n = net(1, 4, 8)
    y = n.op("MatMul", [n.x, n.neuron(n.x, RELU, "keys")], (1, 4, 4), "y", transpose_in1=b8(True))
    return n, n.done(y)


@pytest.mark.parametrize(
    ("target", "given", "where", "text"),
    [
        *(
            ("sm8250", {name: True}, name, "one scale per tensor")
            for name in ("use_per_channel_quantization", "use_per_row_quantization")
        ),
        ("sm8250", {"act_bitwidth": 16}, "act_bitwidth", "supported: 8-bit activations with"),
        ("sm8250", {"weights_bitwidth": 4}, "weights_bitwidth", "with weights of 8 bits"),
        ("sm8450", {"act_bitwidth": 16, "weights_bitwidth": 2}, "weights_bitwidth", "weights of 8 or 4 bits"),
        ("sm8650", {"weights_bitwidth": 2}, "weights_bitwidth", "with weights of 8 or 4 or 2"),
        ("sm8350", {"weights_block_size": 32, "use_lpbq": True}, "weights_block_size", "supported: None"),
        ("sm8650", {"weights_block_size": 32}, "weights_block_size", "use_lpbq=True"),
        ("sm7350", {"float_bitwidth": 16}, "float_bitwidth", "quantized ops only"),
        ("sm8650", {"float_bitwidth": "bf16"}, "float_bitwidth", "16 and 32"),
        ("sdm801", {}, "target", "are unknown"),
    ],
)
def test_options_that_a_generation_does_not_take(target, given, where, text):
    with pytest.raises(UsageError) as caught:
        fit_options(QuantOptions(target=target, **given), given)
    assert caught.value.where == where
    assert text in caught.value.problem


@pytest.mark.parametrize(
    ("target", "given"),
    [
        (None, {"weights_bitwidth": 2}),
        ("sm8250", {"use_per_channel_quantization": False, "use_per_row_quantization": False}),
        ("sm8350", {"weights_bitwidth": 4, "act_bitwidth": 16}),
        ("sm8450", {"weights_bitwidth": 16, "act_bitwidth": 16}),
        ("sm8450", {"weights_bitwidth": 4, "weights_block_size": 32, "use_lpbq": True}),
        ("sm8550", {"weights_bitwidth": 16, "act_bitwidth": 16, "float_bitwidth": 16}),
        ("SM8550", {"weights_bitwidth": 2, "act_bitwidth": 16}),
        ("43", {}),
    ],
)
def test_options_that_a_generation_takes(target, given):
    assert fit_options(QuantOptions(target=target, **given), given) == []


def test_defaults_adapt_to_a_target_with_one_scale_per_weight(net):
    n, model = conv(net)
    lines = []
    stored = quantize(model, n.samples(2), target="sm8250", notify=lines.append).main
    assert isinstance(stored.ops[0].inputs[1].encoding, ScaleOffset)
    assert any("only one scale" in line for line in lines)
    with pytest.raises(UsageError, match="one scale per tensor"):
        quantize(model, n.samples(2), target="sm8250", use_per_row_quantization=True)


def test_every_soc_of_a_known_htp_takes_the_defaults():
    for soc in all_socs():
        if soc.has_htp:
            fit_options(QuantOptions(target=soc.name))


def test_an_unknown_target_names_its_neighbours(net):
    n, model = conv(net)
    with pytest.raises(UsageError, match="unknown SoC 'sm8560'"):
        quantize(model, n.samples(1), target="sm8560")


def test_widths_of_single_ops(net):
    _, model = conv(net)
    options = QuantOptions(target="sm8450")
    with pytest.raises(ConstraintError, match="16-bit activations with 2-bit weights") as caught:
        checked(model, options, Precision(8, 8, {"y_op": 16}, {"y_op": 2}))
    assert caught.value.node == "y_op"
    assert "v69 (sm8450)" in caught.value.problem
    assert checked(model, QuantOptions(target="sm8550"), Precision(8, 8, {"y_op": 16}, {"y_op": 16})) == []


def test_operations_without_a_kernel_for_wide_weights(net):
    n = net(1, 4, 4, 4, 3)
    inputs = [n.x, n.weights("w", 1, 1, 1, 3, 2), n.weights("b", 2)]
    model = n.done(n.op("Conv3d", inputs, (1, 4, 4, 4, 2), "y", **window(axes=3)))
    options = QuantOptions(target="sm8650", act_bitwidth=16, weights_bitwidth=16)
    with pytest.raises(ConstraintError, match="supported: 8-bit weights for these ops"):
        checked(model, options)
    assert checked(model, QuantOptions(target="sm8650", act_bitwidth=16)) == []


@pytest.mark.parametrize(("target", "bits"), [("qcs6490", 8), ("sm8450", 8), ("sm8550", 16), (None, 16)])
def test_a_second_input_is_as_wide_as_the_target_takes(net, target, bits):
    n = net(1, 4, 8)
    keys = n.neuron(n.x, RELU, "keys")
    y = n.op("MatMul", [n.x, keys], (1, 4, 4), "y", transpose_in1=b8(True))
    model = n.done(y, n.neuron(keys, SIGMOID, "z"))
    notes = []
    quantized = quantize(model, n.samples(4), act_bitwidth=16, target=target, notify=notes.append)
    ops = {op.outputs[0].name: op for op in quantized.main.ops}
    assert [tensor.dtype.bits for tensor in ops["y"].inputs] == [16, bits]
    assert {tensor.dtype for tensor in (ops["keys"].outputs[0], ops["z"].inputs[0], ops["y"].outputs[0])} == {
        UFIXED16
    }
    converts = [op for op in quantized.main.ops if op.type == "Convert"]
    assert [(op.inputs[0].name, op.outputs[0]) for op in converts] == (
        [("keys", ops["y"].inputs[1])] if bits == 8 else []
    )
    assert any("'y_op'" in note for note in notes) is (bits == 8)
    wanted, found = (CpuSession(held).run(n.samples(1, seed=5)[0])["y"] for held in (model, quantized))
    assert np.abs(wanted - found).max() < 0.02 * np.abs(wanted).max()


def test_a_second_input_that_is_written_with_8_bits_stays_as_it_is(net):
    n, model = attention(net)
    options = {"act_bitwidth": 16, "act_bitwidth_of": {"keys": 8}}
    wanted = quantize(model, n.samples(2), **options).main
    found = quantize(model, n.samples(2), **options, target="sm8450").main
    assert [op.type for op in found.ops] == [op.type for op in wanted.ops]
    assert {name: held.encoding for name, held in found.tensors.items()} == {
        name: held.encoding for name, held in wanted.tensors.items()
    }


def test_ops_without_a_wide_kernel_where_there_are_no_floats(net):
    n = net(1, 4)
    model = n.done(n.op("ElementWiseUnary", [n.neuron(n.x, RELU, "r")], (1, 4), "y", operation=u32(COS)))
    types = {}
    for target in ("qcs6490", "sm8550"):
        notes = []
        quantized = quantize(model, n.samples(2), act_bitwidth=16, target=target, notify=notes.append).main
        (op,) = (op for op in quantized.ops if op.type == "ElementWiseUnary")
        types[target] = op.inputs[0].dtype, op.outputs[0].dtype
        assert quantized.tensors["r"].dtype is UFIXED16
        assert any("'y_op'" in note for note in notes) is (target == "qcs6490")
    assert types == {"qcs6490": (UFIXED8, UFIXED8), "sm8550": (FLOAT32, FLOAT32)}


def test_all_misfits_are_one_error_before_the_samples_are_run(net):
    n = net(1, 4, 4, 3)
    for index in range(7):
        n.conv(n.x, 4, f"c{index}")
    model = n.done(*(n.graph.tensors[f"c{index}"] for index in range(7)))
    names = [f"c{index}_op" for index in range(6)]

    def samples():
        raise AssertionError("samples are read")
        yield {}

    with pytest.raises(ProblemList) as caught:
        quantize(
            model,
            samples(),
            target="qcs6490",
            act_bitwidth=16,
            weights_bitwidth_of=dict.fromkeys(names, 2),
            float_ops="c6",
            min_sqnr=20,
        )
    wide, floats = caught.value.problems
    assert (wide.node, floats.node) == ("c0_op", "c6_op")
    assert "and 1 more" in wide.where


def test_wide_activations_of_single_ops_where_there_are_none(net):
    n = net(1, 4)
    model = n.done(n.neuron(n.neuron(n.x, RELU, "r"), SIGMOID, "s"))
    narrow = {"use_per_channel_quantization": False, "use_per_row_quantization": False}
    with pytest.raises(ConstraintError, match="16-bit activations") as caught:
        quantize(model, n.samples(1), target="sm8250", act_bitwidth_of={"s": 16}, **narrow)
    assert caught.value.node == "s_op"


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (None, [(8, 4), (8, 8), (16, 8), (16, 16), (None, 4)]),
        ("qcs6490", [(8, 4), (8, 8), (16, 8), (16, 16)]),
        ("sm8450", [(8, 4), (8, 8), (16, 8), (16, 16), (None, 4)]),
        ("sm8250", [(8, 8)]),
    ],
)
def test_widths_that_a_target_takes(net, target, kept):
    _, model = conv(net)
    (op,) = model.main.ops
    soc = None if target is None else find_soc(target)
    every = [(8, 4), (8, 8), (16, 8), (16, 16), (None, 4)]
    assert [widths for widths in every if supports(op, *widths, soc)] == kept


def test_float_ops(net):
    n = net(1, 4, 4, 3)
    model = n.done(n.op("Custom", [n.conv(n.x, 4, "c")], (1, 4, 4, 4), "y", package="mine"))
    options = QuantOptions(target="sm7350")
    assert checked(model, options) == checked(model, QuantOptions(target="sm8650")) == []
    with pytest.raises(ConstraintError, match=r"op 'c_op'.*does not support float"):
        checked(model, options, Precision(8, 8, {"c_op": None}))


@pytest.mark.parametrize(
    ("target", "kind", "warned"),
    [(None, "Erf", False), ("sm8550", "Erf", True), ("sm8550", "Relu", False), ("sm7350", "Relu", False)],
)
def test_what_preparing_will_refuse_is_a_warning(net, target, kind, warned):
    n = net(1, 4, 4, 3)
    source = n.conv(n.x, 4, "c")
    package = {"Erf": {"package": "xdlc"}}.get(kind, {})
    notes = []
    model = n.done(n.op(kind, [source], source.shape, "y", **package))
    quantize(model, n.samples(1), target=target, notify=notes.append)
    assert [note.startswith("warning") and "'y_op'" in note for note in notes].count(True) == warned


def test_notes(net):
    _, model = conv(net)
    (note,) = checked(model, QuantOptions(weights_bitwidth=2))
    assert note.endswith("only this machine runs these ops: 'y_op'")
    assert checked(model, QuantOptions(weights_bitwidth=2, act_bitwidth=16)) == []


@pytest.mark.parametrize(
    ("target", "kind", "dtype"),
    [
        (None, "LayerNorm", UFIXED16),
        ("sm8550", "LayerNorm", UFIXED16),
        ("sm8450", "LayerNorm", UFIXED8),
        ("sm8450", "Batchnorm", UFIXED8),
        ("sm8450", "InstanceNorm", UFIXED16),
    ],
)
def test_factors_are_as_wide_as_the_target_takes(net, target, kind, dtype):
    n = net(1, 4, 4, 3)
    params = {} if kind == "Batchnorm" else {"epsilon": f32(1e-5)}
    if kind == "LayerNorm":
        params["axes"] = static("axes", np.uint32([3]))
    model = n.done(n.op(kind, [n.x, n.weights("g", 3), n.weights("b", 3)], n.x.shape, "y", **params))
    tensors = quantize(model, n.samples(1), act_bitwidth=16, target=target).main.tensors
    assert tensors["g"].dtype is dtype
    assert tensors["b"].dtype.bits == 32
    if dtype is UFIXED16 and kind != "InstanceNorm":
        assert tensors["g"].encoding.offset == -(1 << 15)


def test_operations_without_a_kernel_are_a_note(net):
    n = net(1, 4, 4, 3)
    middle = n.neuron(n.x, RELU, "m")
    model = n.done(n.op("ElementWiseUnary", [middle], (1, 4, 4, 3), "y", operation=u32(RECIPROCAL)))
    (note,) = checked(model, QuantOptions())
    assert "ElementWiseReciprocal" in note
    assert "1 op(s)" in note
