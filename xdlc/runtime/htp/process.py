"""Child process with the vendor's libraries: start, requests, errors."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from xdlc.errors import BackendError, StorageError, XdlcError, each_problem, raise_all
from xdlc.ir import Graph, Model
from xdlc.runtime.htp.library import library_folder
from xdlc.runtime.htp.unsupported_op import UnsupportedOp, problems_of
from xdlc.worker.content import error_of
from xdlc.worker.process import ChildDiedError, Process
from xdlc.worker.temporary import TemporaryFolder, temporary_file, temporary_files

SERVICE = "xdlc.runtime.htp.service"
Launch = Callable[[], Process]
_MOST_STEP = 1 << 16
_LOADING = 1800.0
"""Seconds that a process may take to read the model of its copies."""


def start() -> Process:
    """Start a child process."""
    return Process(SERVICE, {"OPENBLAS_NUM_THREADS": "1"})  # it multiplies no matrices: threads only cost


class HtpWorker:
    """A child with the vendor's library, started with the first request.

    A request after its death starts another one.  Use as a context manager: leaving it ends the child.

    Args:
        launch: Starts the process.

    Raises:
        StorageError: If there is no space for temporary files.
    """

    def __init__(self, launch: Launch = start) -> None:
        self._launch = launch
        self._process: Process | None = None
        self._note = temporary_file()
        self._close = weakref.finalize(self, self._note.close)

    def __enter__(self) -> HtpWorker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.end()
        self._close()

    @property
    def is_alive(self) -> bool:
        """Whether there is a child that has earlier requests loaded."""
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
                "if memory ran out, free some, prepare fewer SoCs at a time, or make the network smaller"
                if death.is_killed
                else "remove or rewrite what it was working on; the other SoCs are not affected"
            )
            raise


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
                raise BackendError("preparing has been given up")
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
            raise StorageError("is no file", where=str(path), fix="check the path")
        yield path.resolve()
        return
    with temporary_files():
        folder = TemporaryFolder()
    with folder as name:
        path = Path(name) / "model.dlc"
        graphs = {model.name: model} if isinstance(model, Graph) else dict(model.graphs)
        notes = {} if isinstance(model, Graph) else {"symbols": model.metadata.get("symbols", {})}
        Model(graphs, notes).save(path, crc=False)  # its records are of no use to the child
        yield path


def query(
    request: Mapping[str, Any],
    files: Sequence[int] = (),
    *,
    where: str,
    soc: str,
    timeout: float,
    worker: HtpWorker,
) -> dict[str, Any]:
    """Run a request that validates ops first; return its answer.

    A crash of the validator is repeated; if it crashes on the same op again, that op is rejected, and the
    remaining ones are still validated.

    Args:
        request: What to do.
        files: Open files that the child gets.
        where: The file or model, for messages.
        soc: Name of the SoC, for messages.
        timeout: Seconds that one child may take.
        worker: The child process.

    Raises:
        ConstraintError: If HTP refuses an op.
        ProblemList: If it refuses several.
        BackendError: If the library fails otherwise, is missing or unknown.
    """
    answer, unsupported = validated(request, files, where=where, soc=soc, timeout=timeout, worker=worker)
    place = f"{where}: {soc}"
    problems = [error_of(words) for words in answer.get("problems", ())]
    for problem in problems:
        problem.where = f"{place}: {problem.where}"
    raise_all([*problems, *problems_of(unsupported, place)], where=place)
    return answer


def validated(
    request: Mapping[str, Any],
    files: Sequence[int] = (),
    *,
    where: str,
    soc: str,
    timeout: float,
    worker: HtpWorker,
) -> tuple[dict[str, Any], list[UnsupportedOp]]:
    """Run a request that validates ops; return its answer and unsupported ops.

    Arguments and errors are those of ``query``, but for unsupported ops.
    """
    folder = str(library_folder())
    crashed: list[tuple[str, str]] = list(request.get("skip", ()))
    unsupported: list[UnsupportedOp] = []
    suspected: set[tuple[str, str]] = set()
    current = {**request, "skip": crashed, "library": folder}
    while True:
        try:
            answer = worker.ask(current, files, timeout=timeout)
        except ChildDiedError as death:
            op = validated_op(death.step)
            if op is None or op[:2] in crashed or death.is_killed:
                death.where = f"{where}: {soc}"
                raise
            if not death.is_late and op[:2] not in suspected:
                suspected.add(op[:2])
                continue
            crashed.append((op[0], op[1]))
            current = {**current, "do": "validate"}
            unsupported.append(UnsupportedOp(*op, death.problem, "remove or rewrite this op"))
            continue
        except XdlcError as error:
            for problem in each_problem(error):
                problem.where = ": ".join([where, soc, *([problem.where] if problem.where else [])])
            raise
        return answer, [*unsupported, *(UnsupportedOp(**words) for words in answer.get("unsupported", ()))]
