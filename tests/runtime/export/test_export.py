"""Models written as ONNX: their results in onnxruntime, and their files."""

import json

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

import xdlc
from xdlc.errors import ModelError, ProblemList, StorageError, UnsupportedOp, UsageError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Graph,
    Model,
    ScaleOffset,
    Tensor,
    b8,
    make_op,
    parse,
    static,
    u32,
)
from xdlc.ir.dtype import BY_NAME, FLOAT16, FLOAT32, UFIXED8, UFIXED16
from xdlc.runtime import export


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(path, feeds):
    opened = session(path)
    names = [entry.name for entry in opened.get_outputs()]
    return dict(zip(names, opened.run(names, feeds), strict=True))


@pytest.fixture
def cnn(models):
    return xdlc.convert(models.save(models.cnn(classes=300)))


@pytest.fixture
def image():
    return {"x": np.random.default_rng(2).standard_normal((1, 3, 16, 16)).astype(np.float32)}


def test_a_float_model_gives_the_same_numbers(cnn, image, tmp_path):
    (path,) = xdlc.to_onnx(cnn, tmp_path / "m.onnx")
    onnx.checker.check_model(path, full_check=True)
    np.testing.assert_allclose(run(path, image)["y"], xdlc.run(cnn, image)["y"], rtol=1e-5)


def test_up_to_the_change_of_layout_it_is_the_source_again(models, cnn, tmp_path):
    (path,) = xdlc.to_onnx(cnn, tmp_path / "m.onnx")
    source, found = (model.graph for model in (models.cnn(classes=300), onnx.load(path)))
    for mine, other in zip(list(found.node)[:5], list(source.node)[:5], strict=True):
        assert (mine.op_type, mine.name) == (other.op_type, other.name)
        assert (mine.input, mine.output) == (other.input, other.output)


@pytest.mark.parametrize("bits", [8, 16])
def test_a_quantized_model_rounds_as_ours_does(cnn, image, tmp_path, bits):
    quantized = xdlc.quantize(cnn, [image], act_bitwidth=bits)
    (path,) = xdlc.to_onnx(quantized, tmp_path / "m.onnx")
    model = onnx.load(path)
    assert {"QuantizeLinear", "DequantizeLinear"} < {node.op_type for node in model.graph.node}
    assert model.opset_import[0].version >= 21
    step = quantized.main.outputs[0].encoding.scale
    plain = xdlc.run(quantized, image, plain=True)["y"]  # without HTP's own arithmetic, which ONNX has not
    np.testing.assert_allclose(run(path, image)["y"], plain, atol=1.01 * step)


@pytest.mark.parametrize("mode", ["none", "aimet"])
def test_a_float_form_of_a_quantized_model(cnn, image, tmp_path, mode):
    quantized = xdlc.quantize(cnn, [image])
    path, *more = xdlc.to_onnx(quantized, tmp_path / "m.onnx", encodings=mode)
    assert "QuantizeLinear" not in {node.op_type for node in onnx.load(path).graph.node}
    assert more == ([tmp_path / "m.encodings"] if mode == "aimet" else [])
    expected = xdlc.run(quantized, image, quantized=False)["y"]
    np.testing.assert_allclose(run(path, image)["y"], expected, rtol=1e-5, atol=1e-6)


def test_encodings_bear_names_of_the_model(cnn, image, tmp_path):
    quantized = xdlc.quantize(cnn, [image])
    path, beside = xdlc.to_onnx(quantized, tmp_path / "m.onnx", encodings="aimet")
    content, graph = json.loads(beside.read_text()), onnx.load(path).graph
    assert content["version"] == "1.0.0"
    values = {name for node in graph.node for name in node.output} | {entry.name for entry in graph.input}
    weights = {entry.name for entry in graph.initializer}
    for key, names in (("activation_encodings", values), ("param_encodings", weights)):
        assert content[key]
        assert len({entry["name"] for entry in content[key]}) == len(content[key])
        assert {entry["name"] for entry in content[key]} <= names
    by_name = {entry["name"]: entry for entry in content["activation_encodings"]}
    encoding = quantized.main.outputs[0].encoding
    assert by_name["y"] == {
        "name": "y",
        "enc_type": "PER_TENSOR",
        "dtype": "INT",
        "bw": 8,
        "is_sym": False,
        "scale": [encoding.scale],
        "offset": [encoding.offset],
    }
    channels = [entry for entry in content["param_encodings"] if entry["enc_type"] == "PER_CHANNEL"]
    assert channels
    assert all(entry["is_sym"] and set(entry["offset"]) == {-(1 << (entry["bw"] - 1))} for entry in channels)


