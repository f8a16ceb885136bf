"""Session in a child process that loads a model or a cache once and runs it many times."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import weakref
from collections.abc import Mapping
from typing import IO, Any

from xdlc.errors import BackendError
from xdlc.ir import Graph, Model, TensorData, raw_data
from xdlc.runtime.child import temporary_files
from xdlc.runtime.htp import process
from xdlc.runtime.htp.graph_io import read_arrays, write_arrays
from xdlc.runtime.htp.process import Child, query, stored_model

Array = Any  # numpy.ndarray
ModelOrPath = Model | Graph | str | os.PathLike[str]
OPENING = 1800.0
"""Seconds that loading or compiling may take by default."""
RUNNING = 600.0
"""Seconds that one run may take by default."""


class _Connection:
    """Pipes to a running child: one that wakes it, one on which it reports its answers."""

    def __init__(self, folder: str, log: IO[bytes], notices: int, answer_pipe: int) -> None:
        self.notices = notices
        self.process = subprocess.Popen(
            [*process.worker_command(), folder],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=process.environment(),
            pass_fds=[answer_pipe],
        )

    def wake(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died since, as its notices show
            self.process.stdin.write(b".")

    def end(self) -> int:
        """End the child and return its status."""
        self.process.kill()
        status = self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        os.close(self.notices)
        return status


class WorkerProcess(Child):
    """A child that stays for further requests; a request after it died starts another one."""

    def __init__(self) -> None:
        super().__init__()
        self._connection: _Connection | None = None
        self._answer_pipe = -1
        self._end: Any = None

    def __exit__(self, *_: object) -> None:
        self._end_child()
        super().__exit__()

    @property
    def is_alive(self) -> bool:
        """Whether there is a child that has earlier requests loaded."""
        return self._connection is not None

    def query(self, request: Mapping[str, Any], *, timeout: float) -> dict[str, Any]:
        """Send the child a request and return its answer.

        Raises:
            ChildDiedError: If it crashed or did not answer in time; it is gone then.
            XdlcError: The error that the child reports.
        """
        (self.folder / "answer.json").unlink(missing_ok=True)
        if self._connection is None:
            (self.folder / "step").unlink(missing_ok=True)
            self._connection = self._start(request)
        else:
            self._put(request)
            self._connection.wake()
        poll = select.poll()
        poll.register(self._connection.notices, select.POLLIN)
        if not poll.poll(timeout * 1000):
            self._end_child()
            raise self.late(timeout)
        if not os.read(self._connection.notices, 1):
            self._connection.process.wait()
            raise self.died(self._end_child())
        return self.answer()

    def _start(self, request: Mapping[str, Any]) -> _Connection:
        notices, self._answer_pipe = os.pipe()
        try:
            self._put(request)
            with open(self.folder / "log", "wb") as log:
                connection = _Connection(str(self.folder), log, notices, self._answer_pipe)
        except BaseException:
            os.close(notices)
            raise
        finally:
            os.close(self._answer_pipe)
        self._end = weakref.finalize(self, connection.end)
        return connection

    def _put(self, request: Mapping[str, Any]) -> None:
        self.put({**request, "notify": self._answer_pipe})

    def _end_child(self) -> int:
        self._connection = None
        status: int = self._end() if self._end is not None and self._end.alive else 0
        return status


class WorkerSession:
    """Graphs that a child process has loaded, ready to run on the emulation of a SoC; one run at a time.

    Use as a context manager, or call ``close``: the child lives until then.  Make one with ``of_model`` or
    ``of_cache``.

    Attributes:
        run_timeout: Seconds that a run may take.
        soc_id: Id of the SoC that a cache was made for, by the cache itself.
        graphs: Names of inputs and of outputs by the name of the graph that a cache holds.
    """

    def __init__(self, where: str, soc: str) -> None:
        self._worker = WorkerProcess()
        self._where, self._soc = where, soc
        self._lock = threading.Lock()
        self.run_timeout = RUNNING
        self.soc_id: int | None = None
        self.graphs: dict[str, list[list[str]]] = {}

    def __enter__(self) -> WorkerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child, once a run of another thread has ended."""
        with self._lock:
            self._worker.__exit__()

    @classmethod
    def of_model(
        cls,
        model: ModelOrPath,
        soc: str,
        *,
        graph: str | None = None,
        timeout: float = OPENING,
        name: str | None = None,
    ) -> WorkerSession:
        """Compile a graph of a model.

        Args:
            model: A model, a graph, or the path of a DLC.
            soc: Name of the SoC to emulate.
            graph: Name of the graph; default: the main one.
            timeout: Seconds that compiling may take.
            name: What messages call the model; default: its path.

        Raises:
            ConstraintError: If HTP refuses an op; a ProblemList of them if it refuses several.
            BackendError: If the library is missing, unknown, or fails.
        """
        from xdlc.targets import find_soc

        target = find_soc(soc)
        where = name or ("model" if isinstance(model, Model | Graph) else os.fspath(model))
        with stored_model(model) as path:
            served = cls(where, target.name)
            served._open({"model": str(path), "graph": graph, "soc_id": target.id}, timeout)
        return served

    @classmethod
    def of_cache(
        cls,
        cache: TensorData | bytes,
        *,
        soc: str | None = None,
        timeout: float = OPENING,
        name: str = "cache",
    ) -> WorkerSession:
        """Load a cache with all of its graphs.

        Args:
            cache: A QNN context binary, as the cache records of a DLC are.
            soc: Name of the SoC to emulate; default: the one that it was made for.
            timeout: Seconds that loading may take.
            name: What messages call the cache.

        Raises:
            BackendError: If the library is missing, unknown, or does not load the binary.
            StorageError: If there is no space for temporary files.
        """
        from xdlc.targets import find_soc

        target = find_soc(soc) if soc else None
        served = cls(name, target.name if target else "HTP emulation")
        path = served._worker.folder / "cache.bin"
        try:
            with temporary_files(), open(path, "wb") as file:
                (raw_data(cache) if isinstance(cache, bytes) else cache).write_to(file)
        except BaseException:
            served.close()
            raise
        served._open({"cache": str(path), "soc_id": target.id if target else None}, timeout)
        return served

    def _open(self, opening: dict[str, Any], timeout: float) -> None:
        try:
            answer = self._query(timeout, command="open", **opening)
        except BaseException:
            self.close()
            raise
        contents = answer.get("contents", {"soc_id": None, "graphs": {}})
        self.soc_id, self.graphs = contents["soc_id"], contents["graphs"]

    def run(
        self,
        feeds: Mapping[str, Array],
        *,
        native: bool = False,
        graph: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Array]:
        """Run a graph and return its outputs by name.

        Args:
            feeds: One array per graph input, in the input's shape.  A quantized input accepts float
                values (any float type) or quantized values (its own type).
            native: Give quantized outputs as quantized values instead of float32.
            graph: Name of a graph of the cache; default: the only or first one.
            timeout: Seconds that the run may take; default: ``run_timeout``.

        Raises:
            UsageError: If an array is missing or does not fit.
            BackendError: If the library fails, or did so before: the child is gone then.
            StorageError: If there is no space for temporary files.
        """
        with self._lock:
            return self._run(feeds, native, graph, self.run_timeout if timeout is None else timeout)

    def _run(
        self, feeds: Mapping[str, Array], native: bool, graph: str | None, seconds: float
    ) -> dict[str, Array]:
        if not self._worker.is_alive:
            raise BackendError(
                "the emulation has ended, by itself or because it was closed",
                where=f"{self._where}: {self._soc}",
                fix="load the model again",
            )
        with temporary_files():
            names = write_arrays(self._worker.folder / "arrays.npz", feeds)
        answer = self._query(seconds, command="execute", arrays=names, native=native, graph=graph)
        return read_arrays(self._worker.folder / "results.npz", answer["arrays"])

    def _query(self, timeout: float, **request: Any) -> dict[str, Any]:
        return query(request, where=self._where, soc=self._soc, timeout=timeout, child=self._worker)
