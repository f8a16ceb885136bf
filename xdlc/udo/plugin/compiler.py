"""The host's C compiler: same source, same bytes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdlc.errors import BackendError, UsageError
from xdlc.runtime import udo as runtime_udo
from xdlc.runtime.udo.sources import MACHINE
from xdlc.worker.temporary import TemporaryFolder

INCLUDE = Path(runtime_udo.__file__).parent / "include"
CANDIDATES = ("cc", "gcc", "clang")
MAX_BINARY = 64 << 20
SHOWN_LINES = 20
WARN = ("-Wall", "-Wextra", "-Wno-unused-parameter")  # a kernel has all parameters, used or not
COMPILE = ("-std=c11", "-O2", "-fPIC", "-g0", *WARN, "-ffp-contract=off", "-fno-lto")
LINK = ("-shared", "-Wl,-s", "-Wl,--build-id=sha1", "-Wl,-z,defs", "-Wl,--version-script=exports.map")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler.

    Attributes:
        command: Program and the arguments that it is always called with.
        tool: Its first line on its version.
    """

    command: tuple[str, ...]
    tool: str


def machine() -> str:
    """Return the platform of this machine's kernels, like ``linux-x86_64``."""
    return f"{sys.platform}-{MACHINE}"


def find_compiler() -> Compiler:
    """Return the compiler that CC names, else cc, gcc or clang.

    Raises:
        BackendError: If there is no compiler, or it does not answer.
    """
    text = os.environ.get("CC", "").strip()
    if text:
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            raise BackendError(
                f"CC is {text!r}, which is not a command: {error}", fix="set CC to a compiler, or unset it"
            ) from error
        if not command or shutil.which(command[0]) is None:
            raise BackendError(
                f"CC names {text!r}, which is not a C compiler", fix="set CC to a compiler, or unset it"
            )
        return Compiler(command, _version(command))
    for name in CANDIDATES:
        if shutil.which(name) is not None:
            return Compiler((name,), _version((name,)))
    raise BackendError(
        f"xdlc needs a C compiler to compile kernels, but none of {', '.join(CANDIDATES)} is on PATH",
        fix="install gcc or clang, or set CC to a compiler; or give the plugin a compute method instead",
        code="XD706",
    )


@cache
def _version(command: tuple[str, ...]) -> str:
    code, text = _run((*command, "--version"), Path(tempfile.gettempdir()), 20.0)
    first = text.strip().splitlines()
    if code or not first:
        raise BackendError(
            f"{shlex.join(command)} --version returned exit code {code}",
            fix="set CC to a C compiler that accepts gcc's options",
        )
    return first[0][:200]


def compile_library(
    files: Mapping[str, str | bytes],
    entry: str,
    *,
    compiler: Compiler,
    flags: Sequence[str] = (),
    include: Path | None = None,
    timeout: float = 60.0,
) -> tuple[bytes, str]:
    """Compile C files into a shared library that exports one function.

    The compiler runs in a folder of its own and sees files by name only, so that no path gets into the
    library; the id of the build is made of its content.

    Args:
        files: Content of files by name; those that end in ``.c`` are compiled, and ``xdlc_entry.h`` is
            included before each of them.
        flags: Further options, of compiler and linker.
        include: Folder of further headers.
        timeout: Seconds that compiling and linking may each take.

    Returns:
        The library, and what the compiler warned of.

    Raises:
        UsageError: If the compiler refuses a file, or the function is not there.
        BackendError: If it takes too long.
    """
    with TemporaryFolder("xdlc_kernel_") as name:
        folder = Path(name)
        for file, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (folder / file).write_bytes(data)
        (folder / "exports.map").write_text(f"{{ global: {entry}; local: *; }};\n")
        folders = [INCLUDE, *([include] if include is not None else [])]
        common = [f"-ffile-prefix-map={path}=." for path in (folder, *folders)]
        common += ["-include", "xdlc_entry.h", "-I.", *(f"-I{path}" for path in folders)]
        objects, warned = [], ""
        for file in sorted(file for file in files if file.endswith(".c")):
            target = f"{file[:-2]}.o"
            step = [*COMPILE, *common, *flags, "-c", file, "-o", target]
            warned += _step(compiler, step, folder, timeout, f"compiling {file}", flags)
            objects.append(target)
        step = [*LINK, f"-Wl,--require-defined={entry}", *objects, "-o", "kernel.so", *flags, "-lm"]
        missing = f"define the missing function: the kernel is a function {entry!r} that is not static"
        warned += _step(compiler, step, folder, timeout, f"linking {entry}", flags, missing)
        library = folder / "kernel.so"
        if library.stat().st_size > MAX_BINARY:
            raise UsageError(
                f"the kernel has {library.stat().st_size} bytes; xdlc supports at most {MAX_BINARY}",
                fix="pass large tables as static inputs instead of C source",
            )
        return library.read_bytes(), warned


def _step(
    compiler: Compiler,
    arguments: Sequence[str],
    folder: Path,
    timeout: float,
    what: str,
    flags: Sequence[str],
    fix: str = "correct the C source",
) -> str:
    code, text = _run((*compiler.command, *arguments), folder, timeout)
    text = text.replace(f"{folder}{os.sep}", "").strip()
    if code is None:
        raise BackendError(
            f"{what} took longer than {timeout:g} s ({compiler.tool})",
            fix="make the source simpler, or give compile_c a longer timeout",
        )
    if code:
        output = _without_noise(text) or f"exit code {code}"
        shown = f" with {' '.join(flags)}" if flags else ""
        fix += " or the flags" if flags else ""
        raise UsageError(f"{what}{shown} failed ({compiler.tool}):\n{output}", fix=fix)
    return f"{text}\n" if text else ""


def _without_noise(text: str) -> str:
    lines = text.splitlines()
    errors = [index for index, line in enumerate(lines) if re.search(r"\b(error|undefined)\b", line)]
    first = max(0, errors[0] - 1) if errors else 0
    kept = lines[first : first + SHOWN_LINES]
    more = len(lines) - first - len(kept)
    return "\n".join(
        [*(f"    {line[:300]}" for line in kept), *([f"    ... {more} more lines"] if more else [])]
    )


def _run(command: Sequence[str], folder: Path, timeout: float) -> tuple[int | None, str]:
    """Run a command; return its exit code, None after the time-out, and output."""
    environment = dict(os.environ, LC_ALL="C", SOURCE_DATE_EPOCH="0", TMPDIR=str(folder))
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(
            f"{command[0]} cannot be run: {error.strerror or error}", fix="set CC to a C compiler"
        ) from error
    with process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                return None, ""
            raise
    return process.returncode, output.decode("utf-8", "replace")
