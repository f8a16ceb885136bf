"""Files of users: only regular files are read; files are replaced atomically.

What is appended to a file is summed, and copied from other files without holding it in memory.
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any, cast

from xdlc.errors import StorageError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from xdlc.ir.data import MappedFile

PathLike = str | os.PathLike[str]
Writer = Callable[[IO[bytes]], object] | bytes
"""Content of a file, or a function that writes it."""
_Identity = tuple[int, int]

BUFFER = 1 << 20
COPY_CHUNK = 1 << 26
COPY_BUFFER = 1 << 18  # fits into the cache of a core
WRITEBACK = 1 << 24  # bytes after which the disk begins to write
SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h
_READ = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOCTTY"))
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
_NEW |= sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
_FIX_READ = "check the path and its permissions"
_FIX_MEMORY = "free memory, or use a machine with more memory"
_NO_FILE = "the path names a device, a pipe or a socket"
_NO_KERNEL_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)


class _Used:
    """Files that a call reads and will write, by device and inode."""

    def __init__(self, both: Sequence[PathLike]) -> None:
        self.both = {os.path.realpath(path) for path in both}
        self.read: dict[_Identity, set[str]] = {}
        self.written: dict[str, _Identity | None] = {}

    def reads(self, identity: _Identity) -> bool:
        """Return whether a file was read and exists; inodes are used anew."""
        return any(_identity(path) == identity for path in self.read.get(identity, ()))


def _identity(path: str) -> _Identity | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_used: ContextVar[_Used | None] = ContextVar("_used", default=None)
_waiting: ContextVar[list[tuple[str, str]] | None] = ContextVar("_waiting", default=None)
"""Temporary files that wait for others, and what they will replace."""


@contextmanager
def kept_apart(both: Sequence[PathLike] | None = None) -> Iterator[None]:
    """Refuse in a context to read and write one file, or to write one twice.

    Args:
        both: Files that are read and then replaced on purpose; None for a context within another one, which
            goes on.
    """
    if both is None and _used.get() is not None:
        yield
        return
    token = _used.set(_Used(both or ()))
    try:
        yield
    finally:
        _used.reset(token)


def unread(error: OSError | ValueError, where: str) -> StorageError:
    """Return the error of a file that cannot be read, with a fix that fits its reason."""
    reason = getattr(error, "strerror", None) or str(error)
    fixes = {errno.ENOMEM: _FIX_MEMORY}
    fix = fixes.get(getattr(error, "errno", None) or 0, _FIX_READ)
    return StorageError(f"the file cannot be read: {reason}", where=where, fix=fix, code="XD801")


def checked_path(path: PathLike) -> str:
    """Return a path as text; refuse paths that the file system cannot represent.

    Raises:
        StorageError: If it is empty, has a NUL character, or one that the file system's encoding lacks.
    """
    text, problem = os.fspath(path), ""
    try:
        problem = (
            "the path is empty"
            if not text
            else "the path has a null character"
            if b"\0" in os.fsencode(text)
            else ""
        )
    except UnicodeError as error:
        problem = f"the path has characters that the file system does not support: {error}"
    if problem:
        raise StorageError(problem, where=ascii(text)[1:-1], fix="pass the path of a file")
    return text


def open_file(path: PathLike) -> IO[bytes]:
    """Open a file of a user or of untrusted input without blocking on pipes.

    Raises:
        UsageError: If it is a file that the running call will write.
        StorageError: If it is not a path, cannot be read, or is a folder, a device, a pipe or a socket.
    """
    where = checked_path(path)
    descriptor = -1
    try:
        status = os.stat(where)  # to open a device may have effects
        if stat.S_ISREG(status.st_mode):
            descriptor = os.open(where, _READ)
            status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            problem = "Is a directory" if stat.S_ISDIR(status.st_mode) else _NO_FILE
            raise OSError(0, problem)
        _note_read(where, status)
        return os.fdopen(descriptor, "rb")
    except (OSError, UsageError) as error:
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(error, UsageError):
            raise
        failure = unread(error, where)
        if error.strerror == _NO_FILE:
            failure.fix = "write the content to a file, and pass it"
        raise failure from error


def read_bytes(path: PathLike, most: int) -> bytes:
    """Return the content of a file, or ``most + 1`` bytes of a larger one.

    Raises:
        XdlcError: As ``open_file`` does.
    """
    with open_file(path) as file:
        try:
            return file.read(most + 1)
        except OSError as error:
            raise unread(error, os.fspath(path)) from error


def check_readable(path: PathLike) -> None:
    """Check that another library can read a file, with the errors of ``open_file``."""
    open_file(path).close()


def _note_read(where: str, held: os.stat_result) -> None:
    used = _used.get()
    if used is None or (used.both and os.path.realpath(where) in used.both):
        return
    identity = held.st_dev, held.st_ino
    if identity in used.written.values():
        raise _replaces(where)
    used.read.setdefault(identity, set()).add(os.path.realpath(where))


def _replaces(where: str) -> UsageError:
    return UsageError(
        "the output would replace the input", where=where, fix="choose another output path", code="XD208"
    )


def check_output(path: PathLike) -> str:
    """Return where a file will be written, links followed, and remember it.

    Raises:
        UsageError: If it is a folder, a device or a pipe, or a file that the running call reads, or writes
            already.
        StorageError: If it is not a path, or the file may not be written to.
    """
    where = checked_path(path)
    target, identity = _target(where)
    used = _used.get()
    if used is not None and target not in used.both:
        if target in used.written or (identity and identity in used.written.values()):
            fix = "give each output a separate path"
            raise UsageError("two outputs would be written to one file", where=where, fix=fix, code="XD208")
        used.written[target] = identity
    return target


def _target(where: str) -> tuple[str, _Identity | None]:
    """Return the real path of a file to be written, and its identity if it exists."""
    target = os.path.realpath(where)
    try:
        status = os.stat(target)
    except OSError:
        return target, None  # missing or not accessible: writing reports it
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(
            "the output path names a folder, a device or a pipe, not a file",
            where=where,
            fix="choose the path of a file",
        )
    if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
        fix = "choose another path, or make the file writable"
        raise StorageError(
            "xdlc cannot write the file: the file is read-only", where=where, fix=fix, code="XD802"
        )
    identity, used = (status.st_dev, status.st_ino), _used.get()
    if used is not None and used.reads(identity) and target not in used.both:
        raise _replaces(where)
    return target, identity


def make_folder(folder: PathLike) -> None:
    """Make a folder, and those around it.

    Raises:
        StorageError: If the system refuses.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        problem, fix = (
            f"the folder cannot be created: {error.strerror or error}",
            "choose a folder that you may write to",
        )
        raise StorageError(problem, where=os.fspath(folder), fix=fix, code="XD802") from error


