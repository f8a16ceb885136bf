"""What a process costs: seconds, CPU seconds, peak memory; and what a part of one costs.

The process that calls ``measure`` must be small: the peak memory of a child begins with its parent's.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 1 << 20
MB = 1e6
RESULT = "RESULT "
SLOWING = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Variables that users do not set: each process would compile our modules again."""


@dataclass(frozen=True)
class Figure:
    """Figures of a process and of its children, or its failure.

    Attributes:
        seconds: Wall time.
        memory: Peak resident memory of the largest process, in bytes.
        cpu: CPU seconds, user and system.
        facts: What the process printed by ``tell``.
    """

    seconds: float = 0.0
    memory: int = 0
    failure: str = ""
    cpu: float = 0.0
    facts: Mapping[str, float] = field(default_factory=dict)


def measure(words: Sequence[str], *, timeout: float | None = None) -> Figure:
    """Run a command and return its figures."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            words,
            stdout=printed,
            stderr=errors,
            env={name: value for name, value in os.environ.items() if name not in SLOWING},
            start_new_session=True,
        )
        late = threading.Timer(timeout or threading.TIMEOUT_MAX, os.killpg, (process.pid, signal.SIGKILL))
        late.daemon = True
        late.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except KeyboardInterrupt:  # which a session of its own does not get
            os.killpg(process.pid, signal.SIGKILL)
            raise
        seconds = time.perf_counter() - start
        late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            if timeout is not None and seconds >= timeout:
                return Figure(failure=f"stopped after {timeout:.0f} s")
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["no message"]
            is_python = lines[0].startswith("Traceback")
            return Figure(failure=f"exit {process.returncode}: {lines[-1 if is_python else 0][:120]}")
        printed.seek(max(0, printed.seek(0, os.SEEK_END) - CHUNK))  # all of it would make this process large
        facts = told(printed.read().decode(errors="replace"))
    return Figure(seconds, usage.ru_maxrss * 1024, cpu=usage.ru_utime + usage.ru_stime, facts=facts)


def tell(**facts: float) -> None:
    """Print figures for the process that measures this one."""
    print(RESULT + json.dumps(facts), flush=True)


def told(text: str) -> dict[str, float]:
    """Return the figures in what a process printed."""
    lines = [line for line in text.splitlines() if line.startswith(RESULT)]
    facts: dict[str, float] = json.loads(lines[-1].removeprefix(RESULT)) if lines else {}
    return facts


@contextmanager
def part() -> Iterator[dict[str, float]]:
    """Measure a part of this process and of the children that end in it.

    Yields:
        A dict that then has ``seconds``, ``cpu``, and ``memory``: the peak of the largest process, in
        bytes, since this one began.
    """
    figures: dict[str, float] = {}
    start, before = time.perf_counter(), os.times()
    yield figures
    after = os.times()
    figures["seconds"] = time.perf_counter() - start
    figures["cpu"] = sum(after[:4]) - sum(before[:4])
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    figures["memory"] = max(_peak(), children)


def _peak() -> int:
    """Return the peak resident memory of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


Commands = Mapping[str, Callable[[], Figure]]
"""What runs a tool, by its name."""


def in_turns(commands: Commands, runs: int) -> dict[str, Figure]:
    """Run commands in turns; return the least time and the largest memory of each.

    A command that fails does not run again.
    """
    figures_of: dict[str, list[Figure]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            if not (figures_of[name] and figures_of[name][-1].failure):
                figures_of[name].append(command())
    return {name: least(figures) for name, figures in figures_of.items()}


def least(figures: Sequence[Figure]) -> Figure:
    """Return the least time and the largest memory of runs, or the failure of the last."""
    if figures[-1].failure:
        return figures[-1]
    return Figure(
        min(figure.seconds for figure in figures),
        max(figure.memory for figure in figures),
        cpu=min(figure.cpu for figure in figures),
        facts={
            name: (max if name == "memory" else min)(figure.facts[name] for figure in figures)
            for name in figures[-1].facts
        },
    )


def read_once(path: Path) -> None:
    """Read a file, so that no tool waits for the disk."""
    with open(path, "rb", buffering=0) as file:
        while file.read(CHUNK):
            pass


def tool(name: str, *words: str) -> list[str]:
    """Return the command line of one of our tools."""
    return [str(Path(sys.executable).with_name(name)), *words]
