"""Checkpoints of language models, read without executing anything of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from xdlc.converter import formats
from xdlc.errors import StorageError, UsageError
from xdlc.llm.checkpoint.folder import open_folder, open_module
from xdlc.llm.checkpoint.gguf_model import open_gguf
from xdlc.llm.checkpoint.model import Checkpoint, Weight

if TYPE_CHECKING:
    from torch.nn import Module

__all__ = ["Checkpoint", "Weight", "open_checkpoint"]


def open_checkpoint(path: str | os.PathLike[str] | Module) -> Checkpoint:
    """Open a folder of Hugging Face with config.json and safetensors, or a GGUF file.

    A network of transformers in memory is another form.  Weights stay where they are until they are read.

    Raises:
        UsageError: If it is something else.
        ModelError: If it is damaged, or a part is missing.
        UnsupportedOp: If its weights have a form that is not supported.
        StorageError: If it cannot be read.
    """
    if not isinstance(path, str | os.PathLike):
        return open_module(path)
    place = Path(path)
    try:
        form = formats.recognize(place)
    except OSError as error:
        raise StorageError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="check the path"
        ) from error
    if place.is_dir():
        return open_folder(place)
    if form is formats.GGUF:
        return open_gguf(place)
    fix = "name a folder with config.json and *.safetensors, or a GGUF file"
    if form is formats.SAFETENSORS or place.name == "config.json":
        fix = f"name its folder: {place.parent}"
    raise UsageError(
        f"is {form.name if form else 'not a checkpoint of a language model'}", where=str(path), fix=fix
    )
