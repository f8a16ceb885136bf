"""Reading of ``NetDef`` files: forms of values, text, untrusted input."""

import struct

import numpy as np
import pytest

import xdlc
from tests.converter.caffe2.nets import Net, TinyNet, argument, field, fill, net, operator
from xdlc import ir
from xdlc.converter.caffe2.inputs import filled, is_constant
from xdlc.converter.caffe2.netdef import read_net
from xdlc.converter.session.context import Allowance
from xdlc.errors import ModelError, UnsupportedOp, XdlcError

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def given(shape, *values, type="GivenTensorFill"):
    args = [argument("shape", shape), field(1, "values") + b"".join(values)]
    return field(2, "w") + field(4, type) + b"".join(field(5, one) for one in args)


def result(tmp_path, op):
    path = tmp_path / "init.pb"
    path.write_bytes(op if b"op {" in op else net([op]))
    (found,) = read_net(path).ops
    assert is_constant(found)
    return filled(found, Allowance(1 << 20))


def text(values, type="GivenTensorFill", shape="dims: 0"):
    return f'op {{ output: "w" type: "{type}" arg {{ name: "shape" {shape} }} {values} }}'.encode()


ARRAYS = {
    "unpacked": fill("w", X),
    "packed": fill("w", X, packed=True),
    "runs": given([3, 4], field(5, X[0].tobytes()), *(field(5, x) for x in X.reshape(-1)[4:])),
    "keys of more than a byte": given([3, 4], *(b"\xad\x00" + struct.pack("<f", x) for x in X.reshape(-1))),
    "text": text(
        f'arg {{ name: "values" {" ".join(f"floats: {x!r}" for x in X.reshape(-1).tolist())} }}',
        shape="ints: [3, 4]",
    ),
}


@pytest.mark.parametrize("form", list(ARRAYS))
def test_values_of_every_form(tmp_path, form):
    np.testing.assert_array_equal(result(tmp_path, ARRAYS[form]).numpy(), X)


def test_values_stay_in_the_file(tmp_path):
    assert isinstance(result(tmp_path, ARRAYS["packed"]), ir.MappedData)
    assert not isinstance(result(tmp_path, ARRAYS["unpacked"]), ir.ArrayData)


def test_values_are_written_as_they_are_read(tmp_path):
    array = np.arange(1 << 17, dtype=np.float32).reshape(2, -1)
    data = result(tmp_path, fill("w", array)).reshape([1 << 17])
    with open(tmp_path / "out", "wb") as file:
        data.write_to(file)
    assert (tmp_path / "out").read_bytes() == array.tobytes()
    np.testing.assert_array_equal(data.numpy(), array.reshape(-1))


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64, np.bool_, np.uint8])
def test_fills_of_every_type(tmp_path, dtype):
    array = (np.arange(-3, 3).reshape(2, 3) % 200).astype(dtype)
    found = result(tmp_path, fill("w", array)).numpy()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"shape": [2], "value": 1.5}, np.full(2, 1.5, np.float32)),
        ({"shape": [2]}, np.zeros(2, np.float32)),
        ({"value": 7}, np.int64(7)),
        ({"shape": [1, 2], "value": 7, "dtype": 2}, np.full((1, 2), 7, np.int32)),
        ({"shape": [2], "value": 1, "dtype": 5}, np.ones(2, np.bool_)),
    ],
)
def test_constants(tmp_path, args, expected):
    found = result(tmp_path, operator("ConstantFill", [], ["w"], **args)).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_quantized_weights_keep_their_integers(tmp_path):
    builder = TinyNet()
    builder.init(
        "Int8GivenTensorFill", ["w"], shape=[4], values=bytes([0, 3, 200, 9]), Y_scale=0.5, Y_zero_point=3
    )
    builder.op("Int8Dequantize", ["w"], ["f"])
    builder.op("Add", ["data", "f"], ["y"])
    got = builder.run(tmp_path, {"data": np.ones((1, 4), np.float32)})["y"]
    np.testing.assert_allclose(got, [[-0.5, 1, 99.5, 4]])


def test_values_of_arguments(tmp_path):
    values = {
        "f": 0.5,
        "i": -3,
        "s": "text",
        "floats": [0.5, 2.0],
        "ints": [1, -2],
        "strings": ["a", "b"],
        "none": [],
    }
    path = tmp_path / "n.pb"
    path.write_bytes(net([operator("X", ["a"], ["b"], **values)]))
    net_op = read_net(path).ops[0]
    assert {name: each.value() for name, each in net_op.args.items()} == values
    path.write_text(
        'name: "n"  # a comment\nop {\n input: "a" output: "b" type: "X" engine: "CUDNN" '
        'device_option { device_type: 1 }\n arg { name: "f" f: 0.5 } arg { name: "i" i: -3 }, '
        'arg { name: "s" s: "te" "xt" } arg < name: "floats" floats: [0.5, 2] >; arg { name: "ints" ints: 1 '
        'ints: -2 } arg { name: "strings" strings: "a" strings: "b" } arg { name: "none" } }\n'
    )
    net_op = read_net(path).ops[0]
    assert {name: each.value() for name, each in net_op.args.items()} == values
    assert net_op.line == 2


