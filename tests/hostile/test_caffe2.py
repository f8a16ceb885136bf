"""Hostile Caffe2 nets: refused or converted, with bounded resources."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.converter.caffe2.nets import argument, field, fill, net, operator
from tests.hostile.confined import SECONDS, Server, convert_harmless, harmless
from tests.support.protobuf import varint
from xdlc.errors import XdlcError

MILLION = 1_000_000
BIG = (1 << 63) - 1
RELU = operator("Relu", ["data"], ["y"])
W, B = np.ones((2, 3, 3, 3), np.float32), np.ones(2, np.float32)
CONVOLUTION = net([operator("Conv", ["data", "w", "b"], ["y"], kernel=3)], ["data"], ["y"])
WEIGHTS = net([fill("w", W), fill("b", B)], name="init")


def chain(type: str, count: int) -> bytes:
    """Return a net that overwrites its input many times."""
    return net([*[operator(type, ["data"], ["data"])] * count, RELU], ["data"], ["y"])


def nested(depth: int) -> bytes:
    """Return a net that runs a net that runs a net."""
    inner = net([RELU], ["data"], ["y"])
    for _ in range(depth):
        inner = net([operator("If", ["data"], ["y"], then_net=inner)], ["data"], ["y"])
    return inner


def ends(count: int) -> list[str]:
    return [f"o{index}" for index in range(count)]


HUGE: dict[str, Callable[[], bytes]] = {
    "messages without an end": lambda: b"op {" * MILLION,
    "string of 20 MB": lambda: b'op { type: "Relu" arg { s: "' + b"x" * 20 * MILLION + b'" } }',
    "too many operators": lambda: field(2, b"") * 140_000,
    "a chain of operators": lambda: chain("Sigmoid", 15_000),
    "a chain of clamps": lambda: chain("Relu", 3_000),
    "operators without a mapping": lambda: chain("T", 3_000),
    "names that nothing makes": lambda: net([operator("Relu", [name], [f"{name}y"]) for name in ends(9_000)]),
    "outputs that nothing makes": lambda: net([RELU], ["data"], ["y", *ends(50_000)]),
    "inputs that nothing reads": lambda: net([RELU], ["data", *ends(9_000)], ["y"]),
    "an operator of many inputs": lambda: net([RELU, operator("Relu", ["y"] * 50_000, ["z"])], ["data"]),
    "an operator of many outputs": lambda: net([RELU, operator("Split", ["y"], ends(3_000))], ["data"]),
    "many arguments": lambda: net([operator("Relu", ["data"], ["y"], **dict.fromkeys(ends(9_000), 1))]),
    "integers without an end": lambda: net([operator("Reshape", ["data"], ["y"], shape=[1] * 50_000)]),
}
"""Predict nets that want much time or memory."""

BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "zeros": bytes(999),
    "ones": b"\xff" * 999,
    "a field of text that is a number": b"op { type: 1 }",
    "an operator that is a number": b'op: 1 op { type: "Relu" }',
    "nets 20 deep": nested(20),
    "nets 2,000 deep": nested(2_000),
    "name of 1 MB": net([operator("Relu", ["data"], ["y"], name="x" * MILLION)], ["data"], ["y"]),
    "type of 1 MB": net([RELU, operator("x" * MILLION, ["y"], ["z"])], ["data"], ["z"]),
    "an operator without inputs": net([operator("Relu", [], ["y"])], ["data"], ["y"]),
    "an operator without outputs": net([operator("Relu", ["data"], [])], ["data"], ["y"]),
    "names without letters": net([operator("Relu", [""], [""])], [""], [""]),
    "names of paths and marks": net([operator("Relu", ["data"], ["../\0\n"])], ["data"], ["../\0\n"]),
    "names that are no UTF-8": net([field(1, "data") + field(2, b"\xff") + field(4, "Relu")], ["data"]),
    **{f"first {size} bytes": CONVOLUTION[:size] for size in range(1, 48, 7)},
}
"""Predict nets."""


def filled(type: str, *args: bytes) -> bytes:
    """Return an init net that fills ``b`` well, and ``w`` by these arguments."""
    made = field(2, "w") + field(4, type) + b"".join(field(5, one) for one in args)
    return net([fill("b", B), made], name="init")


SHAPE, VALUES = argument("shape", [2, 3, 3, 3]), argument("values", W)
FILLS: dict[str, bytes] = {
    "2**80 elements": filled("GivenTensorFill", argument("shape", [1 << 40, 1 << 40]), VALUES),
    "-1 elements": filled("GivenTensorFill", argument("shape", [-1]), VALUES),
    "too few values": filled("GivenTensorFill", argument("shape", [2, 3, 3, 4]), VALUES),
    "too many dimensions": filled("GivenTensorFill", argument("shape", [1] * 99), VALUES),
    "a shape of text": filled("GivenTensorFill", argument("shape", "x"), VALUES),
    "no values": filled("GivenTensorFill", SHAPE),
    "values that are a net": filled("GivenTensorFill", SHAPE, argument("values", net([RELU]))),
    "values in parts": filled("GivenTensorFill", SHAPE, field(1, "values") + field(5, bytes(4)) * 60_000),
    "half a value": filled("GivenTensorFill", SHAPE, field(1, "values") + field(5, bytes(215))),
    "bytes": filled("GivenTensorByteStringToUInt8Fill", SHAPE, argument("values", b"x" * 53)),
    "text": filled("GivenTensorStringFill", SHAPE, argument("values", ["x"])),
    "large integers": filled("GivenTensorIntFill", SHAPE, argument("values", [1 << 62])),
    "packed integers": filled(
        "GivenTensorInt64Fill", SHAPE, field(1, "values") + field(6, b"\1" * 2 * MILLION)
    ),
    "one number of 4 TB": filled("ConstantFill", argument("shape", [1 << 20, 1 << 20])),
    "one number that is text": filled("ConstantFill", SHAPE, argument("value", "x")),
    "an unknown type": filled("ConstantFill", SHAPE, argument("dtype", 99)),
    "a scale that is NaN": filled("Int8GivenTensorFill", SHAPE, argument("Y_scale", float("nan"))),
    **{f"first {size} bytes": WEIGHTS[:size] for size in range(4, len(WEIGHTS), 61)},
}
"""Init nets."""

ARGUMENTS = """
ArgMax axis; AveragePool kernel pad stride; BatchToSpace block_size; ChannelShuffle group; Clip min max
Concat axis; ConstantFill shape; Conv kernel; ExpandDims dims; Flatten axis; LRN size; LpPool kernel p
MaxPool kernels; PadImage pad pads; ReduceBackSum num_reduce_dim; ReduceMean axes; Reshape shape
ResizeNearest width_scale; Slice starts ends; Softmax axis; SpaceToBatch block_size pad; Split axis split
Squeeze dims; Tile tiles axis; TopK k; Transpose axes; UpsampleNearest scale; Int8Quantize Y_scale
"""
"""Operators, and arguments that may be huge."""


@pytest.mark.parametrize("name", list(HUGE))
def test_a_net_that_wants_much_does_no_harm(server: Server, tmp_path: Path, name: str) -> None:
    path = tmp_path / "predict_net.pb"
    path.write_bytes(HUGE[name]())
    end = server.call("xconv-caffe2-to-dlc", "-p", path, "-d", "data", "1,3,8,8", "-o", tmp_path / "a.dlc")
    assert len(harmless(end).errors) < 200_000
    assert end.status == 0 or "error[" in end.errors


def convert(folder: Path, predict: bytes, init: bytes = WEIGHTS) -> str:
    (folder / "p.pb").write_bytes(predict)
    (folder / "i.pb").write_bytes(init)
    options = {"weights": folder / "i.pb", "input_dims": {"data": (1, 3, 8, 8)}}
    return convert_harmless(folder / "p.pb", folder / "net.dlc", **options)


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_net_does_no_harm(tmp_path: Path, name: str) -> None:
    assert convert(tmp_path, BROKEN[name]) or name.startswith("names ")


@pytest.mark.parametrize("name", list(FILLS))
def test_a_broken_init_net_is_refused(tmp_path: Path, name: str) -> None:
    assert convert(tmp_path, CONVOLUTION, FILLS[name])


def test_huge_arguments_do_no_harm(tmp_path: Path) -> None:
    for entry in ARGUMENTS.strip().replace("\n", ";").split(";"):
        type, *names = entry.split()
        for value in (BIG, 10**9, [10**9] * 4, [0] * 9_999, float("nan"), "x"):
            made = operator(type, ["data"], ["y"], **dict.fromkeys(names, value))
            convert(tmp_path, net([made], ["data"], ["y"]))


def test_large_weights_stay_in_their_file(server: Server, tmp_path: Path) -> None:
    count, nbytes = 2048 * 256 * 64, 2048 * 256 * 64 * 4
    predict, init, target = tmp_path / "p.pb", tmp_path / "i.pb", tmp_path / "net.dlc"
    ops = [operator("MaxPool", ["data"], ["p"], kernel=1), operator("FC", ["p", "w", "b"], ["y"])]
    predict.write_bytes(net(ops, ["data", "w", "b"], ["y"]))
    shape = field(5, argument("shape", [2048, count // 2048]))
    values = field(1, "values") + b"\x2a" + varint(nbytes)
    head = (
        field(2, "w") + field(4, "GivenTensorFill") + shape + b"\x2a" + varint(len(values) + nbytes) + values
    )
    with init.open("wb") as file:
        file.write(net([fill("b", np.ones(2048, np.float32))]) + b"\x12" + varint(len(head) + nbytes) + head)
        file.truncate(file.tell() + nbytes)
    options = ("-p", predict, "-e", init, "-d", "data", "1,256,8,8")
    end = server.call("xconv-caffe2-to-dlc", *options, "-o", target)
    assert end.status == 0, end
    assert target.stat().st_size > nbytes
    assert end.megabytes < nbytes / 1e6, end


def test_a_stand_in_of_many_dimensions_states_no_shape(tmp_path: Path) -> None:
    shape = field(5, field(1, "shape") + field(6, varint(1 << 30) * 200_000))
    (tmp_path / "p.pb").write_bytes(net([RELU], ["data"], ["y"]))
    (tmp_path / "i.pb").write_bytes(net([field(2, "data") + field(4, "ConstantFill") + shape]))
    start = time.process_time()
    with pytest.raises(XdlcError, match="input 'data' is missing"):
        xdlc.convert(tmp_path / "p.pb", weights=tmp_path / "i.pb")
    assert time.process_time() - start < SECONDS
