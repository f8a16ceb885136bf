"""Tests of programs of torch.export: values, weights, names."""

import json
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.converter.pytorch.pickles import pickled, tensor
from tests.converter.pytorch.programs import TinyProgram, archive
from xdlc.cli.tools import udo_config
from xdlc.errors import UnsupportedOp

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def leaf():
    return {"type": None, "context": None, "children_spec": []}


def holder(kind, keys, *children):
    return {"type": kind, "context": json.dumps(keys), "children_spec": list(children)}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (holder("builtins.tuple", None, *[leaf()] * 4), ["output_0", "output_1", "output_2", "output_3"]),
        (
            holder(
                "builtins.dict",
                ["logits", "past", "two words"],
                leaf(),
                holder("builtins.list", None, leaf(), leaf()),
                leaf(),
            ),
            ["logits", "past_0", "past_1", "two_words"],
        ),
        (
            holder(
                "builtins.tuple",
                None,
                holder("a.Output", ["a", "b"], leaf(), leaf()),
                holder("collections.namedtuple", "NT", leaf(), leaf()),
            ),
            ["output_0_a", "output_0_b", "output_1_mean", "output_1_scale"],
        ),
        (holder("builtins.dict", ["x", "x", 1, 2], *[leaf()] * 4), ["x_1", "x_2", "output_2", "output_3"]),
        (leaf(), ["output_0", "output_1", "output_2", "output_3"]),
        ("[", ["output_0", "output_1", "output_2", "output_3"]),
    ],
)
def test_outputs_have_the_names_of_the_returned_containers(tmp_path, spec, names):
    builder = TinyProgram()
    x = builder.input("x", (2, 3))
    y = builder.op("neg", x)
    builder.calls = [{"fqn": "", "signature": {"out_spec": json.dumps([1, spec])}}]
    builder.fields = {"NT": {"field_names": ["mean", "scale"]}}
    model = builder.convert(tmp_path, [y, y, x, 2.5])
    assert [tensor.name for tensor in model.main.outputs] == names
    got = list(xdlc.run(model, {"x": X}).values())
    for found, wanted in zip(got, [-X, -X, X, np.float32(2.5)], strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == np.float32


def test_outputs_that_are_no_tensors_are_named_in_notices(tmp_path):
    made = TinyProgram()
    y = made.op("neg", made.input("x", (2, 3)))
    notices = []
    model = made.convert(tmp_path, [None, y, "text"], notify=notices.append)
    assert [tensor.name for tensor in model.main.outputs] == ["output_1"]
    assert ["'output_0'" in notices[0], "'output_2'" in notices[1]] == [True, True]


def test_tensors_that_are_the_same_elements_are_one(tmp_path):
    builder = TinyProgram()
    x = builder.input("x", (2, 3))
    table = np.float32([1, 2, 3, 4, 5, 6])
    first = builder.weight("emb.weight", table[:3])
    tied = builder.weight("head.weight", table[:3], of="emb.weight")
    y = builder.op("maximum", builder.op("minimum", x, first), tied)
    model = builder.convert(tmp_path)
    assert "emb.weight" in model.main.tensors
    assert "head.weight" not in model.main.tensors
    assert "head.weight" in model.metadata["tensors"]["main"]["emb.weight"]
    np.testing.assert_allclose(xdlc.run(model, {"x": X})["output_0"], table[None, :3] + 0 * X)
    assert y in model.metadata["tensors"]["main"]["output_0"]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(3, 2).T,
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, 1::2],
        np.broadcast_to(np.arange(3, dtype=np.float32), (2, 3)),
        np.arange(6, dtype=np.float64).reshape(2, 3),
    ],
)
def test_weights_of_any_strides(tmp_path, array):
    made = TinyProgram()
    made.op("add.Tensor", made.input("x", (2, 3)), made.weight("w", array))
    np.testing.assert_allclose(xdlc.run(made.convert(tmp_path), {"x": X})["output_0"], X + array)


def counter(written):
    """Return a program that adds its input to a buffer."""
    builder = TinyProgram()
    x = builder.input("x", (3,))
    total = builder.weight("total", np.float32([1, 2, 3]), "buffer")
    if written == "in place":
        builder.op("add_.Tensor", total, x)
        ends = [builder.op("neg", total)]
    else:
        after = builder.op("add.Tensor", total, x)
        ends = [builder.op("neg", after)]
        builder.output_specs = [{"buffer_mutation": {"arg": {"name": after}, "buffer_name": "total"}}]
    return builder, ends


