"""Child process of the vendor's libraries: start, requests, and errors for its failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from xdlc.errors import BackendError, StorageError, XdlcError, each_problem, raise_all
from xdlc.ir import Graph, Model
from xdlc.runtime.child import TemporaryFolder, command, ending, error_of, temporary_files
from xdlc.runtime.child import environment as environment_of
from xdlc.runtime.htp.library import library_folder
from xdlc.runtime.htp.unsupported_op import UnsupportedOp, problems_of

_TAIL = 400
SHARED_CACHE = "cache.dlc"
"""File of a compile job that has the cache and its shared weights."""


class ChildDiedError(BackendError):
    """The child ended without an answer.

    Attributes:
        step: What it was doing: a sentence, or a JSON list about an op that was being validated.
        is_late: Whether it was ended because it took too long.
        is_killed: Whether it was killed, as the system and its own watch do where memory runs out.
    """

    def __init__(self, problem: str, step: str, *, is_late: bool = False, is_killed: bool = False) -> None:
        super().__init__(
            f"{problem} while {_step_words(step)}",
            fix="if memory ran out, free some, prepare fewer SoCs at a time, or make the network smaller"
            if is_killed
            else "remove or rewrite what it was working on; the other SoCs are not affected",
        )
        self.step, self.is_late, self.is_killed = step, is_late, is_killed


def _step_words(step: str) -> str:
    found = validated_op(step)
    return step if found is None else f"validating op {found[1]!r} ({found[2]}) of graph {found[0]!r}"


def validated_op(step: str) -> tuple[str, str, str] | None:
    """Return graph, op and type if the step was validating an op."""
    if not step.startswith("["):
        return None
    try:
        _, graph, op, kind = json.loads(step)
    except ValueError:  # the child was killed while it wrote
        return None
    return graph, op, kind


def worker_command() -> list[str]:
    """Return the command line of the child, to which the folder is appended."""
    return command("xdlc.runtime.htp.worker")


def environment() -> dict[str, str]:
    """Return the child's environment."""
    return environment_of({"OPENBLAS_NUM_THREADS": "1"})  # it multiplies no matrices: threads only cost


class Running(Protocol):
    """A child process, in the words of ``subprocess``."""

    def wait(self, timeout: float | None = None) -> int:
        """Return its status once it has ended; raises TimeoutExpired after ``timeout`` seconds."""

    def kill(self) -> None:
        """End it, if it has not ended."""


Launch = Callable[[Path], Running]


