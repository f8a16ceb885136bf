"""Child process with the vendor's libraries: start, requests, errors."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from xdlc.errors import BackendError, StorageError, UsageError, XdlcError, each_problem, raise_all
from xdlc.ir import Graph, Model, TensorData, raw_data
from xdlc.runtime.cpu import array_of
from xdlc.runtime.htp.library import library_folder
from xdlc.runtime.htp.options import CompileOptions
from xdlc.runtime.htp.unsupported_op import RefusedOp, problems_of
from xdlc.targets import find_soc
from xdlc.worker import content
from xdlc.worker.content import error_of
from xdlc.worker.limits import AT_A_TIME
from xdlc.worker.process import ChildDiedError, Process
from xdlc.worker.temporary import TemporaryFolder, temporary_file, temporary_files

SERVICE = "xdlc.runtime.htp.service"
Launch = Callable[[], Process]
_MOST_STEP = 1 << 16
_LOADING = 1800.0
"""Seconds that a process may take to read the model of its copies."""

Array = Any  # numpy.ndarray
ModelOrPath = Model | Graph | str | os.PathLike[str]
OPENING = 1800.0
"""Seconds that loading or compiling may take by default."""
RUNNING = 600.0
"""Seconds that one run may take by default."""
_PATIENCE = 0.25
"""Seconds that a run waits for a child before another one is started."""


def start() -> Process:
    """Start a child process."""
    return Process(SERVICE, {"OPENBLAS_NUM_THREADS": "1"})  # it multiplies no matrices: threads only cost


class EndedError(BackendError):
    """A run of a child that an earlier run has ended."""


class HtpWorker:
    """A child with the vendor's library, started with the first request.

    A request after its death starts another one.  Use as a context manager: leaving it ends the child.

    Args:
        where: What messages call the model or the file.
        soc: What messages call the SoC.

    Raises:
        StorageError: If there is no space for temporary files.
    """

    def __init__(self, where: str = "model", soc: str = "HTP", launch: Launch = start) -> None:
        self._arguments = where, soc, launch
        self._launch = launch
        self.place = f"{where}: {soc}"
        self._process: Process | None = None
        self._note = temporary_file()
        self._close = weakref.finalize(self, self._note.close)

    def __enter__(self) -> HtpWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._close()

    def end(self) -> None:
        """End the child; a request of another thread fails."""
        if self._process is not None:
            self._process.end()

    def another(self) -> HtpWorker:
        """Return a worker for the same model and SoC, whose child is not started."""
        return HtpWorker(*self._arguments)

    @property
    def is_alive(self) -> bool:
        """Whether there is a child, which has earlier requests loaded."""
        return self._process is not None and self._process.is_alive

    def ask(self, request: Mapping[str, Any], files: Sequence[int] = (), *, timeout: float) -> dict[str, Any]:
        """Send the child a request and return its answer.

        Raises:
            ChildDiedError: If it crashed or did not answer in time.
            XdlcError: The error that the child reports.
        """
        if self._process is None or not self._process.is_alive:
            self._process = self._launch()
        os.ftruncate(self._note.fileno(), 0)
        try:
            return self._process.ask(request, [self._note.fileno(), *files], timeout=timeout)
        except ChildDiedError as death:
            death.step = os.pread(self._note.fileno(), _MOST_STEP, 0).decode(errors="replace") or "starting"
            death.problem = f"the vendor's library {death.how} while {_step_words(death.step)}{death.tail}"
            death.fix = (
                "if memory ran out, free memory, prepare fewer SoCs at a time, or make the network smaller"
                if death.is_killed
                else "remove or rewrite the op or graph; the other SoCs are not affected"
            )
            raise

    def query(
        self, request: Mapping[str, Any], files: Sequence[int] = (), *, timeout: float
    ) -> dict[str, Any]:
        """Run a request that validates ops first; return its answer.

        A crash of the validator is repeated; if it crashes on the same op again, that op is rejected, and the
        remaining ones are still validated.

        Args:
            files: Open files that the child gets.
            timeout: Seconds that one child may take.

        Raises:
            ConstraintError: If HTP refuses an op.
            ProblemList: If it refuses several.
            BackendError: If the library fails otherwise, is missing or unknown.
        """
        answer, unsupported = self.validated(request, files, timeout=timeout)
        problems = [error_of(words) for words in answer.get("problems", ())]
        for problem in problems:
            problem.where = f"{self.place}: {problem.where}"
        raise_all([*problems, *problems_of(unsupported, self.place)], where=self.place)
        return answer

    def validated(
        self, request: Mapping[str, Any], files: Sequence[int] = (), *, timeout: float
    ) -> tuple[dict[str, Any], list[RefusedOp]]:
        """Run a request that validates ops; return its answer and unsupported ops.

        Arguments and errors are those of ``query``, but for unsupported ops.
        """
        crashed: list[tuple[str, str]] = list(request.get("skip", ()))
        unsupported: list[RefusedOp] = []
        suspected: set[tuple[str, str]] = set()
        current = {**request, "skip": crashed, "library": str(library_folder())}
        while True:
            try:
                answer = self.ask(current, files, timeout=timeout)
            except ChildDiedError as death:
                op = validated_op(death.step)
                if op is None or op[:2] in crashed or death.is_killed:
                    death.where = self.place
                    raise
                if not death.is_late and op[:2] not in suspected:
                    suspected.add(op[:2])
                    continue
                crashed.append((op[0], op[1]))
                current = {**current, "do": "validate"}
                unsupported.append(RefusedOp(*op, death.problem, "remove or rewrite this op"))
                continue
            except XdlcError as error:
                for problem in each_problem(error):
                    problem.where = f"{self.place}: {problem.where}" if problem.where else self.place
                raise
            return answer, [*unsupported, *(RefusedOp(**words) for words in answer.get("unsupported", ()))]


class ForkServer:
    """Children that are copies of a process which has loaded xdlc and a model already.

    Starting Python, importing xdlc and reading a model takes longer than many a compilation; for several SoCs
    it is done once.  The vendor's library is loaded in the copies only, so that its crashes end nothing else.
    Use as a context manager, which ends the children that are left.

    The process is started with the first child.  Should it die, its copies go on, and further children are
    started as processes of their own.

    Args:
        model: The DLC that most children will compile.
    """

    def __init__(self, model: Path) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._origin: Process | None = None
        self._children: weakref.WeakSet[Process] = weakref.WeakSet()
        self._is_closed = False

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(self) -> Process:
        """Start a child.

        Raises:
            BackendError: If the server has been closed.
        """
        with self._lock:
            copy = None if self._is_closed else self._copy()
            if self._is_closed:
                raise BackendError("xdlc stopped before it compiled a cache for this SoC")
            child = copy or start()
            self._children.add(child)
            return child

    def _copy(self) -> Process | None:
        with suppress(ChildDiedError):
            if self._origin is None:
                self._origin = start()
                self._origin.ask({"do": "load", "model": str(self._model)}, timeout=_LOADING)
            if self._origin.is_alive:
                return self._origin.copy()
        return None

    def close(self) -> None:
        """End the process and all children, also those that other threads wait for."""
        self._is_closed = True
        if self._origin is not None and not self._children:  # it may be reading the model
            self._origin.end()
        with self._lock:
            for child in self._children:
                child.end()
        if self._origin is not None:
            self._origin.end()


def _step_words(step: str) -> str:
    op = validated_op(step)
    return step if op is None else f"validating op {op[1]!r} ({op[2]}) of graph {op[0]!r}"


def validated_op(step: str) -> tuple[str, str, str] | None:
    """Return graph, op and type if the step was validating an op."""
    if not step.startswith("["):
        return None
    try:
        _, graph, op, kind = json.loads(step)
    except ValueError:  # the child was killed while it wrote
        return None
    return graph, op, kind


@contextmanager
def stored_model(model: Model | Graph | str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a DLC with the model; one in memory is saved temporarily.

    Raises:
        StorageError: If a path is given where no file is, or there is no space for temporary files.
    """
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        if not path.is_file():
            raise StorageError("is not a file", where=str(path), fix="check the path")
        yield path.resolve()
        return
    with TemporaryFolder() as name:
        path = Path(name) / "model.dlc"
        graphs = {model.name: model} if isinstance(model, Graph) else dict(model.graphs)
        notes = {} if isinstance(model, Graph) else {"symbols": model.metadata.get("symbols", {})}
        Model(graphs, notes).save(path, crc=False)  # its records are of no use to the child
        yield path


