"""State dicts of PyTorch, ``pytorch_model.bin``, whose pickles are not executed."""

from __future__ import annotations

from pathlib import Path

from xdlc import ir
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.files import read_bytes
from xdlc.json_fields import shown

_SAVE = "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(FOLDER)"
_MOST_TENSORS = 1 << 16


def read_pickled(path: Path) -> dict[str, ir.TensorData]:
    """Return the tensors of a file of ``torch.save`` by name; bfloat16 as float32.

    Raises:
        ModelError: If it is damaged, or has more than tensors by name.
        UnsupportedOp: If it was written by torch before 1.6, or a type is not supported.
        StorageError: If it cannot be read.
    """
    import numpy as np

    from xdlc.converter.pytorch.archive import Archive
    from xdlc.converter.pytorch.pickled import StoredTensor, unpickle
    from xdlc.converter.pytorch.tensors import unpickled

    where, fix = str(path), f"write safetensors with transformers: {_SAVE}"
    if read_bytes(path, 2)[:2] != b"PK":
        raise UnsupportedOp("the file is not an archive of torch 1.6 or newer", where=where, fix=fix)
    archive = Archive(path)
    tensors = unpickle(archive.read("data.pkl"), f"{where}: data.pkl")
    if not isinstance(tensors, dict) or len(tensors) > _MOST_TENSORS:
        raise ModelError("the file does not hold a mapping of names to tensors", where=where, fix=fix)
    weights: dict[str, ir.TensorData] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, StoredTensor) or tensor.quantizer:
            problem = f"the entry {shown(str(name))} is not a plain tensor"
            raise ModelError(problem, where=where, fix=fix)
        data = unpickled(archive, "data/", tensor, f"{where}: {shown(name)}")
        weights[name] = data.cast(np.float32) if data.dtype.name == "bfloat16" else data
    return weights