@pytest.mark.parametrize("written", ["in place", "stated"])
def test_a_changed_buffer_is_state(tmp_path, written):
    builder, ends = counter(written)
    notices = []
    model = builder.convert(tmp_path, ends, notify=notices.append)
    assert model.metadata["states"] == {"total": {"output": "total_next", "initial": [1, 2, 3]}}
    assert any("'total_next'" in notice for notice in notices)
    state = np.float32([1, 2, 3])
    for _ in range(3):
        got = xdlc.run(model, {"x": X[1], "total": state})
        np.testing.assert_allclose(got["output_0"], -(state + X[1]))
        state = got["total_next"]
    frozen = builder.convert(tmp_path, ends, importer_options={"state": "frozen"}, notify=notices.append)
    assert [tensor.name for tensor in (*frozen.main.inputs, *frozen.main.outputs)] == ["x", "output_0"]
    assert "total keep" in notices[-1]
    np.testing.assert_allclose(xdlc.run(frozen, {"x": X[1]})["output_0"], -([1, 2, 3] + X[1]), rtol=1e-6)


def test_programs_of_training_are_refused(tmp_path):
    made = TinyProgram()
    count = made.weight("bn.num_batches_tracked", np.int64(0), "buffer")
    made.op("add_.Tensor", count, 1)
    with pytest.raises(UnsupportedOp) as caught:
        made.convert(tmp_path, [made.op("neg", made.input("x", (2, 3)))])
    assert "model.eval()" in caught.value.fix


def test_arguments_that_are_numbers(tmp_path):
    builder = TinyProgram({"s0": 5})
    x = builder.input("x", (2, 3))
    n = builder.number("n", "s0")
    builder.specs.append({"constant_input": {"name": "mask", "value": {"as_none": True}}})
    builder.op("mul.Tensor", x, n)
    notices = []
    got = xdlc.run(builder.convert(tmp_path, notify=notices.append), {"x": X})["output_0"]
    np.testing.assert_allclose(got, 5 * X)
    assert [repr(name) in text for name, text in zip(["mask", "n"], notices, strict=False)] == [True, True]
    model = builder.convert(tmp_path, define_symbol={"n": 7})
    np.testing.assert_allclose(xdlc.run(model, {"x": X})["output_0"], 7 * X)


def test_float64_is_float32_where_it_fits(tmp_path):
    made = TinyProgram()
    x = made.input("x", (2, 3), "float64")
    made.op("mul.Tensor", x, made.weight("w", np.float64([1, 2, np.inf])))
    notices = []
    model = made.convert(tmp_path, notify=notices.append)
    assert model.main.inputs[0].dtype == xdlc.ir.dtype.FLOAT32
    assert "'x'" in notices[0]
    wide = TinyProgram()
    wide.op("mul.Tensor", wide.input("x", (2, 3)), wide.weight("w", np.float64([1, 2, 1e300])))
    with pytest.raises(UnsupportedOp) as caught:
        xdlc.run(wide.convert(tmp_path), {"x": X})
    assert "'w'" in caught.value.where


@pytest.mark.parametrize("place", ["input", "output"])
def test_complex_inputs_and_outputs_are_refused(tmp_path, place):
    builder = TinyProgram()
    x = builder.input("x", (2, 2), "complex64" if place == "input" else "float32")
    kinds = (
        ("view_as_real", (2, 2, 2), "float32") if place == "input" else ("view_as_complex", (2,), "complex64")
    )
    builder.op(kinds[0], x, shape=kinds[1], dtype=kinds[2])
    with pytest.raises(UnsupportedOp) as caught:
        builder.convert(tmp_path)
    assert place in str(caught.value)


def test_stored_tensors_that_nothing_reads_are_no_problem(tmp_path):
    made = TinyProgram()
    made.weight("unread", np.zeros(3, np.complex64), "buffer")
    made.op("neg", made.input("x", (2, 3)))
    made.convert(tmp_path)
    read = TinyProgram()
    read.op("add.Tensor", read.input("x", (2, 3)), read.weight("w", np.zeros(3, np.complex64)))
    with pytest.raises(UnsupportedOp) as caught:
        read.convert(tmp_path)
    assert "complex64" in caught.value.problem
    assert "'w'" in caught.value.where


