"""Faults of the disk: a slice of ``fuzz.faults``, which has all tools and points."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and cc")
def test_files_are_whole_after_faults_of_the_disk() -> None:
    words = ["convert,opt,to-onnx,udo-config", "--every", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.faults.run", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) == 4
    assert all(int(row[3]) > 5 and row[3] == row[6] for row in rows), done.stdout
