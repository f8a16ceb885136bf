"""Command line of the fuzzing suite.

::

    python -m fuzz.run list
    python -m fuzz.run all --seconds 60                  # each target 60 s
    python -m fuzz.run readers --seconds 60              # or differential: those with an oracle
    python -m fuzz.run tflite,keras --cases 200000 --seed 7 --work w
    python -m fuzz.run differential --seconds 7200 --jobs 2 --first 40000   # from case 40000 of each on
    python -m fuzz.run tflite --case w/findings/tflite-1a2b3c4d   # one case again, with its traceback

A worker process runs the cases of a target in a loop, within limits of processor time, address space and
growth of memory for each; another takes its place after a crash.  Case N of a seed is always the same one.
A finding of a target that can make cases smaller is kept in the smallest form that is wrong in the same way.
The last lines count the networks of all targets with an oracle: right, refused with the reasons, wrong.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import json
import mmap
import os
import random
import re
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
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import xdlc
from fuzz.mutate import mutate
from fuzz.targets import FOREIGN, Files, Finding, Target, load
from xdlc.errors import XdlcError

WALL = 90
"""Seconds after which a case ends in any event."""
TURN = 120
"""Seconds of a worker; another goes on, so that findings are on the disk soon."""
MEGABYTES = 500
"""Memory that a case may add to the most so far."""
ADDRESSES = 6 << 30
"""Address space of a worker, in bytes."""
REDUCTION = 10
"""Seconds in which a finding is made smaller."""
PACKAGE = str(Path(xdlc.__file__).parent) + os.sep


class Hang(BaseException):
    """A case has used its processor time."""


class Plan:
    """The cases of a target.

    Args:
        seed: Number of the series of cases.
    """

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.seed = target, seed
        self.seeds, rng = list(target.seeds()), random.Random(seed)
        self._is_whole = bool(target.engine)
        self.seeds += (
            [target.generate(rng) for _ in range(60)] if target.generate and not self._is_whole else []
        )
        self._pool: dict[str, list[bytes]] = {}
        for files in self.seeds:
            for name, content in files.items():
                self._pool.setdefault(Path(name).suffix, []).append(content)

    def case(self, number: int) -> Files:
        """Return a case; the first are the seeds themselves."""
        if number < len(self.seeds):
            return self.seeds[number]
        if self.target.listed:
            return self.target.listed()[number]
        rng = random.Random(f"{self.target.name} {self.seed} {number}")
        if self.target.generate and self._is_whole:
            return self.target.generate(rng)
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


def kind(error: BaseException) -> str:
    """Return the kind of a finding: an error with its lines, or a target's text."""
    if isinstance(error, Finding):
        return error.kind
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(PACKAGE)] or frames
    lines = [f"{frame.filename.removeprefix(PACKAGE)}:{frame.lineno}" for frame in own[-2:]]
    return " < ".join([type(error).__name__, *reversed(lines)])


def name_of(error: BaseException) -> str:
    """Return the name of a finding, by which findings are distinguished."""
    return f"{error.kind}: {error.place}" if isinstance(error, Finding) else kind(error)


