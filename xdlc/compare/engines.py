"""Engines side by side: what returns the values of a graph's tensors for feeds."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Any, Protocol

from xdlc.ir import Graph, Model
from xdlc.ir.data import Array

Values = Mapping[str, Array]


class Engine(Protocol):
    """What computes, or has computed, the values of tensors.

    Attributes:
        title: What it is, for reports.
        names: Names of the tensors of the graph whose values it returns, inputs apart.
    """

    @property
    def title(self) -> str:
        """What it is, for reports."""

    @property
    def names(self) -> Collection[str]:
        """Names of the tensors whose values it returns."""

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors by name, in the layout of the graph.

        Args:
            feeds: Arrays by name of the graph's inputs.
            names: Some of ``names``.
            sample: Number of the sample, for engines that have computed already.
        """


def computed(graph: Graph) -> list[str]:
    """Return the names of the tensors that ops of a graph compute, in order."""
    return [tensor.name for op in graph.ops for tensor in op.outputs]


class HostEngine:
    """A model on this machine.

    Args:
        model: The model, whose main graph runs.
        quantized: Whether fixed-point tensors are rounded to their encodings.
        kernels: Kernels of UDOs.
        until: Time of the monotonic clock at which runs end.
    """

    def __init__(
        self, model: Model, *, quantized: bool = True, kernels: Any = None, until: float | None = None
    ) -> None:
        self.model, self.quantized, self._kernels, self._until = model, quantized, kernels, until
        self.names: Collection[str] = computed(model.main)
        self.title = "host" if quantized else "host, floats"
        self._open: tuple[tuple[str, ...], Any] = ((), None)

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors by name."""
        del sample
        chosen, session = self._open
        if session is None or chosen != tuple(names):
            self._open, session = ((), None), None  # before another one takes memory
            session = self.session(self.model, names)
            self._open = (tuple(names), session)
        results = session.run(feeds, until=self._until)
        return {name: results[name] for name in names}

    def session(self, model: Model, names: Sequence[str]) -> Any:
        """Return a session of a model, computed as this engine does."""
        from xdlc.runtime.cpu import CpuSession

        return CpuSession(model, quantized=self.quantized, outputs=names, kernels=self._kernels)


class HtpEngine:
    """A model on the emulation of a SoC, compiled for the tensors of a request.

    Args:
        model: The model, whose main graph runs.
        soc: Name of the SoC.
        kernels: Kernels of UDOs, which run on this machine.
        options: Options of the session, such as ``launch``.
        until: Time of the monotonic clock at which compiling and runs end.
    """

    def __init__(
        self, model: Model, soc: str, *, kernels: Any = None, until: float = inf, **options: Any
    ) -> None:
        self.model, self.soc = model, soc
        self._options, self._until = {"kernels": kernels, **options}, until
        self.names: Collection[str] = computed(model.main)
        self.title = f"HTP of {soc}"
        self._open: tuple[tuple[str, ...], Any] = ((), None)

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors by name."""
        from xdlc.runtime.htp.process import OPENING, RUNNING
        from xdlc.runtime.htp.session import HtpSession

        del sample
        chosen, session = self._open
        if session is None or chosen != tuple(names):
            self.close()
            left = max(self._until - time.monotonic(), 0.01)
            session = HtpSession(
                self.model,
                self.soc,
                mode="always_generate_new",
                outputs=names,
                timeout=min(OPENING, left),
                run_timeout=min(RUNNING, left),
                **self._options,
            )
            self._open = (tuple(names), session)
        results = session.run(feeds)
        return {name: results[name] for name in names}

    def close(self) -> None:
        """End the child process."""
        if self._open[1] is not None:
            self._open[1].close()
        self._open = ((), None)
