"""Damaged and hostile ``.pt2`` files: a clear error, and no code is run."""

import json
import pickle
import struct
import time
import zipfile

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram, archive
from xdlc.converter.pytorch import exported
from xdlc.converter.pytorch.symbols import evaluate
from xdlc.errors import ModelError, UnsupportedOp, XdlcError


def small(**meta):
    """Return a program that adds a weight, whose configuration has other fields."""
    made = TinyProgram()
    x = made.input("x", (2, 3))
    made.op("add.Tensor", x, made.weight("w", np.float32([1, 2, 3]), **meta))
    return made


def records(folder, made=None):
    path = (made or small()).write(folder)
    with zipfile.ZipFile(path) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


class Runs:
    """A pickle that runs code where it is read."""

    def __reduce__(self):
        return pytest.fail, ("code of the file was executed",)


@pytest.mark.parametrize(
    "meta",
    [
        {"sizes": [1 << 40], "strides": [0]},
        {"sizes": [1 << 31, 1 << 31], "strides": [0, 0]},
        {"sizes": [0, 1 << 62], "strides": [1, 1]},
        {"sizes": [1 << 62, 4], "strides": [1 << 62, 1]},
        {"sizes": [-1], "strides": [1]},
        {"sizes": [3], "strides": [-1]},
        {"sizes": [3], "strides": [1, 1]},
        {"sizes": [3], "strides": [1], "storage_offset": 1},
        {"sizes": [3], "strides": [1], "storage_offset": 1 << 62},
        {"sizes": [4], "strides": [1]},
    ],
)
def test_tensors_outside_their_storage(tmp_path, meta):
    with pytest.raises(ModelError):
        small(**meta).convert(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"nul",
        b"9" * 10000,
        b"[" * 200000,
        b'{"a":' * 200000,
        b"[" + b"[]," * (1 << 22) + b"0]",
        b"[" + b"{}," * (1 << 21) + b"0]",
        b'{"schema_version": {"major": 8, "minor": 1}}',
        b'{"schema_version": {"major": 5, "minor": 3}}',
    ],
    ids=range(11),
)
@pytest.mark.parametrize("record", ["models/model.json", "data/weights/model_weights_config.json"])
def test_text_that_is_no_program(tmp_path, text, record):
    content = records(tmp_path)
    path = archive(tmp_path / "net.pt2", content | {record: text})
    begin = time.process_time()
    with pytest.raises(ModelError):
        xdlc.convert(path)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("record", ["data/sample_inputs/model.pt", "data/weights/model.pt", "extra/a"])
def test_pickles_do_not_run(tmp_path, record):
    path = archive(tmp_path / "net.pt2", records(tmp_path) | {record: pickle.dumps(Runs())})
    try:
        xdlc.convert(path)
    except ModelError:
        assert "weights" in record


def test_pickled_weights_are_refused(tmp_path):
    content = records(tmp_path)
    name = "data/weights/model_weights_config.json"
    content[name] = content[name].replace(b'"use_pickle": false', b'"use_pickle": true')
    content["data/weights/weight_0"] = pickle.dumps(Runs())
    with pytest.raises(UnsupportedOp) as caught:
        xdlc.convert(archive(tmp_path / "net.pt2", content))
    assert "'w'" in caught.value.where


def overlong(data):
    """Return an archive whose directory claims millions of records."""
    entry = b"PK\x01\x02" + bytes(42)
    size = 46 << 18
    return data[:4000] + entry * (1 << 18) + b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 9, 9, size, 4000, 0)


def entry_of(data, record):
    """Return the first byte of the directory's entry of a record."""
    return data.rindex(b"PK\x01\x02", 0, data.rindex(record))


def outside(data):
    """Return an archive with a record that begins after its end."""
    at = entry_of(data, b"weight_0")
    return data[: at + 42] + struct.pack("<L", 1 << 31) + data[at + 46 :]


def longer(data):
    """Return an archive with a record that is longer than the file."""
    at = entry_of(data, b"weight_0")
    return data[: at + 20] + struct.pack("<2L", 1 << 31, 1 << 31) + data[at + 28 :]


def overlapping(data):
    """Return an archive whose first record is all of the file."""
    at = data.index(b"PK\x01\x02")
    return data[: at + 20] + struct.pack("<2L", len(data) - 99, len(data) - 99) + data[at + 28 :]


def compressed(data):
    """Return an archive with a record that claims to be compressed."""
    at = entry_of(data, b"_weights_config.json")
    return data[: at + 10] + struct.pack("<H", 8) + data[at + 12 :]


