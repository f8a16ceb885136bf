"""The package with files added, in a folder of its own, and its command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import xdlc

ROOT = Path(xdlc.__file__).parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Overlay:
    """A copy of the package by links, to which tests add files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for place, folders, files in os.walk(ROOT):
            folders[:] = [name for name in folders if name != "__pycache__"]
            target = folder / "xdlc" / Path(place).relative_to(ROOT)
            target.mkdir(parents=True)
            for name in files:
                (target / name).symlink_to(Path(place) / name)

    def add(self, path: str, text: str) -> None:
        """Write a new file of the package."""
        place = self.folder / "xdlc" / path
        assert not place.exists()
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)

    def extend(self, path: str, text: str) -> None:
        """Append to a file of the package."""
        self.replace(path, "", text)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace a text that a file of the package has once; an empty one is its end."""
        place = self.folder / "xdlc" / path
        before, found, after = place.read_text().rpartition(old) if old else (place.read_text(), "", "")
        assert found == old
        assert not old or old not in before, f"{path} has {old!r} several times"
        place.unlink()
        place.write_text(before + new + after)

    def run(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run ``xdlc`` on some words."""
        return self._run("-m", "xdlc", *words, code=code)

    def python(self, program: str, *words: object) -> str:
        """Return what a program prints that imports the package."""
        return self._run("-c", program, *words).stdout

    def _run(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            env=os.environ | {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture(scope="session")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Overlay]:
    return Overlay(tmp_path_factory.mktemp("overlay"))
