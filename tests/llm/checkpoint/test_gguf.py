"""GGUF: metadata of all types, values of blocks, damaged files."""

import struct

import ml_dtypes
import numpy as np
import pytest

from tests.support import gguf_files as files
from tests.support.gguf_files import gguf
from xdlc import ir
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.llm.checkpoint.gguf import read_gguf
from xdlc.llm.checkpoint.gguf_blocks import read_weight

ROWS = 3
RNG = np.random.default_rng(5)


def opened(tmp_path, content):
    (tmp_path / "m.gguf").write_bytes(content)
    return read_gguf(tmp_path / "m.gguf")


def half(raw, at):
    return np.frombuffer(raw[at : at + 2], "<f2")[0].astype(np.float32)


def nibbles(raw):
    return [byte & 15 for byte in raw] + [byte >> 4 for byte in raw]


def q4_0(raw):
    return [half(raw, 0) * np.float32(q - 8) for q in nibbles(raw[2:])]


def q4_1(raw):
    return [half(raw, 0) * np.float32(q) + half(raw, 2) for q in nibbles(raw[4:])]


def q5_0(raw):
    (high,) = struct.unpack("<I", raw[2:6])
    low = nibbles(raw[6:])
    return [half(raw, 0) * np.float32((low[i] | (high >> i & 1) << 4) - 16) for i in range(32)]


def q8_0(raw):
    return [half(raw, 0) * np.float32(q) for q in struct.unpack("<32b", raw[2:])]


def k_scale(packed, i):
    if i < 4:
        return packed[i] & 63, packed[i + 4] & 63
    return packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4


