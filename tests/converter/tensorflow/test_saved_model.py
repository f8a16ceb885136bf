"""SavedModels and graphs beside a checkpoint: signatures, tags, variables."""

import numpy as np
import pytest
from google.protobuf import text_format

import xdlc
from tests.converter.tensorflow.tf_checkpoints import Checkpoint, save, saved_model
from tests.converter.tensorflow.tf_models import FLOAT, Function, Graph, Shape, Type
from xdlc import ir
from xdlc.converter.tensorflow.bundle import Bundle, _signed, _slice_key
from xdlc.converter.tensorflow.messages import message
from xdlc.converter.tensorflow.reader import _load
from xdlc.converter.tensorflow.table import crc32c
from xdlc.errors import ModelError, UnsupportedOp, UsageError

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
W = np.full((2, 3), 0.5, np.float32)
B = np.arange(3, dtype=np.float32)


@pytest.fixture
def functional():
    """A graph as TF2 writes it: a function gets input and variables."""
    graph = Graph().input("serving_default_x", 2, 3)
    for name in ("kernel", "bias"):
        graph.node("VarHandleOp", name, dtype=FLOAT, shape=Shape(W.shape if name == "kernel" else B.shape))
    graph.function(
        "inner",
        ["x", "k", "b"],
        {"out": "add_1:z:0"},
        [
            ("ReadVariableOp", "read", ["k"], {"dtype": FLOAT}),
            ("ReadVariableOp", "read_1", ["b"], {"dtype": FLOAT}),
            ("AddV2", "add", ["x", "read:value:0"], {"T": FLOAT}),
            ("AddV2", "add_1", ["add:z:0", "read_1:value:0"], {"T": FLOAT}),
        ],
    )
    inputs = ["serving_default_x", "kernel", "bias"]
    return graph.node("StatefulPartitionedCall", "call", inputs, f=Function("inner"), Tout=[FLOAT])


@pytest.fixture
def checkpoint():
    found = (
        Checkpoint().add("layer/b/.ATTRIBUTES/VARIABLE_VALUE", B).add("layer/k/.ATTRIBUTES/VARIABLE_VALUE", W)
    )
    return found.add_objects(
        {5: "layer/k/.ATTRIBUTES/VARIABLE_VALUE", 7: "layer/b/.ATTRIBUTES/VARIABLE_VALUE"}
    )


@pytest.fixture
def model(functional):
    return saved_model(functional, {"x": "serving_default_x:0"}, {"y": "call:0"}, bound={"inner": [5, 7]})


@pytest.fixture
def variable():
    """A graph as TF1 writes it: variables, restored by the saver."""
    graph = Graph().input("x", 2, 3).node("VariableV2", "w", dtype=FLOAT, shape=Shape((2, 3)))
    return graph.node("Identity", "w/read", ["w"]).node("AddV2", "y", ["x", "w/read"], T=FLOAT)


def test_inputs_and_outputs_are_named_by_the_keys_of_the_signature(model, checkpoint, tmp_path):
    converted = xdlc.convert(save(model, tmp_path, checkpoint))
    assert [each.name for each in converted.main.inputs] == ["x"]
    assert np.array_equal(xdlc.run(converted, {"x": X})["y"], X + W + B)


def test_a_key_may_be_the_name_of_another_node(variable, tmp_path):
    variable.node("Abs", "in", ["y"]).node("Relu", "end", ["in"])
    model = saved_model(variable, {"in": "x:0"}, {"y": "end:0", "x": "w/read:0"})
    converted = xdlc.convert(save(model, tmp_path, Checkpoint().add("w", W)))
    found = xdlc.run(converted, {"in": X})
    assert np.array_equal(found["y"], np.abs(X + W))
    assert np.array_equal(found["x"], W)


@pytest.mark.parametrize("form", ["folder", "file", "text"])
def test_a_saved_model_is_its_folder_or_the_file_in_it(model, checkpoint, tmp_path, form):
    path = save(model, tmp_path, checkpoint)
    if form == "text":
        (path / "saved_model.pb").unlink()
        (path / "saved_model.pbtxt").write_text(text_format.MessageToString(model))
    converted = xdlc.convert(path / "saved_model.pb" if form == "file" else path)
    assert np.array_equal(xdlc.run(converted, {"x": X})["y"], X + W + B)


