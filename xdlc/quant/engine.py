"""Engine that runs networks while they are quantized, and its source of UDO kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from xdlc.errors import raise_all
from xdlc.ir import Graph, Model, Op
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import reachable
from xdlc.quant.user_metric import Metric
from xdlc.runtime.timeout import OBSERVED
from xdlc.runtime.udo.sources import paths_of

if TYPE_CHECKING:
    from xdlc.runtime.cpu import CpuSession
    from xdlc.runtime.udo import Kernels


Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
Step = Callable[[str, int, int], None]
"""Receives the title of what is done, the number of steps done and of all steps (0: not known)."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Files and options of the user that kernels of UDOs come from; each process opens them anew.

    Attributes:
        paths: Registration libraries, Python files and folders of kernels.
        timeout: Seconds that one execution may take; None: as long as by default.
    """

    paths: Sequence[str] = ()
    timeout: float | None = None

    @classmethod
    def of(cls, paths: Paths | None, *, timeout: float | None) -> KernelSource:
        """Return the source for options as they are given; paths may be joined by commas."""
        return cls(tuple(os.path.abspath(path) for path in paths_of(paths)), timeout)

    @contextmanager
    def opened(self, model: Model, *, needed: bool) -> Iterator[Kernels | None]:
        """Open the kernels for a model; None if it has no UDOs, or none of them will run.

        Raises:
            UnsupportedOp: For each op for which there is no kernel.
            UsageError: If there is no such file, the time-out is not valid, or an option has nothing to work
                on.
        """
        ops = _udos(model)
        if not ops or not needed:
            yield None
            return
        from xdlc.runtime.udo.kernels import missing, open_kernels

        with open_kernels(model, self.paths, self.timeout) as kernels:
            raise_all([missing(op, kernels) for op in ops if not kernels.knows(op)])
            yield kernels

    def notes(self, model: Model, kernels: Kernels | None) -> list[str]:
        """Return notes on options that had no effect, once the model has run."""
        if kernels is not None:
            return [f"{path} is unused: it implements no op of the model" for path in kernels.unused()]
        if not self.paths:
            return []
        why = "nothing had to run" if _udos(model) else "the model has no UDOs"
        return [f"no kernel was opened: {why}"]


def _udos(model: Model) -> list[Op]:
    """Return the UDOs that running a model may execute."""
    return [op for graph in reachable(model.main, model.graphs) for op in graph.ops if is_udo(op)]


@dataclass(frozen=True, slots=True)
class Engine:
    """What runs networks while they are quantized.

    Attributes:
        kernels: Kernels of UDOs; None: the model has no such ops, or need not run.
        source: Where other processes get the kernels from.
        jobs: Processes that calibrate.
        loop_timeout: Seconds that each loop may run.
        metric: The user's judge of a network; None: outputs are judged alone.
        step: Receives the progress of everything that may take a second.
    """

    kernels: Kernels | None = None
    source: KernelSource = field(default_factory=KernelSource)
    jobs: int = 1
    loop_timeout: float = OBSERVED
    metric: Metric | None = None
    step: Step | None = None

    def session(self, network: Model | Graph, **options: Any) -> CpuSession:
        """Return a session that runs a model or graph, with the kernels of its UDOs.

        Args:
            **options: Keyword arguments of :class:`xdlc.runtime.cpu.CpuSession`.
        """
        from xdlc.runtime.cpu import CpuSession

        return CpuSession(
            network, kernels=self.kernels, spins=False, loop_timeout=self.loop_timeout, **options
        )

    def report(self, title: str, done: int = 0, total: int = 0) -> None:
        """Report progress."""
        if self.step is not None:
            self.step(title, done, total)
