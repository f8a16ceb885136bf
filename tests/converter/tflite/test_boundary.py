"""Signatures, cuts and input shapes of TFLite files."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel
from xdlc.container.flatbuffer_encode import encode
from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.schema._generated import tflite as schema


def _signature(key, inputs, outputs, graph=0):
    return schema.SignatureDef(
        inputs=[schema.TensorMap(name=name, tensor_index=index) for name, index in inputs.items()],
        outputs=[schema.TensorMap(name=name, tensor_index=index) for name, index in outputs.items()],
        signature_key=key,
        subgraph_index=graph,
    )


def _write(made, path, signatures=()):
    root = made.build()
    root.signature_defs = list(signatures)
    path.write_bytes(encode(root))
    return path


def _chain(builder, types=("ABS", "NEG", "FLOOR"), shape=(2, 3), **fields):
    last = builder.tensor("x", shape, **fields)
    builder.graph.inputs = [last]
    for index, type in enumerate(types):
        following = builder.tensor(f"y{index}", shape, **fields)
        builder.op(type, [last], [following])
        last = following
    builder.graph.outputs = [last]
    return builder


@pytest.fixture
def two(tmp_path):
    """A file of two signatures: the first sub-graph is ABS, the second one NEG."""
    made = _chain(TinyModel(), ["ABS"])
    made.begin()
    _chain(made, ["NEG"])
    signatures = [_signature("a", {"in": 0}, {"out": 1}), _signature("b", {"in": 0}, {"out": 1}, 1)]
    return _write(made, tmp_path / "m.tflite", signatures)


def test_the_signature_of_the_first_graph_is_the_default_and_is_noted(two):
    notices = []
    model = xdlc.convert(two, notify=notices.append)
    assert xdlc.run(model, {"x": np.full((2, 3), -1, np.float32)})["y0"].min() == 1
    assert any("'b'" in notice and "signature_name" in notice for notice in notices)


def test_a_signature_is_chosen_by_its_key(two):
    model = xdlc.convert(two, importer_options={"signature_name": "b"})
    assert xdlc.run(model, {"x": np.ones((2, 3), np.float32)})["y0"].max() == -1
    assert model.metadata["history"][0]["args"]["signature_name"] == "b"
    with pytest.raises(UsageError, match="'a', 'b'"):
        xdlc.convert(two, importer_options={"signature_name": "c"})


def test_options_take_the_names_of_the_signature(two):
    model = xdlc.convert(two, input_dims={"in": [5, 3]}, out_name=["out"])
    assert [tensor.shape for tensor in (*model.main.inputs, *model.main.outputs)] == [(5, 3), (5, 3)]


def test_a_signature_of_a_missing_graph_is_refused(tmp_path):
    made = _chain(TinyModel())
    for damaged in (_signature("a", {}, {}, 9), _signature("a", {"in": 99}, {})):
        with pytest.raises(ModelError):
            xdlc.convert(_write(made, tmp_path / "m.tflite", [damaged]))


def test_a_cut_makes_tensors_inputs(tmp_path):
    path = _write(_chain(TinyModel()), tmp_path / "m.tflite")
    model = xdlc.convert(path, importer_options={"partial_graph_input_name": ["y0"]})
    assert [tensor.name for tensor in model.main.inputs] == ["y0"]
    got = xdlc.run(model, {"y0": np.full((2, 3), -1.5, np.float32)})["y2"]
    np.testing.assert_array_equal(got, np.full((2, 3), 1))
    with pytest.raises(UsageError, match="y9"):
        xdlc.convert(path, importer_options={"partial_graph_input_name": ["y9"]})


def test_a_cut_between_two_ends(tmp_path):
    path = _write(_chain(TinyModel()), tmp_path / "m.tflite")
    model = xdlc.convert(path, importer_options={"partial_graph_input_name": ["y0"]}, out_name=["y1"])
    assert [op.type for op in model.main.ops] == ["ElementWiseUnary"]
    with pytest.raises(UsageError, match="y8"):
        xdlc.convert(path, importer_options={"partial_graph_input_name": ["y0"]}, out_name=["y8"])


def test_open_dimensions_are_taken_as_1_with_a_notice(tmp_path):
    made = _chain(TinyModel(), shape=(1, 3), shape_signature=[-1, 3])
    path = _write(made, tmp_path / "m.tflite")
    notices = []
    assert xdlc.convert(path, notify=notices.append).main.inputs[0].shape == (1, 3)
    assert any("input_dims" in notice for notice in notices)
    notices.clear()
    assert xdlc.convert(path, notify=notices.append, batch=4).main.outputs[0].shape == (4, 3)
    assert not notices


def test_a_stale_batch_in_a_constant_is_refused(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [1, 6]), builder.tensor("y", [1, 2, 3])
    shape = builder.tensor("shape", dtype=np.int32, data=[1, 2, 3])
    builder.op("RESHAPE", [x, shape], [y], new_shape=[1, 2, 3])
    builder.graph.inputs, builder.graph.outputs = [x], [y]
    path = _write(builder, tmp_path / "m.tflite")
    with pytest.raises(XdlcError) as caught:
        xdlc.convert(path, batch=2)
    assert "RESHAPE" in str(caught.value)
    assert "batch" in str(caught.value.fix)