def test_an_output_with_the_key_of_an_input(model, checkpoint, tmp_path):
    model.meta_graphs[0].signature_def[0].value.outputs[0].key = b"x"
    path = save(model, tmp_path, checkpoint)
    assert np.array_equal(xdlc.run(xdlc.convert(path), {"x": X})["x:0"], X + W + B)
    chosen = xdlc.convert(path, importer_options={"out_node": ["x"]})
    assert [each.name for each in chosen.main.outputs] == ["x:0"]


def test_values_of_variables_stay_in_the_data_file(model, checkpoint, tmp_path):
    loaded = _load(save(model, tmp_path, checkpoint), None, None, has_outputs=False)
    data = loaded.variables.find("kernel")
    assert isinstance(data, ir.MappedData)
    assert data.location[0].path.name == "variables.data-00000-of-00001"


def test_a_graph_is_chosen_by_its_tags(model, checkpoint, tmp_path):
    other = model.meta_graphs.add()
    other.CopyFrom(model.meta_graphs[0])
    other.meta_info_def.tags[:] = [b"gpu", b"serve"]
    other.graph_def.node[-1].name = b"other"
    path = save(model, tmp_path, checkpoint)
    assert xdlc.run(xdlc.convert(path), {"x": X})["y"].shape == (2, 3)
    with pytest.raises(ModelError, match="'call'"):
        xdlc.convert(path, importer_options={"saved_model_tag": "serve,gpu"})
    with pytest.raises(UsageError, match="'gpu,serve'"):
        xdlc.convert(path, importer_options={"saved_model_tag": "tpu"})


def test_a_signature_is_chosen_by_its_key(model, checkpoint, tmp_path):
    entry = model.meta_graphs[0].signature_def.add()
    entry.CopyFrom(model.meta_graphs[0].signature_def[0])
    entry.key, entry.value.outputs[0].key = b"other", b"z"
    path = save(model, tmp_path, checkpoint)
    chosen = {"saved_model_signature_key": "other"}
    assert list(xdlc.run(xdlc.convert(path, importer_options=chosen), {"x": X})) == ["z"]
    assert list(xdlc.run(xdlc.convert(path), {"x": X})) == ["y"]
    with pytest.raises(UsageError) as caught:
        xdlc.convert(path, importer_options={"saved_model_signature_key": "othr"})
    assert "other" in caught.value.fix


def test_a_model_without_a_signature_is_refused(functional, checkpoint, tmp_path):
    del functional.proto.node[:]
    functional.input("saver_filename", dtype="string")
    model = saved_model(functional, {}, {})
    with pytest.raises(ModelError, match="neither a signature") as caught:
        xdlc.convert(save(model, tmp_path, checkpoint))
    assert "signatures=" in caught.value.fix


def test_a_folder_without_a_saved_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="folder") as caught:
        _load(tmp_path, None, None, has_outputs=False)
    assert "saved_model.pb" in caught.value.fix


def test_a_signature_of_strings_is_refused_and_can_be_cut(model, checkpoint, tmp_path):
    graph = model.meta_graphs[0]
    graph.signature_def[0].value.inputs[0].value.dtype = 7
    path = save(model, tmp_path, checkpoint)
    with pytest.raises(UnsupportedOp, match="strings") as caught:
        xdlc.convert(path)
    assert "out_node" in caught.value.fix
    cut = xdlc.convert(path, {"call/add": [2, 3]}, importer_options={"out_node": ["call"]})
    assert np.array_equal(xdlc.run(cut, {"call/add": X})["call:0"], X + B)


def test_variables_by_the_restoring_nodes_of_the_saver(variable, tmp_path):
    names, parts = (np.zeros(1, np.float32) for _ in range(2))
    variable.const("save/names", names).const("save/parts", parts).node(
        "Placeholder", "prefix", dtype=Type("string")
    )
    for node, values in (
        (variable.proto.node[-3], [b"other/name"]),
        (variable.proto.node[-2], [b"4 3 1,2:0,3"]),
    ):
        tensor = next(entry for entry in node.attr if entry.key == b"value").value.tensor
        tensor.ClearField("tensor_content")
        tensor.dtype, tensor.string_val[:] = 7, values
    variable.node("RestoreV2", "save/restore", ["prefix", "save/names", "save/parts"], dtypes=[FLOAT])
    variable.node("Assign", "save/assign", ["w", "save/restore"])
    model = saved_model(variable, {"x": "x:0"}, {"y": "y:0"})
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    converted = xdlc.convert(save(model, tmp_path, Checkpoint().add("other/name", whole)))
    assert np.array_equal(xdlc.run(converted, {"x": X})["y"], X + whole[1:3])