def replace_text(path: PathLike, text: str, *, executable: bool = False) -> None:
    """Replace a file by a text in UTF-8 with half surrogate pairs escaped."""
    replace_file(path, text.encode("utf-8", "backslashreplace"), executable=executable)


_FORMULA = re.compile(r"[=+@]|-(?![0-9.e+-]*$)")


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV without control characters and spreadsheet formulas."""
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in rows:
        cells = [
            "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in str(cell)) for cell in row
        ]
        writer.writerow([f"'{cell}" if _FORMULA.match(cell) else cell for cell in cells])
    return buffer.getvalue()


def replace_file(path: PathLike, write: Writer, *, lasting: bool = True, executable: bool = False) -> None:
    """Write a temporary file, flush it to the disk, and replace ``path`` by it.

    Args:
        path: The file to make or replace; a symbolic link is followed, owner and mode of a file are kept.
        write: The content, or what writes it.
        lasting: Whether the file has to be on the disk when the call returns.
        executable: Whether those who may read it may execute it.

    Raises:
        UsageError: If ``path`` names a folder, a device or a pipe, or a file that the running call reads.
        StorageError: If any step fails; no temporary file remains, and an old file is unchanged.
    """
    where = checked_path(path)
    with together() as made:
        target, _ = _target(where)
        try:
            descriptor, temporary = _temporary(target, 0o777 if executable else 0o666)
            made.append((temporary, target))
            with os.fdopen(descriptor, "wb", BUFFER) as file:
                file.write(write) if isinstance(write, bytes) else write(file)
                file.flush()
                if lasting:
                    os.fsync(file.fileno())
        except OSError as error:
            raise _not_written(where, error) from error
    if lasting and _waiting.get() is None:
        _sync_folder(os.path.dirname(target))


@contextmanager
def together() -> Iterator[list[tuple[str, str]]]:
    """Replace all files written in a context at its end, or none of them.

    The first ones are replaced immediately before the last, which should be the one that refers to them: only
    a process that is killed between two such steps leaves new and old files side by side.

    Raises:
        StorageError: If one cannot be replaced; all are as they were.
    """
    outer = _waiting.get()
    if outer is not None:
        yield outer
        return
    files: list[tuple[str, str]] = []
    token = _waiting.set(files)
    try:
        yield files
        try:
            _move(files)
        except OSError as error:
            raise _not_written(files[-1][1], error) from error
    except BaseException:
        for temporary, _ in files:
            with suppress(OSError):
                os.unlink(temporary)
        raise
    finally:
        _waiting.reset(token)
    used = _used.get()
    if used is not None:  # what is there now is the call's own, which it may read
        used.written.update((target, None) for _, target in files if target in used.written)
    if len(files) > 1:
        for folder in {os.path.dirname(target) for _, target in files}:
            _sync_folder(folder)


def _not_written(where: str, error: OSError) -> StorageError:
    problem = f"the file cannot be written: {error.strerror or error}"
    return StorageError(
        problem, where=where, fix="free space on the disk, or choose a folder that you may write to"
    )


def _temporary(target: str, mode: int) -> tuple[int, str]:
    """Open a new file next to the target, private until it has the target's mode."""
    name = os.path.join(os.path.dirname(target), f".xdlc-{os.urandom(12).hex()}.part")
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return os.open(name, _NEW, mode), name
    descriptor = os.open(name, _NEW, 0o600)
    if hasattr(os, "fchmod"):
        try:
            _take_over(descriptor, status, mode & 0o111)
        except BaseException:
            os.close(descriptor)
            os.unlink(name)
            raise
    return descriptor, name


