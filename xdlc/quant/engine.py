"""Engine: what runs networks while they are quantized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdlc.ir import Graph, Model
from xdlc.quant.kernels import KernelSource
from xdlc.quant.user_metric import Metric
from xdlc.runtime.timeout import OBSERVED

if TYPE_CHECKING:
    from xdlc.runtime.cpu import CpuSession
    from xdlc.runtime.udo import Kernels

Step = Callable[[str, int, int], None]
"""Receives the title of what is done, the number of steps done and of all steps (0: not known)."""


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
