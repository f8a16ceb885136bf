"""Each reader of untrusted files, on the first damaged files of its target."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.run import Campaign, Plan
from fuzz.targets import load

CASES = 50
READERS = {name: target for name, target in load().items() if not target.engine}
SLOW = ("hdf5", "keras", "graphtext")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in READERS]
)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path):
    """Any other end, a signal, 5 s of processor time or 500 MB is a finding."""
    campaign = Campaign(Plan(READERS[name], 0), tmp_path)
    campaign.run(CASES, 600)
    assert not campaign.findings
    assert campaign.cases == CASES
