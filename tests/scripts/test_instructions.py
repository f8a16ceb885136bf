"""Small jobs execute as many instructions as the record says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from scripts import instructions


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("instructions")
    instructions.make_models(folder)
    return folder


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.slow
@pytest.mark.parametrize("job", instructions.JOBS)
def test_instructions_are_near_the_record(job: str, folder: Path) -> None:
    assert [*instructions.problems({job: instructions.instructions(job, folder)})] == []


@pytest.mark.parametrize(
    ("python", "change", "count"),
    [("", 1.04, 0), ("", 0.96, 0), ("", 1.06, 1), ("", 0.94, 1), ("3.0", 1.29, 0), ("3.0", 1.31, 1)],
)
def test_limits_of_a_change(
    python: str, change: float, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tmp_path / "record.json"
    versions = instructions.versions() | ({"python": python} if python else {})
    record.write_text(json.dumps({"versions": versions, "counts": {"import": 1000}}))
    monkeypatch.setattr(instructions, "RECORD", record)
    problems = [*instructions.problems({"import": int(1000 * change)})]
    assert len(problems) == count
    assert all(instructions.RENEW in problem for problem in problems)