def weighted(encoding, dtype="sfixed8", shape=(4, 8), between=FLOAT32):
    """Return a fully connected layer whose weights have an encoding."""
    graph, rng = Graph("net"), np.random.default_rng(1)
    x = graph.add_input(Tensor("x", (1, shape[1]), between))
    stored = BY_NAME[dtype]
    data = rng.integers(-8, 8, shape).astype(stored.numpy) if stored.bits == 8 else rng.integers(0, 255, 16)
    weight = static("w", data.astype(stored.numpy), stored, encoding)
    weight.shape = shape
    y = Tensor("y", (1, shape[0]), between)
    graph.append(make_op(graph, "FullyConnected", [x, weight], [y], {"keep_dims": b8(False)}, name="fc"))
    graph.add_output(y)
    return graph


PER_BLOCK = BlockScaleOffset((1, 4), tuple(0.25 * (n + 1) for n in range(8)))
EXPANSION = BlockwiseExpansion(0, (0.5, 0.25, 0.5, 1.0), (0,) * 4, 2, 4, (1, 2, 3, 4, 5, 6, 7, 8))


@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [
        (ScaleOffset(0.5), "sfixed8"),
        (ScaleOffset(0.5, 0, 4), "sfixed8"),
        (ScaleOffset(0.5), "sfixed4"),
        (ScaleOffset(0.5, -7), "ufixed4"),
        (ScaleOffset(0.5, 20), "ufixed4"),
        (AxisScaleOffset(0, (0.5, 0.25, 1.0, 2.0), (1, -2, 3, 9)), "sfixed4"),
        (BlockScaleOffset((1, 4), PER_BLOCK.scales, (1, -200) * 4), "sfixed8"),
        (AxisScaleOffset(0, (0.5, 0.25, 1.0, 2.0), (), 4), "sfixed8"),
        (PER_BLOCK, "sfixed8"),
        (PER_BLOCK, "sfixed4"),
        (EXPANSION, "sfixed8"),
    ],
)
def test_weights_of_all_encodings(tmp_path, encoding, dtype):
    graph = weighted(encoding, dtype)
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(1, 8)}
    (path,) = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    np.testing.assert_allclose(run(path, feeds)["y"], xdlc.run(_model(graph), feeds)["y"], rtol=1e-6)


@pytest.mark.parametrize("encoding", [ScaleOffset(0.5), PER_BLOCK, EXPANSION])
def test_integer_weights_of_float16(tmp_path, encoding):
    graph = weighted(encoding, between=FLOAT16)
    feeds = {"x": np.arange(8, dtype=np.float16).reshape(1, 8)}
    (path,) = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    np.testing.assert_allclose(run(path, feeds)["y"], xdlc.run(_model(graph), feeds)["y"], rtol=1e-3)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (ScaleOffset(0.5, 0, 4), {"enc_type": "PER_TENSOR", "bw": 4, "offset": [-8], "is_sym": True}),
        (PER_BLOCK, {"enc_type": "PER_BLOCK", "bw": 8, "block_size": 4, "offset": [-128] * 8}),
        (
            EXPANSION,
            {
                "enc_type": "LPBQ",
                "bw": 8,
                "compressed_bw": 4,
                "block_size": 4,
                "scale": [0.5, 0.25, 0.5, 1.0],
                "offset": [-128] * 4,
                "per_block_int_scale": [1, 2, 3, 4, 5, 6, 7, 8],
            },
        ),
    ],
)
def test_forms_of_encodings(tmp_path, encoding, expected):
    _, beside = xdlc.to_onnx(_model(weighted(encoding)), tmp_path / "m.onnx", encodings="aimet")
    (entry,) = json.loads(beside.read_text())["param_encodings"]
    assert {key: entry[key] for key in expected} == expected
    assert entry["name"] == "w"


def _model(graph):
    model = Model()
    model.add_graph(graph)
    return model


