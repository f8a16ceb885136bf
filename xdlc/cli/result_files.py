"""Files of results: one a tensor, in a folder for each inference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xdlc.cli.output_path import folder_for
from xdlc.cli.text import short as shortened
from xdlc.errors import UsageError

LONGEST_NAME = 255  # bytes, on the usual file systems


def paths_of(names: Iterable[str], what: str, suffix: str = "") -> dict[str, Path]:
    """Return a relative path for each name; they are untrusted input, and must not lead out of the folder.

    Args:
        names: Names.
        what: What has them, for errors.
        suffix: What each path ends in.

    Raises:
        UsageError: If a name cannot be a path, or two would share one.
    """
    found = {name: _path(name, what, suffix) for name in names}
    taken: dict[Path, str] = {}
    for name, path in found.items():
        if path in taken:
            raise _clash(what, taken[path], name)
        taken[path] = name
    for name, path in found.items():
        for folder in path.parents:
            if folder in taken:
                raise _clash(what, taken[folder], name)
    return found


def _clash(what: str, one: str, other: str) -> UsageError:
    return UsageError(
        f"the {what}s {one!r} and {other!r} would be written to the same path",
        fix="rename one of them in the source model",
    )


def _path(name: str, what: str, suffix: str) -> Path:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if parts:
        parts[-1] += suffix
    too_long = any(len(part.encode()) > LONGEST_NAME for part in parts)
    if not parts or ".." in name.split("/") or "\0" in name or too_long:
        raise UsageError(
            f"the name of {what} {shortened(name)!r} cannot be a file name",
            fix=f"rename the {what} in the source model",
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


def _write_file(target: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    from xdlc.ir.files import replace_file

    with folder_for(target):
        replace_file(target, content, lasting=False)
