"""C compilers for tests: marks, and building of libraries of operations."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from xdlc.runtime.interfaces import stand_ins

_GIVEN = shlex.split(os.environ.get("CC", ""))[:1]
COMPILER = next((name for name in (*_GIVEN, "cc", "gcc", "clang") if shutil.which(name)), None)

needs_cc = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
STRICT = ("-Wall", "-Wextra", "-Werror", "-O1")


@cache
def include_folder() -> Path:
    """Return a folder with stand-ins for the headers of the vendor's SDKs."""
    folder = tempfile.TemporaryDirectory(prefix="xdlc-include-")
    atexit.register(folder.cleanup)
    for path, text in stand_ins().items():
        target = Path(folder.name) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return Path(folder.name)


def build_library(source: Path, target: Path, *flags: str) -> Path:
    """Compile a C file to a shared library; warnings are errors."""
    run_cc(
        [
            *STRICT,
            "-fPIC",
            "-shared",
            "-isystem",
            str(include_folder()),
            *flags,
            str(source),
            "-o",
            str(target),
        ]
    )
    return target


def run_cc(arguments: Sequence[str]) -> None:
    """Run the compiler; the test fails with what it says if it refuses."""
    assert COMPILER is not None, "mark the test with needs_cc"
    done = subprocess.run([COMPILER, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
