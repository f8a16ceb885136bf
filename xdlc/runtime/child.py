"""Child processes: command lines, environment, temporary folders, errors as JSON, and their ends."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xdlc import errors
from xdlc.errors import BackendError, ProblemList, StorageError, XdlcError


def command(module: str) -> list[str]:
    """Return the command line of a child that runs a module, and nothing of the current folder.

    Args:
        module: Its name, like ``xdlc.runtime.htp.worker``.
    """
    return [sys.executable, "-P", "-m", module]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a child's environment: it imports the very xdlc that runs here, installed or not.

    Neither it nor its own children import from the current folder, unless PYTHONPATH names that.

    Args:
        more: Variables to set.
    """
    root = str(Path(errors.__file__).resolve().parent.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, **(more or {}), "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


@contextmanager
def temporary_files() -> Iterator[None]:
    """Turn the system's refusals to write temporary files into a StorageError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise StorageError(
                f"no more files can be opened: {error.strerror}", fix="raise their limit: ulimit -n 65536"
            ) from error
        import tempfile

        raise StorageError(
            f"a temporary file cannot be written: {error.strerror or error}",
            where=tempfile.gettempdir(),
            fix="free some space, or set TMPDIR to a folder with space",
        ) from error


class TemporaryFolder:
    """A temporary folder, which only the process that made it removes: on leaving, or at its last use.

    A copy of the process, by ``os.fork``, has the object too and ends in its own time.

    Args:
        prefix: What its name begins with.
        dir: Folder around it; default: that of the system.

    Attributes:
        name: Its path.

    Raises:
        OSError: If it cannot be made.
    """

    def __init__(self, prefix: str = "xdlc-", dir: str | os.PathLike[str] | None = None) -> None:
        import tempfile

        self.name = tempfile.mkdtemp(prefix=prefix, dir=dir)
        self.cleanup = weakref.finalize(self, _remove, self.name, os.getpid())

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def words_of(error: XdlcError) -> dict[str, Any]:
    """Return an error as what JSON can hold."""
    return {
        "kind": type(error).__name__,
        "problem": error.problem,
        "where": error.where,
        "fix": error.fix,
        "node": error.node,
        "op": error.op,
    }


def error_of(words: Mapping[str, Any]) -> XdlcError:
    """Return the error that a child has put into words.

    Raises:
        TypeError: If these are no words of an error.
        KeyError: Likewise.
    """
    given = dict(words)
    kind = getattr(errors, given.pop("kind"), BackendError)
    known = isinstance(kind, type) and issubclass(kind, XdlcError) and kind is not ProblemList
    return (kind if known else BackendError)(**given)


def ending(status: int) -> str:
    """Return the end of a process in words, from its status as ``subprocess`` returns it.

    Example:
        >>> ending(-11), ending(1)
        ('SIGSEGV', 'status 1')
    """
    if status >= 0:
        return f"status {status}"
    return signal.Signals(-status).name if -status in signal.valid_signals() else f"signal {-status}"