def peak() -> int:
    """Return the highest resident memory of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Campaign:
    """Runs cases of a target in workers and keeps the smallest case of a finding.

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
        self._case = self._log = self._crash = Path()
        self._number = mmap.mmap(-1, 8)
        """The case that runs, shared with the worker."""

    def run(self, cases: int, seconds: float, first: int = 0) -> None:
        """Run a number of cases from the first on, or as many as a time allows."""
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            self._case, self._log, self._crash = (Path(name) / part for part in ("case", "log", "crash"))
            self._case.mkdir()
            self._run(first, first + cases, seconds)

    def _run(self, first: int, end: int, seconds: float) -> None:
        number, deadline = first, time.monotonic() + seconds
        while number < end and time.monotonic() < deadline:
            FOREIGN[0] = 0
            child = os.fork()
            if not child:
                try:
                    self._work(number, end, deadline)
                    os._exit(0)
                except BaseException:
                    self._crash.write_text(traceback.format_exc())
                    os._exit(99)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            pending: dict[str, Any] = {}
            for line in self._log.read_text().splitlines():
                entry = json.loads(line)
                self.words.update(entry.get("words", {}))
                if "finding" in entry:
                    self._keep(entry)
                pending = entry.get("pending", {})
            number = int.from_bytes(self._number[:8], "little")
            if status and FOREIGN[0] and not pending:
                self.words[self._word(self._fixed(), "the engine crashed")] += 1
                number += 1
            elif status:
                crash = self._crash.read_text()
                where = [line.strip() for line in crash.splitlines() if PACKAGE in line][:1]
                finding = " ".join([f"worker ended: {status}", *where])
                self._keep(pending or {"number": number, "finding": finding, "detail": crash})
                self.words[self._word(self._fixed(), _bad(pending.get("stated", False)))] += 1
                number += 1
            elif number == self.cases + first:
                break  # all listed cases are done
            self.cases = number - first

    def _work(self, number: int, end: int, deadline: float) -> None:
        """Run cases in this process, and log findings and words as lines of JSON."""

        def over(_: int, __: FrameType | None) -> None:
            raise Hang

        warnings.simplefilter("ignore")
        os.fsync = lambda _: None  # type: ignore[assignment]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        for stream in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        if self.plan.target.start:
            begin = time.monotonic()
            self.plan.target.start()
            deadline += time.monotonic() - begin
        gc.freeze()  # what the engine's modules hold is not walked at each collection
        with self._log.open("w", buffering=1) as log, self._crash.open("w") as crash:
            faulthandler.enable(crash)
            for end_of_all in (signal.SIGXCPU, signal.SIGALRM):
                faulthandler.register(end_of_all, crash, chain=True)
            signal.signal(signal.SIGPROF, over)
            words: Counter[str] = Counter()
            deadline = min(deadline, time.monotonic() + TURN)
            reduced: set[str] = set()
            end = min(end, len(self.plan.target.listed())) if self.plan.target.listed else end
            while number < end and time.monotonic() < deadline:
                self._number[:8] = number.to_bytes(8, "little")
                before, files = peak(), {}
                finding, entry = "", {}
                self._limit()
                try:
                    files = self.plan.case(number)
                    words[self._word(files, attempt(self.plan.target, self._case, files))] += 1
                except (Exception, Hang) as error:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    if FOREIGN[0]:
                        words[f"the engine failed: {kind(error)}"] += 1
                    else:
                        words[self._word(files, _bad(isinstance(error, Finding)))] += 1
                        entry = _entry(number, error, files)
                        if self.plan.target.smaller and name_of(error) not in reduced:
                            reduced.add(name_of(error))
                            print(json.dumps({"pending": entry}), file=log)
                            entry = _entry(number, *self._smallest(error, files))
                        finding = entry["finding"]
                signal.setitimer(signal.ITIMER_PROF, 0)
                number += 1
                is_large = peak() - before > MEGABYTES << 10
                if is_large and not self.plan.target.engine:  # which may use as much in the same process
                    finding = finding or f"memory: {(peak() - before) >> 17 << 7} MB"
                if finding:
                    print(
                        json.dumps(entry or {"number": number - 1, "finding": finding, "detail": ""}),
                        file=log,
                    )
                is_due = number % 100 == 0 or self.plan.target.listed is not None
                if finding or is_due or number == end or time.monotonic() > deadline:
                    print(json.dumps({"words": words}), file=log)
                    words.clear()
                if is_large:
                    break  # the peak of a process never falls
            self._number[:8] = number.to_bytes(8, "little")

    def _word(self, files: Files, word: str) -> str:
        """Return the word by which a case counts: verdict and row, if there is a table."""
        row = self.plan.target.row
        return word if not row or not files else f"{word.partition(':')[0]}: {row(files)}"

    def _fixed(self) -> Files:
        """Return what the last case has of the files that are not changed."""
        return {name: each for name, each in contents(self._case).items() if name in self.plan.target.fixed}

    def _limit(self) -> None:
        """Begin the time of a case."""
        seconds = self.plan.target.seconds
        FOREIGN[0] = 0
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 3 * seconds, -1))
        signal.setitimer(signal.ITIMER_REAL, WALL)
        signal.setitimer(signal.ITIMER_PROF, seconds)

    def _smallest(self, error: BaseException, files: Files) -> tuple[BaseException, Files]:
        """Return the smallest case that is wrong in the same way, with its error."""
        target, deadline, progress = self.plan.target, time.monotonic() + REDUCTION, True
        while progress and target.smaller:
            progress = False
            try:
                self._limit()
                for smaller in target.smaller(files):
                    if time.monotonic() > deadline:
                        break
                    try:
                        self._limit()
                        attempt(target, self._case, smaller)
                    except (Exception, Hang) as other:
                        if progress := not FOREIGN[0] and kind(other) == kind(error):
                            other.__context__ = None
                            error, files = other, smaller
                            break
            except (Exception, Hang):  # the engine, out of the cases that it makes
                break
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        return error, files

    def _keep(self, entry: Mapping[str, Any]) -> None:
        """Count a finding, and keep its case if that is the smallest."""
        number, finding = entry["number"], entry["finding"]
        if "files" in entry:
            files = {name: content.encode("latin-1") for name, content in entry["files"].items()}
        elif self.plan.target.engine:  # to make the case anew could end this process
            files = self._fixed()
        else:
            files = self.plan.case(number)
        size = sum(map(len, files.values()))
        count, smallest = self.findings.get(finding, (0, size + 1))
        self.findings[finding] = count + 1, min(smallest, size)
        if size < smallest:
            folder = self.folder / "findings" / f"{self.plan.target.name}-{zlib.crc32(finding.encode()):08x}"
            folder.mkdir(parents=True, exist_ok=True)
            put(folder, files)
            folder.with_suffix(".log").write_text(
                f"{finding}\ncase {number} of seed {self.plan.seed}\n{entry['detail']}"
            )


