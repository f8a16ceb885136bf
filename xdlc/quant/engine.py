"""Engine that runs networks: kernels of UDOs, the user's metric, and progress."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeAlias, TypeVar

from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Model, Op
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import reachable
from xdlc.options import spell
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.timeout import OBSERVED
from xdlc.runtime.udo import Kernels
from xdlc.runtime.udo.kernels import missing, open_kernels
from xdlc.runtime.udo.python_file import raised
from xdlc.runtime.udo.sources import paths_of
from xdlc.worker.executors import Workers

T = TypeVar("T")
Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
Step = Callable[[str, int, int], None]
"""Receives the title of what is done, the number of steps done and of all steps (0: not known)."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Files of the user with kernels of UDOs; each process opens them itself.

    Attributes:
        paths: Registration libraries, Python files and folders of kernels.
        timeout: Seconds that one execution may take; None: as long as by default.
    """

    paths: Sequence[str] = ()
    timeout: float | None = None

    @classmethod
    def of(cls, paths: Paths | None, *, timeout: float | None) -> KernelSource:
        """Return the source for the options of a call; commas may separate paths."""
        return cls(tuple(os.path.abspath(path) for path in paths_of(paths)), timeout)

    @contextmanager
    def opened(self, model: Model, *, needed: bool) -> Iterator[Kernels | None]:
        """Open the kernels for a model; yield None if it runs no UDOs.

        Raises:
            UnsupportedOp: For each op for which there is no kernel.
            UsageError: If a file does not exist, the time-out is wrong, or an option has nothing to work
                on.
        """
        ops = _udos(model)
        if not ops or not needed:
            yield None
            return
        with open_kernels(model, self.paths, self.timeout) as kernels:
            raise_all([missing(op, kernels) for op in ops if not kernels.knows(op)])
            yield kernels

    def notes(self, model: Model, kernels: Kernels | None) -> list[str]:
        """Return notes on options that had no effect, once the model has run."""
        if kernels is not None:
            return [f"{path} is unused: it implements no op of the model" for path in kernels.unused()]
        if not self.paths:
            return []
        why = "no step ran the model" if _udos(model) else "the model has no UDOs"
        return [f"xdlc opened no kernel: {why}"]


def _udos(model: Model) -> list[Op]:
    """Return the UDOs that running a model may execute."""
    return [op for graph in reachable(model.main, model.graphs) for op in graph.ops if is_udo(op)]


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs networks during quantization.

    Attributes:
        kernels: Kernels of UDOs; None: the model has no such ops, or need not run.
        source: Where other processes get the kernels from.
        workers: Run independent parts of the work.
        loop_timeout: Seconds that each loop may run.
        metric: The user's judge of a network; None: outputs are judged alone.
        step: Receives the progress of everything that may take a second.
    """

    kernels: Kernels | None = None
    source: KernelSource = field(default_factory=KernelSource)
    workers: Workers = field(default_factory=Workers)
    loop_timeout: float = OBSERVED
    metric: Metric | None = None
    step: Step | None = None

    def session(self, network: Model | Graph, **options: Any) -> CpuSession:
        """Return a session that runs a model or graph, with the kernels of its UDOs.

        Args:
            **options: Keyword arguments of :class:`xdlc.runtime.cpu.CpuSession`.
        """
        return CpuSession(
            network, kernels=self.kernels, spins=False, loop_timeout=self.loop_timeout, **options
        )

    @property
    def sharing(self) -> Workers:
        """Threads that share objects of this process, or the workers if these cannot.

        Kernels of UDOs would wait for each other.
        """
        return self.workers if self.kernels is not None else self.workers.sharing

    def calls(self, functions: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Yield the results of functions in order; with jobs, threads call them."""
        workers = Workers() if self.sharing.are_processes else self.sharing
        return workers.in_order(map(partial, functions), "quantization")

    def report(self, title: str, done: int = 0, total: int = 0) -> None:
        if self.step is not None:
            self.step(title, done, total)


Run: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes an array per input by name, in the graph's own layout; returns one per output."""
Evaluate: TypeAlias = Callable[[Run], float]
"""Evaluates a function that runs a network; returns a score, higher is better."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a network, and its minimum."""

    evaluate: Evaluate
    least: float


def checked(
    evaluate: Callable[..., Any] | str, option: str = "evaluate", *, may_be_nan: bool = False
) -> Callable[..., float]:
    """Return the user's metric, with errors that name its file and line.

    The metric raises BackendError if the function does, and UsageError if it returns no number.

    Args:
        evaluate: The function, or ``FILE.py:FUNCTION``; the file's code is run.
        option: The option that names it, for messages.
        may_be_nan: Whether NaN counts as a number.

    Raises:
        UsageError: If the file or the function does not exist.
        BackendError: If the file cannot be loaded.
    """
    function = load_function(evaluate, option) if isinstance(evaluate, str) else evaluate
    name = getattr(function, "__qualname__", type(function).__name__)
    path = getattr(getattr(function, "__code__", None), "co_filename", name)

    def measured(*arguments: Any) -> float:
        try:
            value = function(*arguments)
        except XdlcError as error:
            lines = [frame for frame in extract_tb(error.__traceback__) if frame.filename == path]
            where = f"{path}:{lines[-1].lineno}" if lines else path
            raise UsageError(
                f"the metric {name} failed: {error.problem}", where=where, fix=error.fix
            ) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() of the metric ends no tool
            raise raised(error, path, f"the metric {name}") from error
        try:
            score = None if isinstance(value, str) else float(value)
        except (TypeError, ValueError):
            score = None
        if score is None or (math.isnan(score) and not may_be_nan):
            raise UsageError(
                f"the metric {name} returned {value!r:.100} instead of a number",
                where=path,
                fix="return a number" + ("" if may_be_nan else ", higher is better"),
            )
        return score

    return measured


def load_function(text: str, option: str = "evaluate") -> Callable[..., float]:
    """Return the function that ``FILE.py:FUNCTION``, the value of an option, names."""
    file, _, name = text.rpartition(":")
    path, where = Path(file), spell(option)
    if path.suffix != ".py" or not name.isidentifier():
        raise UsageError(f"{text!r} does not name a function", where=where, fix="write FILE.py:FUNCTION")
    if not path.is_file():
        raise UsageError(f"no file {file!r}", where=where, fix="pass the path of an existing file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise raised(error, str(path), "loading the metric") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    function = getattr(module, name, None)
    if not callable(function):
        functions = [key for key, held in vars(module).items() if callable(held) and key[0] != "_"]
        raise UsageError(
            f"{file} has no function {name!r}",
            where=where,
            fix=nearest_names(name, functions) or f"define {name} there",
        )
    return function  # type: ignore[no-any-return]
