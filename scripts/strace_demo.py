"""System calls of the demo, or of another command, that leave what it was given to work with.

    python scripts/strace_demo.py                                         # the demo
    python scripts/strace_demo.py --folder net xdlc-info -i net/m.dlc     # a command

HOME and TMPDIR are folders made for the run.  A process, or one that it starts, may create sockets of the
family AF_UNIX that connect to nothing, read files of the system, of Python and below the folders named, and
write below the folders named and TMPDIR.  All else is printed, and the exit status is 1 then.  Needs strace.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev")
WRITTEN = ("/dev/null", "/dev/shm", "/dev/tty", "/proc/self/task")
_SENDING = ("connect", "bind", "sendto", "sendmsg", "sendmmsg")
_CHANGING = "rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat rmdir mkdir mkdirat"
_OPENING = "execve open openat openat2 creat truncate chmod fchmodat chown socket"
_TRACED = ",".join((*_OPENING.split(), *_CHANGING.split(), *_SENDING))
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)")
_FAILED = re.compile(r"\) += -1 E")
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_PATH = re.compile(rf"(?:AT_FDCWD|\d+)<([^>]*)>, {_TEXT}|{_TEXT}")


def offences(lines: Iterable[str], folders: Sequence[str], current: str) -> Iterator[str]:
    """Yield the calls of a trace (``strace -f -y``) that are not allowed.

    Args:
        lines: Lines of the trace.
        folders: Absolute paths of folders that may be read and written.
        current: The folder that relative paths start from.
    """
    python = (sys.base_prefix, sys.prefix, os.path.realpath(sys.base_prefix), *filter(None, sys.path))
    for line in _whole(lines):
        found = _CALL.match(line)
        if found is None:
            continue
        name, args = found[1], found[2]
        if name == "socket":
            if not args.startswith("AF_UNIX"):
                yield line
        elif name in _SENDING:
            if "sa_family" in args:
                yield line
        elif not _FAILED.search(args):
            is_read = name == "execve" or ("open" in name and not re.search("O_(WRONLY|RDWR|CREAT)", args))
            allowed = (*SYSTEM, *python, *folders) if is_read else (*WRITTEN, *folders)
            if any(not _is_below(path, allowed) for path in _paths(args, current)):
                yield line


def _whole(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a trace; those of a call that another process interrupts are joined."""
    begun: dict[str, str] = {}
    for line in lines:
        process, _, call = line.strip().partition(" ")
        if call.endswith("<unfinished ...>"):
            begun[process] = line.strip().removesuffix("<unfinished ...>")
        else:
            start = begun.pop(process, "") if "resumed>" in call else ""
            yield start + call.partition("resumed>")[2] if start else line.strip()
    yield from begun.values()


def _paths(args: str, current: str) -> Iterator[str]:
    """Yield the absolute paths among the arguments of a call; a command line counts as its program alone."""
    for folder, below, alone in _PATH.findall(args.split(", [")[0]):
        yield os.path.normpath(os.path.join(current, folder, below or alone))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def traced(command: Sequence[str], folders: Iterable[str | Path]) -> list[str]:
    """Run a command and return its calls that are not allowed, each once.

    Raises:
        CalledProcessError: If the command fails.
    """
    with tempfile.TemporaryDirectory(prefix="strace-") as held:
        folder = os.path.realpath(held)
        home, temporary, log = (os.path.join(folder, name) for name in ("home", "tmp", "log"))
        os.mkdir(home)
        os.mkdir(temporary)
        switches = ("CI", "ORT_DISABLE_TELEMETRY")  # would switch off what has to be off without them
        environment = {name: value for name, value in os.environ.items() if name not in switches}
        environment |= {"HOME": home, "TMPDIR": temporary}
        strace = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", f"trace={_TRACED}", "-o", log]
        subprocess.run([*strace, *command], env=environment, check=True)
        allowed = [temporary, *map(os.path.realpath, folders)]
        with open(log, encoding="utf-8", errors="replace") as lines:
            found = list(offences(lines, allowed, os.getcwd()))
        left = [f"left in the home folder: {path}" for path in Path(home).rglob("*")]
        return list(dict.fromkeys(re.sub(r"^\d+ +", "", line) for line in [*found, *left]))


def main() -> None:
    """Trace, print, and end with status 1 if there is anything to print."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--folder", action="append", default=[], help="folder that may be read and written")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: the demo")
    given = parser.parse_args()
    command = given.command or [sys.executable, str(ROOT / "scripts" / "demo.py")]
    found = traced(command, [ROOT, *given.folder])
    print("\n".join(found) if found else "no call leaves what the command was given")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
