"""ONNX files with large weights from lazy tensor data.

A protobuf message is a row of fields in any order, so the weights can follow the rest: each large
initializer is written as its header and then its bytes, straight from where they lie.  Format:
protobuf encoding guide; field numbers: onnx.proto.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    from xdlc.ir import TensorData
    from xdlc.ir.files import Writer

LARGEST = (1 << 31) - 1
"""Bytes of the largest protobuf message."""
ALIGNMENT = 64
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
_BYTES = 2
_OVERHEAD = 64  # bytes around a weight: tags, lengths, type, dims; its name comes on top


def parts(
    proto: ModelProto,
    weights: Mapping[str, TensorData],
    path: str | os.PathLike[str],
    *,
    external_data: bool = False,
) -> list[tuple[Path, Writer]]:
    """Return the files of a model with the functions that write them, the model last.

    Args:
        proto: The model; the initializers that ``weights`` holds have types and shapes only.
        weights: Data of the large initializers by name.
        path: The file to write.
        external_data: Write the weights to ``<path>.data``; always so where they are too large.
    """
    target = Path(path)
    inside = proto.ByteSize() + sum(
        data.nbytes + _OVERHEAD + len(name.encode()) for name, data in weights.items()
    )
    if weights and (external_data or inside > LARGEST):
        beside = target.with_name(f"{target.name}.data")
        _refer(proto, weights, beside.name)
        return [
            (beside, lambda file: _write_data(file, weights)),
            (target, lambda file: _write(file, proto, {})),
        ]
    return [(target, lambda file: _write(file, proto, weights))]


def _refer(proto: ModelProto, weights: Mapping[str, TensorData], location: str) -> None:
    """Let the initializers name the ranges of the file that ``_write_data`` writes."""
    offsets, position = {}, 0
    for name, data in weights.items():
        offsets[name] = position
        position += _aligned(data.nbytes)
    for tensor in proto.graph.initializer:
        if tensor.name in offsets:
            del tensor.external_data[:]
            entries = {
                "location": location,
                "offset": str(offsets[tensor.name]),
                "length": str(weights[tensor.name].nbytes),
            }
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=value)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _write_data(file: IO[bytes], weights: Mapping[str, TensorData]) -> None:
    for data in weights.values():
        data.write_to(file)
        data.release()
        file.write(bytes(_aligned(data.nbytes) - data.nbytes))


def _write(file: IO[bytes], proto: ModelProto, weights: Mapping[str, TensorData]) -> None:
    from onnx import GraphProto, ModelProto

    around, graph = ModelProto(), GraphProto()
    around.CopyFrom(proto)
    around.ClearField("graph")
    graph.CopyFrom(proto.graph)
    large = [tensor for tensor in graph.initializer if tensor.name in weights]
    small = [tensor for tensor in graph.initializer if tensor.name not in weights]
    headers = [_header(tensor, weights[tensor.name].nbytes) for tensor in large]
    del graph.initializer[:]
    graph.initializer.extend(small)
    rest = graph.SerializeToString(deterministic=True)
    size = len(rest)
    for tensor, header in zip(large, headers, strict=True):
        content = len(header) + weights[tensor.name].nbytes
        size += len(_prefix(_GRAPH_INITIALIZER, content)) + content
    file.write(around.SerializeToString(deterministic=True))
    file.write(_prefix(_MODEL_GRAPH, size) + rest)
    for tensor, header in zip(large, headers, strict=True):
        data = weights[tensor.name]
        file.write(_prefix(_GRAPH_INITIALIZER, len(header) + data.nbytes) + header)
        data.write_to(file)
        data.release()


def _header(tensor: TensorProto, nbytes: int) -> bytes:
    """Return a tensor's fields up to its data, of which only the length is written."""
    from onnx import TensorProto

    bare = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    fields: bytes = bare.SerializeToString(deterministic=True)
    return fields + _prefix(_TENSOR_RAW_DATA, nbytes)


def _prefix(number: int, size: int) -> bytes:
    """Return tag and length of a field of bytes."""
    return _varint(number << 3 | _BYTES) + _varint(size)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