def test_a_text_is_converted(tmp_path):
    predict, init = tmp_path / "p.pbtxt", tmp_path / "i.pbtxt"
    predict.write_text('op { input: "data" input: "w" output: "y" type: "Add" }')
    init.write_bytes(ARRAYS["text"])
    model = xdlc.convert(predict, {"data": [3, 4]}, weights=init)
    np.testing.assert_array_equal(xdlc.run(model, {"data": X})["y"], X * 2)
    predict.write_text(r'op { input: "data" output: "\377" type: "Relu" }')
    assert xdlc.convert(predict, {"data": [3, 4]}).main.outputs[0].name == r"\xff"
    predict.write_text('name: "n"\nop {\n input: "data" output: "y" type: "Odd" }')
    with pytest.raises(UnsupportedOp) as caught:
        xdlc.convert(predict, {"data": [3, 4]})
    assert "operator 'y' (Odd, line 2)" in str(caught.value.where)


def nested(depth):
    inner = net([operator("Relu", ["data"], ["y"])])
    for _ in range(depth):
        inner = Net(field(2, field(4, "X") + field(5, field(8, inner))))
    return inner


RELU = operator("Relu", ["data"], ["y"])
FILL = operator("Mul", ["data", "w"], ["y"])
UNTRUSTED = {
    "nested nets": ([net([operator("X", ["data"], ["y"], n=nested(2000))])], "no mapping"),
    "a net of no use": (
        [net([operator("Relu", ["data"], ["y"], n=nested(1))])],
        "attribute n is not supported",
    ),
    "a number of no bytes": (
        [net([operator("X", ["data"], ["y"]) + field(5, field(1, "f") + field(2, b""))])],
        "no mapping",
    ),
    "a tensor": (
        [net([operator("Relu", ["data"], ["y"]) + field(5, field(1, "t") + field(10, b""))])],
        "tensor",
    ),
    "nested text": ([b"op { arg { n { " * 2000], "nest"),
    "a text that breaks off": ([b'op { type: "Relu" '], "line 1"),
    "text of another type": ([b"op { type: Relu }"], "'type'"),
    "a text with a field of none": ([b'op { type: "Relu"\ninputs: "data" }'], "line 1: field 'inputs'"),
    "a text with a long name": ([b'op { input: "' + b"x" * 5000 + b'" }'], "'input'"),
    "truncated": ([net([RELU])[:-4]], "truncated"),
    "a wrong wire type": ([field(2, field(4, 3))], "wire type"),
    "no operators": ([field(1, "n")], "no operators"),
    "long names": ([net([operator("Relu", ["x" * 5000], ["y"])])], "5000 bytes"),
    "another format": ([b"PK\x03\x04" + bytes(40)], "zip"),
    "values that disagree": ([net([FILL]), net([given([5], field(5, 1.0))])], "1 values for shape [5]"),
    "huge": ([net([FILL]), net([given([1 << 40] * 3)])], "invalid shape"),
    "negative": ([net([FILL]), net([given([-1], field(5, 1.0))])], "invalid shape"),
    "a huge constant": (
        [net([FILL]), net([operator("ConstantFill", [], ["w"], shape=[1 << 30])])],
        "constants are too large",
    ),
    "many dimensions": ([net([FILL]), net([operator("ConstantFill", [], ["w"], shape=[1] * 99)])], "shape"),
    "a constant out of range": (
        [net([FILL]), net([operator("ConstantFill", [], ["w"], value=256, dtype=6)])],
        "not a number of type uint8",
    ),
    "values of another wire type": ([net([FILL]), net([given([1], field(5, 3))])], "wire type"),
    "parts of a float": ([net([FILL]), net([given([1], field(5, b"abc"))])], "wire type"),
    "no values": ([net([FILL]), net([operator("GivenTensorFill", [], ["w"])])], "no argument"),
    "out of range": (
        [net([FILL]), net([given([1], field(6, 1 << 40), type="GivenTensorIntFill")])],
        "out of the range",
    ),
    "no number": ([net([FILL]), net([operator("ConstantFill", [], ["w"], value="a")])], "not a number"),
    "an unknown type": ([net([FILL]), net([operator("ConstantFill", [], ["w"], dtype=99)])], "data type 99"),
}


@pytest.mark.parametrize("case", list(UNTRUSTED))
def test_untrusted_input(tmp_path, case):
    files, words = UNTRUSTED[case]
    paths = [tmp_path / name for name in ("p.pb", "i.pb")]
    for path, content in zip(paths, files, strict=False):
        path.write_bytes(content)
    weights = paths[1] if len(files) > 1 else None
    with pytest.raises(XdlcError) as caught:
        xdlc.convert(paths[0], {"data": [1]}, weights=weights, framework="caffe2")
    assert words in str(caught.value)
    assert isinstance(caught.value, (ModelError, UnsupportedOp))
    assert caught.value.fix
