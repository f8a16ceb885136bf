"""Run the code blocks of a page as a reader would.

    python -m tests.docs.blocks docs/start/first-dlc.md           # report blocks that fail
    python -m tests.docs.blocks --show docs/start/first-dlc.md    # print what each command prints, too

Run this from the repository.  The blocks of a page run in order, in a folder of their own that has all
files of `make demo` (demo.onnx, demo.dlc, calibration/, evaluation/, ...) and samples.txt, the list of the
calibration samples.

- A `console` block has commands after `$ ` (a last backslash, or a here-document, continues one), each
  followed by what it prints on both streams.  A command without output may print anything.
- A line `...` stands for any lines, `...` in a line for any characters.  Blanks count once.
- A number may differ by 5 % or 1 before dB and %, by 5 % before bytes, KiB and MiB, and by any amount
  before s, ms and us.  All other text is equal.
- A `python` block runs in a process that all such blocks of the page share.
- Lines right before a block: `<!-- not run: REASON -->` skips it, `<!-- exit: 5 -->` states the exit code
  of its last command, `<!-- file: NAME -->` writes it to a file, whatever its language.
- `<!-- setup: COMMAND -->` anywhere runs a command that readers do not see.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REASONS = ("phone", "SDK", "network", "model", "time")
TIMEOUT = 900
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w{}-]*).*$")
_NOTE = re.compile(r"^ *<!-- *(?P<key>not run|exit|file|setup): *(?P<value>.*?) *-->$")
_HERE = re.compile(r"<<-?\s*['\"]?(\w+)")
_UNITS = "dB|%|bytes|KiB|MiB|KB|MB|ms|us|s"
_FREE = re.compile(rf"\.\.\.|(?<![\w.,])(\d[\d,]*(?:\.\d+)?)(?= ?({_UNITS})(?!\w))")
_TIMES = ("ms", "us", "s")
_PYTHON = """\
import contextlib, io, json, os, sys, traceback
space = {"__name__": "__main__"}
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    printed, failed = io.StringIO(), False
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(json.loads(line), "<page>", "exec"), space)
        except BaseException:
            failed = True
            printed.write(traceback.format_exc())
    answers.write(json.dumps([failed, printed.getvalue()]) + "\\n")
    answers.flush()
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, or a setup command, with the notes right before it."""

    line: int
    language: str
    text: str
    notes: dict[str, str]


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines that the page shows below it."""

    line: int
    text: str
    output: list[str]


