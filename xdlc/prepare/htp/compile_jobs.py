"""Compile jobs, one per SoC, several at a time, with reuse of valid caches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

from xdlc.errors import XdlcError
from xdlc.prepare.htp.cache_records import ExistingCache, Selection, check, difference
from xdlc.prepare.htp.targets import Target
from xdlc.runtime.htp import Compiled, build_id, compile_for
from xdlc.runtime.htp.process import ForkServer

Step = Callable[[str, int, int], None]
"""Called with the current step, the number of finished SoCs, and of all SoCs."""


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
        keep: Whether they stay, with the graphs as they compiled them.
    """

    def __init__(
        self,
        name: str,
        targets: Sequence[Target],
        existing: Mapping[str, ExistingCache],
        selections: Mapping[str, Selection],
        timeout: float,
        server: ForkServer,
        keep: bool = False,
    ) -> None:
        self._name, self._timeout, self._server = name, timeout, server
        self._keep = keep
        self._wanted = {target.name: target for target in targets}
        self._held, self._selections = existing, selections
        self._build = build_id(launch=server.launch) if self._wanted.keys() & existing.keys() else ""
        self._results: dict[str, Outcome | XdlcError] = {}

    def do(self, jobs: int, step: Step | None, total: int) -> None:
        """Compile for ``jobs`` SoCs at a time, in processes; ``total`` counts all."""
        running: dict[str, None] = {}

        def show() -> None:
            if step is not None:
                done = total - len(self._wanted) + len(self._results)
                step(f"compiling {', '.join(running)}".strip(), done, total)

        def start(soc: str) -> None:
            running[soc] = None
            show()

        outcomes = each_of(
            list(self._wanted), self._outcome, jobs=jobs, started=start, give_up=self._server.close
        )
        for soc, outcome in outcomes:
            self._results[soc] = self._result(soc, outcome)
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

    def _outcome(self, soc: str) -> Outcome:
        target, existing, selection = self._wanted[soc], self._held.get(soc), self._selections[soc]
        notice = None
        if existing is not None:
            changed = difference(existing, selection, target.options, self._build)
            if changed is None:
                kept = f"{soc}: xdlc keeps {existing.cache.name}: {_why_kept(existing)}"
                return Outcome(selection, None, kept)
            notice = f"{soc}: xdlc replaces {existing.cache.name}, which {changed}"
        compiled = compile_for(
            selection.model,
            soc,
            target.options,
            timeout=self._timeout,
            name=self._name,
            launch=self._server.launch,
            keep=self._keep,
        )
        check(target, compiled, f"{self._name}: {soc}")
        return Outcome(selection, compiled, notice)

    def _result(self, soc: str, outcome: Outcome | Exception) -> Outcome | XdlcError:
        if isinstance(outcome, Outcome | XdlcError):
            return outcome
        raise outcome


def _why_kept(held: ExistingCache) -> str:
    if held.facts is not None:
        return "the cache is up to date"
    return "another tool compiled the cache, but its inputs, outputs and options match"


_T = TypeVar("_T")
_STARTED = object()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_of(
    names: Sequence[str],
    work: Callable[[str], _T],
    *,
    jobs: int,
    started: Callable[[str], None],
    give_up: Callable[[], None],
) -> Iterator[tuple[str, _T | Exception]]:
    """Run work for each name in threads; yield name and result or error.

    Args:
        work: The work for a name, most of which is waiting for a process of its own.
        jobs: How many to work for at a time.
        started: Called in the caller's thread with a name whose work begins.
        give_up: Called if the caller is interrupted: ends the processes that the work waits for.
    """
    events: SimpleQueue[tuple[str, object]] = SimpleQueue()

    def run(name: str) -> None:
        events.put((name, _STARTED))
        try:
            events.put((name, work(name)))
        except Exception as error:  # the caller separates failures from bugs
            events.put((name, error))

    with ThreadPoolExecutor(max(1, min(jobs, len(names)))) as pool:
        try:
            for name in names:
                pool.submit(run, name)
            left = len(names)
            while left:
                name, outcome = events.get()
                if outcome is _STARTED:
                    started(name)
                else:
                    left -= 1
                    yield name, outcome  # type: ignore[misc]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            give_up()
            raise
