"""Running a model here: on the CPU, by sections, on the vendor's emulation."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, Unpack

from xdlc.api.models import loaded
from xdlc.api.runtimes import Engine, runtime_with
from xdlc.api.verbs import Array, verb
from xdlc.container.caches import caches
from xdlc.errors import BackendError, UsageError, XdlcError, each_problem
from xdlc.ir import Graph, Model
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.options import PathLike, Step, options_of
from xdlc.options.running import KernelOptions, RunOptions
from xdlc.worker.executors import open_threads
from xdlc.worker.limits import AT_A_TIME

if TYPE_CHECKING:
    from xdlc.runtime.profile import Profile
    from xdlc.runtime.udo import Kernels


Shapes = Mapping[str, tuple[int, ...]]
"""Shape of each array by the name of its input."""


def alternatives(model: Model, soc: str | None = None) -> list[Graph]:
    """Return the graphs with the inputs of the main one, which may have other shapes.

    Those of a model without graphs are the graphs of its cache.

    Args:
        soc: Name of the SoC whose cache is preferred.
    """
    graphs = outer_graphs(model)
    if not graphs and caches(model):
        from xdlc.runtime.htp.context_binary import described

        graphs = list(described(model, soc)[1].values())
    return [graph for graph in graphs if _names(graph) == _names(graphs[0])]


def fitting(graphs: Sequence[Graph], shapes: Shapes) -> Graph:
    """Return the first graph whose inputs have some shapes.

    It is the first graph if an array has a name that no input has, which is an error of the run.

    Raises:
        UsageError: If no graph fits; it lists the graphs.
    """
    for graph in graphs:
        if all(_fits(graph, name, shape) for name, shape in shapes.items()):
            return graph
    if shapes.keys() <= _names(graphs[0]):
        listed = "; ".join(
            f"{graph.name}: {', '.join(f'{tensor.name} {list(tensor.shape)}' for tensor in graph.inputs)}"
            for graph in graphs
        )
        passed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise UsageError(f"no graph has inputs of these shapes: {passed}", fix=f"use one of {listed}")
    return graphs[0]


def _names(graph: Graph) -> set[str]:
    return {tensor.name for tensor in graph.inputs}


def _fits(graph: Graph, name: str, shape: tuple[int, ...]) -> bool:
    tensor = next((tensor for tensor in graph.inputs if tensor.name == name), None)
    return (
        tensor is not None
        and len(shape) == tensor.rank
        and all(
            axis in tensor.dynamic_axes or size == dim
            for axis, (size, dim) in enumerate(zip(shape, tensor.shape, strict=True))
        )
    )


R = TypeVar("R")
Runtime: TypeAlias = Literal["cpu", "htp", "aip"]
"""Names of runtimes for type checkers."""


@verb
def kernels(model: Model | PathLike, **options: Unpack[KernelOptions]) -> Kernels:
    """Return the kernels of a model's UDOs, for any number of sessions.

    The kernels run in a process of their own. Use the result as a context manager, which ends this process.

    Args:
        model: The model, or the path of a DLC.
        **options: Options of the kernels.

    Raises:
        UsageError: If a file is missing, the time-out is not valid, or an option has no effect.
    """
    from xdlc.runtime.udo.kernels import open_kernels

    return open_kernels(loaded(model), **options)


class Submissions:
    """Threads that run submitted functions.  Use as a context manager."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._threads = set[threading.Thread]()
        self._open: set[Future[object]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Submissions:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_closed, pool = True, self._pool
            waiting = list(self._open)
        for future in waiting:
            future.cancel()
        if pool is not None:  # each thread meets those that are cancelled, and wakes who waits for them
            pool.shutdown(wait=False)
        for thread in self._threads - {threading.current_thread()}:  # a callback of a future may close, too
            thread.join()

    def submit(self, work: Callable[[float | None], R], deadline: float | None) -> Future[R]:
        """Return a future of the result of ``work``.

        Args:
            work: Called in one of the threads, with the time of the monotonic clock at which it is to end.
            deadline: Seconds after which the future fails; ``work`` is not called then, or its result is
                dropped.

        Raises:
            UsageError: If the deadline is not positive, or the session is closed.
        """
        longest = threading.TIMEOUT_MAX
        if deadline is not None and not (isinstance(deadline, int | float) and 0 < deadline <= longest):
            fix = f"pass a number of seconds above 0 and at most {longest:g}"
            raise UsageError(f"deadline is {deadline!r}, not a valid number of seconds", fix=fix)
        until = None if deadline is None else time.monotonic() + deadline
        future: Future[R] = Future()
        starting = threading.Lock()

        def late() -> None:
            with starting, suppress(InvalidStateError):
                problem = f"the run did not end within its deadline of {deadline:g} s"
                future.set_exception(BackendError(problem, fix="pass a longer deadline"))

        def run() -> None:
            with starting:
                if (future.done() and not future.cancelled()) or not future.set_running_or_notify_cancel():
                    return
            try:
                result = work(until)
            except BaseException as error:
                with suppress(InvalidStateError):
                    future.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    future.set_result(result)

        with self._lock:
            if self._is_closed:
                raise UsageError("the session is closed", fix="open a new session with xdlc.Session")
            self._pool = self._pool or ThreadPoolExecutor(
                AT_A_TIME, "xdlc-session", lambda: self._threads.add(threading.current_thread())
            )
            self._open.add(future)  # type: ignore[arg-type]
            self._pool.submit(run)
        future.add_done_callback(self._open.discard)
        if deadline is not None:
            timer = threading.Timer(deadline, late)
            timer.daemon = True
            timer.start()
            future.add_done_callback(lambda _: timer.cancel())
        return future


class Session:
    """A model that is ready to run many times, from any number of threads.

    Use the session as a context manager, or call ``close``.  Both end the processes of the session.

    Attributes:
        graph: The graph of the runs.  If each run chooses a graph by the shapes of its feeds, this is the
            model's first graph.

    Args:
        model: The model, or the path of a DLC.
        runtime: ``cpu`` runs the model with onnxruntime.  ``htp`` runs the cache that fits best on the
            vendor's emulation of a SoC, and compiles the model if no cache fits.  ``aip`` runs the DLC's HTA
            sections on this machine.
        **options: See ``help(xdlc.run)``.

    Raises:
        UsageError: If xdlc does not know the runtime, or the runtime does not have an option.
        UnsupportedOp: If the host cannot run an op, or a UDO has no kernel.
        ContainerError: If the DLC is damaged, or has no HTA sections (aip).
        ConstraintError: If HTP refuses an op (htp).
        BackendError: If the engine is missing or fails.
        StorageError: If the DLC cannot be read.
    """

    @verb
    def __init__(
        self, model: Model | PathLike, runtime: Runtime = "cpu", **options: Unpack[RunOptions]
    ) -> None:
        arguments: dict[str, Any] = {**options}
        chosen = runtime_with(runtime, options)
        with ExitStack() as stack:
            source, where = loaded(model), None if isinstance(model, Model) else os.fspath(model)
            is_by_shape = "graph" in chosen.options and arguments.get("graph") is None
            self._graphs = alternatives(source, arguments.get("soc")) if is_by_shape else []
            named: Any = {
                name: arguments.pop(name) for name in options_of(KernelOptions) if name in arguments
            }
            if named and "kernels" in arguments:
                raise UsageError(f"kernels= and {', '.join(named)} exclude each other", fix="omit kernels=")
            opened = stack.enter_context(kernels(source, **named)) if named else None
            arguments |= {"kernels": opened} if named else {}
            self._engine: Engine = stack.enter_context(chosen.open(source, where, **arguments))
            self._engines = {self._engine.graph.name: self._engine}
            self._open: Callable[..., Any] = lambda graph, **more: chosen.open(
                source, where, **{**arguments, "graph": graph}, **more
            )
            self._others, self._opening = stack.enter_context(ExitStack()), threading.Lock()
            for path in opened.unused() if opened is not None else ():
                logging.getLogger(__name__).warning("%s is unused: it implements no op of the model", path)
            self._times_ops, self._at_a_time = chosen.times_ops, chosen.at_a_time
            self._end = chosen.end
            self._submissions = stack.enter_context(Submissions())
            self._closing = stack.pop_all()
        soc = getattr(self._engine, "soc", None) or arguments.get("soc")
        self._runs_on = f"{chosen.name} ({soc})" if isinstance(soc, str) else chosen.name
        self._is_open = True
        self.graph: Graph = self._engine.graph

    @verb
    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Run the model once, and return its outputs by name.

        Float and quantized outputs are float32; other outputs keep their data type.

        Args:
            feeds: Input arrays by name, with the shape and layout of the graph's inputs.  Feed a quantized
                input with real numbers (any float type) or with stored integers (the type of the input).
            native: Return quantized outputs as stored integers instead of float32.

        Raises:
            UsageError: If an input is missing, has an unknown name, a wrong shape or a wrong type, or if the
                session is closed.
            BackendError: If the engine fails.
        """
        self._check_open()
        return self._engine_for(feeds).run(feeds, native=native)

    @verb
    def run_batch(
        self,
        samples: Iterable[Mapping[str, Array]],
        *,
        native: bool = False,
        step: Step | None = None,
    ) -> list[dict[str, Array]]:
        """Run the model once for each sample, and return the outputs in the same order.

        On HTP, up to four runs work at the same time.

        Args:
            samples: Input arrays by name for each run, like ``feeds`` of ``run``.  xdlc reads a sample from
                an iterator when the run of the sample begins.  On HTP, xdlc reads one sample ahead, and an
                iterator must not change the arrays of earlier samples.
            native: Return quantized outputs as stored integers instead of float32.
            step: Called as ``step("running", done, total)`` with the number of finished runs and of all
                runs.  The total is 0 if xdlc does not know it.

        Raises:
            XdlcError: If a run fails; ``run`` lists the errors.  The error names the sample.
        """
        if isinstance(samples, Mapping) or not isinstance(samples, Iterable):
            raise UsageError(f"samples is of type {type(samples).__name__}", fix="pass a list: [feeds]")
        total = len(samples) if isinstance(samples, Sized) else 0
        results: list[dict[str, Array]] = []

        def run(number: int, feeds: Mapping[str, Array]) -> dict[str, Array]:
            try:
                return self.run(feeds, native=native)
            except XdlcError as error:
                for problem in each_problem(error):
                    problem.where = ": ".join(filter(None, (f"sample {number}", problem.where)))
                raise

        def end() -> None:
            for engine in list(self._engines.values()):
                self._end(engine)

        with open_threads(self._at_a_time, end) as workers:
            tasks = (partial(run, number, feeds) for number, feeds in enumerate(samples))
            for outputs in workers.in_order(tasks, "run_batch"):
                results.append(outputs)
                if step is not None:
                    step("running", len(results), total)
        return results

    @verb
    def submit(
        self, feeds: Mapping[str, Array], *, native: bool = False, deadline: float | None = None
    ) -> Future[dict[str, Array]]:
        """Start a run in another thread, and return the future of its outputs.

        Up to four runs work at the same time.  Kernels of UDOs run one after the other.

        Args:
            feeds: Input arrays by name, like ``feeds`` of ``run``.  Do not change the arrays until the run
                ends.
            native: Return quantized outputs as stored integers instead of float32.
            deadline: Fail the future with a BackendError after this many seconds.  A run that still waits
                then never starts.  A run on the CPU stops before its next op; a run on another runtime
                continues without a result.

        Raises:
            UsageError: If the deadline is not positive, or the session is closed.
        """
        self._check_open()

        def work(until: float | None) -> dict[str, Array]:
            engine = self._engine_for(feeds)
            if until is not None and self._times_ops:
                return engine.run(feeds, native=native, until=until)  # type: ignore[call-arg]
            return engine.run(feeds, native=native)

        return self._submissions.submit(work, deadline)

    @verb
    def profile(self, feeds: Mapping[str, Array], *, runs: int = 10) -> Profile:
        """Run the model, and return the mean time of each op on this CPU in seconds.

        The times include UDOs, and differ from the times of a device.  The session opens the model a second
        time for the measurement.

        Args:
            feeds: Input arrays by name, like ``feeds`` of ``run``.
            runs: Number of runs, 1 or more.  The first run is the slowest.

        Returns:
            The profile.  ``seconds`` is the mean time of a run; ``ops`` has the mean seconds of each op, and
            the share (0 to 1) of the op.

        Raises:
            UsageError: If the session's runtime is not cpu, ``runs`` is below 1, or the session is closed.
            BackendError: If the runs execute more than a million ops.
            XdlcError: If a run fails; ``run`` lists the errors.
        """
        from xdlc.runtime.profile import Profiler

        self._check_open()
        if not self._times_ops:
            raise UsageError(
                "xdlc times ops on the runtime cpu only, not on the emulation",
                fix="open the model with the runtime cpu",
            )
        if not isinstance(runs, int) or runs < 1:
            raise UsageError(f"runs is {runs!r}, not a number of runs", fix="pass a whole number from 1")
        with Profiler() as profiler:
            with self._open(self._engine_for(feeds).graph.name, profiler=profiler) as engine:
                for _ in range(runs):
                    profiler.run(engine.run, feeds)
            return profiler.result()

    def _engine_for(self, feeds: Mapping[str, Array]) -> Engine:
        """Return the engine of the graph whose inputs have the shapes of arrays."""
        if len(self._graphs) < 2 or not isinstance(feeds, Mapping):
            return self._engine
        from xdlc.runtime.cpu import array_of

        graph = fitting(self._graphs, {name: array_of(array).shape for name, array in feeds.items()})
        if graph.name not in self._engines:  # compiling one makes no run of others wait
            with self._opening:
                if graph.name not in self._engines:
                    self._check_open()
                    self._engines[graph.name] = self._others.enter_context(self._open(graph.name))
        return self._engines[graph.name]

    def close(self) -> None:
        """End the session: cancel waiting runs, and wait for the end of active runs."""
        self._is_open = False
        self._closing.close()

    def __repr__(self) -> str:
        """Return the graph with its inputs and outputs, and the runtime."""
        sides = (
            ", ".join(f"{tensor.name} {tensor.dtype}{list(tensor.shape)}" for tensor in side)
            for side in (self.graph.inputs, self.graph.outputs)
        )
        state = "" if self._is_open else ", closed"
        return f"<xdlc.Session of graph {self.graph.name!r} on {self._runs_on}{state}: {' -> '.join(sides)}>"

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise UsageError("the session is closed", fix="open a new session with xdlc.Session")


session = Session
"""The class under the name of a verb."""


@verb
def run(
    model: Model | PathLike,
    feeds: Mapping[str, Array],
    runtime: Runtime = "cpu",
    *,
    native: bool = False,
    **options: Unpack[RunOptions],
) -> dict[str, Array]:
    """Run a model once, and return its outputs by name.

    To run a model several times, use ``Session``.

    Args:
        model: The model, or the path of a DLC.
        feeds: Input arrays by name, in the layout of the graph's inputs.  A quantized input accepts real
            numbers of any float type, or stored integers.
        runtime: ``cpu`` (onnxruntime), ``htp`` (the vendor's emulation of a SoC) or ``aip`` (HTA sections).
        native: Return quantized outputs as stored integers instead of float32.
        **options: Options of the runtime.

    Returns:
        The output arrays by name.  Float and quantized outputs are float32; other outputs keep their data
        type.

    Raises:
        UsageError: If xdlc does not know the runtime, an option or an input name.
        BackendError: If the engine is missing or fails.
        XdlcError: If xdlc cannot open the model; ``Session`` lists the errors.
    """
    with Session(model, runtime, **options) as opened:
        return opened.run(feeds, native=native)
