"""Checkpoints and SavedModels, built in code."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.converter.tensorflow.tf_models import NUMBERS, Graph, set_shape
from tests.support.protobuf import varint
from xdlc.converter.tensorflow.messages import message
from xdlc.converter.tensorflow.table import crc32c, masked

MAGIC = 0xDB4775248B80FB57
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


def crc(data: bytes) -> int:
    return masked(crc32c(memoryview(data)))


def snappy(data: bytes) -> bytes:
    """Literals, and a copy of the first four bytes at the end of each."""
    out = varint(len(data))
    for start in range(0, len(data), 60):
        part = data[start : start + 60]
        out += bytes([(len(part) - 1) << 2]) + part
    return out


def stored(block: bytes, kind: int = 0) -> bytes:
    """A block as a table has it, with its kind and checksum."""
    return block + bytes([kind]) + struct.pack("<I", crc(block + bytes([kind])))


def block(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Entries, the keys of which share what they begin with."""
    out, before = b"", b""
    for key, value in entries:
        shared = next((i for i, (a, b) in enumerate(zip(key, before, strict=False)) if a != b), None)
        shared = min(len(key), len(before)) if shared is None else shared
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return out + struct.pack("<II", 0, 1)


def table(entries: Mapping[bytes, bytes], *, kind: int = 0, packed: bytes | None = None) -> bytes:
    """Return a table of one block; ``packed`` replaces its compressed bytes."""
    data = block(sorted(entries.items()))
    body = packed if packed is not None else snappy(data) if kind == 1 else data
    out = stored(body, kind)
    index_at = len(out)
    index = block([(b"\xff", varint(0) + varint(len(body)))])
    out += stored(index)
    meta_at = len(out)
    out += stored(block([]))
    footer = varint(meta_at) + varint(8) + varint(index_at) + varint(len(index))
    return out + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


class Checkpoint:
    """A checkpoint in the making."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.data = b""
        self.shards = 1

    def add(self, key: str | bytes, array: Any, **changes: Any) -> Checkpoint:
        array = np.asarray(array)
        entry = message("BundleEntry")
        entry.dtype, entry.offset, entry.size = NUMBERS[array.dtype.name], len(self.data), array.nbytes
        set_shape(entry.shape, array.shape)
        entry.crc32c = crc(array.tobytes())
        self.data += array.tobytes()
        for name, value in changes.items():
            if name == "sizes":
                entry.ClearField("shape")
                set_shape(entry.shape, value)
            else:
                setattr(entry, name, value)
        self.entries[key.encode() if isinstance(key, str) else key] = entry.SerializeToString()
        return self

    def add_objects(self, keys: Mapping[int, str]) -> Checkpoint:
        objects = message("TrackedObjects")
        for number in range(max(keys) + 1):
            node = objects.nodes.add()
            if number in keys:
                node.attributes.add(name=b"VARIABLE_VALUE", checkpoint_key=keys[number].encode())
        raw = objects.SerializeToString()
        text = varint(len(raw)) + bytes(4) + raw
        entry = message("BundleEntry")
        entry.dtype, entry.offset, entry.size = NUMBERS["string"], len(self.data), len(text)
        entry.shape.SetInParent()
        self.data += text
        self.entries[OBJECTS.encode()] = entry.SerializeToString()
        return self

    def save(self, prefix: Path, **options: Any) -> Path:
        header = message("BundleHeader")
        header.num_shards = self.shards
        prefix.parent.mkdir(parents=True, exist_ok=True)
        content = table({b"": header.SerializeToString(), **self.entries}, **options)
        prefix.with_name(prefix.name + ".index").write_bytes(content)
        prefix.with_name(f"{prefix.name}.data-00000-of-{self.shards:05d}").write_bytes(self.data)
        return prefix


def saved_model(
    graph: Graph,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    *,
    tags: Sequence[str] = ("serve",),
    signature: str = "serving_default",
    bound: Mapping[str, Sequence[int]] | None = None,
) -> Any:
    """Write a ``SavedModel`` with tensors by key and objects by function."""
    model = message("SavedModel")
    model.saved_model_schema_version = 1
    meta = model.meta_graphs.add()
    meta.graph_def.CopyFrom(graph.proto)
    meta.meta_info_def.tags.extend(tag.encode() for tag in tags)
    entry = meta.signature_def.add(key=signature.encode()).value
    for target, values in ((entry.inputs, inputs), (entry.outputs, outputs)):
        for key, name in values.items():
            info = target.add(key=key.encode()).value
            info.name, info.dtype = name.encode(), 1
            set_shape(info.tensor_shape, (2, 3))
    for name, numbers in (bound or {}).items():
        held = meta.object_graph_def.concrete_functions.add(key=name.encode())
        held.value.bound_inputs.extend(numbers)
    return model


def save(model: Any, folder: Path, checkpoint: Checkpoint | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    if checkpoint is not None:
        checkpoint.save(folder / "variables" / "variables")
    return folder
