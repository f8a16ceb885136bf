"""Which entry points of installed packages name plugins."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from xdlc.udo.load import plugin_entries


def test_packages_that_come_and_go_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[str]:
        time = os.stat(tmp_path).st_mtime_ns
        os.utime(tmp_path, ns=(time, time + 10**9))  # clocks of file systems are coarse
        return [entry.value for entry in plugin_entries() if entry.name in ("first", "second")]

    monkeypatch.syspath_prepend(str(tmp_path))
    assert found() == []
    folder = tmp_path / "ops-1.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text(
        "[xdlc.plugins]\nsecond = b:B\nfirst = a:A\n[console_scripts]\nfirst = c:C\n"
    )
    assert found() == ["a:A", "b:B"]
    assert plugin_entries() is plugin_entries()
    shutil.rmtree(folder)
    assert found() == []
