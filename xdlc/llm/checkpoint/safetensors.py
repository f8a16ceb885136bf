"""Safetensors files: a header in JSON, and the bytes of tensors without gaps.

The format is that of huggingface/safetensors' README: eight bytes with the size of the header, the header,
the data.  Offsets count from the end of the header; the tensors fill the rest of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.weights import mapped
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.json_fields import fits, shown
from xdlc.llm.checkpoint.model import json_object

_MOST_HEADER = 1 << 24
"""Bytes of a header; the format permits 100 MB, about 600,000 tensors."""
_MOST_VALUES = 1 << 20
_MOST_RANK = 8
_AGAIN = "the file is damaged or truncated: get it again"
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_ENTRY = {"dtype": str, "shape": [int], "data_offsets": (int, int)}


def read_safetensors(path: Path) -> dict[str, ir.TensorData]:
    """Return the tensors of a file by name, lazily; bfloat16 and float64 as float32.

    Raises:
        ModelError: If the header is not valid, or tensors overlap, leave gaps or leave the file.
        UnsupportedOp: If a tensor has a type that is not supported.
        StorageError: If the file cannot be read.
    """
    file, where = ir.MappedFile(path), str(path)
    size = int.from_bytes(file.view(0, min(8, file.size)), "little")
    if file.size < 8 or not 2 <= size <= file.size - 8:
        raise ModelError(
            f"the header has {size} bytes, but the file has only {file.size}", where=where, fix=_AGAIN
        )
    if size > _MOST_HEADER:
        fix = "save the model in more files, with fewer tensors each"
        raise ModelError(
            f"the header has {size} bytes; xdlc reads at most {_MOST_HEADER}", where=where, fix=fix
        )
    entries = json_object(bytes(file.view(8, size)), where, _MOST_VALUES)
    entries.pop("__metadata__", None)
    for name, entry in entries.items():
        if not isinstance(entry, dict) or set(entry) != set(_ENTRY) or not fits(entry, _ENTRY):
            problem = f"tensor {shown(name)} has no valid dtype, shape and data_offsets"
            raise ModelError(problem, where=where, fix=_AGAIN)
        if len(entry["shape"]) > _MOST_RANK or not all(
            type(dim) is int and 0 <= dim < 1 << 40 for dim in entry["shape"]
        ):
            problem = f"tensor {shown(name)} has the invalid shape {str(entry['shape'])[:80]}"
            raise ModelError(problem, where=where, fix=_AGAIN)
    _check_offsets((entry["data_offsets"] for entry in entries.values()), file.size - 8 - size, where)
    return {name: _data(file, 8 + size, entry, f"{where}: {shown(name)}") for name, entry in entries.items()}


def _check_offsets(ranges: Iterable[list[int]], size: int, where: str) -> None:
    """Check that ranges fill the data of a file in some order."""
    at = 0
    for start, stop in sorted(ranges):
        if start != at or stop < start:
            problem = (
                f"has a tensor at bytes {start} to {stop} of its data, but the next tensor begins at {at}"
            )
            raise ModelError(problem, where=where, fix=_AGAIN)
        at = stop
    if at != size:
        raise ModelError(
            f"the file has {size} bytes of data, but the tensors need {at}", where=where, fix=_AGAIN
        )


def _data(file: ir.MappedFile, begin: int, entry: dict[str, Any], where: str) -> ir.TensorData:
    import ml_dtypes

    name, (start, stop) = entry["dtype"], entry["data_offsets"]
    if name not in _DTYPES and name != "BF16":
        raise UnsupportedOp(
            f"xdlc does not support the type {shown(name)} of this tensor",
            where=where,
            fix="save the model with bfloat16, float16 or float32 weights: `model.to(torch.bfloat16)`",
        )
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16 if name == "BF16" else _DTYPES[name])
    if math.prod(entry["shape"]) >= 1 << 62:
        raise ModelError(f"the shape {entry['shape']} exceeds 2^62 elements", where=where, fix=_AGAIN)
    data = mapped(file, begin + start, stop - start, entry["shape"], dtype, where)
    return data.cast(np.float32) if name in ("BF16", "F64") else data