@pytest.mark.parametrize(
    "change",
    [
        overlong,
        outside,
        longer,
        overlapping,
        compressed,
        lambda data: data[:-8],
        lambda data: data[: len(data) // 2],
    ],
)
def test_damaged_archives(tmp_path, change):
    path = small().write(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ModelError):
        xdlc.convert(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_records_of_a_name(tmp_path):
    path = small().write(tmp_path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("net/models/model.json", "{}")
    with pytest.raises(ModelError):
        xdlc.convert(path)


def edited(folder, place, value):
    """Return the path of a program with another value at a place of its JSON."""
    content = records(folder)
    document = json.loads(content["models/model.json"])
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    content["models/model.json"] = json.dumps(document).encode()
    return archive(folder / "net.pt2", content)


GRAPH = ("graph_module", "graph")
NODE = (*GRAPH, "nodes", 0)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((*NODE, "outputs", 0, "as_tensor", "name"), "x"),
        ((*NODE, "outputs"), [{}]),
        ((*NODE, "inputs", 0, "arg", "as_tensor", "name"), "add"),
        ((*NODE, "inputs", 0, "arg", "as_tensor", "name"), "nothing"),
        ((*NODE, "inputs", 0, "arg"), {"as_custom_obj": {"name": "a", "class_fqn": "b"}}),
        ((*NODE, "inputs", 0, "arg"), {"as_int": 1.5}),
        ((*NODE, "inputs", 0, "arg"), {"as_ints": [True]}),
        ((*NODE, "inputs", 0, "arg"), {"as_new": 1}),
        ((*NODE, "target"), 7),
        ((*NODE, "target"), "torch.ops.aten.add_out.Tensor"),
        ((*GRAPH, "outputs"), []),
        ((*GRAPH, "tensor_values"), {}),
        ((*GRAPH, "tensor_values", "x", "sizes", 0), {"as_int": -1}),
        ((*GRAPH, "tensor_values", "x", "sizes", 0), {"as_int": 1 << 62}),
        ((*GRAPH, "tensor_values", "x", "sizes", 0), {"as_expr": {"expr_str": "9**9**9**9"}}),
        ((*GRAPH, "tensor_values", "x", "dtype"), 99),
        (("graph_module", "signature", "input_specs"), [{}]),
        (("graph_module", "signature", "input_specs", 0), {"custom_obj": {}}),
        (("graph_module", "signature", "output_specs", 0), {"loss_output": {"arg": {"name": "add"}}}),
    ],
)
def test_contradictory_programs(tmp_path, place, value):
    path = edited(tmp_path, place, value)
    with pytest.raises(XdlcError):
        xdlc.convert(path)


def chain(count):
    """Return a program of calls one after the other."""
    made = TinyProgram()
    value = made.input("x", (2, 3))
    for _ in range(count):
        value = made.op("relu", value)
    return made


def nested(depth):
    """Return nested branches, the innermost with an operator without a mapping."""
    builder = TinyProgram()
    x, test = builder.input(f"x{depth}", (2, 3)), builder.input(f"test{depth}", (), "bool")
    if depth:
        graphs = [nested(depth - 1), nested(depth - 1)]
        builder.op("higher_order.cond", test, *graphs, [x, test], results=[((2, 3), "float32")], listed=True)
    else:
        builder.op("foo.bar.default", x)
    return builder


@pytest.mark.parametrize(
    ("program", "word"),
    [
        (lambda: chain(900), "900 calls"),
        (lambda: nested(6), "900 calls"),
        (lambda: nested(9), "deep"),
        (lambda: nested(4), "foo::bar"),
    ],
)
def test_programs_that_are_too_large(tmp_path, monkeypatch, program, word):
    monkeypatch.setattr(exported, "_MOST_CALLS", 900)
    begin = time.process_time()
    with pytest.raises(UnsupportedOp, match=word):
        program().convert(tmp_path)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    "text",
    [
        "'a' * 10000000000",
        "Mul('a', 10000000000)",
        "9**9**9",
        "Pow(Pow(2, 61), 64)",
        "(" * 4000,
        "-" * 4000 + "1",
        "1" * 5000,
        "__import__('os').getcwd()",
        "Symbol(3)",
        "Max()",
        "Float()",
        "1 << 99",
        "1 if 1 else 2",
        "lambda: 1",
        "1e999 - 1e999 + Rational(1, 0)",
    ],
)
def test_expressions_are_not_evaluated_by_python(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the reader makes an error of the file of it
        evaluate(text, {})


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["data.pkl", "data/0"], "checkpoint"),
        (["data.pkl", "bytecode.pkl"], "lite interpreter"),
        (["archive_format", "data/aotinductor/model/a.so"], "AOTInductor"),
        (["archive_format", "models/a.json", "models/b.json"], "2 programs"),
    ],
)
def test_archives_without_a_program_name_what_they_are(tmp_path, names, word):
    path = archive(tmp_path / "net.pt2", dict.fromkeys(names, b"content"))
    with pytest.raises(ModelError, match=word):
        xdlc.convert(path, framework="pytorch")


def test_a_product_without_an_axis_of_three(tmp_path):
    made = TinyProgram()
    x = made.input("x", (2, 2))
    made.op("cross", x, x)
    with pytest.raises(ModelError, match="do not fit"):
        made.convert(tmp_path)
