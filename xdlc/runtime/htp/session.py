"""Session of a model on the emulation of a SoC."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from xdlc.container.caches import caches
from xdlc.errors import (
    BackendError,
    ConstraintError,
    ProblemList,
    UsageError,
    XdlcError,
    each_problem,
    nearest_names,
    raise_all,
)
from xdlc.ir import Model
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.runtime.htp.cache_session import CacheSession
from xdlc.runtime.htp.cache_verdict import PERMISSIVE, choose, refuse_to_compile
from xdlc.runtime.htp.library import library_folder, unswept
from xdlc.runtime.htp.worker_session import OPENING, RUNNING, WorkerSession
from xdlc.runtime.states import with_first_values
from xdlc.runtime.timeout import EMULATED, checked

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels

Array = Any  # numpy.ndarray


Divide = Callable[[Model, str], Model]


class _Runs(Protocol):
    def run(self, feeds: Mapping[str, Array], *, native: bool) -> dict[str, Array]:
        """Return the outputs by name."""


class HtpSession:
    """A model's main graph on the emulation of a SoC, for any number of runs.

    Of the model's caches the one is loaded that fits best: the SoC's own, or else the one of the latest
    architecture and the most vector memory.  If none is usable, ``notify`` receives the reason for each, and
    the model is compiled.  A child process holds what is loaded: use as a context manager, or call ``close``.

    Args:
        soc: Name of the SoC to emulate; default: the one of the first usable cache, or else sm8650.
        mode: How caches are judged: ``permissive``, ``strict`` or ``always_generate_new``.
        outputs: Names of tensors to give beside the graph's outputs.
        validate: Fail instead of compiling if no cache is usable.
        divide: Called with the model and the SoC's name if the HTP refuses the model, or the host has to run
            branches and loops of it; returns the model with a cache of the partitions that HTP supports.
            Default: that is an error.
        notify: Called with sentences that the user should read.
        timeout: Seconds that loading or compiling may take.
        run_timeout: Seconds that one run may take.
        name: What messages call the model.
        loop_timeout: Seconds that each loop may take, at most 15, which is the default.
        kernels: Kernels of UDOs, which run on the CPU; the caller closes them, unless the session
            owns them.

    Attributes:
        choice: What was chosen, and the verdict on each cache.
        record: Name of the cache that runs; None if the model was compiled.
        partitions: Number of partitions on the emulation, with the rest on the CPU; 0 if all runs there.
        soc: Name of the SoC.
        graph: The graph that runs.

    Raises:
        UsageError: If the SoC, the mode or an output is not known.
        ConstraintError: If no cache is usable and ``validate`` is set, or HTP refuses an op; a ProblemList
            of them if it refuses several.
        BackendError: If the library is missing, unknown, or fails.
    """

    def __init__(
        self,
        model: Model,
        soc: str | None = None,
        *,
        mode: str = PERMISSIVE,
        outputs: Iterable[str] = (),
        validate: bool = False,
        divide: Divide | None = None,
        notify: Callable[[str], None] = lambda text: None,
        timeout: float = OPENING,
        run_timeout: float = RUNNING,
        name: str = "model",
        loop_timeout: float | None = None,
        kernels: Kernels | None = None,
    ) -> None:
        library_folder()  # or each cache would fail for the want of it
        self._model = with_outputs(model, outputs)
        self.graph = self._model.main
        asked = [tensor.name for tensor in self.graph.outputs]
        self.choice = choose(model, soc, outputs=asked, mode=mode)  # by the graph that was compiled
        self.soc = self.choice.soc
        self.record: str | None = None
        self.partitions = 0
        self._options: Any = {
            "timeout": timeout,
            "loop_timeout": EMULATED if loop_timeout is None else checked(loop_timeout),
            "kernels": kernels,
        }
        failures: list[str] = []
        runs = self._of_caches(failures, notify)
        if runs is None and validate:
            raise refuse_to_compile(self.choice, failures, asked)
        if runs is None:
            reasons = [*failures, *self.choice.reasons]
            if notice := unswept():
                notify(notice)
            for reason in reasons:
                notify(f"not used on {self.soc}: {reason}")
            if reasons:
                notify(f"{name} is compiled for {self.soc} now")
            runs = self._compiled(name, divide, notify)
        self._runs = runs
        self._served.run_timeout = run_timeout
        self._owned = ExitStack()

    def _of_caches(self, failures: list[str], notify: Callable[[str], None]) -> _Runs | None:
        """Load the best accepted cache; add the errors of others to ``failures``."""
        for cache in self.choice.records:
            try:
                stored = CacheSession(self._model, cache, **self._options)
            except BackendError as error:
                failures.append(f"{error.where or cache.name}: {error.problem}")
                continue
            self.record = cache.name
            for row in self.choice.verdicts:
                if row.record == cache.name and row.unjudged:
                    doubts = "; ".join(map(str, row.unjudged))
                    notify(f"{cache.name} is used without a verdict on all rules: {doubts}")
            if failures:
                notify(f"{cache.name} is used, for better ones do not load: {'; '.join(failures)}")
            self._served, self.partitions = stored.served, stored.partitions
            return stored
        return None

    def _compiled(self, name: str, divide: Divide | None, notify: Callable[[str], None]) -> _Runs:
        if divide is None or not has_control_flow(self.graph):
            try:
                timeout = self._options["timeout"]
                self._served = WorkerSession.of_model(self._model, self.soc, timeout=timeout, name=name)
                return self._served
            except (ConstraintError, ProblemList) as error:
                if divide is None:
                    raise
                first, *others = each_problem(error)
                place = f"{first.where}: " if first.where else ""
                notify(f"HTP refuses {1 + len(others)} op(s) or more, the first is {place}{first.problem}")
        divided = divide(self._model, self.soc)
        (cache,) = (held for held in caches(divided) if held.soc == self.soc)
        stored = CacheSession(divided, cache, **self._options)
        self._served, self.partitions = stored.served, stored.partitions
        return stored

    def __enter__(self) -> HtpSession:
        return self

    def __exit__(self, *raised: Any) -> None:
        try:
            self._served.close()
        finally:
            self._owned.__exit__(*raised)

    def close(self) -> None:
        """End the child process, and close the kernels that the session owns.

        Raises:
            BackendError: If a library of theirs fails at it.
        """
        self.__exit__(None, None, None)

    def own(self, *kernels: Kernels) -> None:
        """Take over kernels, which are closed with the session."""
        for each in kernels:
            self._owned.push(each)

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            feeds: One array per graph input, in the input's shape.  A quantized input accepts float
                values (any float type) or quantized values (its own type).
            native: Give quantized outputs as quantized values instead of float32.

        Raises:
            UsageError: If an array is missing or does not fit.
            BackendError: If the library fails, or the run takes too long; the session is over then.
        """
        states = self._model.metadata.get("states", {})
        results = self._runs.run(with_first_values(self.graph, states, feeds), native=native)
        return {tensor.name: results[tensor.name] for tensor in self.graph.outputs}


def with_outputs(model: Model, names: Iterable[str]) -> Model:
    """Return a model with more outputs of its main graph, or the same model.

    Raises:
        UsageError: If the main graph computes no such tensor; a ProblemList of all of them.
    """
    graph = model.main
    problems: list[XdlcError] = []
    new = [name for name in dict.fromkeys(names) if all(name != output.name for output in graph.outputs)]
    for name in new:
        tensor = graph.tensors.get(name)
        if tensor is None or tensor.producer is None:
            what = "has no tensor" if tensor is None else "does not compute the tensor"
            computed = [entry.name for entry in graph.tensors.values() if entry.producer is not None]
            fix = nearest_names(name, computed) or "use the name of a tensor that an op computes"
            problems.append(UsageError(f"{what} {name!r}", where=f"graph {graph.name!r}", fix=fix))
    raise_all(problems)
    if not new:
        return model
    copy = model.clone()
    for name in new:
        copy.main.add_output(copy.main.tensors[name])
    return copy