def k_quant(raw, low, high=None):
    values = []
    for i in range(8):
        scale, least = k_scale(raw[4:16], i)
        for j in range(32):
            q = low[32 * (i // 2) + j] >> 4 * (i % 2) & 15
            if high is not None:
                q |= (high[j] >> i & 1) << 4
            step = half(raw, 0) * np.float32(scale)
            values.append(step * np.float32(q) - half(raw, 2) * np.float32(least))
    return values


def q4_k(raw):
    return k_quant(raw, raw[16:])


def q5_k(raw):
    return k_quant(raw, raw[48:], raw[16:48])


def q6_k(raw):
    values = []
    for i in range(256):
        part, j = divmod(i, 128)
        low = raw[64 * part + j % 64] >> 4 * (j // 64) & 15
        high = raw[128 + 32 * part + j % 32] >> 2 * (j // 32) & 3
        (scale,) = struct.unpack("b", raw[192 + i // 16 : 193 + i // 16])
        values.append(half(raw, 208) * np.float32(scale) * np.float32((low | high << 4) - 32))
    return values


BLOCKS = {
    files.Q4_0: (18, (0,), q4_0, (1, 32), 4),
    files.Q4_1: (20, (0, 2), q4_1, None, None),
    files.Q5_0: (22, (0,), q5_0, (1, 32), None),
    files.Q8_0: (34, (0,), q8_0, (1, 32), None),
    files.Q4_K: (144, (0, 2), q4_k, None, None),
    files.Q5_K: (176, (0, 2), q5_k, None, None),
    files.Q6_K: (210, (208,), q6_k, (1, 16), None),
}


def blocks(kind, steps):
    """Return random blocks, whose float16 numbers are drawn from a list."""
    size, places, _, _, _ = BLOCKS[kind]
    raw = RNG.integers(0, 256, (ROWS * 2, size), dtype=np.uint8)
    for at in places:
        raw[:, at : at + 2] = np.resize(np.array(steps, np.float16), (ROWS * 2, 1)).view(np.uint8)
    return [bytes(row) for row in raw]


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("steps", [(0.5, 0.01), (-0.5, 0.25, 0, 6e-8), (np.inf, 1)])
def test_values_of_blocks(tmp_path, kind, steps):
    _, _, reference, block, bits = BLOCKS[kind]
    raw, elements = blocks(kind, steps), files.ELEMENTS.get(kind, 32)
    shape = (ROWS, 2 * elements)
    file = opened(tmp_path, gguf({}, {"x": (shape, kind, b"".join(raw))}))
    tensor = file.tensors["x"]
    weight = read_weight(file.file, tensor.layout, tensor.offset, tensor.shape)
    with np.errstate(invalid="ignore"):
        values = np.array([reference(each) for each in raw], np.float32).reshape(shape)
    np.testing.assert_array_equal(weight.floats().numpy(), values)
    order = np.array([2, 0, 1])
    turned = read_weight(file.file, tensor.layout, tensor.offset, tensor.shape, order)
    np.testing.assert_array_equal(turned.floats().numpy(), values[order])
    if block is None or np.inf in steps:
        assert weight.encoding is None
    else:
        assert isinstance(weight.encoding, ir.BlockScaleOffset)
        assert (weight.encoding.block_shape, weight.encoding.bits) == (block, bits)
        assert min(weight.encoding.scales) > 0
        assert weight.data.dtype.itemsize == 1
        if bits:
            assert weight.data.numpy().astype(int).max() - weight.data.numpy().astype(int).min() < 1 << bits


def test_plain_numbers(tmp_path):
    array = np.arange(8, dtype=np.float32).reshape(2, 4)
    tensors = {
        "f32": array,
        "f16": (array.shape, files.F16, array.astype(np.float16).tobytes()),
        "bf16": (array.shape, files.BF16, array.astype(ml_dtypes.bfloat16).tobytes()),
    }
    for version in (2, 3):
        file = opened(tmp_path, gguf({}, tensors, version, alignment=32))
        for name, tensor in file.tensors.items():
            weight = read_weight(file.file, tensor.layout, tensor.offset, tensor.shape)
            assert weight.encoding is None
            assert weight.data.dtype == (np.float16 if name == "f16" else np.float32)
            np.testing.assert_array_equal(weight.data.numpy(), array)


def test_metadata(tmp_path):
    metadata = {"a": 5, "b": 1 << 40, "c": True, "d": 0.5, "e": "é", "f": ["x", ""], "g": [1, 2], "h": [True]}
    assert opened(tmp_path, gguf(metadata, {})).metadata == metadata


X = np.ones((2, 4), np.float32)
GOOD = gguf({"a": "b"}, {"x": X})
HEAD = b"GGUF" + struct.pack("<I", 3)


def entry(dims=(4, 2), kind=0, offset=0, name="x"):
    axes = struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
    return files.text(name) + axes + struct.pack("<IQ", kind, offset)


def directory(*entries):
    head = HEAD + struct.pack("<QQ", len(entries), 0) + b"".join(entries)
    return head + bytes(-len(head) % 32 + 64)


@pytest.mark.parametrize(
    "content",
    [
        *(GOOD[:end] for end in (3, 7, 20, 30, 40, 60, len(GOOD) - 1)),
        b"GGML" + GOOD[4:],
        HEAD + struct.pack("<QQ", 1 << 60, 0),
        HEAD + struct.pack("<QQ", 0, 1 << 60),
        HEAD + struct.pack("<QQQ", 0, 1, 1 << 60),
        HEAD + struct.pack("<QQ", 0, 1) + files.text(b"\xff") + struct.pack("<I", 0) + b"\0",
        HEAD + struct.pack("<QQ", 0, 1) + files.text("a") + struct.pack("<I", 99),
        HEAD + struct.pack("<QQ", 0, 1) + files.text("a") + struct.pack("<IIQ", 9, 8, 1 << 50),
        HEAD + struct.pack("<QQ", 0, 1) + files.text("a") + struct.pack("<IIQ", 9, 0, 1 << 20),
        HEAD + struct.pack("<QQ", 0, 1) + files.text("a") + struct.pack("<IIQIQ", 9, 9, 1, 9, 1),
        HEAD + struct.pack("<QQ", 0, 2) + 2 * (files.text("a") + struct.pack("<IB", 0, 1)),
        gguf({"general.alignment": 0}, {"x": X}),
        gguf({"general.alignment": "a"}, {"x": X}),
        gguf({"general.alignment": 12}, {"x": X}),
        directory(entry(()), entry(name="y")),
        directory(entry((1, 2, 3, 4, 5))),
        directory(entry((0, 2))),
        directory(entry((1 << 40, 1 << 40))),
        directory(entry((4, 5))),
        directory(entry(offset=8)),
        directory(entry(offset=1 << 63)),
        directory(entry(), entry()),
        directory(entry(), entry(name="y")),
        directory(entry((16, 2), files.Q4_0)),
    ],
)
def test_damaged(tmp_path, content):
    with pytest.raises(ModelError) as error:
        opened(tmp_path, content)
    assert "m.gguf" in error.value.where


@pytest.mark.parametrize(
    "content",
    [
        b"GGUF" + struct.pack("<I", 1) + bytes(40),
        b"GGUF" + struct.pack(">I", 3) + bytes(40),
        directory(entry((256, 1), 10)),
        gguf({"split.count": 3}, {}),
    ],
)
def test_unsupported(tmp_path, content):
    with pytest.raises(UnsupportedOp) as error:
        opened(tmp_path, content)
    assert error.value.fix
