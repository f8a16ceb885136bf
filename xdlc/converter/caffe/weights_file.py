"""Weights of Caffe nets by layer, from a ``.caffemodel`` or HDF5 file, lazy.

Field numbers: caffe.proto of BVLC, from its first layers to its last.  Only names and blobs are read of a
``.caffemodel``: forks give other numbers different meanings, and the text of the net rules all parameters.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xdlc import ir
from xdlc.converter.hdf5 import Hdf5
from xdlc.converter.protobuf_fields import BYTES, FIXED32, FIXED64, VARINT, Field, ProtobufFile
from xdlc.errors import ModelError, UsageError, damaged, nearest_names
from xdlc.options import spell

_LAYERS_V1, _LAYERS = 2, 100
_LAYER_OF_V0, _NAME_OF_V1, _BLOBS_OF_V1 = 1, 4, 6
_NAME, _BLOBS, _BLOBS_OF_V0 = 1, 7, 50
_DATA, _SHAPE, _DOUBLE_DATA = 5, 7, 8
_OLD_SIZES = range(1, 5)  # num, channels, height, width
_MOST_DIMS = 32  # Caffe's own limit
_MOST_BLOBS = 1 << 16
_MOST_RUNS = 1 << 16
_LETTERS = 1024
"""Bytes of a layer's name."""
_HINTS = 8
"""Errors that come with the nearest names."""


class WeightsFile(ABC):
    """A file of weights."""

    def __init__(self, path: Path, nbytes: int) -> None:
        self.path = path
        self.nbytes = nbytes

    @abstractmethod
    def blobs(self, layer: str) -> Sequence[ir.TensorData]:
        """Return the weights of a layer, none if the file has none for it.

        Raises:
            ModelError: If they are damaged.
        """

    @abstractmethod
    def lacks(self, layer: str) -> str:
        """Return the words of an error for a layer without weights."""


def open_weights(path: str | os.PathLike[str]) -> WeightsFile:
    """Return the weights in a file, binary or HDF5.

    Raises:
        ModelError: If it is neither.
        StorageError: If it cannot be read.
        UsageError: If it is a text, or h5py is missing.
    """
    file = ir.MappedFile(path)
    head = bytes(file.view(0, min(file.size, 4096)))
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return _Hdf5Weights(file)
    if head and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        fix = f"pass the net as {spell('path')} and the .caffemodel as {spell('weights')}"
        raise UsageError("the file contains text, not weights", where=str(path), fix=fix)
    return _Caffemodel(file)


