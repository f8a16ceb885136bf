"""Opening ONNX files: what is mapped, what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import xdlc
from xdlc.converter.onnx.reader import LAYOUT, OnnxFile
from xdlc.converter.protobuf_fields import without_blobs
from xdlc.errors import ModelError, UsageError
from xdlc.ir import ArrayData, MappedData


def wide(models, **options):
    weight = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(weight[:64] * 2, "k")),
        helper.make_node("MatMul", ["m", "c"], ["y"]),
    ]
    model = models.make(
        nodes, {"x": [1, 128]}, {"y": [1, 64]}, {"w": weight, "small": np.ones(3, np.float32)}
    )
    return models.save(model, **options), weight


def test_large_weights_stay_in_the_file(models):
    path, weight = wide(models)
    file = OnnxFile(path)
    large, small = (file.data(tensor) for tensor in file.proto.graph.initializer)
    assert isinstance(large, MappedData)
    assert isinstance(small, ArrayData)
    assert np.array_equal(large.numpy(), weight)
    inner = file.data(file.proto.graph.node[1].attribute[0].t)
    assert isinstance(inner, MappedData)
    assert np.array_equal(inner.numpy(), weight[:64] * 2)


def test_scan_leaves_a_valid_smaller_model(models):
    path, _ = wide(models)
    data = path.read_bytes()
    stripped, blobs = without_blobs(memoryview(data), LAYOUT, "m")
    assert len(stripped) < len(data) - 48000
    assert len(blobs.ranges) == 2
    model = onnx.load_model_from_string(stripped)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Constant", "MatMul"]


@pytest.mark.parametrize("cut", [1, 10, 1000, 40000])
def test_truncated_file_is_refused(models, cut):
    path, _ = wide(models)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ModelError, match=r"not an ONNX file|damaged"):
        xdlc.convert(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff" * 100, bytes(range(256)) * 10])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="ONNX"):
        xdlc.convert(path)


def test_external_data_beside_the_model(models):
    path, weight = wide(models, save_as_external_data=True, location="w.bin", size_threshold=100)
    feeds = {"x": np.ones((1, 128), np.float32)}
    found = xdlc.run(xdlc.convert(path), feeds)["y"]
    np.testing.assert_allclose(found, feeds["x"] @ weight @ (weight[:64] * 2), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entries: entries.update(location="../w.bin"), "outside the model's folder"),
        (lambda entries: entries.update(location="/etc/passwd"), "outside the model's folder"),
        (lambda entries: entries.update(location="none.bin"), "does not exist"),
        (lambda entries: entries.update(offset="999999"), "which has"),
        (lambda entries: entries.update(offset="-4"), "negative"),
        (lambda entries: entries.update(length="8"), "needs 32768"),
        (lambda entries: entries.update(offset="x"), "not a number"),
    ],
)
def test_wrong_external_data(models, change, message):
    path, _ = wide(models, save_as_external_data=True, location="w.bin", size_threshold=100)
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    entries = {entry.key: entry.value for entry in tensor.external_data}
    change(entries)
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    onnx.save(model, path)
    with pytest.raises(ModelError, match=message):
        xdlc.convert(path)


def test_links_to_files_of_one_folder_are_followed(models, tmp_path):
    path, weight = wide(models, save_as_external_data=True, location="w.bin", size_threshold=100)
    links = tmp_path / "links"
    links.mkdir()
    (tmp_path / "w.bin").rename(tmp_path / "second")
    (links / "m.onnx").symlink_to(path)
    (links / "w.bin").symlink_to(tmp_path / "second")
    feeds = {"x": np.ones((1, 128), np.float32)}
    found = xdlc.run(xdlc.convert(links / "m.onnx"), feeds)["y"]
    np.testing.assert_allclose(found, feeds["x"] @ weight @ (weight[:64] * 2), rtol=1e-5)
    (links / "w.bin").unlink()
    (links / "w.bin").symlink_to("/etc/passwd")
    with pytest.raises(ModelError, match="does not exist"):
        xdlc.convert(links / "m.onnx")


def open_model(models, dims):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    return models.save(models.make(nodes, {"x": dims}, {"y": None}))


def test_open_dimensions_stay_open(models):
    path = open_model(models, ["N", 3, None])
    model = xdlc.convert(path)
    assert model.main.inputs[0].dynamic_axes == model.main.outputs[0].dynamic_axes == (0, 2)
    assert [op.package for op in model.main.ops] == ["qti.aisw"]
    for shape in ((1, 3, 2), (4, 3, 5)):
        x = np.full(shape, -1.0, np.float32)
        assert not xdlc.run(model, {"x": x})["y"].any()
    assert xdlc.convert(path, input_dims={"x": (2, 3, 4)}).main.inputs[0].dynamic_axes == ()


def test_symbols_and_batch_bind_dimensions(models):
    path = open_model(models, ["N", "W"])
    assert xdlc.convert(path, define_symbol={"N": 2, "W": 5}).main.inputs[0].shape == (2, 5)
    assert xdlc.convert(path, define_symbol={"W": 5}, batch=3).main.inputs[0].shape == (3, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_dims": {"z": (1,)}}, "names 'z'"),
        ({"input_dims": {"x": (1, 2)}}, "2 dimensions for input 'x'"),
        ({"define_symbol": {"M": 2}}, "names 'M'"),
    ],
)
def test_names_that_match_nothing_are_refused(models, options, message):
    with pytest.raises(UsageError, match=message):
        xdlc.convert(open_model(models, ["N", 3, 4]), **{"batch": 1, **options})


def test_all_problems_come_at_once(models):
    nodes = [
        helper.make_node("Bogus", ["x"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["x", "w"], ["c"], "second"),
        helper.make_node("Other", ["b"], ["d"], "third", domain="my.domain"),
        helper.make_node("Sum", ["c", "d"], ["y"]),
    ]
    model = models.make(nodes, {"x": [1, 4, 8, 8]}, {"y": None}, {"w": np.ones((2, 3, 3, 3), np.float32)})
    with pytest.raises(xdlc.XdlcError) as caught:
        xdlc.convert(models.save(model))
    text = str(caught.value)
    for word in ("3 problem(s)", "'first' (Bogus", "'second' (Conv", "my.domain::Other", "fix:"):
        assert word in text


def test_cycle_is_named(models):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], "one"), helper.make_node("Relu", ["a"], ["b"], "two")]
    with pytest.raises(ModelError, match="needs its own result"):
        xdlc.convert(models.save(models.make(nodes, {"x": [2]}, {"b": None})))


def test_unsorted_nodes_are_put_in_order(models):
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Neg", ["x"], ["a"])]
    graph = xdlc.convert(models.save(models.make(nodes, {"x": [2]}, {"y": None}))).main
    assert [op.type for op in graph.ops] == ["ElementWiseUnary", "ElementWiseNeuron"]


def test_value_with_two_sources_is_refused(models):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])]
    with pytest.raises(ModelError, match="two nodes produce 'y'"):
        xdlc.convert(models.save(models.make(nodes, {"x": [2]}, {"y": None})))


def test_last_constant_of_a_name_counts(models):
    """onnxruntime reads the last constant of a name, if all are of one type."""
    nodes = [
        helper.make_node("Constant", [], ["c"], value_floats=[1.0]),
        helper.make_node("Add", ["x", "c"], ["s"]),
        helper.make_node("Constant", [], ["c"], value_floats=[2.0]),
        helper.make_node("Mul", ["s", "w"], ["y"]),
    ]
    weights = [onnx.numpy_helper.from_array(np.full(2, value, np.float32), "w") for value in (3, 5)]
    model = models.make(nodes, {"x": [2]}, {"y": None})
    model.graph.initializer.extend(weights)
    (found,) = xdlc.run(xdlc.convert(models.save(model)), {"x": np.zeros(2, np.float32)}).values()
    np.testing.assert_array_equal(found, [10, 10])
    for place, name in ((0, "c"), (4, "c"), (4, "w")):
        model.graph.node.insert(place, helper.make_node("Relu", ["x"], [name]))
        with pytest.raises(ModelError, match=f"two nodes produce '{name}'|'w' is stored"):
            xdlc.convert(models.save(model))
        del model.graph.node[place]


def test_stored_tensors_that_nothing_reads_may_be_anything(models):
    made = models.make([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, {"y": None})
    made.graph.initializer.append(helper.make_tensor("words", TensorProto.STRING, [1], [b"a"]))
    made.graph.initializer.append(helper.make_tensor("z", TensorProto.FLOAT, [1], [1]))
    made.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1]))
    assert [tensor.name for tensor in xdlc.convert(models.save(made)).main.inputs] == ["x"]


def test_old_opset_names_the_oldest_known(models):
    adding = helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=0)
    model = models.make([adding], {"x": [2, 3]}, {"y": None}, {"w": np.ones(2, np.float32)}, opset=6)
    with pytest.raises(xdlc.XdlcError, match="imported from opset 7 on, found opset 6"):
        xdlc.convert(models.save(model))


def test_output_that_is_an_input_or_a_constant(models):
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["w"], ["z"])]
    model = models.make(nodes, {"x": [2, 3]}, {"y": None, "z": None}, {"w": np.ones((2, 2), np.float32)})
    found = xdlc.run(xdlc.convert(models.save(model)), {"x": np.full((2, 3), 2, np.float32)})
    assert found["y"].tolist() == [[2, 2, 2], [2, 2, 2]]
    assert found["z"].tolist() == [[1, 1], [1, 1]]


def test_shape_arithmetic_folds(models):
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["head"]),
        helper.make_node("Concat", ["head", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {"zero": np.asarray(0), "axes": np.asarray([0]), "rest": np.asarray([-1])}
    model = models.make(nodes, {"x": [2, 3, 4]}, {"y": None}, weights)
    graph = xdlc.convert(models.save(model)).main
    assert [op.type for op in graph.ops] == ["Reshape"]
    assert graph.outputs[0].shape == (2, 12)


def test_scalar_inputs_and_outputs_keep_rank_0(models):
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Mul", ["s", "k"], ["y"]),
    ]
    model = models.make(nodes, {"x": [2, 3], "k": []}, {"y": None}, types={"k": TensorProto.FLOAT})
    found = xdlc.run(xdlc.convert(models.save(model)), {"x": np.ones((2, 3), np.float32), "k": np.float32(2)})
    assert found["y"].shape == ()
    assert found["y"] == 12


def test_out_names_cut_the_graph(models):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Bogus", ["a"], ["y"])]
    path = models.save(models.make(nodes, {"x": [2]}, {"y": None}))
    assert [tensor.name for tensor in xdlc.convert(path, out_name=["a"]).main.outputs] == ["a"]
    with pytest.raises(UsageError, match="no value 'b'"):
        xdlc.convert(path, out_name=["b"])


def test_input_whose_data_are_missing_is_one_problem(models):
    path, _ = wide(models, save_as_external_data=True, location="w.bin", size_threshold=100)
    model = onnx.load(path, load_external_data=False)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [128, 64]))
    onnx.save(model, path)
    (path.parent / "w.bin").unlink()
    with pytest.raises(xdlc.XdlcError, match=r"w\.bin' does not exist"):
        xdlc.convert(path)


def test_constants_that_would_fill_the_memory_are_not_worked_out(models):
    nodes = [
        helper.make_node("Expand", ["one", "big"], ["e"]),
        helper.make_node("ReduceSum", ["e"], ["s"], keepdims=1),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    weights = {"one": np.ones((1, 1), np.float32), "big": np.asarray([1 << 20, 1 << 17])}
    graph = xdlc.convert(models.save(models.make(nodes, {"x": [1, 1]}, {"y": None}, weights))).main
    assert [op.type for op in graph.ops] == ["Tile", "ReduceSum", "ElementWiseBinary"]


def test_graph_without_outputs_is_refused(models):
    model = models.make([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, {})
    with pytest.raises(ModelError, match="no outputs"):
        xdlc.convert(models.save(model))


def test_graph_without_inputs_is_for_the_host(models):
    model = models.make(
        [helper.make_node("Neg", ["w"], ["y"])], {}, {"y": [2]}, {"w": np.ones(2, np.float32)}
    )
    converted = xdlc.convert(models.save(model))
    assert [op.package for op in converted.main.ops] == ["xdlc"]
    np.testing.assert_array_equal(xdlc.run(converted, {})["y"], -np.ones(2, np.float32))


def test_channel_first_output_of_a_graph_without_inputs(models):
    rng = np.random.default_rng(0)
    weights = {"x": rng.standard_normal((1, 2, 3, 4)), "w": rng.standard_normal((3, 2, 1, 1))}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    model = models.make([helper.make_node("Conv", ["x", "w"], ["y"])], {}, {"y": None}, weights)
    found = xdlc.run(xdlc.convert(models.save(model)), {})["y"]
    wanted = np.einsum("nchw,kc->nkhw", weights["x"], weights["w"][:, :, 0, 0])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "place", ["graph", "operand", "node", "attribute", "symbol", "recorded", "nested", "function", "dims"]
)
def test_names_that_are_no_text(models, place):
    mark = "qqqqqq"
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["n" if place != "nested" else mark])],
        "branch",
        [],
        [helper.make_tensor_value_info("n" if place != "nested" else mark, 1, None)],
    )
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        helper.make_node("Own", ["i"], ["o"], domain="own"),
        helper.make_node("LeakyRelu", ["o"], ["y"], name=mark if place == "node" else "n", alpha=0.5),
    ]
    model = models.make(nodes, {"x": [1, mark if place == "symbol" else 4]}, {"y": None}, {"w": np.ones(4)})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    inner = helper.make_node("Abs", ["a"], [mark if place == "function" else "b"])
    outer = [inner.output[0]]
    model.functions.append(
        helper.make_function("own", "Own", ["a"], outer, [inner], [helper.make_opsetid("", 17)])
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    if place == "graph":
        model.graph.name = mark
    elif place == "operand":
        model.graph.node[1].output[0] = model.graph.node[2].input[0] = mark
    elif place == "attribute":
        model.graph.node[2].attribute[0].name = mark
    elif place == "dims":
        model.graph.value_info.append(helper.make_tensor_value_info("i", 1, [1, mark]))
    elif place == "recorded":
        model.graph.node[2].metadata_props.add(key="xdlc.op", value=mark)
    path = models.save(model)
    path.write_bytes(path.read_bytes().replace(mark.encode(), b"\xff" * 6))
    if place == "recorded":  # a record that is none is not followed
        xdlc.convert(path)
        return
    with pytest.raises(ModelError, match="not UTF-8"):
        xdlc.convert(path)


@pytest.mark.parametrize(
    ("type", "attribute", "value"),
    [
        ("Elu", "alpha", "text"),
        ("Elu", "alpha", numpy_helper.from_array(np.float32([1]))),
        ("Softmax", "axis", 1.5),
        ("Softmax", "axis", "text"),
    ],
)
def test_attributes_of_another_type(models, type, attribute, value):
    node = helper.make_node(type, ["x"], ["y"], **{attribute: value})
    with pytest.raises(ModelError, match=f"attribute {attribute} must be a number"):
        xdlc.convert(models.save(models.make([node], {"x": [1, 4]}, {"y": [1, 4]})))


def test_an_input_without_a_name(models):
    model = models.make([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 4], "": [1, 4]}, {"y": [1, 4]})
    with pytest.raises(ModelError, match="no name"):
        xdlc.convert(models.save(model))
