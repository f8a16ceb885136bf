"""The mark of tests that need a C compiler."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

_GIVEN = shlex.split(os.environ.get("CC", ""))[:1]
COMPILER = next((name for name in (*_GIVEN, "cc", "gcc", "clang") if shutil.which(name)), None)

needs_cc = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
