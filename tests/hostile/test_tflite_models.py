"""Hostile TFLite files: refused or converted, with bounded resources."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.hostile import tflite_cases
from tests.hostile.confined import Server, convert_harmless, harmless

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
    assert harmless(end).status == 0 or "error[" in end.errors


def _convert(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    convert_harmless(path, path.with_suffix(".dlc"))


@pytest.mark.parametrize("name", list(broken()))
def test_a_broken_file_does_no_harm(path: Path, name: str) -> None:
    _convert(path, broken()[name])
