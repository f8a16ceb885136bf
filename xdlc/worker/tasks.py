"""Tasks as a worker process runs them: files by content, opened models, errors.

A task is a function of a module with its arguments.  The module is the service of the children of
``executors.Children``, too.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from xdlc.errors import BackendError, StorageError, XdlcError, each_problem
from xdlc.options import spelling
from xdlc.version import VERSION
from xdlc.worker.content import marked, with_spelling
from xdlc.worker.limits import watch_memory
from xdlc.worker.temporary import TemporaryFolder, temporary_files

T = TypeVar("T")
Task: TypeAlias = "partial[Any]"
"""A function of a module, and arguments that pickle copies; files among the arguments are parcels."""
KEPT = 2
"""Objects that a process keeps open for later tasks."""
STORED = 8 << 30
"""Bytes of files that came with tasks; the process removes the least recently used beyond them."""
_PACKAGES = ("numpy", "onnxruntime", "onnxruntime-qnn", "ml_dtypes")
_KERNELS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm", "bf16", "sve")
"""Flags of processors by which onnxruntime chooses kernels."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A file that a task reads; the function gets a path with its content.

    Attributes:
        path: Path of the caller's file.
        digest: SHA-256 of the content; empty: the workers read the caller's file.
        identity: The file among all of its machine; a worker there need not compare contents.
    """

    path: str
    digest: str = ""
    identity: tuple[str | int, ...] = ()

    @classmethod
    def of(cls, path: Path) -> Parcel:
        """Return a parcel for workers that may run on other machines."""
        return cls(str(path), _digest(path, _identity(path)), _identity(path))

    def content(self) -> bytes:
        """Return the content of the caller's file.

        Raises:
            StorageError: If the file cannot be read, or has changed.
        """
        try:
            content = Path(self.path).read_bytes()
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise StorageError(problem, where=self.path, fix="check that it exists") from error
        if hashlib.sha256(content).hexdigest() != self.digest:
            problem = "has changed since workers began to read it"
            raise StorageError(problem, where=self.path, fix="run xdlc again")
        return content


@dataclass(frozen=True, slots=True)
class Home:
    """The process that sends a task, and what the bits of its results depend on."""

    machine: str
    process: int
    likeness: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> Home:
        """Return this process."""
        return cls(_machine(), os.getpid(), _likeness())


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a task.

    Attributes:
        value: Its result.
        error: What the function raised.
        missing: Digests of files that the worker needs first.
        unlike: How the worker differs from the sender; such a worker runs no task.
    """

    value: Any = None
    error: Exception | None = None
    missing: tuple[str, ...] = ()
    unlike: str = ""


def perform(home: Home, task: bytes, contents: Mapping[str, bytes] = {}) -> Answer:
    """Run a task in a worker process.

    Args:
        task: The pickled task.
        contents: Content of files that the worker lacks, by digest.
    """
    here = Home.here()
    differences = [
        f"{name} is {here.likeness.get(name)} there and {own} here"
        for name, own in home.likeness.items()
        if here.likeness.get(name) != own
    ]
    if differences:
        return Answer(unlike="; ".join(differences))
    is_same = (home.machine, home.process) == (here.machine, here.process)
    with nullcontext() if is_same else spelling(marked):
        try:
            call: Task = pickle.loads(task)
            parcels = [value for value in (*call.args, *call.keywords.values()) if isinstance(value, Parcel)]
            with temporary_files():
                _STORE.add(contents, {parcel.digest for parcel in parcels})
            paths = {parcel: _located(parcel) for parcel in parcels}
            missing = tuple(parcel.digest for parcel, path in paths.items() if path is None)
            if missing:
                return Answer(missing=missing)
            return Answer(with_files(call, lambda parcel: paths[parcel])())
        except XdlcError as error:
            return Answer(error=error)
        except (MemoryError, OSError) as error:
            return Answer(error=BackendError(f"the system refuses: {str(error) or 'no memory is left'}"))
        except SystemExit as error:  # of the user's code; futures do not carry it to callbacks
            return Answer(error=BackendError(f"a task called sys.exit({error.code})"))
        except Exception as error:  # a bug, which the sender raises
            return Answer(error=error)


