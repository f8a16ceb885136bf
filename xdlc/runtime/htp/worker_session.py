"""Session in a child that loads a model or a cache once and runs it often."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.errors import BackendError, UsageError
from xdlc.ir import Graph, Model, TensorData, raw_data
from xdlc.runtime.cpu import array_of
from xdlc.runtime.htp.process import HtpWorker, query, stored_model
from xdlc.worker import content
from xdlc.worker.temporary import temporary_file, temporary_files

Array = Any  # numpy.ndarray
ModelOrPath = Model | Graph | str | os.PathLike[str]
OPENING = 1800.0
"""Seconds that loading or compiling may take by default."""
RUNNING = 600.0
"""Seconds that one run may take by default."""


class WorkerSession:
    """Graphs loaded by a child process that emulates a SoC; one run at a time.

    Use as a context manager, or call ``close``: the child lives until then.  Make one with ``of_model`` or
    ``of_cache``.

    Attributes:
        run_timeout: Seconds that a run may take.
        soc_id: Id of the SoC that a cache was made for, by the cache itself.
        graphs: Names of inputs and of outputs by the name of the graph that a cache holds.
    """

    def __init__(self, where: str, soc: str) -> None:
        self._worker = HtpWorker()
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
            served._open({"model": str(path), "graph": graph, "soc_id": target.id}, (), timeout)
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
        with temporary_file() as file:
            with temporary_files():
                (raw_data(cache) if isinstance(cache, bytes) else cache).write_to(file)
                file.flush()
            served._open({"soc_id": target.id if target else None}, [file.fileno()], timeout)
        return served

    def _open(self, opening: dict[str, Any], files: Sequence[int], timeout: float) -> None:
        try:
            answer = self._query(files, timeout, do="open", **opening)
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
        place = {"where": self._where, "soc": self._soc}
        return execute(self._worker, feeds, **place, native=native, graph=graph, timeout=seconds)

    def _query(self, files: Sequence[int], timeout: float, **request: Any) -> dict[str, Any]:
        return query(request, files, where=self._where, soc=self._soc, timeout=timeout, worker=self._worker)


def execute(
    worker: HtpWorker,
    feeds: Mapping[str, Array],
    *,
    where: str,
    soc: str,
    native: bool,
    graph: str | None,
    timeout: float,
) -> dict[str, Array]:
    """Run a graph that a child has loaded, and return its outputs by name."""
    stored = {name: array_of(value) for name, value in feeds.items()}
    for name, array in stored.items():
        if array.dtype.hasobject or array.dtype.names:
            raise UsageError(f"input {name!r} is no array of numbers", fix="give a numpy array")
    with content.shared_file() as file:
        with temporary_files():
            forms = content.write_arrays(file, stored.values())
        request = {"do": "execute", "inputs": list(stored), "arrays": forms, "native": native, "graph": graph}
        answer = query(request, [file], where=where, soc=soc, timeout=timeout, worker=worker)
        return dict(zip(answer["outputs"], content.read_arrays(file, answer["arrays"]), strict=True))
