"""Hostile TFLite files: each is refused, or converted without harm, soon and in little memory."""

from __future__ import annotations

import contextlib
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.hostile import tflite_cases
from tests.hostile.confined import MEGABYTES, SECONDS, Server
from xdlc.converter.tflite.builtins import NAMES
from xdlc.errors import XdlcError

files = cache(tflite_cases.files)


@pytest.mark.parametrize("name", list(files()))
def test_a_hostile_file_does_no_harm(server: Server, tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(files()[name])
    end = server.call("xconv-tflite-to-dlc", "-i", path, "-o", tmp_path / "model.dlc")
    assert 0 <= end.status < 70, end
    assert "Traceback" not in end.errors
    assert end.seconds < SECONDS, end
    assert end.megabytes < MEGABYTES, end
    assert end.status == 0 or "error:" in end.errors


def _convert(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    start = time.process_time()
    with contextlib.suppress(XdlcError):
        xdlc.convert(path, notify=lambda _: None)
    assert time.process_time() - start < SECONDS


def test_files_with_changed_bytes_do_no_harm(tmp_path: Path) -> None:
    generator, data = np.random.default_rng(16), tflite_cases.small_bytes()
    for _ in range(150):
        _convert(tmp_path / "model.tflite", tflite_cases.mutated(data, generator))


def test_operators_on_tensors_that_do_not_fit_do_no_harm(tmp_path: Path) -> None:
    generator = np.random.default_rng(17)
    for name in NAMES:
        for _ in range(2):
            _convert(tmp_path / "model.tflite", tflite_cases.misfits(name, generator))