class _Caffemodel(WeightsFile):
    """Weights in the binary message ``NetParameter`` of any version."""

    def __init__(self, file: ir.MappedFile) -> None:
        super().__init__(file.path, file.size)
        self._file = ProtobufFile(file, "a .caffemodel")
        self._blobs: dict[str, list[Field]] = {}
        self._hints = _HINTS
        for field in self._file.fields():
            if field.number == _LAYERS and field.wire == BYTES:
                self._add(field, _NAME, _BLOBS)
            elif field.number == _LAYERS_V1 and field.wire == BYTES:
                self._add_of_v1(field)
        if not any(self._blobs.values()):
            raise ModelError(
                "the file contains no weights",
                where=str(file.path),
                fix="pass the .caffemodel that training wrote, not the state of a solver",
            )

    def blobs(self, layer: str) -> Sequence[ir.TensorData]:
        return [self._data(blob, f"{self.path}: layer {layer!r}") for blob in self._blobs.get(layer, ())]

    def lacks(self, layer: str) -> str:
        held = [name for name, blobs in self._blobs.items() if blobs]
        shown = ", ".join(map(repr, held[:8])) + (f" and {len(held) - 8} more" if len(held) > 8 else "")
        close = nearest_names(layer, held) if self._hints > 0 else ""
        self._hints -= 1
        return f"{self.path.name} has no weights for this layer; it has weights of the layers {shown}" + (
            f" ({close})" if close else ""
        )

    def _add(self, layer: Field, name_number: int, blobs_number: int) -> None:
        name, blobs = "", []
        for field in self._file.fields(layer.start, layer.end):
            if field.number == name_number and field.wire == BYTES:
                name = self._file.text(field, _LETTERS)
            elif field.number == blobs_number and field.wire == BYTES:
                blobs.append(field)
        if len(blobs) > _MOST_BLOBS:
            raise damaged(f"layer {name!r} has {len(blobs)} blobs", str(self.path))
        if blobs:
            self._blobs[name] = blobs

    def _add_of_v1(self, layer: Field) -> None:
        inner = [
            field
            for field in self._file.fields(layer.start, layer.end)
            if field.number == _LAYER_OF_V0 and field.wire == BYTES
        ]
        if inner:
            self._add(inner[0], _NAME, _BLOBS_OF_V0)
        else:
            self._add(layer, _NAME_OF_V1, _BLOBS_OF_V1)

    def _data(self, blob: Field, where: str) -> ir.TensorData:
        file = self._file
        shape: list[int] | None = None
        old = dict.fromkeys(_OLD_SIZES, 0)
        runs: dict[int, list[Field]] = {_DATA: [], _DOUBLE_DATA: []}
        for field in file.fields(blob.start, blob.end):
            if field.number in runs:
                runs[field.number].append(field)
            elif field.number == _SHAPE:
                shape = self._dims(field)
            elif field.number in old and field.wire == VARINT:
                old[field.number] = file.signed(field)
        sizes = list(old.values()) if shape is None else shape
        if len(sizes) > _MOST_DIMS or any(not 0 <= size < 1 << 31 for size in sizes):
            raise damaged(f"a weight blob has the invalid shape {sizes[:8]}", where)
        number = _DATA if runs[_DATA] else _DOUBLE_DATA
        fields, wire = runs[number], FIXED32 if number == _DATA else FIXED64
        if not fields:
            raise ModelError(
                "a weight blob has no data",
                where=where,
                fix="save the weights as float32; xdlc reads no other type",
            )
        if len(fields) > _MOST_RUNS:
            raise damaged(f"a weight blob has its data in {len(fields)} parts instead of 1", where)
        parts = [file.lazy_reals(field, wire) for field in fields]
        count, wanted = sum(part.shape[0] for part in parts), math.prod(sizes)
        if count != wanted:
            raise damaged(f"the weight blob has {count} elements, but shape {sizes[:8]}", where)
        data = parts[0] if len(parts) == 1 else ir.ArrayData(np.concatenate([each.numpy() for each in parts]))
        return data.reshape(sizes).cast(np.float32)

    def _dims(self, shape: Field) -> list[int]:
        self._file.require(shape, BYTES)
        fields = self._file.fields(shape.start, shape.end)
        return [size for field in fields if field.number == 1 for size in self._file.integers(field)]


class _Hdf5Weights(WeightsFile):
    """Weights in an HDF5 file: dataset ``data/LAYER/INDEX`` for each."""

    def __init__(self, file: ir.MappedFile) -> None:
        super().__init__(file.path, file.size)
        self._file = Hdf5(file, 0, file.size, str(file.path), "caffe")
        if not self._file.has("data"):
            fix = "pass the file that Caffe wrote with the snapshot format HDF5"
            raise ModelError("the file has no group 'data'", where=str(file.path), fix=fix)

    def blobs(self, layer: str) -> Sequence[ir.TensorData]:
        blobs: list[ir.TensorData] = []
        while (data := self._file.data(f"data/{layer}/{len(blobs)}")) is not None and len(
            blobs
        ) < _MOST_BLOBS:
            blobs.append(data if data.dtype == np.float32 else _as_float(data))
        return blobs

    def lacks(self, layer: str) -> str:
        return f"{self.path.name} has no weights of that name"


def _as_float(data: ir.TensorData) -> ir.TensorData:
    return data.cast(np.float32)