@contextmanager
def model_request(
    model: ModelOrPath, soc: str, name: str | None = None, launch: Launch = start
) -> Iterator[tuple[dict[str, Any], HtpWorker]]:
    """Yield the members of every request about a model, and a child for it.

    Args:
        name: What messages call the model; default: its path.

    Raises:
        UsageError: If the SoC is not known.
        StorageError: If a path is given where no file is, or there is no space for temporary files.
    """
    target = find_soc(soc)
    where = name or ("model" if isinstance(model, Model | Graph) else os.fspath(model))
    with stored_model(model) as path:
        yield {"model": str(path), "soc_id": target.id}, HtpWorker(where, target.name, launch)


Load = Callable[[HtpWorker], dict[str, Any]]
"""Makes a child load graphs; returns its answer."""


class _Children:
    """Children with the same graphs, of which each runs one at a time.

    There is one at first.  A run that waits too long starts another one, up to ``AT_A_TIME``.

    Args:
        first: A worker whose child has loaded the graphs, or is about to.
        load: Makes the child of another worker load the graphs; None if only the first one can have them.
    """

    def __init__(self, first: HtpWorker, load: Load | None) -> None:
        self._workers, self._load = [first], load
        self._free: SimpleQueue[HtpWorker] = SimpleQueue()
        self._free.put(first)
        self._lock = threading.Lock()
        self._opening: tuple[HtpWorker, threading.Thread] | None = None
        self._is_over = False

    @contextmanager
    def one(self) -> Iterator[HtpWorker]:
        """Yield a worker that no other thread has meanwhile.

        Raises:
            EndedError: If a child has died, or all were closed.
        """
        worker = self._next()
        try:
            if self._is_over or not worker.is_alive:
                raise EndedError(
                    "the emulation ended, or you closed the session",
                    where=worker.place,
                    fix="load the model again",
                )
            yield worker
        finally:
            self._is_over = self._is_over or not worker.is_alive
            self._free.put(worker)

    def _next(self) -> HtpWorker:
        with suppress(Empty):
            return self._free.get(timeout=_PATIENCE)
        with self._lock:
            may_open = not self._is_opening() and not self._is_over and self._load is not None
            if may_open and len(self._workers) < AT_A_TIME:
                worker = self._workers[0].another()
                thread = threading.Thread(target=self._open, args=(worker, self._load), daemon=True)
                self._opening = worker, thread
                thread.start()
        return self._free.get()

    def _is_opening(self) -> bool:
        return self._opening is not None and self._opening[1].is_alive()

    def _open(self, worker: HtpWorker, load: Load) -> None:
        try:
            load(worker)
        except XdlcError:  # of memory, as a rule; the other children do the work
            self._load = None
            worker.__exit__()
        else:
            self._workers.append(worker)
            self._free.put(worker)

    def end(self) -> None:
        """End the children at once; runs of other threads fail."""
        self._is_over = True
        for worker in list(self._workers):
            worker.end()

    def close(self) -> None:
        """End the children after the runs of other threads have ended."""
        with self._lock:
            self._is_over = True
            while self._opening is not None and self._is_opening():
                self._opening[0].end()  # its child may not have started yet
                self._opening[1].join(_PATIENCE)
            workers = [self._free.get() for _ in self._workers]
            for worker in workers:
                worker.__exit__()
                self._free.put(worker)  # for threads that wait


