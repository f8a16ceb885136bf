"""``compile_c``: kernels of plugins from C source.

The same source makes the same bytes.

Arguments of a kernel are letters of their kinds, and their values:

====== ==============================
Letter Value
====== ==============================
``i``  integer of 64 bits
``f``  real number
``s``  string
``o``  tensor: an array
====== ==============================

Parentheses and commas may group letters: ``"(i,i,i,i), s, i"`` takes ``(1, 3, 8, 8), "SUM", 1``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from xdlc.errors import BackendError, StorageError, UsageError
from xdlc.ir.data import TensorData
from xdlc.ir.files import read_bytes
from xdlc.opdefs.op_view import OpView
from xdlc.opdefs.source_match import Kernel
from xdlc.runtime.interfaces import stand_ins
from xdlc.runtime.udo.sources import MACHINE
from xdlc.worker.temporary import TemporaryFolder

PROTOTYPE = """#include "CPU/QnnCpuOpPackage.h"
Qnn_ErrorHandle_t {entry}(const QnnCpuOpPackage_Node_t *);
"""
CANDIDATES = ("cc", "gcc", "clang")
MAX_SOURCE, MAX_BINARY, SHOWN_LINES = 8 << 20, 64 << 20, 20
WARN = ("-Wall", "-Wextra", "-Wno-unused-parameter")  # a kernel has all parameters, used or not
COMPILE = ("-std=c11", "-O2", "-fPIC", "-g0", *WARN, "-ffp-contract=off", "-fno-lto")
LINK = ("-shared", "-Wl,-s", "-Wl,--build-id=sha1", "-Wl,-z,defs", "-Wl,--version-script=exports.map")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\.c")
_KINDS = {"i": "an integer of 64 bits", "f": "a number", "s": "a string", "o": "an array"}


@dataclass(frozen=True, slots=True)
class BuildView(OpView):
    """View of an op for ``build_kernel``.

    Attributes:
        notify: Called with what the compiler warns of.
        built: Libraries of this conversion that were made already.
    """

    notify: Callable[[str], None] | None = None
    built: dict[Any, bytes] = field(default_factory=dict)


def compile_c(
    op: OpView,
    source: str | Path,
    *,
    entry: str,
    arguments: str = "",
    values: Sequence[Any] = (),
    name: str = "",
    flags: Sequence[str] = (),
    timeout: float = 60.0,
) -> Kernel:
    """Return a kernel for this machine, compiled from C source.

    Args:
        op: The op that ``build_kernel`` was called with.
        source: C text, or the path of a ``.c`` file, whose folder may hold headers of its own.
        entry: Function of a ``const QnnCpuOpPackage_Node_t *`` that returns ``Qnn_ErrorHandle_t``.
        arguments: Letter of each argument, like ``"(i,i,i,i), s, f"``: i integer, f real, s string, o tensor.
        values: The arguments, grouped or in one row.
        name: Name of the kernel; default: that of the function.
        flags: Further options of the compiler, like ``-fopenmp``.
        timeout: Seconds that the compiler may take.

    Raises:
        UsageError: If an argument is wrong, or the compiler refuses the source.
        StorageError: If the file cannot be read.
        BackendError: If there is no compiler, or it takes too long.
    """
    if not entry.isidentifier() or not entry.isascii():
        raise UsageError(f"{entry!r} is not a C function name", fix="give the name of your kernel function")
    if isinstance(flags, str):
        raise UsageError(f"flags is the string {flags!r}", fix=f"write flags=({flags!r},)")
    if timeout <= 0:
        raise UsageError(f"timeout is {timeout:g} s", fix="give seconds above 0")
    letters, row = flattened(arguments, values)
    file, text, folder = _source(source)
    command, tool = find_compiler()
    view = op if isinstance(op, BuildView) else BuildView(op.package, op.type, op.name, op.inputs, op.outputs)
    # headers beside the source may change between two conversions, not within one
    key = (command, entry, tuple(flags), str(folder), file, hashlib.sha256(text).hexdigest())
    if key not in view.built:
        build = _Build(command, tool, tuple(flags), timeout)
        view.built[key], warned = build.library(file, text, entry, folder)
        if warned and view.notify is not None:
            view.notify(f"{tool} on {file}:\n{warned.rstrip()}")
    return Kernel(name or entry, entry, letters, row, machine(), tool, view.built[key])


def flattened(placeholders: str, values: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return letters and values in one row.

    Args:
        placeholders: The letters, with commas between them and parentheses around groups.
        values: The values; groups count as their items.

    Raises:
        UsageError: If the letters cannot be read, or the values do not suit them.

    Example:
        >>> flattened("(i,i), s, f", ((1, 2), "SUM", 1))
        ('iisf', (1, 2, 'SUM', 1.0))
    """
    letters = re.sub(r"[(),\s]", "", placeholders)
    if not set(letters) <= set(_KINDS):
        raise UsageError(
            f"arguments {placeholders[:60]!r} cannot be read",
            fix="write letters i, f, s and o with commas between them, groups in parentheses",
        )
    row = list(_items(values))
    if len(row) != len(letters):
        raise UsageError(
            f"{placeholders[:60]!r} has {len(letters)} letters, but the number of values is {len(row)}",
            fix="give one value for each letter",
        )
    pairs = zip(letters, row, strict=True)
    return letters, tuple(_argument(letter, value, place) for place, (letter, value) in enumerate(pairs))