def _take_over(descriptor: int, replaced: os.stat_result, more: int) -> None:
    """Set owner and mode of a replaced file, and ``more`` rights for its readers."""
    own, mode = os.fstat(descriptor), stat.S_IMODE(replaced.st_mode) & 0o777
    mode |= mode >> 2 & more
    if own.st_gid != replaced.st_gid:
        try:
            os.fchown(descriptor, -1, replaced.st_gid)
        except PermissionError:
            mode &= 0o707  # the rights of that group are not another's
    if own.st_uid != replaced.st_uid:
        with suppress(PermissionError):
            os.fchown(descriptor, replaced.st_uid, -1)
    os.fchmod(descriptor, mode)


def _move(files: Sequence[tuple[str, str]]) -> None:
    """Replace each target by its temporary file; restore all if one fails."""
    kept: list[tuple[str, str]] = []
    done: list[str] = []
    try:
        for temporary, target in files[:-1]:
            if os.path.exists(target):
                beside = f"{temporary.removesuffix('.part')}.old"
                kept.append((beside, target))
                try:
                    os.link(target, beside)
                except OSError:  # as on a file system without hard links
                    import shutil

                    shutil.copy2(target, beside)
        for temporary, target in files:
            os.replace(temporary, target)
            done.append(target)
    except BaseException:
        backed_up = {target for _, target in kept}
        for beside, target in kept:
            if target in done:
                os.replace(beside, target)
        for target in done:
            if target not in backed_up:
                os.unlink(target)
        raise
    finally:
        for beside, _ in kept:
            with suppress(OSError):
                os.unlink(beside)