class WorkerSession:
    """Graphs loaded by child processes that emulate a SoC.

    Runs of several threads work in children of their own.  Use as a context manager, or call ``close``: the
    children live until then.  Make one with ``of_model`` or ``of_cache``.

    Args:
        worker: A worker whose child has loaded the graphs.

    Attributes:
        run_timeout: Seconds that a run may take.
        soc_id: Id of the SoC that a cache was made for, by the cache itself.
        graphs: Names of inputs and of outputs by the name of the graph that a cache holds.
    """

    def __init__(self, worker: HtpWorker, load: Load | None = None, kept: ExitStack | None = None) -> None:
        self._children = _Children(worker, load)
        self._kept = kept or ExitStack()
        self.run_timeout = RUNNING
        self.soc_id: int | None = None
        self.graphs: dict[str, list[list[str]]] = {}

    def __enter__(self) -> WorkerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def end(self) -> None:
        """End the children at once; runs of other threads fail."""
        self._children.end()

    def close(self) -> None:
        """End the children after the runs of other threads have ended."""
        self._children.close()
        self._kept.close()

    @classmethod
    def of_model(
        cls,
        model: ModelOrPath,
        soc: str,
        *,
        graph: str | None = None,
        timeout: float = OPENING,
        name: str | None = None,
        launch: Launch = start,
    ) -> WorkerSession:
        """Compile a graph of a model.

        Args:
            graph: Name of the graph; default: the main one.
            timeout: Seconds that compiling may take.
            name: What messages call the model; default: its path.

        Raises:
            ConstraintError: If HTP refuses an op; a ProblemList of them if it refuses several.
            BackendError: If the library is missing, unknown, or fails.
        """
        return cls._of_request({"graph": graph}, timeout, model_request(model, soc, name, launch))

    @classmethod
    def of_graphs(
        cls,
        model: Model,
        soc: str,
        options: CompileOptions,
        *,
        timeout: float = OPENING,
        name: str = "model",
        launch: Launch = start,
    ) -> WorkerSession:
        """Compile all graphs of a model in one context, as a cache of them has.

        Errors are those of ``of_model``.

        Args:
            timeout: Seconds that compiling may take.
        """
        opened = model_request(model, soc, name, launch)
        return cls._of_request({"options": asdict(options)}, timeout, opened)

    @classmethod
    def _of_request(
        cls,
        request: Mapping[str, Any],
        timeout: float,
        opened: AbstractContextManager[tuple[dict[str, Any], HtpWorker]],
    ) -> WorkerSession:
        with ExitStack() as stack:
            of_model, worker = stack.enter_context(opened)

            def load(worker: HtpWorker) -> dict[str, Any]:
                return worker.query({**of_model, **request, "do": "open"}, timeout=timeout)

            return cls._opened(worker, load, stack.pop_all())

    @classmethod
    def of_cache(
        cls,
        cache: TensorData | bytes,
        *,
        soc: str | None = None,
        timeout: float = OPENING,
        name: str = "cache",
        launch: Launch = start,
    ) -> WorkerSession:
        """Load a cache with all of its graphs.

        Args:
            soc: Name of the SoC to emulate; default: the one that it was made for.
            timeout: Seconds that loading may take.

        Raises:
            BackendError: If the library is missing, unknown, or does not load the binary.
            StorageError: If there is no space for temporary files.
        """
        target = find_soc(soc) if soc else None
        request = {"do": "open", "soc_id": target.id if target else None}

        def load(worker: HtpWorker) -> dict[str, Any]:
            with temporary_file() as file:
                with temporary_files():
                    (raw_data(cache) if isinstance(cache, bytes) else cache).write_to(file)
                    file.flush()
                return worker.query(request, [file.fileno()], timeout=timeout)

        return cls._opened(HtpWorker(name, target.name if target else "HTP emulation", launch), load)

    @classmethod
    def of_worker(cls, worker: HtpWorker, contents: Mapping[str, Any]) -> WorkerSession:
        """Return the session of a child that has compiled graphs.

        Args:
            contents: What it has: the id of the SoC, and names of graphs, inputs and outputs.
        """
        served = cls(worker)
        served.soc_id, served.graphs = contents["soc_id"], dict(contents["graphs"])
        return served

    @classmethod
    def _opened(cls, worker: HtpWorker, load: Load, kept: ExitStack | None = None) -> WorkerSession:
        served = cls(worker, load, kept)
        try:
            contents = load(worker).get("contents")
        except BaseException:
            served.close()
            raise
        if contents is not None:
            served.soc_id, served.graphs = contents["soc_id"], contents["graphs"]
        return served

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
        stored = {name: array_of(value) for name, value in feeds.items()}
        for name, array in stored.items():
            if array.dtype.hasobject or array.dtype.names:
                raise UsageError(f"input {name!r} is not an array of numbers", fix="give a numpy array")
        with self._children.one() as worker, content.shared_file() as file:
            with temporary_files():
                forms = content.write_arrays(file, stored.values())
            request = {"do": "execute", "inputs": list(stored), "arrays": forms, "native": native}
            seconds = self.run_timeout if timeout is None else timeout
            answer = worker.query(request | {"graph": graph}, [file], timeout=seconds)
            results = content.read_arrays(file, answer["arrays"])
            return dict(zip(answer["outputs"], results, strict=True))
