"""Weights of TFLite that are sparse, after the flatbuffer, or in other files."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel
from xdlc.container.flatbuffer_encode import encode
from xdlc.converter.tflite.file import TfliteFile
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.schema._generated import tflite as schema


def _csr(segments, indices, vector=schema.Int32Vector, number=1):
    return schema.DimensionMetadata(
        format=1,
        array_segments_type=number,
        array_segments=vector(values=segments),
        array_indices_type=number,
        array_indices=vector(values=indices),
    )


def _dense(size):
    return schema.DimensionMetadata(dense_size=size)


def _model(weight, change, type="ADD", dtype=np.float32):
    """Return the root of x + w, whose tensor w is changed before it is written."""
    builder = TinyModel()
    x, y = builder.tensor("x", weight.shape, dtype), builder.tensor("y", weight.shape, dtype)
    w = builder.tensor("w", weight.shape, dtype)
    if type == "DENSIFY":
        middle = builder.tensor("dense", weight.shape, dtype)
        builder.op("DENSIFY", [w], [middle])
    builder.op("ADD", [x, middle if type == "DENSIFY" else w], [y])
    builder.graph.inputs, builder.graph.outputs = [x], [y]
    change(builder, builder.graph.tensors[w])
    return builder.build()


def _converted(path, root, tail=b""):
    path.write_bytes(bytes(encode(root)) + tail)
    model = xdlc.convert(path)
    (x,) = model.main.inputs
    return xdlc.run(model, {"x": np.zeros(x.shape, np.float32)})["y"]


ROWS = np.asarray([[0, 0, 3, 0], [1, 0, 0, 2], [0, 0, 0, 0], [0, 4, 0, 0]], np.float32)
BLOCKS = np.kron([[0, 1, 0], [2, 0, 3]], np.arange(1, 5).reshape(2, 2)).astype(np.float32)


@pytest.mark.parametrize("type", ["ADD", "DENSIFY"])
def test_compressed_rows_become_dense(tmp_path, type):
    def change(made, tensor):
        made.buffers.append(schema.Buffer(data=np.asarray([3, 1, 2, 4], np.float32).tobytes()))
        tensor.buffer = len(made.buffers) - 1
        metadata = [_dense(4), _csr([0, 1, 3, 3, 4], [2, 0, 3, 1])]
        tensor.sparsity = schema.SparsityParameters(traversal_order=[0, 1], dim_metadata=metadata)

    got = _converted(tmp_path / "m.tflite", _model(ROWS, change, type))
    np.testing.assert_array_equal(got, ROWS)


def test_compressed_columns_become_dense(tmp_path):
    def change(made, tensor):
        made.buffers.append(schema.Buffer(data=np.asarray([1, 4, 3, 2], np.float32).tobytes()))
        tensor.buffer = len(made.buffers) - 1
        metadata = [_dense(4), _csr([0, 1, 2, 3, 4], [1, 3, 0, 1])]
        tensor.sparsity = schema.SparsityParameters(traversal_order=[1, 0], dim_metadata=metadata)

    got = _converted(tmp_path / "m.tflite", _model(ROWS, change))
    np.testing.assert_array_equal(got, ROWS)


def test_compressed_blocks_become_dense(tmp_path):
    stored = np.concatenate([np.arange(1, 5) * factor for factor in (1, 2, 3)]).astype(np.float32)

    def change(made, tensor):
        made.buffers.append(schema.Buffer(data=stored.tobytes()))
        tensor.buffer = len(made.buffers) - 1
        compressed = _csr(bytes([0, 1, 3]), bytes([1, 0, 2]), schema.Uint8Vector, 3)
        tensor.sparsity = schema.SparsityParameters(
            traversal_order=[0, 1, 2, 3],
            block_map=[0, 1],
            dim_metadata=[_dense(2), compressed, _dense(2), _dense(2)],
        )

    got = _converted(tmp_path / "m.tflite", _model(BLOCKS, change))
    np.testing.assert_array_equal(got, BLOCKS)


def test_a_sparse_form_that_denotes_too_much_is_refused(tmp_path):
    def change(made, tensor):
        made.buffers.append(schema.Buffer(data=bytes(4)))
        tensor.buffer, tensor.shape = len(made.buffers) - 1, [1 << 15, 1 << 15]
        metadata = [_csr([0, 1], [7]), _csr([0, 1], [9])]
        tensor.sparsity = schema.SparsityParameters(traversal_order=[0, 1], dim_metadata=metadata)

    with pytest.raises(UnsupportedOp, match="sparse"):
        _converted(tmp_path / "m.tflite", _model(ROWS, change))


def test_weights_after_the_flatbuffer(tmp_path):
    tail = b"\0" * 24 + ROWS.tobytes()

    def at(offset):
        def change(made, tensor):
            made.buffers.append(schema.Buffer(offset=offset, size=ROWS.nbytes))
            tensor.buffer = len(made.buffers) - 1

        return _model(ROWS, change)

    start = len(encode(at(1 << 40))) + 24
    np.testing.assert_array_equal(_converted(tmp_path / "m.tflite", at(start), tail), ROWS)
    with pytest.raises(ModelError):
        _converted(tmp_path / "m.tflite", at(start + 1), tail)


def _external(group="weights.bin", offset=8, packing=None, id=5):
    def change(made, tensor):
        tensor.external_buffer = 5

    root = _model(ROWS, change)
    root.external_buffer_groups = [schema.ExternalBufferGroup(name=group)]
    held = schema.ExternalBuffer(id=id, group=0, offset=offset, length=ROWS.nbytes, packing=packing)
    root.external_buffers = [held]
    return root


def test_weights_in_another_file(tmp_path):
    (tmp_path / "weights.bin").write_bytes(bytes(8) + ROWS.tobytes())
    np.testing.assert_array_equal(_converted(tmp_path / "m.tflite", _external()), ROWS)


@pytest.mark.parametrize(
    "change", [{"group": "../w.bin"}, {"group": "no.bin"}, {"offset": 9}, {"id": 6}, {"packing": "odd"}]
)
def test_another_file_that_is_not_there_or_not_understood_is_refused(tmp_path, change):
    (tmp_path / "weights.bin").write_bytes(bytes(8) + ROWS.tobytes())
    with pytest.raises((ModelError, UnsupportedOp)):
        _converted(tmp_path / "m.tflite", _external(**change))


def test_a_file_cut_anywhere_is_truncated_until_it_is_copied_again(tmp_path):
    whole = bytes(encode(_model(ROWS, lambda made, tensor: None)))  # ends with padding
    path = tmp_path / "m.tflite"
    for size in range(8, len(whole) - 8, 4):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError) as caught:
            TfliteFile(path)
        assert caught.value.problem.startswith("is truncated"), size
        assert "again" in str(caught.value.fix)
    path.write_bytes(whole)
    assert TfliteFile(path).nbytes == len(whole)


def test_a_file_of_another_format_is_not_truncated(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(b"text of another format")
    with pytest.raises(ModelError) as caught:
        TfliteFile(path)
    assert "truncated" not in str(caught.value)
