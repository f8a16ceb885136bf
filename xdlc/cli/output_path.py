"""Output paths, checks that they can be written, and result files of tensors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any

from xdlc.cli.text import short as shortened
from xdlc.errors import StorageError, UsageError

LONGEST_NAME = 255  # bytes, on the usual file systems


@contextmanager
def storage_errors(path: str | os.PathLike[str], verb: str = "written") -> Iterator[None]:
    """Raise a StorageError that names ``path`` in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot be {verb}: {error.strerror or error}",
            where=str(path),
            fix="check the path, its permissions and the free space",
        ) from error


def check_target(path: Path) -> Path:
    """Return the path of an output file, after a check that it can be written.

    Work of minutes should not end in an error that was there from the start.

    Raises:
        UsageError: If ``path`` is a file that the tool reads, or writes already.
        StorageError: If the folder is missing or not writable, or the path is a folder, a device or
            read-only.
    """
    from xdlc.ir.files import check_output

    with storage_errors(path):
        if not path.parent.is_dir():
            raise StorageError(
                "cannot be written: its folder does not exist",
                where=str(path),
                fix=f"mkdir -p {quote(str(path.parent))}",
                code="XD802",
            )
        if path.is_dir():
            raise StorageError("cannot be written: it is a folder", where=str(path), fix="name a file")
        if path.exists() and not path.is_file():
            raise StorageError("cannot be written: not a regular file", where=str(path), fix="name a file")
    check_folder(path.parent, path)
    check_output(path)
    return path


@contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """Create a folder; remove it at the end if it is empty.

    Raises:
        StorageError: If it cannot be made or written to.
    """
    new = [folder for folder in path.parents if not os.path.exists(folder)]
    try:
        with storage_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        check_folder(path.parent, path)
        yield
    finally:
        for folder in new:
            with suppress(OSError):  # it is not empty, or was never made
                folder.rmdir()


def check_folder(folder: Path, path: Path) -> None:
    """Check that files can be made in a folder.

    Args:
        path: The file, for the message.

    Raises:
        StorageError: If they cannot.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(
            "cannot be written: no permission to write to its folder",
            where=str(path),
            fix="choose another output path",
        )


def derived_path(source: Path, suffix: str) -> Path:
    """Return the default output path in the folder of ``source``.

    Example:
        >>> derived_path(Path("nets/a.onnx"), "_quantized.dlc").as_posix()
        'nets/a_quantized.dlc'
    """
    return source.with_name(source.stem + suffix)


def paths_of(names: Iterable[str], what: str, suffix: str = "") -> dict[str, Path]:
    """Return a relative path for each name; all are inside the folder.

    Args:
        what: What has them, for errors.
        suffix: What each path ends in.

    Raises:
        UsageError: If a name cannot be a path, or two would share one.
    """
    paths = {name: _path(name, what, suffix) for name in names}
    taken: dict[Path, str] = {}
    for name, path in paths.items():
        if path in taken:
            raise _clash(what, taken[path], name)
        taken[path] = name
    for name, path in paths.items():
        for folder in path.parents:
            if folder in taken:
                raise _clash(what, taken[folder], name)
    return paths


def _clash(what: str, one: str, other: str) -> UsageError:
    return UsageError(
        f"the {what}s {one!r} and {other!r} would overwrite each other",
        fix="rename one of the two in the source model",
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
        files: Path in it by tensor.
        results: Arrays by tensor.
        part: Number of the item to write and of all items, of what is a batch.
        native: Whether they are written in their own types; else as float32.
    """
    import numpy as np

    from xdlc.ir.files import replace_file

    real = np.dtype("<f4")
    for name, file in files.items():
        array = results[name]
        if part is not None and array.ndim and array.shape[0] == part[1]:
            array = array[part[0] : part[0] + 1]
        content = np.ascontiguousarray(array, None if native else real).tobytes()
        with folder_for(folder / file):
            replace_file(folder / file, content, lasting=False)
