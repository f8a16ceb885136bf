"""Where kernels of users' ops come from while the quantizer runs a model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdlc.errors import raise_all
from xdlc.ir import Model, Op
from xdlc.ir.graph import is_custom
from xdlc.opdefs.control_flow import reachable
from xdlc.runtime.udo.sources import DEFAULT_TIMEOUT, paths_of

if TYPE_CHECKING:
    from xdlc.runtime.udo import Kernels

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


@dataclass(frozen=True, slots=True)
class KernelSource:
    """What a user named to run users' ops with; each process opens it anew.

    Attributes:
        paths: Registration libraries and Python files.
        embedded: Whether kernels that the model carries may run.
        timeout: Seconds that one execution may take.
    """

    paths: Sequence[str] = ()
    embedded: bool = False
    timeout: float = DEFAULT_TIMEOUT

    @classmethod
    def of(cls, paths: Paths | None, *, embedded: bool, timeout: float | None) -> KernelSource:
        """Return the source for options as they are given; paths may be joined by commas."""
        given = tuple(os.path.abspath(path) for path in paths_of(paths))
        return cls(given, embedded, DEFAULT_TIMEOUT if timeout is None else timeout)

    @contextmanager
    def opened(self, model: Model, *, needed: bool) -> Iterator[Kernels | None]:
        """Open the kernels for a model; None if it has no users' ops, or none of them will run.

        Args:
            model: The model.
            needed: Whether it will run.

        Raises:
            UnsupportedOp: For each op for which there is no kernel.
            UsageError: If there is no such file, or the time-out is not valid.
        """
        ops = custom_ops(model)
        if not ops or not needed:
            yield None
            return
        from xdlc.runtime.udo import Kernels

        with Kernels(self.paths, model=model, embedded=self.embedded, timeout=self.timeout) as kernels:
            raise_all([kernels.missing(op) for op in ops if not kernels.knows(op)])
            yield kernels

    def notes(self, model: Model) -> list[str]:
        """Return what to tell of options that have no effect."""
        if custom_ops(model) or not (self.paths or self.embedded):
            return []
        return ["the model has no users' ops: kernels were named and none was opened"]


def custom_ops(model: Model) -> list[Op]:
    """Return the users' ops that running a model may execute."""
    return [op for graph in reachable(model.main, model.graphs) for op in graph.ops if is_custom(op)]