def test_a_variable_that_was_never_saved_has_its_initial_value(variable, tmp_path):
    variable.const("init", W).node("Assign", "assign", ["w", "init"])
    model = saved_model(variable, {"x": "x:0"}, {"y": "y:0"})
    notices = []
    converted = xdlc.convert(save(model, tmp_path, Checkpoint().add("other", W)), notify=notices.append)
    assert np.array_equal(xdlc.run(converted, {"x": X})["y"], X + W)
    assert any("'w'" in each for each in notices)


@pytest.mark.parametrize("given", [None, Checkpoint()])
def test_a_variable_without_a_value_is_refused(variable, tmp_path, given):
    model = saved_model(variable, {"x": "x:0"}, {"y": "y:0"})
    with pytest.raises(ModelError, match="'w'"):
        xdlc.convert(save(model, tmp_path, given))


def test_a_meta_graph_has_its_checkpoint_beside_it(variable, tmp_path):
    meta = message("MetaGraphDef")
    meta.meta_info_def.stripped_op_list.op.add(name=b"Operator" * 20)
    meta.graph_def.CopyFrom(variable.proto)
    path = tmp_path / "model.ckpt-7.meta"
    path.write_bytes(meta.SerializeToString())
    Checkpoint().add("w", W).save(tmp_path / "model.ckpt-7")
    assert np.array_equal(xdlc.run(xdlc.convert(path), {"x": X})["y:0"], X + W)
    with pytest.raises(UsageError) as caught:
        xdlc.convert(tmp_path / "model.ckpt-7.index", framework="tensorflow")
    assert "model.ckpt-7.meta" in caught.value.fix
    (tmp_path / "model.ckpt-7.index").unlink()
    (tmp_path / "model.ckpt-7").write_bytes(b"table")
    with pytest.raises(ModelError, match="V1 format"):
        xdlc.convert(path)


def test_assignments_as_the_model_runs_are_a_notice(functional, checkpoint, tmp_path):
    body = functional.proto.library.function[0]
    add = body.node_def.add(name=b"update", op=b"AssignAddVariableOp")
    add.input.extend([b"b", b"read:value:0"])
    model = saved_model(functional, {"x": "serving_default_x:0"}, {"y": "call:0"}, bound={"inner": [5, 7]})
    notices = []
    xdlc.convert(save(model, tmp_path, checkpoint), notify=notices.append)
    assert any("bias" in each for each in notices)


def test_the_index_may_be_compressed(tmp_path):
    bundle = Bundle(Checkpoint().add("a", X).add("a/b", W).save(tmp_path / "c", kind=1))
    assert list(bundle.keys) == ["a", "a/b"]
    assert np.array_equal(bundle.data("a").numpy(), X)
    assert np.array_equal(bundle.data("a/b").numpy(), W)


def test_a_partitioned_variable_is_joined(tmp_path):
    whole = np.arange(300 * 4, dtype=np.float32).reshape(300, 4)
    checkpoint = Checkpoint().add("w", np.zeros(0, np.float32), sizes=(300, 4))
    entry = message("BundleEntry")
    entry.ParseFromString(checkpoint.entries[b"w"])
    for start in (0, 100, 200):
        part = entry.slices.add()
        part.sizes.add(start=start, length=100)
        part.sizes.add()
        checkpoint.add(_slice_key("w", part), whole[start : start + 100])
    checkpoint.entries[b"w"] = entry.SerializeToString()
    assert np.array_equal(Bundle(checkpoint.save(tmp_path / "c")).data("w").numpy(), whole)


@pytest.mark.parametrize("size", [9, 1023, 1024, 5001, 70000])
def test_checksums(size):
    data = (bytes(range(49, 58)) * size)[:size]
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    assert crc32c(memoryview(data)) == register ^ 0xFFFFFFFF
    assert crc32c(memoryview(b"123456789")) == 0xE3069283  # RFC 3720


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0, "80"),
        (1, "81"),
        (63, "bf"),
        (64, "c040"),
        (-1, "7f"),
        (-64, "40"),
        (-65, "3fbf"),
        (8191, "dfff"),
        (8192, "e02000"),
    ],
)
def test_numbers_in_the_keys_of_slices(value, code):
    assert _signed(value).hex() == code
