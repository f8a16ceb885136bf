"""Output paths, and checks that they can be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from xdlc.errors import StorageError


@contextmanager
def storage_errors(path: str | os.PathLike[str], verb: str = "written") -> Iterator[None]:
    """Turn the operating system's refusals into a StorageError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot be {verb}: {error.strerror or error}",
            where=str(path),
            fix="check the path, its permissions and the free space",
        ) from error


def check_target(path: Path) -> Path:
    """Return the path of a file to be written, after a check that it can be.

    Work of minutes should not end in an error that was there from the start.

    Args:
        path: The file to be written.

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
            )
        if path.is_dir():
            raise StorageError("cannot be written: it is a folder", where=str(path), fix="name a file")
        if path.exists() and not path.is_file():
            raise StorageError("cannot be written: it is no regular file", where=str(path), fix="name a file")
    check_folder(path.parent, path)
    check_output(path)
    return path


@contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """Make a folder, and remove it again if it is empty in the end.

    Args:
        path: A file in it.

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
        folder: The folder.
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
    """Return the default output beside ``source``.

    Example:
        >>> derived_path(Path("nets/a.onnx"), "_quantized.dlc").as_posix()
        'nets/a_quantized.dlc'
    """
    return source.with_name(source.stem + suffix)
