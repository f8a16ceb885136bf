"""``xdlc-link``: graphs of several DLCs in one."""

from functools import partial
from pathlib import Path

import xdlc
from tests.prepare.edit.test_link import scaling
from tests.support import commands
from xdlc.cli.tools.link import main

invoke = partial(commands.invoke, main)


def test_files_are_linked_and_named(tmp_path: Path) -> None:
    for size in (1, 2):
        scaling(size).save(tmp_path / f"{size}.dlc")
    target = tmp_path / "both.dlc"
    invoke(tmp_path / "1.dlc", f"--graph=second={tmp_path / '2.dlc'}", "-o", target)
    assert list(xdlc.load(target).graphs) == ["main", "second"]
    result = invoke(tmp_path / "1.dlc", tmp_path / "2.dlc", "-o", target)
    assert list(xdlc.load(target).graphs) == ["main_1x64", "main_2x64"]
    assert "main_2x64" in result.stdout
    assert str(tmp_path / "2.dlc") in result.stderr


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "1.dlc"
    scaling(1).save(path)
    invoke(path, "--graph", "second", "-o", tmp_path / "both.dlc", code=2)
    invoke(path, f"--graph=a={path}", f"--graph=b={path}", "-o", tmp_path / "both.dlc", code=2)
    invoke(path, "-o", tmp_path / "both.dlc", code=2)
    assert not (tmp_path / "both.dlc").exists()