def respelled(error: Exception) -> Exception:
    """Return an error of a worker whose options are written as the caller writes them."""
    if isinstance(error, XdlcError):
        for problem in each_problem(error):
            vars(problem).update(with_spelling(vars(problem)))
    return error


def with_files(task: Task, path_of: Callable[[Parcel], Path | None]) -> Task:
    """Return a task with paths in place of its parcels."""

    def local(value: Any) -> Any:
        return path_of(value) if isinstance(value, Parcel) else value

    keywords = {name: local(value) for name, value in task.keywords.items()}
    return partial(task.func, *map(local, task.args), **keywords)


@contextmanager
def kept_open(path: Path, request: Hashable, make: Callable[[ExitStack], T]) -> Iterator[T]:
    """Yield an object about a file, such as a session; keep it for the next task.

    Tasks that run at the same time have objects of their own.  The process closes the object after an error.

    Args:
        request: What the object depends on beside the file.
        make: Called to open the object if there is none; the stack closes the object's resources.
    """
    key = (path, _identity(path), request)
    with _LOCK:
        idle = next((place for place, (own, *_) in enumerate(_IDLE) if own == key), None)
        stack, *values = _IDLE.pop(idle)[1:] if idle is not None else (ExitStack(),)
    with stack:
        value: T = values[0] if values else make(stack)
        yield value
        kept = stack.pop_all()
    with _LOCK:
        _IDLE.append((key, kept, value))
        oldest = _IDLE.pop(0)[1] if len(_IDLE) > KEPT else ExitStack()
    oldest.close()


_IDLE: list[tuple[Hashable, ExitStack, Any]] = []
_LOCK = threading.Lock()


class _Store:
    """Files that came with tasks."""

    def __init__(self) -> None:
        self._folder: TemporaryFolder | None = None
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def path(self, digest: str) -> Path | None:
        """Return the file with some content; None if there is none."""
        with self._lock:
            if self._folder is None or digest not in self._sizes:
                return None
            self._sizes.move_to_end(digest)
            return Path(self._folder.name, digest)

    def add(self, contents: Mapping[str, bytes], needed: Set[str]) -> None:
        """Store files by digest; remove the least recently used, but none that is needed."""
        with self._lock:
            lacking = [digest for digest in contents if digest not in self._sizes]
            if not lacking:
                return
            self._folder = self._folder or TemporaryFolder("xdlc-parcels-")
            for digest in lacking:
                content = contents[digest]
                Path(self._folder.name, digest).write_bytes(content)
                self._sizes[digest] = len(content)
            for digest in [digest for digest in self._sizes if digest not in needed]:
                if sum(self._sizes.values()) > STORED:
                    del self._sizes[digest]
                    Path(self._folder.name, digest).unlink()


_STORE = _Store()


def _located(parcel: Parcel) -> Path | None:
    """Return a path with the content of a parcel; None if this machine has none."""
    path = Path(parcel.path)
    if not parcel.digest:
        return path
    own = _identity(path)
    if own == parcel.identity:
        return path
    stored = _STORE.path(parcel.digest)
    if stored is None and own and _digest(path, own) == parcel.digest:
        return path
    return stored


def _identity(path: Path) -> tuple[str | int, ...]:
    """Return what tells a file from all others, and from its other versions."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return _machine(), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(64)
def _digest(path: Path, identity: tuple[str | int, ...]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _machine() -> str:
    """Return a name of this machine since its start."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return platform.node()


@cache
def _likeness() -> Mapping[str, str]:
    """Return what the bits of results depend on, by name."""
    versions = {"xdlc": VERSION}
    for package in _PACKAGES:
        versions[package] = "missing"
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    flags = set[str]()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith(("flags", "Features")):
                flags.update(line.partition(":")[2].split())
    kernels = [flag for flag in _KERNELS if flag in flags]
    return versions | {"the processor": " ".join([platform.machine(), *kernels])}


def commands() -> dict[str, Any]:
    """Return the functions of a child by request."""
    watch_memory()
    return {"call": _call}


def _call(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    """Run the pickled task of a file; store the result there."""
    (number,) = files
    with open(number, "r+b") as file:
        task: Task = pickle.load(file)
        result = pickle.dumps(task(), pickle.HIGHEST_PROTOCOL)
        file.seek(0)
        file.truncate()
        with temporary_files():
            file.write(result)
            file.flush()
    return {}