def _bad(is_stated: bool) -> str:
    return "wrong" if is_stated else "internal error"


def _entry(number: int, error: BaseException, files: Files) -> dict[str, Any]:
    detail = "".join(traceback.format_exception(error))[-6000:]
    lines: dict[str, Any] = {"number": number, "finding": name_of(error), "detail": detail}
    lines["stated"] = isinstance(error, Finding)
    return lines | {"files": {name: each.decode("latin-1") for name, each in files.items()}}


@dataclass(frozen=True)
class Result:
    """Results of a target.

    Attributes:
        name: Name of the target.
        cases: Number of cases.
        seconds: Processor time.
        words: Number of cases by word of their end.
        findings: Number of cases and bytes of the smallest by finding.
    """

    name: str
    cases: int
    seconds: float
    words: Counter[str]
    findings: dict[str, tuple[int, int]]


def result_of(name: str, seed: int, first: int, cases: int, seconds: float, folder: Path) -> Result:
    """Run the cases of a target."""
    campaign, begin = Campaign(Plan(load()[name], seed), folder), os.times()
    campaign.run(cases, seconds, first)
    used = sum(os.times()[2:4]) - sum(begin[2:4])
    return Result(name, campaign.cases, used, campaign.words, campaign.findings)


def lines_of(result: Result) -> list[str]:
    """Return the lines about a target: counts, and each finding."""
    verdicts: Counter[str] = Counter()
    for word, count in result.words.items():
        verdicts[word.partition(":")[0]] += count
    words = ", ".join(f"{word} {count}" for word, count in verdicts.most_common())
    rate = result.cases / max(result.seconds, 0.01)
    lines = [f"{result.name}: {result.cases} cases, {rate:.0f}/s, {len(result.findings)} findings; {words}"]
    if load()[result.name].row:
        lines += _table(result.words)
    else:
        lines += [f"    {count} {word}" for word, count in result.words.most_common() if ": " in word]
    for finding, (count, size) in sorted(result.findings.items()):
        lines.append(f"  {finding}: {count} times, smallest {size} bytes")
    return lines


COLUMNS = (
    ("right", ""),
    ("refused by both", "refused by both"),
    ("refused by xdlc", "refused"),
    ("no answer", "undefined|the engine|beyond"),
    ("wrong", "wrong"),
    ("internal error", "internal error"),
)
"""Columns of a table of results, each with its verdicts; the first has all others."""


