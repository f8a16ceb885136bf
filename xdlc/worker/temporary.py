"""Temporary files and folders."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO

from xdlc.errors import StorageError


@contextmanager
def temporary_files() -> Iterator[None]:
    """Raise a StorageError if the system refuses to write temporary files."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise StorageError(
                f"xdlc cannot open more files: {error.strerror}", fix="raise the limit: ulimit -n 65536"
            ) from error
        import tempfile

        raise StorageError(
            f"xdlc cannot write a temporary file: {error.strerror or error}",
            where=tempfile.gettempdir(),
            fix="free some space, or set TMPDIR to a folder with space",
        ) from error


def temporary_file() -> IO[bytes]:
    """Return a new temporary file without a name.

    Raises:
        StorageError: If the system opens no more files, or there is no space.
    """
    import tempfile

    with temporary_files():
        return tempfile.TemporaryFile()


class TemporaryFolder:
    """A temporary folder that only the process that made it removes.

    A copy of the process, by ``os.fork``, has the object too and ends in its own time.

    Args:
        prefix: What its name begins with.
        dir: Folder around it; default: that of the system.

    Attributes:
        name: Its path.

    Raises:
        StorageError: If it cannot be made.
        OSError: Likewise, in a given folder.
    """

    def __init__(self, prefix: str = "xdlc-", dir: str | os.PathLike[str] | None = None) -> None:
        import tempfile

        with temporary_files() if dir is None else nullcontext():
            self.name = tempfile.mkdtemp(prefix=prefix, dir=dir)
        self.cleanup = weakref.finalize(self, _remove, self.name, os.getpid())

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
