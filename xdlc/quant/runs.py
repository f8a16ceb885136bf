"""Runs of one network on many samples, by the workers of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from xdlc.container import load
from xdlc.ir import Encoding, Graph, Model
from xdlc.ir.data import Array
from xdlc.quant.engine import Engine, KernelSource
from xdlc.quant.samples import Sample, plain
from xdlc.runtime.cpu import AdjustableSession
from xdlc.worker.tasks import Task, kept_open
from xdlc.worker.temporary import TemporaryFolder


@dataclass(frozen=True, slots=True)
class _Opening:
    """How a worker opens a session; see ``Runs``."""

    is_adjustable: bool
    options: tuple[tuple[str, Any], ...]
    kernels: KernelSource
    loop_timeout: float

    def by_worker(self, model: Model, stack: ExitStack) -> Any:
        """Return the session; the stack closes the kernels."""
        kernels = stack.enter_context(self.kernels.opened(model, needed=True))
        return self.by(Engine(kernels, loop_timeout=self.loop_timeout), model)

    def by(self, engine: Engine, model: Model) -> Any:
        """Return the session of an engine that has the kernels open."""
        opened = AdjustableSession if self.is_adjustable else engine.session
        return opened(model, **dict(self.options))


class Runs:
    """Runs a network on samples, several at a time.

    Threads of this process share a session.  A worker process has a session of its own, of a stored copy.

    Args:
        network: The network, which stays as it is.
        outputs: Names of the tensors to output.
        adjustable: Whether each sample comes with encodings of activations: ``AdjustableSession``.
        **options: Keyword arguments of the session; their values do not change.
    """

    def __init__(
        self,
        engine: Engine,
        network: Model | Graph,
        outputs: Iterable[str],
        *,
        adjustable: bool = False,
        **options: Any,
    ) -> None:
        model = Model({network.name: network}) if isinstance(network, Graph) else network
        workers = self._workers = engine.sharing
        options |= {"outputs": tuple(outputs), "threads": workers.threads}
        opening = _Opening(adjustable, tuple(options.items()), engine.source, engine.loop_timeout)
        self._task: Callable[..., Task]
        if workers.are_processes:
            self._folder = TemporaryFolder()
            path = Path(self._folder.name) / "model.dlc"
            model.save(path, crc=False)
            self._task = partial(partial, _at_worker, workers.parcel(path), opening)
        else:
            self._task = partial(partial, _run, opening.by(engine, model))

    def __call__(self, samples: Iterable[Sample], place: str = "trial") -> Iterator[dict[str, Array]]:
        """Yield the results of each sample by name, in order."""
        return self.adjusted(((sample, None) for sample in samples), place)

    def adjusted(
        self, pairs: Iterable[tuple[Sample, Mapping[str, Encoding] | None]], place: str = "trial"
    ) -> Iterator[dict[str, Array]]:
        """Yield the results of each sample under encodings by tensor name, in order."""
        tasks = (self._task(plain(sample), encodings) for sample, encodings in pairs)
        yield from self._workers.in_order(tasks, place)  # which keeps the stored copy until the last result


def _run(session: Any, sample: Sample, encodings: Mapping[str, Encoding] | None) -> dict[str, Array]:
    fed = () if encodings is None else (session.encodings(encodings),)
    results: dict[str, Array] = session.run(sample, *fed)
    return results


def _at_worker(path: Path, opening: _Opening, *arguments: Any) -> dict[str, Array]:
    with kept_open(path, opening, lambda stack: opening.by_worker(load(path), stack)) as session:
        return _run(session, *arguments)
