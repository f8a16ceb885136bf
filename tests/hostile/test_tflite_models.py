"""Hostile TFLite files: refused or converted, with bounded resources."""

from __future__ import annotations

import contextlib
import resource
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.hostile import tflite_cases
from tests.hostile.confined import MEGABYTES, SECONDS, Server
from xdlc.converter.tflite.file import NAMES
from xdlc.errors import XdlcError

huge, broken = cache(tflite_cases.huge), cache(tflite_cases.broken)
SOME = ("first 0 bytes", "first 400 bytes", "another identifier", "no subgraphs", "weight of 23 bytes")
"""Broken files that the tool itself gets too."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tflite") / "model.tflite"


@pytest.mark.parametrize("name", [*huge(), *SOME])
def test_a_hostile_file_does_no_harm(server: Server, path: Path, name: str) -> None:
    path.write_bytes({**huge(), **broken()}[name])
    end = server.call("xconv-tflite-to-dlc", "-i", path, "-o", path.with_suffix(".dlc"))
    assert 0 <= end.status < 70, end
    assert "Traceback" not in end.errors
    assert end.seconds < SECONDS, end
    assert end.megabytes < MEGABYTES, end
    assert end.status == 0 or "error[" in end.errors


def _convert(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    start = time.process_time()
    with contextlib.suppress(XdlcError):
        xdlc.save(xdlc.convert(path, notify=lambda _: None), path.with_suffix(".dlc"))
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("name", list(broken()))
def test_a_broken_file_does_no_harm(path: Path, name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _convert(path, broken()[name])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1000


def test_files_with_changed_bytes_do_no_harm(path: Path) -> None:
    generator, data = np.random.default_rng(16), tflite_cases.small_bytes()
    for _ in range(150):
        _convert(path, tflite_cases.mutated(data, generator))


def test_operators_on_tensors_that_do_not_fit_do_no_harm(path: Path) -> None:
    generator = np.random.default_rng(17)
    for name in NAMES:
        for _ in range(2):
            _convert(path, tflite_cases.misfits(name, generator))
