"""Compile jobs, one per SoC, several at a time, with reuse of valid caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from xdlc.container import load
from xdlc.errors import XdlcError
from xdlc.ir import Model
from xdlc.prepare.htp.cache_records import ExistingCache, Selection, check, difference
from xdlc.prepare.htp.targets import Target
from xdlc.runtime.htp import Compiled, CompileOptions, build_id, compile_for
from xdlc.runtime.htp.process import ForkServer
from xdlc.worker.executors import Workers
from xdlc.worker.tasks import Task, kept_open

Step = Callable[[str, int, int], None]
"""Called with the current step, the number of finished SoCs, and of all SoCs."""


@dataclass(frozen=True, slots=True)
class Site:
    """A model, and the workers of tasks about it.

    Threads of this process share its server; each process has a server of its own.

    Attributes:
        path: A DLC with the model.
    """

    model: Model
    path: Path
    workers: Workers
    server: ForkServer

    def task(
        self, function: Callable[..., Any], *args: Any, path: Path | None = None, **options: Any
    ) -> Task:
        """Return a task that calls a function with the model, its path and arguments.

        The keyword ``launch`` of the function starts a child that has loaded the model.

        Args:
            path: The DLC, if it is another one.
        """
        if self.workers.are_processes:
            return partial(_at_worker, function, self.workers.parcel(path or self.path), *args, **options)
        return partial(function, self.model, path or self.path, *args, launch=self.server.launch, **options)


def _at_worker(function: Callable[..., Any], path: Path, *args: Any, **options: Any) -> Any:
    def opened(stack: ExitStack) -> tuple[Model, ForkServer]:
        return load(path), stack.enter_context(ForkServer(path))

    with kept_open(path, "site", opened) as (model, server):
        return function(model, path, *args, launch=server.launch, **options)


def _compile(_: Model, path: Path, soc: str, options: CompileOptions, **how: Any) -> Compiled:
    return compile_for(path, soc, options, **how)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one successful compile job.

    Attributes:
        selection: The graphs of its cache.
        compiled: The cache; None if the one that was there is kept.
        notice: What the caller should know about a cache that was there; None if there was none.
    """

    selection: Selection
    compiled: Compiled | None
    notice: str | None


class CompileJobs:
    """The work for several SoCs.

    Args:
        selections: The graphs to compile, by SoC.
        timeout: Time limit in seconds per SoC.
        keep: Whether the children stay, with the graphs as they compiled them, if they are of this process.
    """

    def __init__(
        self,
        name: str,
        targets: Sequence[Target],
        existing: Mapping[str, ExistingCache],
        selections: Mapping[str, Selection],
        timeout: float,
        site: Site,
        keep: bool = False,
    ) -> None:
        self._name, self._timeout, self._site = name, timeout, site
        self._keep = keep and not site.workers.are_processes
        self._wanted = {target.name: target for target in targets}
        self._held, self._selections = existing, selections
        self._results: dict[str, Outcome | XdlcError] = {}

    def do(self, step: Step | None, total: int) -> None:
        """Compile for several SoCs at a time; ``total`` counts all SoCs."""
        running: dict[str, None] = {}

        def show() -> None:
            if step is not None:
                done = total - len(self._wanted) + len(self._results)
                step(f"compiling {', '.join(running)}".strip(), done, total)

        def start(soc: str) -> None:
            running[soc] = None
            show()

        notices = self._reuse()
        tasks = {soc: self._task(soc) for soc in self._wanted if soc not in self._results}
        for soc, result in self._site.workers.each(tasks, self._name, start):
            self._results[soc] = self._outcome(soc, result, notices.get(soc))
            del running[soc]
            show()

    def outcomes(self) -> Iterator[tuple[Target, Outcome]]:
        """Yield the SoCs that did not fail, in the order wanted."""
        for soc, target in self._wanted.items():
            result = self._results[soc]
            if isinstance(result, Outcome):
                yield target, result

    def failures(self) -> dict[str, XdlcError]:
        """Return the errors of failed SoCs by name, in the order of the request."""
        results = ((soc, self._results[soc]) for soc in self._wanted)
        return {soc: result for soc, result in results if isinstance(result, XdlcError)}

    def _reuse(self) -> dict[str, str]:
        """Keep valid caches; return notices about the others."""
        existing = {soc: self._held[soc] for soc in self._wanted if soc in self._held}
        build = build_id(launch=self._site.server.launch) if existing else ""
        notices: dict[str, str] = {}
        for soc, cache in existing.items():
            selection = self._selections[soc]
            changed = difference(cache, selection, self._wanted[soc].options, build)
            if changed is None:
                notice = f"{soc}: xdlc keeps {cache.cache.name}: {_why_kept(cache)}"
                self._results[soc] = Outcome(selection, None, notice)
            else:
                notices[soc] = f"{soc}: xdlc replaces {cache.cache.name}, which {changed}"
        return notices

    def _task(self, soc: str) -> Task:
        return self._site.task(
            _compile,
            soc,
            self._wanted[soc].options,
            path=self._selections[soc].path,
            timeout=self._timeout,
            name=self._name,
            keep=self._keep,
        )

    def _outcome(self, soc: str, result: Compiled | Exception, notice: str | None) -> Outcome | XdlcError:
        if isinstance(result, XdlcError):
            return result
        if isinstance(result, Exception):
            raise result
        try:
            check(self._wanted[soc], result, f"{self._name}: {soc}")
        except XdlcError as error:
            return error
        return Outcome(self._selections[soc], result, notice)


def _why_kept(cache: ExistingCache) -> str:
    if cache.facts is not None:
        return "the cache is up to date"
    return "another tool compiled the cache, but its inputs, outputs and options match"
