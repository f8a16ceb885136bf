"""Where kernels of users' ops come from while the quantizer runs a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from xdlc.errors import UsageError, raise_all
from xdlc.ir import Model, Op
from xdlc.ir.graph import is_custom
from xdlc.opdefs.control_flow import reachable

if TYPE_CHECKING:
    from xdlc.runtime.udo import Kernels

Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
TIMEOUT = 60.0


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
    timeout: float = TIMEOUT

    @classmethod
    def of(cls, paths: Paths | None, *, embedded: bool, timeout: float | None) -> KernelSource:
        """Return the source for options as they are given; paths may be joined by commas."""
        if paths is None:
            given: Sequence[str | os.PathLike[str]] = ()
        else:
            given = [paths] if isinstance(paths, str | os.PathLike) else paths
        parts = [part.strip() for path in given for part in os.fspath(path).split(",")]
        return cls(tuple(filter(None, parts)), embedded, TIMEOUT if timeout is None else timeout)

    @contextmanager
    def opened(self, model: Model, *, needed: bool) -> Iterator[Kernels | None]:
        """Open the kernels for a model; None if it has no users' ops, or none of them will run.

        Args:
            model: The model.
            needed: Whether it will run.

        Raises:
            UsageError: For each type of users' ops for which there is no kernel.
        """
        ops = custom_ops(model)
        if not ops or not needed:
            yield None
            return
        from xdlc.runtime.udo import Kernels

        with Kernels(self.paths, model=model, embedded=self.embedded, timeout=self.timeout) as kernels:
            self._check(ops, kernels)
            yield kernels

    def _check(self, ops: Sequence[Op], kernels: Kernels) -> None:
        missing: dict[tuple[str, str], list[str]] = {}
        for op in ops:
            if not kernels.knows(op):
                missing.setdefault((op.package, op.type), []).append(op.name)
        raise_all(
            [
                UsageError(
                    f"no kernel is given for {package}::{type} ({_listed(names)}), which has to run",
                    where="udo_package_path",
                    fix=f"name a registration library or a .py file with kernels of {package}, allow kernels "
                    "that the DLC carries with allow_embedded_kernels, or quantize with float fallback",
                )
                for (package, type), names in missing.items()
            ]
        )

    def notes(self, model: Model) -> list[str]:
        """Return what to tell of options that have no effect."""
        if custom_ops(model) or not (self.paths or self.embedded):
            return []
        return ["the model has no users' ops: kernels were named and none was opened"]

    def words(self) -> dict[str, Any]:
        """Return it in a form that JSON holds."""
        return {
            "paths": list(map(os.path.abspath, self.paths)),
            "embedded": self.embedded,
            "timeout": self.timeout,
        }


def custom_ops(model: Model) -> list[Op]:
    """Return the users' ops that running a model may execute."""
    return [op for graph in reachable(model.main, model.graphs) for op in graph.ops if is_custom(op)]


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