@pytest.mark.parametrize(
    ("target", "operator"), [("acme.mix.Tensor", "acme::mix"), ("aten.mix.Tensor", "operator mix")]
)
def test_custom_operators_are_user_defined(tmp_path, target, operator):
    made = TinyProgram()
    x = made.input("x", (2, 3))
    given = [None, [x, made.weight("w", X[0])], [1, 2]]
    ends = made.op(target, x, *given, limit=0.5, results=[((2, 3), "float32"), ((2,), "int32")])
    path = made.write(tmp_path, ends)
    with pytest.raises(UnsupportedOp) as caught:
        xdlc.convert(path)
    assert operator in caught.value.problem
    config = tmp_path / "udo.json"
    drafted = CliRunner().invoke(udo_config.main, ["from-model", str(path), "-o", str(config)])
    assert drafted.exit_code == 0, drafted.output
    (op,) = xdlc.convert(path, udo_config_paths=[config]).main.ops
    assert (op.type, op.package) == ("mix", "MyOps")
    assert [tensor.name for tensor in op.inputs] == ["x", "x", "w"]
    assert [(tensor.name, tensor.shape) for tensor in op.outputs] == [
        ("output_0", (2, 3)),
        ("output_1", (2,)),
    ]
    assert op.param("limit") == 0.5
    np.testing.assert_array_equal(op.param("arg3"), [1, 2])


@pytest.mark.parametrize("layout", ["a folder", "no folder"])
def test_archives_of_older_torch(tmp_path, layout):
    made = TinyProgram()
    x = made.input("x", (2, 3))
    first = made.op("add.Tensor", x, made.weight("w", X[0]))
    made.op("sub.Tensor", first, made.weight("c", 2 * X, "tensor_constant"))
    document = json.dumps(made.document()).encode()
    saved = [saved_tensors(tmp_path, {"w": X[0]}), saved_tensors(tmp_path, {"c": 2 * X})]
    if layout == "a folder":
        names = ["archive_format", "models/model.json", "data/weights/model.pt", "data/constants/model.pt"]
        content = dict(zip(names, [b"pt2", document, *saved], strict=True))
        path = archive(tmp_path / "net.pt2", content)
    else:
        names = ["serialized_exported_program.json", "serialized_state_dict.pt", "serialized_constants.pt"]
        path = tmp_path / "net.pt2"
        with zipfile.ZipFile(path, "w") as file:
            for name, record in zip([*names, "version"], [document, *saved, b"8.2"], strict=True):
                file.writestr(name, record)
    np.testing.assert_allclose(xdlc.run(xdlc.convert(path), {"x": X})["output_0"], X[0] - X, atol=1e-6)


def saved_tensors(folder, tensors):
    """Return what ``torch.save`` makes of a dict of tensors."""
    content = {"data.pkl": pickled({name: tensor(name, array) for name, array in tensors.items()})}
    content |= {f"data/{name}": array.tobytes() for name, array in tensors.items()}
    return archive(folder / "saved.pt", content, "archive").read_bytes()


def test_the_trace_has_modules_and_on_request_lines(tmp_path):
    builder = TinyProgram()
    x = builder.input("x", (2, 3))
    builder.op("neg", builder.op("abs", builder.op("relu", x, module="body.act"), module="body.act@1"))
    for node, place in zip(builder.nodes, ("net.py", "torch/nn/modules/act.py", ""), strict=True):
        trace = f'File "/home/me/net.py", line 7, in forward\n    y\nFile "/lib/{place}", line 9, in f\n    z'
        node["metadata"]["stack_trace"] = trace if place else ""
    plain = builder.convert(tmp_path).metadata["nodes"]
    assert [node[:2] for node in plain] == [
        ["body.act.relu", "relu"],
        ["body.act.abs", "abs"],
        ["neg", "neg"],
    ]
    lines = builder.convert(tmp_path, importer_options={"source_lines": True}).metadata["nodes"]
    assert [node[1] for node in lines] == ["relu (/lib/net.py:9)", "abs (/home/me/net.py:7)", "neg"]
