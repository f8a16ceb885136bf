"""Mutators: one generic mechanism for each form of data."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from fuzz.mutate.archive import contained, mutate_zip
from fuzz.mutate.pickled import mutate_pickle
from fuzz.mutate.plain import mutate_bytes, mutate_text
from fuzz.mutate.protobuf import mutate_protobuf
from fuzz.mutate.tables import mutate_tables
from fuzz.mutate.tree import mutate_json, mutate_xml
from xdlc.schema._generated import dlc3_model, dlc3_params, dlc4_model, dlc4_params, tflite
from xdlc.schema.table import Table

Mutator = Callable[[random.Random, bytes, bytes], bytes]
_DLC: dict[int, tuple[type[Table], type[Table]]] = {
    3: (dlc3_model.Model, dlc3_params.Params),
    4: (dlc4_model.Model, dlc4_params.Params),
}


def _text(rng: random.Random, data: bytes, other: bytes) -> bytes:
    given = (each.decode("utf-8", "surrogateescape") for each in (data, other))
    return mutate_text(rng, *given).encode("utf-8", "surrogatepass")


def _member(rng: random.Random, data: bytes, other: bytes, *, params: bool) -> bytes:
    """Return a changed member of a DLC, rarely before its flatbuffer."""
    if len(data) < 16 or data[2] not in _DLC or rng.random() < 0.05:
        return mutate_bytes(rng, data, other)
    return data[:8] + mutate_tables(rng, data[8:], _DLC[data[2]][params], other[8:])


def _safetensors(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return a changed file, mostly its header, whose size is then stated."""
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8 or rng.random() < 0.2:
        return mutate_bytes(rng, data, other)
    header = mutate_json(rng, data[8 : 8 + size])
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


BY_NAME: dict[str, Mutator] = {
    "model": partial(_member, params=False),
    "model.params": partial(_member, params=True),
    "saved_model.pb": mutate_protobuf,
    "pytorch_model.bin": lambda rng, data, other: mutate_zip(rng, data, mutate, donor=other),
    "dlc.metadata": _text,
    "metadata_text": _text,
}
BY_SUFFIX: dict[str, Mutator] = {
    ".tflite": lambda rng, data, other: mutate_tables(rng, data, tflite.Model, other),
    **dict.fromkeys((".pb", ".onnx", ".caffemodel", ".binaryproto"), mutate_protobuf),
    **dict.fromkeys((".json", ".encodings"), mutate_json),
    **dict.fromkeys((".pkl", ".pickle"), mutate_pickle),
    **dict.fromkeys((".txt", ".prototxt", ".pbtxt", ".py", ".yaml", ".yml", ".log", ".snpe", ".csv"), _text),
    **dict.fromkeys(
        (".keras", ".pt2", ".pt", ".npz"), lambda rng, data, other: mutate_zip(rng, data, mutate, donor=other)
    ),
    ".dlc": lambda rng, data, other: mutate_zip(rng, data, mutate, contained, other),
    ".xml": mutate_xml,
    ".safetensors": _safetensors,
}


def mutate(rng: random.Random, name: str, data: bytes, donor: bytes = b"") -> bytes:
    """Return a file or an entry with a few changes, by its name or first bytes."""
    base = name.rsplit("/", 1)[-1]
    function: Any = BY_NAME.get(base) or BY_SUFFIX.get("." + base.rsplit(".", 1)[-1])
    if function is None:
        function = mutate_json if data[:1] in b"{[" and data else _text if _is_text(data) else mutate_bytes
    return bytes(function(rng, data, donor))


def _is_text(data: bytes) -> bool:
    return len(data) > 4 and b"\0" not in data and data.isascii()