@dataclass(frozen=True)
class Failure:
    """What is wrong with a block."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks and setup commands of a page in order."""
    lines = text.split("\n")
    result: list[Block] = []
    notes: dict[str, str] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        if note := _NOTE.match(line):
            if note["key"] == "setup":
                result.append(Block(number + 1, "setup", note["value"], {}))
            else:
                notes[note["key"]] = note["value"]
        elif fence := _FENCE.match(line):
            end = number + 1
            while end < len(lines) and lines[end].strip() != fence["ticks"]:
                end += 1
            indent = len(fence["indent"])
            body = [row[indent:] if not row[:indent].strip() else row for row in lines[number + 1 : end]]
            result.append(Block(number + 2, fence["language"], "\n".join(body), notes))
            notes, number = {}, end
        elif line.strip():
            notes = {}
        number += 1
    return result


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block."""
    lines = block.text.split("\n")
    result: list[Command] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("$ "):
            start, words = number, [line[2:]]
            here = _HERE.search(line)
            while words[-1].endswith("\\") or (here and words[-1] != here[1] and number + 1 < len(lines)):
                number += 1
                words.append(lines[number])
                here = here or _HERE.search(lines[number])
            result.append(Command(block.line + start, "\n".join(words), []))
        elif result:
            result[-1].output.append(line)
        elif line.strip():
            raise ValueError(f"line {block.line + number}: a console block begins with '$ '")
        number += 1
    return result


def is_like(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether a command printed what the page shows."""
    shown, printed = _lines(shown), _lines(printed)
    reached = {0}  # how many printed lines the shown ones so far can stand for
    for line in shown:
        if line == "...":
            reached = set(range(min(reached), len(printed) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(printed) and _is_like(line, printed[at])}
        if not reached:
            return False
    return len(printed) in reached


def _lines(lines: Sequence[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if line.strip()]


def _is_like(shown: str, printed: str) -> bool:
    pattern, figures, end = "", [], 0
    for free in _FREE.finditer(shown):
        pattern += re.escape(shown[end : free.start()]) + (r"(\d[\d,]*(?:\.\d+)?)" if free[1] else ".*")
        figures += [(free[1], free[2])] if free[1] else []
        end = free.end()
    match = re.fullmatch(pattern + re.escape(shown[end:]), printed)
    return match is not None and all(
        _is_near(figure, now, unit) for (figure, unit), now in zip(figures, match.groups(), strict=True)
    )


def _is_near(figure: str, now: str, unit: str) -> bool:
    if unit in _TIMES:
        return True
    shown, printed = (float(text.replace(",", "")) for text in (figure, now))
    return abs(shown - printed) <= max(0.05 * abs(shown), 1 if unit in ("dB", "%") else 0)


def make_folder(folder: Path) -> Path:
    """Fill a folder with what `make demo` leaves, and with samples.txt."""
    demo = ROOT / ".demo"
    with tempfile.TemporaryDirectory() as scratch:
        if not (demo / "demo.dlc").exists() or os.environ.get("PYTEST_CURRENT_TEST"):
            script = str(ROOT / "scripts" / "demo.py")
            done = subprocess.run(
                [sys.executable, script],
                cwd=scratch,
                env=environment(Path(scratch)),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(f"make demo fails: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            demo = Path(scratch) / ".demo"
        shutil.copytree(demo, folder, dirs_exist_ok=True)
    for path in folder.rglob("*.txt"):
        path.write_text(path.read_text().replace(".demo/", ""))
    samples = (folder / "calibration" / "list.txt").read_text()
    (folder / "samples.txt").write_text(samples)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a reader who has installed xdlc."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDLC_", "PYTEST_"))}
    return {**kept, "PATH": os.pathsep.join(places), "HOME": str(folder), "NO_COLOR": "1", "COLUMNS": "100"}


class Reader:
    """Runs the blocks of a page in a folder."""

    def __init__(self, page: Path, folder: Path, *, is_showing: bool = False) -> None:
        self.page = page
        self.folder = folder
        self.is_showing = is_showing
        self.skipped: list[str] = []
        self._python: subprocess.Popen[str] | None = None

    def read(self) -> Iterator[Failure]:
        """Run all blocks; iterate over what fails."""
        try:
            for block in blocks(self.page.read_text()):
                yield from self._run(block)
        finally:
            if self._python is not None:
                self._python.communicate()

    def _run(self, block: Block) -> Iterator[Failure]:
        if "not run" in block.notes:
            self.skipped.append(block.notes["not run"])
        elif block.language == "setup":
            yield from self._command(Command(block.line, block.text, []), 0)
        elif "file" in block.notes:
            path = self.folder / block.notes["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text + "\n")
        elif block.language == "console":
            lines = commands(block)
            for command in lines:
                code = int(block.notes.get("exit", 0)) if command is lines[-1] else 0
                yield from self._command(command, code)
        elif block.language == "python":
            yield from self._exec(block)

    def _command(self, command: Command, code: int) -> Iterator[Failure]:
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=self.folder,
            env=environment(self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if self.is_showing:
            print(f"$ {command.text}\n{done.stdout}", end="", flush=True)
        place = f"{self.page}:{command.line}"
        if done.returncode != code:
            yield Failure(place, f"exit code {done.returncode}, not {code}: {command.text}\n{done.stdout}")
        elif _lines(command.output) and not is_like(command.output, done.stdout.split("\n")):
            shown = "\n".join(command.output).strip("\n")
            yield Failure(place, f"{command.text}\n--- the page shows\n{shown}\n--- printed\n{done.stdout}")

    def _exec(self, block: Block) -> Iterator[Failure]:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, "-c", _PYTHON],
                cwd=self.folder,
                env=environment(self.folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            self._python.stdin.write(json.dumps(block.text) + "\n")
            self._python.stdin.flush()
            answer = self._python.stdout.readline()
        has_failed, printed = json.loads(answer) if answer else (True, "Python ended")
        if self.is_showing:
            print(f">>> {block.text}\n{printed}", end="", flush=True)
        if has_failed:
            yield Failure(f"{self.page}:{block.line}", printed)


def main() -> int:
    """Run pages and print what fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true", help="print what each command prints")
    options = parser.parse_args()
    count = 0
    for page in options.pages:
        with tempfile.TemporaryDirectory() as scratch:
            reader = Reader(page, make_folder(Path(scratch)), is_showing=options.show)
            failures = list(reader.read())
        for failure in failures:
            print(failure)
        ran = len(blocks(page.read_text())) - len(reader.skipped)
        print(f"{page}: {len(failures)} failures, {ran} blocks, {len(reader.skipped)} not run")
        count += len(failures)
    return int(bool(count))


if __name__ == "__main__":
    sys.exit(main())
