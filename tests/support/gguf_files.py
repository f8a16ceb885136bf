"""GGUF files, written by the format's description (ggml, docs/gguf.md)."""

import struct

import numpy as np

F32, F16, Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K, BF16 = 0, 1, 2, 3, 6, 8, 12, 13, 14, 30
ELEMENTS = {F32: 1, F16: 1, BF16: 1, Q4_K: 256, Q5_K: 256, Q6_K: 256}


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed(value):
    """Return type and bytes of a value of metadata."""
    if isinstance(value, bool):
        return 7, struct.pack("<B", value)
    if isinstance(value, int):
        return (4, struct.pack("<I", value)) if value < 1 << 32 else (10, struct.pack("<Q", value))
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, list):
        inner = [typed(each) for each in value]
        kind = inner[0][0] if inner else 8
        return 9, struct.pack("<IQ", kind, len(value)) + b"".join(raw for _, raw in inner)
    return 8, text(value)


def q8_0(array):
    """Return blocks of Q8_0, whose values are those of float16 steps."""
    blocks = np.asarray(array, np.float32).reshape(-1, 32)
    steps = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    integers = np.rint(blocks / np.where(steps == 0, 1, steps.astype(np.float32))).astype(np.int8)
    return b"".join(step.tobytes() + row.tobytes() for step, row in zip(steps, integers, strict=True))


def gguf(metadata, tensors, version=3, alignment=32):
    """Return a file.

    Args:
        tensors: By name an array, stored as float32, or shape, type and bytes.
    """
    entries, data = b"", b""
    for name, tensor in tensors.items():
        if isinstance(tensor, tuple):
            shape, kind, raw = tensor
        else:
            shape, kind, raw = tensor.shape, F32, np.asarray(tensor, "<f4").tobytes()
        data += bytes(-len(data) % alignment)
        entries += text(name) + struct.pack("<I", len(shape))
        entries += b"".join(struct.pack("<Q", dim) for dim in reversed(shape))
        entries += struct.pack("<IQ", kind, len(data))
        data += raw
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, raw = typed(value)
        head += text(key) + struct.pack("<I", kind) + raw
    head += entries
    return head + bytes(-len(head) % alignment) + data


def decoder(architecture, layers=1, **more):
    """Return metadata of a small decoder."""
    keys = {
        "block_count": layers,
        "context_length": 64,
        "embedding_length": 32,
        "feed_forward_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        **more,
    }
    return {"general.architecture": architecture, **{f"{architecture}.{key}": keys[key] for key in keys}}
