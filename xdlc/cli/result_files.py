"""Files of results: one a tensor, in a folder for each inference."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdlc.cli.output_path import folder_for, storage_errors
from xdlc.cli.text import short as shortened
from xdlc.errors import UsageError

LONGEST_NAME = 255  # bytes, on the usual file systems


def files_of(tensors: Sequence[str], native: bool) -> dict[str, Path]:
    """Return the file of each tensor in a result folder; native ones have another suffix.

    Raises:
        UsageError: If a name cannot be a file's, or two tensors would share a path.
    """
    files = {name: _file_name(name, native) for name in tensors}
    taken: dict[Path, str] = {}
    for name, file in files.items():
        if file in taken:
            raise _clash(taken[file], name)
        taken[file] = name
    for name, file in files.items():
        for folder in file.parents:
            if folder in taken:
                raise _clash(taken[folder], name)
    return files


def _clash(one: str, other: str) -> UsageError:
    return UsageError(
        f"the outputs {one!r} and {other!r} would be written to the same path",
        fix="rename one of them in the source model",
    )


def _file_name(tensor: str, native: bool) -> Path:
    """Return the file of a tensor in a result folder; its name is untrusted and must not lead out of it."""
    parts = [part for part in tensor.split("/") if part not in ("", ".")]
    if parts:
        parts[-1] += "_native.raw" if native else ".raw"
    too_long = any(len(part.encode()) > LONGEST_NAME for part in parts)
    if not parts or ".." in tensor.split("/") or "\0" in tensor or too_long:
        raise UsageError(
            f"the name of output {shortened(tensor)!r} cannot be a file name",
            fix="rename the output in the source model",
        )
    return Path(*parts)


def write(
    folder: Path,
    files: Mapping[str, Path],
    results: Mapping[str, Any],
    part: tuple[int, int] | None,
    native: bool,
) -> None:
    """Write the results of an inference.

    Args:
        folder: The folder.
        files: Path in it by tensor.
        results: Arrays by tensor.
        part: Number of the item to write and of all items, of what is a batch.
        native: Whether they are written in their own types; else as float32.
    """
    import numpy as np

    real = np.dtype("<f4")
    for name, file in files.items():
        array = results[name]
        if part is not None and array.ndim and array.shape[0] == part[1]:
            array = array[part[0] : part[0] + 1]
        _write_file(folder / file, np.ascontiguousarray(array, None if native else real).tobytes())


def write_text(target: Path, text: str) -> None:
    """Write a file of text as a whole or not at all."""
    _write_file(target, text.encode())


def _write_file(target: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    unfinished = target.with_name(f".{os.getpid()}.part")
    with folder_for(target), storage_errors(target):
        try:
            unfinished.write_bytes(content)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
