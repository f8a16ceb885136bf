"""Folder of raw results, as net runs on a device or here write them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from xdlc.compare.engines import Values
from xdlc.errors import UsageError
from xdlc.ir import Model, Tensor
from xdlc.ir.data import Array
from xdlc.ir.files import read_bytes
from xdlc.ir.quantization import to_float

_SUFFIXES = (".raw", "_native.raw")


def file_name(tensor: str) -> str:
    """Return the name of a tensor as that of a file."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", tensor)


class RawResults:
    """Results of a net run: ``Result_N/<tensor>.raw``, float32 or of own types.

    A slash in a tensor's name makes a folder, or is an underscore, as with the vendor's tools.

    Args:
        folder: The folder, or that of one result.
        model: The DLC that ran.

    Raises:
        UsageError: If the first result has no tensor of the DLC.
    """

    def __init__(self, folder: str, model: Model) -> None:
        self._folder, self._model = Path(folder), model
        self.title = f"results in {folder}"
        tensors = [tensor for op in model.main.ops for tensor in op.outputs]
        self.names: Collection[str] = [tensor.name for tensor in tensors if self._path(tensor, 0) is not None]
        if not self.names:
            raise UsageError(
                "the folder has no raw file for any tensor of the DLC",
                where=folder,
                fix="pass the folder that holds Result_0, from a run that wrote all tensors",
            )

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors of a result by name."""
        del feeds
        return {name: self._read(self._model.main.tensors[name], sample) for name in names}

    def _path(self, tensor: Tensor, sample: int) -> Path | None:
        result = self._folder / f"Result_{sample}"
        if not result.is_dir() and sample:
            return None
        base = result if result.is_dir() else self._folder
        names = (tensor.name, file_name(tensor.name))
        for name in names:
            if ".." in name.split("/") or name.startswith("/"):
                continue
            for suffix in _SUFFIXES:
                path = base / f"{name}{suffix}"
                if os.path.isfile(path):  # False for a name that no file can have
                    return path
        return None

    def _read(self, tensor: Tensor, sample: int) -> Array:
        import numpy as np

        path = self._path(tensor, sample)
        if path is None:
            where = str(self._folder / f"Result_{sample}")
            fix = "pass one sample for each result"
            raise UsageError(f"the results have no tensor {tensor.name!r}", where=where, fix=fix)
        own = tensor.dtype.numpy
        is_native = path.name.endswith("_native.raw")
        data = read_bytes(path, 8 * tensor.size)
        is_real = not is_native and (tensor.dtype.is_fixed or len(data) == 4 * tensor.size)
        dtype = own if is_native or not is_real else np.dtype("<f4")
        size = dtype.itemsize * tensor.size
        if len(data) != size:
            problem = f"has {len(data)} bytes, but {list(tensor.shape)} of {dtype} needs {size}"
            raise UsageError(problem, where=str(path), fix="run the DLC again")
        values = np.frombuffer(data, dtype).reshape(tensor.shape)
        if is_native and tensor.dtype.is_fixed and tensor.encoding is not None:
            return to_float(values, tensor.encoding, where=str(path))
        return values
