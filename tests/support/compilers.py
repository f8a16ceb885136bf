"""C compilers for tests: marks, and building of libraries of operations."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import xdlc.runtime.udo

_GIVEN = shlex.split(os.environ.get("CC", ""))[:1]
COMPILER = next((name for name in (*_GIVEN, "cc", "gcc", "clang") if shutil.which(name)), None)

needs_cc = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
INCLUDE = Path(xdlc.runtime.udo.__file__).parent / "include"
STRICT = ("-Wall", "-Wextra", "-Werror", "-O1")


def build_library(source: Path, target: Path, *flags: str) -> Path:
    """Compile a C file with ``xdlc_udo.h`` to a shared library; warnings are errors."""
    run_cc([*STRICT, "-fPIC", "-shared", f"-I{INCLUDE}", *flags, str(source), "-o", str(target)])
    return target


def run_cc(arguments: Sequence[str]) -> None:
    """Run the compiler; the test fails with what it says if it refuses."""
    assert COMPILER is not None, "mark the test with needs_cc"
    done = subprocess.run([COMPILER, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
