"""Modules in the folder of a Python file, importable only while it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xdlc.runtime.udo.python_file import Siblings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a project with a module, a package, and an environment below it."""
    for name in ("sibling_one.py", "sibling_pack/__init__.py", "sibling_pack/part.py", "env/lib_below.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "env"), *sys.path])
    yield tmp_path
    for name in ("sibling_one", "sibling_pack", "sibling_pack.part", "lib_below"):
        sys.modules.pop(name, None)


def test_only_modules_of_the_folder_itself_are_put_away(folder: Path) -> None:
    siblings = Siblings(folder)
    with siblings.importable():
        for name in ("sibling_one", "sibling_pack.part", "lib_below"):
            importlib.import_module(name)
    assert not {"sibling_one", "sibling_pack", "sibling_pack.part"} & sys.modules.keys()
    assert "lib_below" in sys.modules
    with siblings.importable():
        assert {"sibling_one", "sibling_pack", "sibling_pack.part"} <= sys.modules.keys()


def test_the_search_path_is_as_before(folder: Path) -> None:
    before = list(sys.path)
    with Siblings(folder).importable():
        assert sys.path == [*before, str(folder)]
    assert sys.path == before
