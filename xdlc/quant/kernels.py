"""Sources of UDO kernels while the quantizer runs a model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdlc.errors import raise_all
from xdlc.ir import Model, Op
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import reachable
from xdlc.runtime.udo.sources import paths_of

if TYPE_CHECKING:
    from xdlc.runtime.udo import Kernels

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


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
        from xdlc.runtime.udo.kernels import open_kernels

        with open_kernels(model, self.paths, self.timeout) as kernels:
            raise_all([kernels.missing(op) for op in ops if not kernels.knows(op)])
            yield kernels

    def notes(self, model: Model, kernels: Kernels | None) -> list[str]:
        """Return notes on options that had no effect, once the model has run."""
        if kernels is not None:
            return [
                f"nothing of {path} is used: the model has no op that it offers" for path in kernels.unused()
            ]
        if not self.paths:
            return []
        why = "nothing had to run" if _udos(model) else "the model has no UDOs"
        return [f"no kernel was opened: {why}"]


def _udos(model: Model) -> list[Op]:
    """Return the UDOs that running a model may execute."""
    return [op for graph in reachable(model.main, model.graphs) for op in graph.ops if is_udo(op)]
