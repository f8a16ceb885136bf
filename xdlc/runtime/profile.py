"""Times of ops on the CPU: onnxruntime's profiles and kernels of UDOs."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from xdlc.errors import BackendError
from xdlc.ir import Op
from xdlc.ir.files import csv_text
from xdlc.worker.temporary import TemporaryFolder

if TYPE_CHECKING:
    from xdlc.runtime.engine import Engine
    from xdlc.runtime.udo.operation import Operation

_KERNEL = "_kernel_time"
_MOST = 1_000_000
"""Events that onnxruntime keeps; it drops those after them."""
_JOINED = 3
"""Nodes after one that onnxruntime joins with it, at most."""
Key = tuple[str, str, str]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class OpTime:
    """Time of an op in one run.

    Attributes:
        name: Name of the op; empty for what onnxruntime adds, like changes of layout.
        type: Type of the op, or of onnxruntime's node.
        seconds: Mean of the runs, all its executions of a run in sum.  Of ops that run as one kernel, one has
            the time of all.
        share: Part of the sum over all ops, 0 to 1.
    """

    graph: str
    name: str
    type: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of a model on this machine, which differ from those of a device.

    Attributes:
        seconds: Mean duration of a run, with what passes between ops.
        ops: In the order of their times, the longest first.
    """

    runs: int
    seconds: float
    ops: tuple[OpTime, ...]

    def csv(self) -> str:
        """Return a table with a header, separated by commas; times in microseconds."""
        rows: list[tuple[str, ...]] = [("graph", "op", "type", "microseconds", "share")]
        rows.append(("", "", "run", f"{self.seconds * 1e6:.1f}", ""))
        rows += [
            (op.graph, op.name, op.type, f"{op.seconds * 1e6:.1f}", f"{op.share:.4f}") for op in self.ops
        ]
        return csv_text(rows)

    def __str__(self) -> str:
        lines = [f"{self.seconds * 1e3:.3f} ms a run, mean of {self.runs}"]
        for op in self.ops:
            title = f"{op.type} {op.name or '(added by onnxruntime)'}"
            lines.append(f"{op.seconds * 1e6:>10.1f} us {op.share:>6.1%}  {title}")
        return "\n".join(lines)


class Profiler:
    """Collects the times of sessions that are opened with it; a context manager."""

    def __init__(self) -> None:
        self._folder = TemporaryFolder("xdlc-profile-")
        self._engines: list[Engine] = []
        self._times: dict[Key, float] = defaultdict(float)
        self._durations: list[float] = []

    def __enter__(self) -> Profiler:
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._engines:
            engine.end_profile()
        self._engines.clear()
        self._folder.cleanup()

    def prefix(self) -> str:
        """Return the file prefix of the next engine's profile."""
        return str(Path(self._folder.name) / str(len(self._engines)))

    def add(self, engine: Engine) -> None:
        """Add an engine that is open, and has a profile."""
        self._engines.append(engine)

    def run(self, function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """Call a function, record its duration as a run, and return its result."""
        start = time.perf_counter()
        result = function(*args, **options)
        self._durations.append(time.perf_counter() - start)
        return result

    def called(self, op: Op, operation: Operation, seconds: float) -> None:
        """Add an execution of a UDO: its kernel's time, or else that of the call."""
        with suppress(BackendError):
            seconds = operation.profile() / 1e9 or seconds
        graph = op.graph.name if op.graph is not None else ""
        self._times[graph, op.name, f"{op.package}::{op.type}"] += seconds

    def result(self) -> Profile:
        """End the profiles, and return the times of all runs so far."""
        for engine in self._engines:
            self._read(engine)
        self._engines.clear()
        runs, total = len(self._durations) or 1, sum(self._times.values()) or 1.0
        ops = [OpTime(*key, seconds / runs, seconds / total) for key, seconds in self._times.items()]
        ops.sort(key=lambda each: (-each.seconds, each.graph, each.name))
        return Profile(len(self._durations), sum(self._durations) / runs, tuple(ops))

    def _read(self, engine: Engine) -> None:
        """Add the times of an engine's nodes to the times of their ops."""
        graph, nodes = engine.lowered.graph.name, engine.lowered.proto.graph.node
        makers = {value: node for node in nodes for value in node.output}
        keys: dict[str, Key] = {}
        with Path(engine.end_profile()).open(encoding="utf-8", errors="replace") as lines:
            events = (json.loads(line.rstrip(",\n")) for line in lines if line.startswith("{"))
            for number, event in enumerate(events, 1):
                if number >= _MOST:
                    problem = f"the runs execute more than {_MOST} ops, the limit of a profile"
                    raise BackendError(problem, where=f"graph {graph!r}", fix="profile fewer runs")
                name = event["name"]
                node = name.removesuffix(_KERNEL)
                if event["cat"] == "Node" and node != name:
                    if name not in keys:
                        kind = event["args"]["op_name"]
                        op = _op_of(engine, node, kind, makers)
                        keys[name] = (graph, op.name, op.type) if op is not None else (graph, "", kind)
                    self._times[keys[name]] += event["dur"] / 1e6


def _op_of(engine: Engine, node: str, kind: str, makers: Mapping[str, Any]) -> Op | None:
    """Return the op of an onnxruntime node; None for nodes that onnxruntime added.

    Its optimizers append words to names, as ``_nchwc``, and name what they join after the last result.

    Args:
        makers: Node of the graph that was given to onnxruntime, by the name of each value.
    """
    while node:
        op, maker = engine.lowered.op_of(node), makers.get(node)
        if op is not None:
            return op
        if maker is not None:
            last = maker
            for _ in range(_JOINED):
                if last is not None and last.op_type != kind and last.input:
                    last = makers.get(last.input[0])
            return engine.lowered.op_of((last if last is not None and last.op_type == kind else maker).name)
        node = node.rpartition("_")[0]
    return None