def start(
    folder: Path, *, stdin: int = subprocess.DEVNULL, stdout: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that serves the request in ``folder``; what it prints goes to the file ``log``."""
    with temporary_files(), open(folder / "log", "wb") as log:
        return subprocess.Popen(
            [*worker_command(), str(folder)],
            bufsize=0,
            stdin=stdin,
            stdout=log if stdout is None else stdout,
            stderr=log,
            env=environment(),
        )


@contextmanager
def stored_model(model: Model | Graph | str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a DLC with the model; one in memory is saved to a temporary file.

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


class Child:
    """A folder and the child process that works in it.

    Use as a context manager: leaving it ends the child and removes the folder.

    Args:
        launch: Starts the process.

    Raises:
        StorageError: If there is no space for temporary files.
    """

    def __init__(self, launch: Launch = start) -> None:
        self._launch = launch
        with temporary_files():
            self._folder = TemporaryFolder()
        self.folder = Path(self._folder.name)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def query(self, request: Mapping[str, Any], *, timeout: float) -> dict[str, Any]:
        """Run the child on a request and return its answer.

        Raises:
            ChildDiedError: If it crashed or did not answer in time.
            StorageError: If there is no space for temporary files.
            XdlcError: The error that the child reports.
        """
        self.put(request)
        running = self._launch(self.folder)
        try:
            status = running.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise self.late(timeout) from error
        finally:
            running.kill()
            running.wait()
        if not (self.folder / "answer.json").exists():
            raise self.died(status)
        return self.answer()

    def put(self, request: Mapping[str, Any]) -> None:
        """Write a request where the child looks for it."""
        with temporary_files():
            (self.folder / "request.json").write_text(json.dumps(request))

    def answer(self) -> dict[str, Any]:
        """Return the answer that the child has left.

        Raises:
            XdlcError: The error that the child reports.
        """
        try:
            found = json.loads((self.folder / "answer.json").read_bytes())
            errors = [error_of(words) for words in found.get("errors", ())]
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ChildDiedError(
                "the vendor's library left an answer that is garbage", self._step()
            ) from error
        raise_all(errors)
        return dict(found)

    def late(self, timeout: float) -> ChildDiedError:
        """Return the error of a child that took longer than ``timeout`` seconds."""
        problem = f"the vendor's library had no answer within {timeout:g} s"
        return ChildDiedError(problem, self._step(), is_late=True)

    def died(self, status: int) -> ChildDiedError:
        """Return the error of a child that ended with ``status`` and left no answer."""
        return ChildDiedError(self._death(status), self._step(), is_killed=status == -signal.SIGKILL)

    def _step(self) -> str:
        path = self.folder / "step"
        return (path.read_text(errors="replace") if path.exists() else "") or "starting"

    def _death(self, status: int) -> str:
        log = self.folder / "log"  # not there yet if it was killed at once
        said = log.read_text(errors="replace").strip()[-_TAIL:] if log.exists() else ""
        last = said.splitlines()[-1] if said else ""
        return f"the vendor's library ended with {ending(status)}" + (f" ({last})" if last else "")


def query(
    request: Mapping[str, Any],
    *,
    where: str,
    soc: str,
    timeout: float,
    child: Child,
) -> dict[str, Any]:
    """Run a request that validates ops first; return its answer.

    A crash of the validator is repeated; if it crashes on the same op again, that op is rejected, and the
    remaining ones are still validated.

    Args:
        request: What to do.
        where: The file or model, for messages.
        soc: Name of the SoC, for messages.
        timeout: Seconds that one child may take.
        child: The child process.

    Raises:
        ConstraintError: If HTP refuses an op.
        ProblemList: If it refuses several.
        BackendError: If the library fails otherwise, is missing or unknown.
    """
    answer, unsupported = validated(request, where=where, soc=soc, timeout=timeout, child=child)
    place = f"{where}: {soc}"
    noticed = [error_of(words) for words in answer.get("problems", ())]
    for problem in noticed:
        problem.where = f"{place}: {problem.where}"
    raise_all([*noticed, *problems_of(unsupported, place)], where=place)
    return answer


def validated(
    request: Mapping[str, Any], *, where: str, soc: str, timeout: float, child: Child
) -> tuple[dict[str, Any], list[UnsupportedOp]]:
    """Run a request that validates ops first; return its answer and the unsupported ops.

    Arguments and errors are those of ``query``, but for unsupported ops.
    """
    library_folder()
    crashed: list[tuple[str, str]] = list(request.get("skip", ()))
    unsupported: list[UnsupportedOp] = []
    suspected: set[tuple[str, str]] = set()
    current = {**request, "skip": crashed}
    while True:
        try:
            answer = child.query(current, timeout=timeout)
        except ChildDiedError as death:
            found = validated_op(death.step)
            if found is None or found[:2] in crashed or death.is_killed:
                death.where = f"{where}: {soc}"
                raise
            if not death.is_late and found[:2] not in suspected:
                suspected.add(found[:2])
                continue
            crashed.append((found[0], found[1]))
            current = {**current, "command": "validate"}
            unsupported.append(UnsupportedOp(*found, death.problem, "remove or rewrite this op"))
            continue
        except XdlcError as error:
            for problem in each_problem(error):
                problem.where = ": ".join([where, soc, *([problem.where] if problem.where else [])])
            raise
        return answer, [*unsupported, *(UnsupportedOp(**each) for each in answer.get("unsupported", ()))]