def _sync_folder(path: str) -> None:
    """Flush a folder, if the system supports it, so that new names are durable."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class SummedFile:
    """A file for appending that knows its CRC-32, and whether floats of it are NaN.

    Attributes:
        crc: The sum.
        floats: Type of the floats that are appended now, None for other data.
        has_nan: Whether one of them is NaN; callers reset it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.crc = 0
        self.floats: np.dtype[Any] | None = None
        self.has_nan = False

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        self.add(content)
        self.file.write(content)

    def add(self, content: bytes | bytearray | memoryview) -> None:
        """Update the checksum with appended bytes."""
        self.crc = zlib.crc32(content, self.crc)
        if self.floats is not None and not self.has_nan:
            import numpy

            count = len(content) // self.floats.itemsize
            self.has_nan = any_nan(numpy.frombuffer(content, self.floats, count))


Target = IO[bytes] | SummedFile
"""A file that data is appended to."""


def any_nan(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array has NaN; 16-bit floats are compared as integers."""
    import numpy

    if array.dtype.itemsize == 2:
        infinity = int(numpy.array(numpy.inf, array.dtype).view(numpy.uint16))
        largest = (array.view(numpy.int16).max(initial=0), array.view(numpy.uint16).max(initial=0))
        return bool(largest[0] > infinity or largest[1] > 0x8000 + infinity)
    return bool(numpy.isnan(numpy.maximum.reduce(array, axis=None, initial=-numpy.inf)))


def copy_range(source: MappedFile, offset: int, nbytes: int, file: Target) -> None:
    """Append a range of ``source`` to ``file`` without holding it in memory.

    Between two files the kernel copies if both ranges have the same alignment to pages; otherwise it would
    touch every page twice, and a small buffer that stays in the cache is a quarter faster; what is summed
    goes through it too.  Any other target is written in chunks of the mapped bytes.
    """
    end = offset + nbytes
    origin, summed = source.file, None
    if isinstance(file, SummedFile):
        summed, file = file, file.file
    try:
        target = file.fileno()
        file.flush()
        position = file.tell()
    except (OSError, AttributeError):
        origin = None
    if origin is None:
        _write_chunks(source, offset, end, summed or file)
        return
    alike = (offset - position) % mmap.PAGESIZE == 0 and summed is None
    buffer = memoryview(bytearray(0 if alike else COPY_BUFFER))
    pending = position
    while offset < end:
        try:
            if alike:
                copied = os.copy_file_range(
                    origin.fileno(), target, min(COPY_CHUNK, end - offset), offset, position
                )
            else:
                read = os.preadv(origin.fileno(), [buffer[: end - offset]], offset)
                copied = os.pwrite(target, buffer[:read], position)
                if summed is not None:
                    summed.add(buffer[:copied])
        except OSError as error:
            if error.errno in _NO_KERNEL_COPY:
                break
            raise
        if not copied:
            break
        offset += copied
        position += copied
        if position - pending >= WRITEBACK:
            _start_writeback(target, pending, position - pending)
            pending = position
    file.seek(position)
    _write_chunks(source, offset, end, summed or file)


def _write_chunks(source: MappedFile, offset: int, end: int, file: Target) -> None:
    while offset < end:
        step = min(COPY_CHUNK, end - offset)
        file.write(source.view(offset, step))
        source.release(offset, step)
        offset += step


def _start_writeback(descriptor: int, offset: int, nbytes: int) -> None:
    """Start writing copied bytes to disk, so that the final flush is shorter."""
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, nbytes, SYNC_FILE_RANGE_WRITE)


@functools.cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's ``sync_file_range``, which Python's os module lacks, or None."""
    import ctypes

    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is None:
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return cast(Callable[[int, int, int, int], int], found)
