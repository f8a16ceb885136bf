"""The kernels of user-defined operations that a session can call."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xdlc.errors import BackendError, UnsupportedOp, XdlcError, each_problem, nearest_names, raise_all
from xdlc.ir import Model, Op
from xdlc.opdefs.custom import OpView, TensorSpec
from xdlc.runtime.child import error_of
from xdlc.runtime.udo.describe import form_of, form_of_view
from xdlc.runtime.udo.forms import specs_in
from xdlc.runtime.udo.offers import Offer, Offers
from xdlc.runtime.udo.operation import Operation
from xdlc.runtime.udo.process import DiedError, Process
from xdlc.runtime.udo.sources import (
    DEFAULT_TIMEOUT,
    PathLike,
    check_sources,
    checked_timeout,
    embedded_in,
    paths_of,
    sources_of,
)

if TYPE_CHECKING:
    from xdlc.opdefs.model import OpDef

LOADING = 60.0
"""Seconds at least that the child may take to start and to load a file: the caller's are for calls."""
RESTARTS = 8
"""How often a child that died is replaced."""
_log = logging.getLogger(__name__)


class Kernels:
    """Libraries, Python files and embedded kernels, in a child process of their own.

    The process is started when something is first asked of it.  One that dies is replaced, a few times.
    Any number of sessions and threads may use the same object; one operation runs at a time.  Use as a
    context manager, or call ``close``.

    Args:
        paths: Registration libraries, and Python files with kernels or shape functions.
        model: The model; its definitions name operands and enumerators.
        embedded: Whether kernels that the model carries may be loaded.
        timeout: Seconds that each call may take.

    Raises:
        UsageError: If there is no such file, or the time-out is not valid.
        ContainerError: If a record of the model is damaged.
    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike] | None = (),
        *,
        model: Model | None = None,
        embedded: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.timeout = checked_timeout(timeout)
        self._sources = sources_of(paths_of(paths))
        self._carried = embedded_in(model)
        self._embedded = self._carried if embedded else []
        self._definitions = _definitions(model)
        self._offers: Offers | None = None
        self._process: Process | None = None
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._deaths = 0
        self._is_closed = False
        self._numbers = 0
        self._released: deque[tuple[int, int]] = deque()
        self._used: set[int] = set()
        self.generation = 0

    def __enter__(self) -> Kernels:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except XdlcError:
            if kind is None:
                raise

    # ------------------------------------------------------------------ what there is

    def knows(self, op: Op) -> bool:
        """Return whether there is a kernel for an op.

        Raises:
            XdlcError: If a library or file cannot be loaded.
        """
        return self._offer(op) is not None

    def origin(self, op: Op) -> str:
        """Return where the kernel of an op comes from; empty if there is none."""
        offer = self._offer(op)
        return offer.origin if offer is not None else ""

    def missing(self, op: Op) -> UnsupportedOp:
        """Return the error that says that there is no kernel for an op, and how to give one."""
        return missing(op, self)

    def hint(self, op: Op) -> str:
        """Return what could be done about an op that has no kernel."""
        key, offers = (op.package, op.type), self._loaded()
        other = offers.elsewhere(key)
        carried = next((one for one in self._carried if _is_for(one, op)), None)
        if carried is not None and not self._embedded:
            return (
                f"give --allow_embedded_kernels if you trust the DLC, which carries {carried.origin}, "
                "or a library with --udo_package_path"
            )
        if other is not None:
            return f"build it for the CPU: {other.origin} has it for {', '.join(other.cores)} only"
        near = nearest_names(f"{op.package}::{op.type}", offers.types())
        given = f" ({near})" if near else ""
        return f"give the registration library or Python file that has it with --udo_package_path{given}"

    def unused(self) -> list[str]:
        """Return the files that nothing has been taken from."""
        return [str(source.path) for at, source in enumerate(self._sources) if at not in self._used]

    # ------------------------------------------------------------------ what it does

    def operation(self, op: Op) -> Operation:
        """Return an op, ready to run.

        Raises:
            UnsupportedOp: If there is no kernel for it.
            BackendError: If the kernel does not take it, or fails.
        """
        with self.held():
            offer = self._offer(op)
            if offer is None:
                raise self.missing(op)
            # Arrays of Python tell no scale.
            python = self._is_python(offer.source)
            form, data = form_of(op, self._definition(op.package, op.type), reals=python)
            shapes = self._loaded().shapes((op.package, op.type))
            self._used.update(one.source for one in (offer, shapes) if one is not None)
            self._numbers += 1
            return Operation(
                self,
                op,
                self._numbers,
                form,
                data,
                offer,
                shapes.source if shapes is not None else None,
                is_python=python,
            )

    def infer(self, view: OpView, definition: OpDef | None = None) -> list[TensorSpec] | None:
        """Return the outputs of an op of a model that is converted; None where nothing tells them.

        Args:
            view: The op.
            definition: Its definition; default: that of the model.

        Raises:
            BackendError: If what tells them fails.
        """
        key = (view.package, view.type)
        with self.held():
            offer = self._loaded().shapes(key)
            if offer is None:
                return None
            self._used.add(offer.source)
            form, data = form_of_view(view, definition or self._definition(*key))
            memory = data.memory()
            request = {
                "do": "infer",
                "shapes": offer.source,
                "form": form.words(),
                "size": memory.size,
            }
            place = f"op {view.name!r} ({view.package}::{view.type})"
            answer = self.ask(
                request, [memory.file], place=place, origin=offer.origin, doing="telling its shapes"
            )
        return specs_in(answer)

    def close(self) -> None:
        """Release all operations, terminate the libraries, and end the child process.

        Raises:
            BackendError: If a library fails at it.
        """
        with self.held():
            self._is_closed = True
            process, self._process = self._process, None
            if process is None:
                return
            try:
                answer = process.close()
            except DiedError as error:
                raise self._died("releasing all", error, "", "user-defined operations") from error
            raise_all([error_of(words) for words in answer.get("errors", ())])

    # ------------------------------------------------------------------ for operations

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads from the child; a copy of this process gets a child of its own."""
        if os.getpid() != self._owner:
            self._owner, self._lock, self._process = os.getpid(), threading.RLock(), None
            self._released.clear()
        with self._lock:
            yield

    def started(self) -> int:
        """Start a child if there is none, and return how many there have been."""
        self._loaded()
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
        """Give the child a request and return its answer.

        Args:
            request: What to do.
            files: Open files that it gets.
            place: The op, for errors; empty for none.
            origin: The library or file, for errors.
            doing: What is done, for errors.
            timeout: Seconds that it may take.

        Raises:
            BackendError: If it fails.
        """
        self.started()
        process = self._process
        assert process is not None
        self._release(process)
        try:
            answer = process.ask(request, files, timeout=self.timeout if timeout is None else timeout)
        except DiedError as error:
            raise self._died(doing, error, place, origin) from error
        except BaseException:
            self._process = None
            raise
        problems = [error_of(words) for words in answer.get("errors", ())]
        for problem in problems:
            problem.where = ": ".join(filter(None, (place, problem.where or origin)))
        raise_all(problems)
        return answer

    def give_up(self) -> None:
        """End the child: what it holds cannot be relied on."""
        process, self._process = self._process, None
        self._deaths += 1
        if process is not None:
            process.end()

    def release_later(self, generation: int, number: int) -> None:
        """Note that an operation is not used any more."""
        self._released.append((generation, number))

    # ------------------------------------------------------------------ the child

    def _offer(self, op: Op) -> Offer | None:
        found = self._loaded().kernel((op.package, op.type))
        if found is not None:
            return found
        for index, held in enumerate(self._embedded):
            if _is_for(held, op):
                return Offer(len(self._sources) + index, held.origin, True, False, ("CPU",), False)
        return None

    def _is_python(self, source: int) -> bool:
        return source < len(self._sources) and self._sources[source].kind == "python"

    def _definition(self, package: str, type: str) -> OpDef | None:
        return self._definitions.get((package, type))

    def arguments(self, source: int) -> Any:
        """Return the kernel that a DLC carries under the number of its source; None for other sources."""
        index = source - len(self._sources)
        return self._embedded[index].kernel if index >= 0 else None

    def _loaded(self) -> Offers:
        with self.held():
            if self._offers is None:
                if self._sources or self._embedded:
                    check_sources(self._sources, self._embedded)
                    self._start()
                else:
                    self._offers = Offers()
            assert self._offers is not None
            return self._offers

    def _start(self) -> None:
        if self._is_closed:
            raise BackendError("the kernels of user-defined operations have been closed")
        if self._deaths > RESTARTS:
            raise BackendError(
                f"the process of users' operations has died {self._deaths} times and is not started anew",
                fix="correct the kernels, then open the model again",
            )
        self._process = process = Process()
        self.generation += 1
        try:
            self._offers = self._load(process)
        except BaseException:
            self._process = None
            process.end()
            raise

    def _load(self, process: Process) -> Offers:
        offers, problems = Offers(), list[XdlcError]()
        for number, source in enumerate(self._sources):
            where = str(source.path)
            request = {"do": "load", "path": where, "kind": source.kind}
            try:
                words = self._answer(process, request, (), where).get("offers", [])
                offers.add(number, where, words, is_file=source.kind == "python")
            except XdlcError as error:
                problems += each_problem(error)
        for held in self._embedded:
            try:
                self._embed(process, held)
            except XdlcError as error:
                problems += each_problem(error)
        raise_all(problems)
        return offers

    def _embed(self, process: Process, held: Any) -> None:
        file = os.memfd_create("xdlc-kernel", os.MFD_CLOEXEC)
        try:
            with open(file, "wb", closefd=False) as target:
                target.write(held.kernel.binary)
            request = {"do": "embed", "entry": held.kernel.entry, "where": held.origin}
            self._answer(process, request, (file,), held.origin)
        finally:
            os.close(file)

    def _answer(
        self, process: Process, request: Mapping[str, Any], files: Sequence[int], where: str
    ) -> dict[str, Any]:
        try:
            answer = process.ask(request, files, timeout=max(self.timeout, LOADING))
        except DiedError as error:
            raise self._died("loading it", error, "", where) from error
        raise_all([error_of(words) for words in answer.get("errors", ())])
        return answer

    def _died(self, doing: str, error: DiedError, place: str, origin: str) -> BackendError:
        self._process = None
        self._deaths += 1
        fix = "correct it: a debugger or valgrind shows where it fails; its inputs cannot be written"
        if error.is_late:
            fix = "give it more time with --udo_timeout (timeout=), or make it end"
        where = ": ".join(filter(None, (place, origin)))
        return BackendError(f"{doing} {error.how}", where=where, fix=fix)

    def _release(self, process: Process) -> None:
        numbers = []
        while self._released:
            generation, number = self._released.popleft()
            if generation == self.generation:
                numbers.append(number)
        if not numbers:
            return
        try:
            answer = process.ask({"do": "release", "ops": numbers}, timeout=self.timeout)
        except DiedError as error:
            raise self._died("releasing operations", error, "", "user-defined operations") from error
        for words in answer.get("errors", ()):
            _log.warning("%s", error_of(words))


def _is_for(held: Any, op: Op) -> bool:
    return (held.package, held.type) == (op.package, op.type) and op.name in held.ops


def _definitions(model: Model | None) -> dict[tuple[str, str], OpDef]:
    if model is None or not any(name.startswith("xdlc.udo.") for name in model.records):
        return {}
    from xdlc.container import udo

    return {
        (package, opdef.name): opdef
        for package, collection in udo.definitions(model).items()
        for opdef in collection.opdefs
    }


def missing(op: Op, kernels: Kernels | None) -> UnsupportedOp:
    """Return the error that says that there is no kernel for an op of a user's package."""
    hint = "give the registration library or Python file that has it with --udo_package_path"
    graph = f"graph {op.graph.name!r}: " if op.graph is not None else ""
    return UnsupportedOp(
        f"there is no kernel for {op.package}::{op.type}",
        where=f"{graph}op {op.name!r} ({op.package}::{op.type})",
        fix=hint if kernels is None else kernels.hint(op),
        node=op.name,
        op=op.type,
    )
