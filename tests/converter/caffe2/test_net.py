"""Tests of Caffe2 nets: values by the last writer, inputs, outputs, refusals."""

import json

import numpy as np
import pytest

import xdlc
from tests.converter.caffe2.nets import TinyNet, net, operator
from xdlc.errors import ModelError, ProblemList, UnsupportedOp, UsageError, XdlcError, each_problem

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 3, 2, 2)
SHAPE = {"data": [1, 3, 2, 2]}


def scaled(made=None):
    made = made or TinyNet()
    made.op("Mul", ["data", made.fill("w", np.float32([2]))], ["y"])
    return made


def test_the_last_writer_of_a_name_rules(tmp_path):
    builder = TinyNet()
    builder.op("Abs", ["data"], ["a"])
    builder.op("Add", ["a", "data"], ["a"])
    builder.op("Negative", ["a"], ["a"])
    builder.op("Add", ["a", "data"], ["data"])
    notices = []
    model = builder.convert(tmp_path, SHAPE, ["a", "data"], notify=notices.append)
    got = xdlc.run(model, {"data": X})
    np.testing.assert_allclose(got.pop("a"), -(abs(X) + X))
    assert [name for name in got if repr(name) in notices[0] and "'data'" in notices[0]]
    np.testing.assert_allclose(next(iter(got.values())), -abs(X), atol=1e-6)


def test_the_trace_has_each_value_of_a_name(tmp_path):
    made = TinyNet()
    made.op("Abs", ["data"], ["a"])
    made.op("Sqrt", ["a"], ["a"])
    report = xdlc.check(made.write(tmp_path, outputs=["a"])[0], input_dims=SHAPE)
    assert [node.node for node in report.nodes] == ["a#1", "a"]


@pytest.mark.parametrize(
    ("stated", "expected"), [([], ["y", "z"]), (["y", "old"], ["y"]), (["y", "w"], ["y"]), (["w"], ["w"])]
)
def test_outputs(tmp_path, stated, expected):
    builder = TinyNet()
    builder.op("Relu", ["data"], ["r"])
    builder.op("Reshape", ["r"], ["y", "old"], shape=[1, -1])
    builder.op("Add", ["r", builder.fill("w", X)], ["z"])
    notices = []
    model = builder.convert(tmp_path, SHAPE, stated, notify=notices.append)
    assert [tensor.name for tensor in model.main.outputs] == expected
    assert len(notices) == len(stated or expected) - len(expected)


def test_what_computes_nothing_is_passed_over(tmp_path):
    made = scaled()
    made.op("Negative", ["y"], ["y"], device_option="none")
    made.ops[0] += b"\x3a\x05CUDNN\x42\x01x"  # engine, control_input
    made.ops[1] = operator("Negative", ["y"], ["y"]) + b"\x32\x02\x08\x01"  # device_option
    np.testing.assert_array_equal(made.run(tmp_path, {"data": X})["y"], X * -2)


def test_fills_of_the_predict_net_and_other_operators_of_the_init_net(tmp_path):
    builder = TinyNet()
    builder.fill("v", np.float32([4]))
    builder.init("Sqrt", ["w"], ["v"])
    builder.op("ConstantFill", [], ["c"], shape=[1], value=3.0)
    builder.op("Mul", ["data", "w"], ["m"])
    builder.op("Add", ["m", "c"], ["y"])
    np.testing.assert_allclose(builder.run(tmp_path, {"data": X})["y"], X * 2 + 3)


# ------------------------------------------------------------------ inputs


def with_stand_in(shape, type="ConstantFill"):
    made = scaled()
    made.init(type, ["data"], shape=shape)
    return made


@pytest.mark.parametrize(
    ("stand_in", "given", "shape"),
    [
        ([1, 3, 2, 2], None, (1, 3, 2, 2)),
        ([1, 3, 2, 2], {"data": [2, 5]}, (2, 5)),
        ([1], SHAPE, (1, 3, 2, 2)),
    ],
)
def test_a_stand_in_of_the_init_net_is_an_input(tmp_path, stand_in, given, shape):
    notices = []
    model = with_stand_in(stand_in).convert(tmp_path, given, notify=notices.append)
    assert [(tensor.name, tensor.shape) for tensor in model.main.inputs] == [("data", shape)]
    assert any("'data'" in line for line in notices)


