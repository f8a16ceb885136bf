"""Command line of the fuzzing suite.

::

    python -m fuzz.run list
    python -m fuzz.run all --seconds 60                  # each target 60 s
    python -m fuzz.run tflite,keras --cases 200000 --seed 7 --work w
    python -m fuzz.run tflite --case w/findings/tflite-1a2b3c4d   # one case again, with its traceback

A worker process runs the cases of a target in a loop, within limits of processor time, address space and
growth of memory for each; another takes its place after a crash.  Case N of a seed is always the same one.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import mmap
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path
from types import FrameType

import xdlc
from fuzz.mutate import mutate
from fuzz.targets import Files, Target, load
from xdlc.errors import XdlcError

SECONDS = 5
"""Processor time of a case."""
WALL = 90
"""Seconds after which a case ends in any event."""
MEGABYTES = 500
"""Memory that a case may add to the most so far."""
ADDRESSES = 6 << 30
"""Address space of a worker, in bytes."""
PACKAGE = str(Path(xdlc.__file__).parent) + os.sep


class Hang(BaseException):
    """A case has used its processor time."""


class Plan:
    """The cases of a target.

    Args:
        target: The target.
        seed: Number of the series of cases.
    """

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.seed = target, seed
        self.seeds, rng = list(target.seeds()), random.Random(seed)
        self.seeds += [target.generate(rng) for _ in range(60)] if target.generate else []
        self._pool: dict[str, list[bytes]] = {}
        for files in self.seeds:
            for name, content in files.items():
                self._pool.setdefault(Path(name).suffix, []).append(content)

    def case(self, number: int) -> Files:
        """Return a case; the first are the seeds themselves."""
        if number < len(self.seeds):
            return self.seeds[number]
        rng = random.Random(f"{self.target.name} {self.seed} {number}")
        files = self.target.generate(rng) if self.target.generate and rng.random() < 0.5 else None
        if files and rng.random() < 0.4:
            return files
        files = dict(files or rng.choice(self.seeds))
        names = [name for name in files if name not in self.target.fixed]
        for _ in range(rng.choice((1, 1, 1, 2)) if len(names) > 1 else 1):
            name = rng.choice(names)
            other = rng.choice(self._pool.get(Path(name).suffix) or [b""])
            files[name] = mutate(rng, name, files[name], other)
        return files


def contents(folder: Path) -> Files:
    """Return the files below a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def put(folder: Path, files: Files) -> None:
    """Write the files of a case to an empty folder."""
    for old in folder.iterdir() if folder.exists() else ():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def attempt(target: Target, folder: Path, files: Files) -> str:
    """Run a case in a folder; return its word."""
    put(folder, files)
    rng = random.Random(hashlib.sha256(repr(sorted(files.items())).encode()).digest())
    try:
        return target.run(folder, rng)
    except XdlcError as error:
        str(error).encode("utf-8", "backslashreplace")
        return f"refused {error.exit_code}"


