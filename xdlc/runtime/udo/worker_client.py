"""Connection to the worker, which starts when needed and restarts after a crash."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from xdlc.errors import BackendError, StorageError, XdlcError, each_problem, raise_all
from xdlc.options import spell
from xdlc.runtime.udo.kernel_files import Call
from xdlc.runtime.udo.memory import Memory
from xdlc.runtime.udo.sources import Offers, Source
from xdlc.worker.process import ChildDiedError, Process
from xdlc.worker.temporary import temporary_files

SERVICE = "xdlc.runtime.udo.service"

LOADING = 60.0
"""Seconds at least that the child may take to start and to load a file: the caller's are for calls."""
RESTARTS = 8
"""Number of times that a crashed child is replaced."""
_EXIT = "let the kernel return, and do not end its process"
_WRONG = "correct the kernel: a debugger or valgrind shows the fault; a kernel must not write to its inputs"
_log = logging.getLogger(__name__)


class Link:
    """A child process with loaded libraries; it runs one request at a time.

    Args:
        sources: Files to load, in the order of their numbers.
        calls: Calls of compiled kernels to load, numbered on.
        timeout: Seconds that a request may take.

    Attributes:
        generation: How many children there have been.
    """

    def __init__(self, sources: Sequence[Source], calls: Sequence[Call], timeout: float) -> None:
        self.timeout = timeout
        self.generation = 0
        self._sources, self._calls = sources, calls
        self._offers: Offers | None = None
        self._process: Process | None = None
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._deaths = 0
        self._is_closed = False
        self._memories: dict[str, Memory] = {}
        self._released: deque[tuple[int, int]] = deque()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the child for this thread; a forked process gets its own child."""
        if os.getpid() != self._owner:
            self._owner, self._lock, self._process = os.getpid(), threading.RLock(), None
            self._released.clear()
        with self._lock:
            yield

    def offers(self) -> Offers:
        """Return the registry of the files, which are loaded with the first call.

        Raises:
            XdlcError: If one cannot be loaded, or two offer the same.
        """
        with self.held():
            if self._offers is None:
                if self._sources or self._calls:
                    self._start()
                else:
                    self._offers = Offers()
            assert self._offers is not None
            return self._offers

    def started(self) -> int:
        """Start a child if none runs, while ``held``; return the number of starts."""
        if self._process is None:
            self.offers()
        if self._process is None:
            self._start()
        return self.generation

    def ask(
        self,
        request: Mapping[str, Any],
        files: Sequence[int] = (),
        *,
        place: str,
        origin: str,
        doing: str,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Send a request to the worker and return its answer.

        Args:
            request: What to do.
            files: Open files that it gets.
            place: The op, for errors.
            origin: The library or file, for errors.
            doing: What is done, for errors.
            timeout: Seconds that it may take; default: those of the link.

        Raises:
            BackendError: If it fails.
        """
        self.started()
        process = self._process
        assert process is not None
        self._release(process)
        seconds = self.timeout if timeout is None else timeout
        try:
            answer = process.ask(request, files, timeout=seconds)
        except ChildDiedError as error:
            raise self._died(doing, error, place, origin) from error
        except XdlcError as error:
            _log_printed(process, ": ".join(filter(None, (place, origin))))
            for problem in each_problem(error):
                problem.where = ": ".join(filter(None, (place, problem.where or origin)))
            raise
        except BaseException:
            self._process = None
            raise
        _log_printed(process, ": ".join(filter(None, (place, origin))))
        return answer

    def memory(self, name: str, size: int) -> Memory:
        """Return the named memory, which all operations share in turn.

        Its file is open until it is handed over to the child.

        Args:
            name: ``inputs`` or ``outputs``.
            size: Bytes that it has at least.

        Raises:
            StorageError: If there is not so much memory.
        """
        held = self._memories.get(name)
        if held is None or held.size < size:
            self._memories[name] = held = _grown(0 if held is None else held.size, size)
        return held

    def release_later(self, generation: int, number: int) -> None:
        """Note that an operation of a child is not used any more."""
        self._released.append((generation, number))

    def close(self) -> None:
        """Release all operations, terminate the libraries, and end the child.

        Raises:
            BackendError: If a library fails at it.
        """
        with self.held():
            self._is_closed = True
            process, self._process = self._process, None
            if process is None:
                return
            try:
                process.close()
            except ChildDiedError as error:
                raise self._died("releasing all", error, "", self._names()) from error

    # ------------------------------------------------------------------ starting

    def _start(self) -> None:
        if self._is_closed:
            raise BackendError(
                "the kernels of UDOs are closed",
                where=self._names(),
                fix="open the kernels again",
            )
        if self._deaths > RESTARTS:
            raise BackendError(
                f"the process of the kernels died {self._deaths} times, so xdlc does not start it again",
                where=self._names(),
                fix="correct the kernels, then open the model again",
            )
        self._process = process = Process(SERVICE)
        self._memories.clear()
        self.generation += 1
        try:
            self._offers = self._load(process)
        except BaseException:
            self._process = None
            process.end()
            raise

    def _load(self, process: Process) -> Offers:
        offers, problems = Offers(), list[XdlcError]()
        every: list[Source | Call] = [*self._sources, *self._calls]
        for number, source in enumerate(every):
            try:
                if isinstance(source, Call):
                    self._load_kernel(process, source)
                else:
                    self._load_file(process, number, source, offers)
            except XdlcError as error:
                problems += each_problem(error)
            if not process.is_alive:
                break
        raise_all(problems)
        return offers

    def _load_file(self, process: Process, number: int, source: Source, offers: Offers) -> None:
        where = str(source.path)
        request = {"do": "load", "path": where, "kind": source.kind, "provider": source.provider}
        words = self._answer(process, request, (), where).get("offers", [])
        offers.add(number, where, words, is_file=source.kind == "python")

    def _load_kernel(self, process: Process, call: Call) -> None:
        with temporary_files():
            file = os.memfd_create("xdlc-kernel", os.MFD_CLOEXEC)
        try:
            with temporary_files(), open(file, "wb", closefd=False) as target:
                target.write(call.kernel.binary)
            request = {"do": "load_kernel", "entry": call.kernel.entry, "where": call.origin}
            self._answer(process, request, (file,), call.origin)
        finally:
            os.close(file)

    def _answer(
        self, process: Process, request: Mapping[str, Any], files: Sequence[int], where: str
    ) -> dict[str, Any]:
        try:
            return process.ask(request, files, timeout=max(self.timeout, LOADING))
        except ChildDiedError as error:
            raise self._died("loading it", error, "", where) from error
        finally:
            if process.is_alive:
                _log_printed(process, where)

    # ------------------------------------------------------------------ ending

    def _died(self, doing: str, error: ChildDiedError, place: str, origin: str) -> BackendError:
        self._process = None
        self._deaths += 1
        where = ": ".join(filter(None, (place, origin)))
        is_exit = error.status is not None and error.status >= 0
        late = f"raise the time limit with {spell('udo_timeout')}, or let the kernel finish earlier"
        fix = late if error.is_late else _EXIT if is_exit else _WRONG
        return BackendError(f"{doing} {error.how}{error.tail}", where=where, fix=fix)

    def _release(self, process: Process) -> None:
        numbers = []
        while self._released:
            generation, number = self._released.popleft()
            if generation == self.generation:
                numbers.append(number)
        if not numbers:
            return
        try:
            process.ask({"do": "release", "ops": numbers}, timeout=self.timeout)
        except ChildDiedError as error:
            raise self._died("releasing operations", error, "", self._names()) from error
        except XdlcError as error:
            for problem in each_problem(error):
                _log.warning("%s", problem)

    def _names(self) -> str:
        files = [str(source.path) for source in self._sources]
        return ", ".join([*files, *(call.origin for call in self._calls)])


def _grown(before: int, size: int) -> Memory:
    """Return a memory of at least a number of bytes, with room to grow.

    Operations keep those of before until they run again: growing so, these are at most twice the last.
    Pages that are not written use no memory.
    """
    more = before * 3 // 2
    if more > size:
        with suppress(StorageError):
            return Memory(more)
    return Memory(size)


def _log_printed(process: Process, where: str) -> None:
    """Log the lines that a kernel has printed."""
    for line in process.printed():
        _log.warning("%s: printed: %s", where, line)