def test_a_stand_in_of_random_numbers_is_an_input_that_is_named(tmp_path):
    made = with_stand_in([1, 3], "GaussianFill")
    assert made.convert(tmp_path, {"data": [2, 3]}).main.inputs[0].shape == (2, 3)
    with pytest.raises(UsageError, match="no input"):
        xdlc.convert(made.write(tmp_path)[0], weights=tmp_path / "init_net.pb")


def test_a_stand_in_of_one_element_states_no_shape(tmp_path):
    with pytest.raises(UsageError, match="input 'data' is missing"):
        with_stand_in([1, 1]).convert(tmp_path, None)
    made = with_stand_in([1])
    made.op("Conv", ["data", made.fill("kernel", np.ones((2, 3, 1, 1), np.float32))], ["z"], kernel=1)
    with pytest.raises(UsageError, match="input 'data' is missing") as caught:
        made.convert(tmp_path, None, ["z"])
    assert len(each_problem(caught.value)) == 1
    predict, init = with_stand_in([1, 1]).write(tmp_path)
    with pytest.raises(UsageError, match="input 'data' is missing; 'dat', which"):
        xdlc.convert(predict, {"dat": [1, 3]}, weights=init)


def test_a_net_whose_names_are_all_filled_needs_the_name_of_its_input(tmp_path):
    made = scaled()
    made.fill("data", X)
    predict, init = made.write(tmp_path, ["w"])
    with pytest.raises(UsageError, match="no input") as caught:
        xdlc.convert(predict, weights=init)
    assert "input_dims data" in str(caught.value.fix)
    assert xdlc.convert(predict, SHAPE, weights=init).main.inputs[0].name == "data"


def test_shapes_beside_the_nets(tmp_path):
    (tmp_path / "value_info.json").write_text(json.dumps({"data": [2, [4, 3]]}))
    model = scaled().convert(tmp_path, None)
    assert [(tensor.shape, tensor.dtype.name) for tensor in model.main.inputs] == [((4, 3), "int32")]
    (tmp_path / "value_info.json").write_text('{"data": [1, [4, "x"]]}')
    notices = []
    assert scaled().convert(tmp_path, SHAPE, notify=notices.append).main.inputs[0].shape == (1, 3, 2, 2)
    assert "value_info.json, which does not map" in notices[0]


def test_indices_are_integers_and_a_batch_is_bound(tmp_path):
    builder = TinyNet()
    builder.op("Gather", [builder.fill("w", X.reshape(6, 2)), "data"], ["y"])
    model = builder.convert(tmp_path, {"data": [3]})
    assert model.main.inputs[0].dtype.name == "int32"
    (tmp_path / "value_info.json").write_text('{"data": [6, [1, 2]]}')
    assert builder.convert(tmp_path, None, batch=4).main.outputs[0].shape == (4, 2, 2)


def test_an_input_can_be_fixed(tmp_path):
    made = scaled()
    made.op("Mul", ["y", "by"], ["z"])
    predict, init = made.write(tmp_path, ["data", "by"], ["z"])
    model = xdlc.convert(predict, SHAPE, weights=init, set_inputs={"by": 3})
    np.testing.assert_array_equal(xdlc.run(model, {"data": X})["z"], X * 6)


# ------------------------------------------------------------------ refusals


