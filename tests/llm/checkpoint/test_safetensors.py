"""Safetensors: values of all types, lazily; damaged headers are refused."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from xdlc.errors import ModelError, UnsupportedOp
from xdlc.llm.checkpoint.safetensors import read_safetensors

ARRAYS = {
    "f32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "f16": np.array([0.5, -2], np.float16),
    "bf16": np.array([[1.5], [-3.0]], ml_dtypes.bfloat16),
    "f64": np.array([0.25]),
    "i64": np.array([1 << 40]),
    "u8": np.array([255, 1, 2], np.uint8),
    "bool": np.array([True, False]),
    "empty": np.zeros((0, 4), np.float32),
    "scalar": np.float32(3),
}
NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
NAMES |= {"int64": "I64", "uint8": "U8", "bool": "BOOL", "int32": "I32", "int8": "I8"}


def packed(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors(arrays):
    """Return a file with arrays, in their order."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in arrays.items():
        array = np.asarray(array)
        entry = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape)}
        header[name] = {**entry, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    return packed(header, data)


def entry(start, stop, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


def test_values_of_all_types(tmp_path):
    (tmp_path / "m.safetensors").write_bytes(safetensors(ARRAYS))
    tensors = read_safetensors(tmp_path / "m.safetensors")
    assert list(tensors) == list(ARRAYS)
    for name, array in ARRAYS.items():
        dtype = np.dtype(np.float32) if name in ("bf16", "f64") else np.asarray(array).dtype
        assert tensors[name].dtype == dtype
        np.testing.assert_array_equal(tensors[name].numpy(), np.asarray(array).astype(dtype))


def test_rows_are_read_alone(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3).astype(ml_dtypes.bfloat16)
    (tmp_path / "m.safetensors").write_bytes(safetensors({"x": rows}))
    data = read_safetensors(tmp_path / "m.safetensors")["x"]
    assert data.has_rows
    np.testing.assert_array_equal(data.rows(1, 3), rows[1:3].astype(np.float32))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\2\0\0",
        packed(b"{}", b"left over"),
        struct.pack("<Q", 1 << 60) + b"{}",
        packed(b"[]"),
        packed(b"{"),
        packed(b"[" * 90),
        packed(b'{"\xff": 1}'),
        packed({"x": []}),
        packed({"x": {"dtype": "F32", "shape": [1]}}, bytes(4)),
        packed({"x": entry(0, 4, [-1])}, bytes(4)),
        packed({"x": entry(0, 4, [1.5])}, bytes(4)),
        packed({"x": entry(0, 4, [True])}, bytes(4)),
        packed({"x": entry(0, 4, [1] * 9)}, bytes(4)),
        packed({"x": entry(0, 4, [1 << 39, 1 << 39])}, bytes(4)),
        packed({"x": entry(0, 4, [2])}, bytes(4)),
        packed({"x": entry(0, 8)}, bytes(8)),
        packed({"x": entry(4, 0)}, bytes(4)),
        packed({"x": entry(-4, 0)}, bytes(4)),
        packed({"x": entry(0, 4), "y": entry(2, 6)}, bytes(6)),
        packed({"x": entry(0, 4), "y": entry(8, 12)}, bytes(12)),
        packed({"x": entry(0, 4), "y": entry(0, 4)}, bytes(4)),
        packed({"x": entry(0, 4)}, bytes(2)),
        packed(b'{"x": %s, "x": %s}' % (b"[]", json.dumps(entry(4, 8)).encode()), bytes(8)),
    ],
)
def test_damaged(tmp_path, content):
    (tmp_path / "m.safetensors").write_bytes(content)
    with pytest.raises(ModelError) as error:
        read_safetensors(tmp_path / "m.safetensors")
    assert "m.safetensors" in error.value.where


def test_8_bit_floats_are_refused(tmp_path):
    (tmp_path / "m.safetensors").write_bytes(packed({"x": entry(0, 1, dtype="F8_E4M3")}, bytes(1)))
    with pytest.raises(UnsupportedOp, match="F8_E4M3") as error:
        read_safetensors(tmp_path / "m.safetensors")
    assert "'x'" in error.value.where