def _table(words: Mapping[str, int]) -> list[str]:
    """Return a table of the cases of each row by verdict."""
    counts: dict[str, Counter[str]] = {}
    for word, count in words.items():
        verdict, _, row = word.partition(": ")
        column = next((name for name, text in COLUMNS if text and re.match(text, verdict)), COLUMNS[0][0])
        counts.setdefault(row, Counter())[column] += count
    width = max(map(len, counts), default=0)
    lines = ["  " + " ".join(["".ljust(width), *(name.rjust(15) for name, _ in COLUMNS)])]
    for row, cells in sorted(counts.items()):
        lines.append(
            "  " + " ".join([row.ljust(width), *(str(cells[name]).rjust(15) for name, _ in COLUMNS)])
        )
    return lines


def sums_of(results: Sequence[Result]) -> list[str]:
    """Return the sums over targets with an oracle, refusals by their reason."""
    words: Counter[str] = Counter()
    for result in results:
        words.update(result.words)
    sums = {
        kind: sum(count for word, count in words.items() if word.startswith(kind))
        for kind in ("refused", "undefined", "the engine", "beyond", "wrong", "internal error")
    }
    ours = Counter({word: count for word, count in words.items() if word.startswith("refused by xdlc")})
    right = sum(words.values()) - sum(sums.values())
    unanswered = sums["undefined"] + sums["the engine"] + sums["beyond"]
    lines = [
        f"networks: {sum(result.cases for result in results)}; right {right}, "
        f"refused by xdlc {ours.total()}, otherwise refused {sums['refused'] - ours.total()}, "
        f"no answer of the engine {unanswered}, wrong {sums['wrong']}, "
        f"internal errors {sums['internal error']}"
    ]
    return lines + [f"  {count} {word}" for word, count in ours.most_common()]


def main() -> int:
    """Run the command line; return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description=__doc__.split("\n")[0])
    parser.add_argument(
        "targets", help="names separated by commas; all; readers; differential; operators; list"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="time for each target")
    parser.add_argument("--cases", type=int, default=1 << 40, help="number of cases of each target")
    parser.add_argument("--seed", type=int, default=0, help="number of the series of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to go on")
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at a time")
    parser.add_argument("--work", type=Path, default=Path("fuzz-work"), help="folder for findings")
    parser.add_argument("--case", type=Path, help="folder of a case to run once, in this process")
    parser.add_argument("--allow_root", action="store_true", help="run as root: a case may write anywhere")
    options = parser.parse_args()
    targets = load()
    if options.targets == "list":
        print("\n".join(sorted(targets)))
        return 0
    if not os.geteuid() and not options.allow_root:
        parser.error("run as another user, or with --allow_root: cases are not confined")
    groups = {
        "all": sorted(targets),
        "readers": sorted(name for name, each in targets.items() if not each.engine),
        "differential": sorted(name for name, each in targets.items() if each.engine and not each.row),
        "operators": sorted(name for name, each in targets.items() if each.row),
    }
    names = [name for word in options.targets.split(",") for name in groups.get(word, [word])]
    if unknown := set(names) - set(targets):
        parser.error(
            f"unknown: {', '.join(sorted(unknown))}; known: {', '.join([*groups, *sorted(targets)])}"
        )
    if without := {name: gone for name in names if (gone := targets[name].missing())}:
        for name, gone in without.items():
            print(f"{name}: left out, {gone} is not installed")
        if set(without) & set(options.targets.split(",")):
            parser.error("install the extra test-frameworks")
        names = [name for name in names if name not in without]
    if options.case:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            print(attempt(targets[names[0]], Path(folder), contents(options.case)))
        return 0
    if options.seconds > 1e8 and options.cases > 1 << 39:
        parser.error("state --seconds or --cases")
    series = (options.seed, options.first, options.cases, options.seconds, options.work)
    results = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        # A process for each, since memory that workers share belongs to one campaign.
        for task in [pool.submit(result_of, name, *series) for name in names]:
            results.append(task.result())
            print("\n".join(lines_of(results[-1])), flush=True)
    if judged := [result for result in results if targets[result.name].engine]:
        print("\n".join(sums_of(judged)))
    return int(any(result.findings for result in results))


if __name__ == "__main__":
    sys.exit(main())