def place(error: BaseException) -> str:
    """Return type and innermost lines of an error, by which findings are distinguished."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(PACKAGE)] or frames
    lines = [f"{frame.filename.removeprefix(PACKAGE)}:{frame.lineno}" for frame in own[-2:]]
    return " < ".join([type(error).__name__, *reversed(lines)])


def peak() -> int:
    """Return the highest resident memory of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Campaign:
    """Runs the cases of a target in workers, one at a time, and keeps the smallest case of each finding.

    Attributes:
        cases: Number of cases.
        words: Number of cases by word of their end, but for the last ones before a crash.
        findings: Number of cases and bytes of the smallest by finding.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.cases = 0
        self.words: Counter[str] = Counter()
        self.findings: dict[str, tuple[int, int]] = {}
        self._work_folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._case = Path(self._work_folder.name) / "case"
        self._case.mkdir()
        self._log, self._crash = (self._case.with_name(name) for name in ("log", "crash"))
        self._number = mmap.mmap(-1, 8)
        """The case that runs, shared with the worker."""

    def run(self, cases: int, seconds: float) -> None:
        """Run a number of cases, or as many as a time allows."""
        number, deadline = 0, time.monotonic() + seconds
        while number < cases and time.monotonic() < deadline:
            child = os.fork()
            if not child:
                try:
                    self._work(number, cases, deadline)
                    os._exit(0)
                except BaseException:
                    self._crash.write_text(traceback.format_exc())
                    os._exit(99)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for line in self._log.read_text().splitlines():
                held = json.loads(line)
                self.words.update(held.get("words", {}))
                if "finding" in held:
                    self._keep(held["number"], held["finding"], held["detail"])
            number = int.from_bytes(self._number[:8], "little")
            if status:
                crash = self._crash.read_text()
                where = [line.strip() for line in crash.splitlines() if PACKAGE in line][:1]
                self._keep(number, " ".join([f"worker ended: {status}", *where]), crash)
                self.words["finding"] += 1
                number += 1
            self.cases = number

    def _work(self, number: int, end: int, deadline: float) -> None:
        """Run cases in this process, and write lines of JSON about findings and words to the log."""

        def over(_: int, __: FrameType | None) -> None:
            raise Hang

        warnings.simplefilter("ignore")
        os.fsync = lambda _: None  # type: ignore[assignment]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        for stream in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        with self._log.open("w", buffering=1) as log, self._crash.open("w") as crash:
            faulthandler.enable(crash)
            for end_of_all in (signal.SIGXCPU, signal.SIGALRM):
                faulthandler.register(end_of_all, crash, chain=True)
            signal.signal(signal.SIGPROF, over)
            words: Counter[str] = Counter()
            while number < end and time.monotonic() < deadline:
                self._number[:8] = number.to_bytes(8, "little")
                before, files = peak(), self.plan.case(number)
                resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 3 * SECONDS, -1))
                signal.setitimer(signal.ITIMER_REAL, WALL)
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                finding = detail = ""
                try:
                    words[attempt(self.plan.target, self._case, files)] += 1
                except (Exception, Hang) as error:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    words["finding"] += 1
                    finding, detail = place(error), "".join(traceback.format_exception(error))
                signal.setitimer(signal.ITIMER_PROF, 0)
                number += 1
                if is_large := peak() - before > MEGABYTES << 10:
                    finding = finding or f"memory: {(peak() - before) >> 17 << 7} MB"
                if finding:
                    line = {"number": number - 1, "finding": finding, "detail": detail[-6000:]}
                    print(json.dumps(line), file=log)
                if finding or number % 100 == 0 or number == end or time.monotonic() > deadline:
                    print(json.dumps({"words": words}), file=log)
                    words.clear()
                if is_large:
                    break  # the peak of a process never falls
            self._number[:8] = number.to_bytes(8, "little")

    def _keep(self, number: int, finding: str, detail: str) -> None:
        """Count a finding, and keep its case if that is the smallest."""
        files = self.plan.case(number)
        size = sum(map(len, files.values()))
        count, smallest = self.findings.get(finding, (0, size + 1))
        self.findings[finding] = count + 1, min(smallest, size)
        if size < smallest:
            kept = self.folder / "findings" / f"{self.plan.target.name}-{zlib.crc32(finding.encode()):08x}"
            kept.mkdir(parents=True, exist_ok=True)
            put(kept, files)
            kept.with_suffix(".log").write_text(
                f"{finding}\ncase {number} of seed {self.plan.seed}\n{detail}"
            )


def main() -> int:
    """Run the command line; return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description=__doc__.split("\n")[0])
    parser.add_argument("targets", help="names separated by commas; all; list")
    parser.add_argument("--seconds", type=float, default=1e9, help="time for each target")
    parser.add_argument("--cases", type=int, default=1 << 40, help="number of cases of each target")
    parser.add_argument("--seed", type=int, default=0, help="number of the series of cases")
    parser.add_argument("--work", type=Path, default=Path("fuzz-work"), help="folder for findings")
    parser.add_argument("--case", type=Path, help="folder of a case to run once, in this process")
    parser.add_argument("--allow_root", action="store_true", help="run as root: a case may write anywhere")
    given = parser.parse_args()
    known = load()
    if given.targets == "list":
        print("\n".join(sorted(known)))
        return 0
    if not os.geteuid() and not given.allow_root:
        parser.error("run as another user, or with --allow_root: cases are not confined")
    names = sorted(known) if given.targets == "all" else given.targets.split(",")
    if unknown := set(names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    if given.case:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            print(attempt(known[names[0]], Path(folder), contents(given.case)))
        return 0
    if given.seconds > 1e8 and given.cases > 1 << 39:
        parser.error("state --seconds or --cases")
    found = 0
    for name in names:
        campaign, begin = Campaign(Plan(known[name], given.seed), given.work), os.times()
        campaign.run(given.cases, given.seconds)
        end = os.times()
        used = sum(end[2:4]) - sum(begin[2:4])
        total = campaign.cases
        words = ", ".join(f"{word} {count}" for word, count in campaign.words.most_common())
        rate = total / max(used, 0.01)
        print(f"{name}: {total} cases, {rate:.0f}/s, {len(campaign.findings)} findings; {words}")
        for finding, (count, size) in sorted(campaign.findings.items()):
            print(f"  {finding}: {count} times, smallest {size} bytes")
        sys.stdout.flush()
        found += len(campaign.findings)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