REFUSED = {
    "no shape": (scaled, None, UsageError, "input 'data' is missing", "data N,C,H,W"),
    "a name that is misspelled": (
        lambda: TinyNet().op("Relu", ["dta"], ["y"]),
        SHAPE,
        ModelError,
        "reads 'dta', which no operator writes",
        "nearest: data",
    ),
    "operators in another order": (
        lambda: TinyNet().op("Relu", ["a"], ["y"]).op("Abs", ["data"], ["a"]),
        SHAPE,
        ModelError,
        "reads 'a', which no earlier operator writes",
        "order",
    ),
    "random weights": (
        lambda: TinyNet().init("XavierFill", ["w"], shape=[1]).op("Mul", ["data", "w"], ["y"]),
        SHAPE,
        UnsupportedOp,
        "random",
        "",
    ),
    "strings": (
        lambda: TinyNet().init("GivenTensorStringFill", ["w"], values=["a"]).op("Mul", ["data", "w"], ["y"]),
        SHAPE,
        UnsupportedOp,
        "strings",
        "",
    ),
    "an operator of no use": (lambda: TinyNet().op("Relu", ["data"], []), SHAPE, ModelError, "output", ""),
    "a fill with an argument of others": (
        lambda: TinyNet().init("ConstantFill", ["w"], odd=1).op("Mul", ["data", "w"], ["y"]),
        SHAPE,
        UnsupportedOp,
        "odd",
        "",
    ),
    "a net inside an operator": (
        lambda: TinyNet().op("While", ["data"], ["y"], body=net([operator("Relu", ["q"], ["r"])])),
        SHAPE,
        UnsupportedOp,
        "runs a net",
        "",
    ),
    "a long string": (
        lambda: TinyNet().op("Relu", ["data"], ["y"], s="x" * (1 << 21)),
        SHAPE,
        ModelError,
        "string of 2097152 bytes",
        "",
    ),
    "an argument twice": (
        lambda: TinyNet().op("Relu", ["data"], ["y"], s=2).again(0, "s", 3),
        SHAPE,
        ModelError,
        "twice, with different values",
        "",
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refusals(tmp_path, case):
    make, shapes, kind, words, fix = REFUSED[case]
    outputs = [] if "no use" in case else ["y"]
    with pytest.raises(XdlcError) as caught:
        make().convert(tmp_path, shapes, outputs)
    (problem,) = each_problem(caught.value)
    assert isinstance(problem, kind)
    assert words in problem.problem
    assert fix in str(problem.fix)
    assert problem.where


def test_a_net_without_its_init_net_is_one_error_with_all_names(tmp_path):
    predict, init = scaled().op("Mul", ["y", "v"], ["z"]).write(tmp_path, ["data", "v"])
    with pytest.raises(UsageError, match=r"3 of the values .*: 'data', 'v', 'w'") as caught:
        xdlc.convert(predict)
    assert str(init) in str(caught.value.fix)
    with pytest.raises(UsageError, match=r"weights are missing: .* 2 of the values .*: 'v', 'w'"):
        xdlc.convert(predict, SHAPE)
    with pytest.raises(ModelError, match=r"writes 'v', init_net\.pb does not fill"):
        xdlc.convert(predict, SHAPE, weights=init)


def test_problems_of_the_reading_and_of_operators_come_together(tmp_path):
    made = scaled().op("Odd", ["z"], ["z"]).op("Add", ["y", "v"], ["v"])
    made.init("GivenTensorFill", ["v"], shape=[2], values=[1.0]).init("Abs", ["b"], ["a"])
    predict, init = made.write(tmp_path, outputs=["y", "z", "v", "x"])
    words = ["reads 'a'", "reads 'z'", "1 values for shape [2]", "Odd has no mapping", "no value 'x'"]
    problems = xdlc.check(predict, input_dims=SHAPE, weights=init).problems
    assert [word in str(problem) for word, problem in zip(words, problems, strict=True)] == [True] * 5
    with pytest.raises(ProblemList) as caught:
        xdlc.convert(predict, SHAPE, weights=init)
    assert len(caught.value.problems) == len(problems)


def test_exchanged_nets(tmp_path):
    predict, init = scaled().write(tmp_path)
    with pytest.raises(UsageError, match="exchanged"):
        xdlc.convert(init, SHAPE, weights=predict)
    with pytest.raises(UsageError, match="init net"):
        xdlc.convert(init, SHAPE)
    with pytest.raises(UsageError, match="fills no tensor"):
        xdlc.convert(predict, SHAPE, weights=predict)
    init.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(9))
    with pytest.raises(ModelError, match="not a Caffe2 net"):
        xdlc.convert(predict, SHAPE, weights=init)