def _items(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _items(value)
        else:
            yield value


def _argument(letter: str, value: Any, place: int) -> Any:
    import numpy

    if letter == "i" and isinstance(value, int | numpy.integer) and -(2**63) <= int(value) < 2**63:
        return int(value)
    if letter == "f" and isinstance(value, int | float | numpy.integer | numpy.floating):
        return float(value)
    if letter == "s" and isinstance(value, str) and "\0" not in value:
        return value
    if letter == "o" and isinstance(value, numpy.ndarray | TensorData):
        return value.numpy() if isinstance(value, TensorData) else numpy.ascontiguousarray(value)
    raise UsageError(
        f"argument {place} has the letter {letter!r}, which means {_KINDS[letter]}, but its value is "
        f"{repr(value)[:60]}",
        fix="correct the letter or the value",
    )


def _source(source: str | Path) -> tuple[str, bytes, Path | None]:
    """Return name and text of a source, and its folder."""
    if isinstance(source, str):
        return "kernel.c", source.encode(), None
    try:
        text = read_bytes(source, MAX_SOURCE)
    except StorageError as error:
        error.fix = "name the file relative to the plugin: Path(__file__).with_name(...)"
        raise
    if len(text) > MAX_SOURCE:
        raise UsageError(f"is larger than {MAX_SOURCE >> 20} MiB", where=str(source), fix="name a C file")
    if not _FILE.fullmatch(source.name):
        raise UsageError("the name is not a C file's name", where=str(source), fix="use a name like kernel.c")
    return source.name, text, source.resolve().parent


# ---------------------------------------------------------------------- the compiler


def machine() -> str:
    """Return the platform of this machine's kernels, like ``linux-x86_64``."""
    return f"{sys.platform}-{MACHINE}"


def find_compiler() -> tuple[tuple[str, ...], str]:
    """Return the command that CC names, else cc, gcc or clang, and its version.

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
        return command, _version(command)
    for name in CANDIDATES:
        if shutil.which(name) is not None:
            return (name,), _version((name,))
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


@dataclass(frozen=True, slots=True)
class _Build:
    """Calls of a compiler.

    Attributes:
        command: Program and the arguments that it is always called with.
        tool: Its first line on its version.
        flags: Further options, of compiler and linker.
        timeout: Seconds that each call may take.
    """

    command: tuple[str, ...]
    tool: str
    flags: tuple[str, ...]
    timeout: float

    def library(self, file: str, text: bytes, entry: str, include: Path | None) -> tuple[bytes, str]:
        """Return a library that exports one function, and warnings of the compiler.

        The compiler runs in a folder of its own and sees the file by name only, so that no path gets into
        the library; the id of the build is made of its content.

        Args:
            include: Folder of further headers.

        Raises:
            UsageError: If the compiler refuses the file, or the function is not there.
            BackendError: If it takes too long.
        """
        with TemporaryFolder("xdlc_kernel_") as name:
            folder = Path(name)
            for header, content in stand_ins().items():
                (folder / header).parent.mkdir(parents=True, exist_ok=True)
                (folder / header).write_text(content)
            (folder / file).write_bytes(text)
            (folder / "xdlc_entry.h").write_text(PROTOTYPE.format(entry=entry))
            (folder / "exports.map").write_text(f"{{ global: {entry}; local: *; }};\n")
            folders = [include] if include is not None else []
            paths = [f"-ffile-prefix-map={path}=." for path in (folder, *folders)]
            paths += ["-include", "xdlc_entry.h", "-I.", *(f"-I{path}" for path in folders)]
            step = [*COMPILE, *paths, *self.flags, "-c", file, "-o", "kernel.o"]
            warned = self._step(step, folder, f"compiling {file}", "correct the C source")
            step = [
                *LINK,
                f"-Wl,--require-defined={entry}",
                "kernel.o",
                "-o",
                "kernel.so",
                *self.flags,
                "-lm",
            ]
            missing = f"define the missing function: the kernel is a function {entry!r} that is not static"
            warned += self._step(step, folder, f"linking {entry}", missing)
            size = (folder / "kernel.so").stat().st_size
            if size > MAX_BINARY:
                raise UsageError(
                    f"the kernel has {size} bytes; xdlc supports at most {MAX_BINARY}",
                    fix="pass large tables as static inputs instead of C source",
                )
            return (folder / "kernel.so").read_bytes(), warned

    def _step(self, arguments: Sequence[str], folder: Path, what: str, fix: str) -> str:
        code, text = _run((*self.command, *arguments), folder, self.timeout)
        text = text.replace(f"{folder}{os.sep}", "").strip()
        if code is None:
            raise BackendError(
                f"{what} took longer than {self.timeout:g} s ({self.tool})",
                fix="make the source simpler, or give compile_c a longer timeout",
            )
        if code:
            shown = f" with {' '.join(self.flags)}" if self.flags else ""
            fix += " or the flags" if self.flags else ""
            output = _first_errors(text) or f"exit code {code}"
            raise UsageError(f"{what}{shown} failed ({self.tool}):\n{output}", fix=fix)
        return f"{text}\n" if text else ""


def _first_errors(text: str) -> str:
    """Return the lines of a compiler's output from the first error on."""
    lines = text.splitlines()
    errors = [index for index, line in enumerate(lines) if re.search(r"\b(error|undefined)\b", line)]
    lines = lines[max(0, errors[0] - 1) if errors else 0 :]
    more = [f"    ... {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    return "\n".join([*(f"    {line[:300]}" for line in lines[:SHOWN_LINES]), *more])


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