def chain(*ops, dtype="float32", shape=(2, 4)):
    """Return a graph of ops with one input each, and parameters."""
    graph = Graph("net")
    last = graph.add_input(Tensor("x", shape, BY_NAME[dtype]))
    for number, (type, out, params) in enumerate(ops):
        made = Tensor(f"t{number}", out, BY_NAME[dtype])
        graph.append(make_op(graph, type, [last], [made], params, name=f"op{number}"))
        last = made
    graph.add_output(last)
    return graph


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool8"]
)
def test_moves_keep_the_type(tmp_path, dtype):
    perm = {"perm": static("", np.array([1, 0], np.uint32))}
    graph = chain(("Transpose", (4, 2), perm), ("Reshape", (8,), {}), dtype=dtype)
    (path,) = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Transpose", "Reshape"]
    x = np.arange(8).reshape(2, 4).astype(BY_NAME[dtype].numpy)
    np.testing.assert_array_equal(run(path, {"x": x})["t1"], x.T.reshape(8))


def test_bfloat16_is_float32_outside(tmp_path):
    graph = chain(("ElementWiseUnary", (2, 4), {"operation": u32(8)}), dtype="bfloat16")
    (path,) = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    x = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
    rounded = -x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_allclose(run(path, {"x": x})["t0"], rounded, rtol=1e-2)


def test_a_pair_of_transposes_costs_nothing(tmp_path):
    perm = np.array([1, 0], np.uint32)
    swap = {"perm": static("", perm)}
    graph = chain(
        ("Transpose", (4, 2), swap),
        ("ElementWiseNeuron", (4, 2), {"operation": u32(4)}),
        ("Transpose", (2, 4), {"perm": static("", perm)}),
    )
    (path,) = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Relu"]


def test_factors_of_ones_come_back_under_their_name(tmp_path):
    graph = parse("""
    graph net {
      input %x float32[2,3,4]
      static %n_weight float32[4] = [1, 1, 1, 1]
      n = RmsNorm(%x, %n_weight) {axes=uint32[1] = [2], epsilon=float32 0.01} -> %n_out float32[2,3,4]
      r = ElementWiseNeuron(%n_out) {operation=uint32 4} -> %y float32[2,3,4]
      return %y
    }
    """).main
    (path,) = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    op, _ = xdlc.convert(path).main.ops
    assert (op.type, op.name, op.inputs[1].name) == ("RmsNorm", "n", "n_weight")


def test_views_of_other_encodings_round_again(tmp_path):
    graph = chain(("Transpose", (4, 2), {"perm": static("", np.array([1, 0], np.uint32))}), dtype="ufixed8")
    graph.inputs[0].encoding, graph.outputs[0].encoding = ScaleOffset(0.25), ScaleOffset(1.0)
    (path,) = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    x = np.array([[0.3, 0.6, 0.8, 1.2], [1.6, 2.4, 3.1, 4.0]], np.float32)
    found = run(path, {"x": x})["t0"]
    np.testing.assert_array_equal(found, xdlc.run(_model(graph), {"x": x})["t0"])
    np.testing.assert_array_equal(found, np.round(np.round(x / 0.25) * 0.25).T)


def test_every_value_has_one_name(tmp_path):
    """Names that look like ours, of statics and of activations."""
    graph = Graph("net")
    x = graph.add_input(Tensor("constant", (2,), FLOAT32))
    weight = static("t~", np.array([1, 2], np.float32))
    middle, y = Tensor("constant~1", (2,), FLOAT32), Tensor("t", (2,), FLOAT32)
    graph.append(make_op(graph, "ElementWiseAdd", [x, weight], [middle], name="constant"))
    graph.append(make_op(graph, "ElementWiseSquaredDifference", [middle, weight], [y], name="t~"))
    graph.add_output(y)
    (path,) = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    onnx.checker.check_model(path, full_check=True)
    np.testing.assert_array_equal(run(path, {"constant": np.array([3, 4], np.float32)})["t"], [9, 16])


@pytest.mark.parametrize("external", [False, True])
def test_weights_inside_and_beside(cnn, image, tmp_path, external):
    written = xdlc.to_onnx(cnn, tmp_path / "m.onnx", external_data=external)
    assert written == (
        (tmp_path / "m.onnx", tmp_path / "m.onnx.data") if external else (tmp_path / "m.onnx",)
    )
    onnx.checker.check_model(written[0])
    assert sorted(path.name for path in tmp_path.glob("m.*")) == [path.name for path in written]
    np.testing.assert_allclose(run(written[0], image)["y"], xdlc.run(cnn, image)["y"], rtol=1e-5)


def test_weights_beyond_one_message_go_beside(cnn, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "LARGEST", 4000)
    assert len(xdlc.to_onnx(cnn, tmp_path / "m.onnx")) == 2


def test_our_own_reader_and_the_protobuf_library_agree(cnn, tmp_path):
    """The file is written field by field; the library would write the same values."""
    (path,) = xdlc.to_onnx(cnn, tmp_path / "m.onnx")
    model = onnx.load(path)
    expected = {
        name: tensor.numpy()
        for name, tensor in cnn.main.tensors.items()
        if tensor.is_static and tensor.rank == 1
    }
    found = {entry.name: onnx.numpy_helper.to_array(entry) for entry in model.graph.initializer}
    assert expected
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    assert all(not entry.external_data for entry in model.graph.initializer)


@pytest.mark.parametrize("mode", ["qdq", "aimet"])
def test_the_same_model_gives_the_same_bytes(cnn, image, tmp_path, mode):
    quantized = xdlc.quantize(cnn, [image])
    quantized.save(tmp_path / "m.dlc")
    contents = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        written = xdlc.to_onnx(
            tmp_path / "m.dlc", tmp_path / folder / "m.onnx", encodings=mode, external_data=True
        )
        contents.append([path.read_bytes() for path in written])
    assert contents[0] == contents[1]


def test_a_graph_of_several(tmp_path):
    model = Model()
    for name, operation in (("first", 0), ("second", 8)):
        graph = chain(("ElementWiseUnary", (2, 4), {"operation": u32(operation)}))
        graph.name = name
        model.add_graph(graph)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    for name, expected in ((None, abs(x)), ("second", -x)):
        (path,) = xdlc.to_onnx(model, tmp_path / "m.onnx", graph=name)
        np.testing.assert_array_equal(run(path, {"x": x})["t0"], expected)
    with pytest.raises(UsageError, match="no graph 'secnd'") as caught:
        xdlc.to_onnx(model, tmp_path / "m.onnx", graph="secnd")
    assert caught.value.fix == "nearest: second; graphs: first, second"


def test_what_cannot_be_written_leaves_nothing(cnn, tmp_path):
    graph = chain(("Neither", (2, 4), {}), ("Nor", (2, 4), {}))
    with pytest.raises(ProblemList) as caught:
        xdlc.to_onnx(_model(graph), tmp_path / "m.onnx")
    assert len(caught.value.problems) == 2
    assert all(isinstance(problem, UnsupportedOp) for problem in caught.value.problems)
    with pytest.raises(ModelError, match="holds no graph"):
        xdlc.to_onnx(Model(), tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="expected one of qdq, aimet, none, found 'qqd'"):
        xdlc.to_onnx(cnn, tmp_path / "m.onnx", encodings="qqd")
    with pytest.raises(UsageError, match="no option 'encoding'"):
        xdlc.to_onnx(cnn, tmp_path / "m.onnx", encoding="qdq")
    with pytest.raises(StorageError):
        xdlc.to_onnx(cnn, tmp_path / "none" / "m.onnx")
    assert not list(tmp_path.glob("m.*"))


def test_activations_of_other_widths_and_per_channel(tmp_path):
    graph = weighted(ScaleOffset(0.5))
    graph.inputs[0].dtype, graph.inputs[0].encoding = UFIXED16, ScaleOffset(0.5)
    graph.outputs[0].dtype, graph.outputs[0].encoding = UFIXED8, AxisScaleOffset(1, (1.0,) * 4)
    _, beside = xdlc.to_onnx(_model(graph), tmp_path / "m.onnx", encodings="aimet")
    found = {entry["name"]: entry for entry in json.loads(beside.read_text())["activation_encodings"]}
    assert found["x"]["bw"] == 16
    assert found["y"]["enc_type"] == "PER_CHANNEL"
