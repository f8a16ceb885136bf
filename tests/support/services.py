"""Services of child processes in tests: those of xdlc with other commands."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest


def written(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, name: str = "child_of_a_test") -> str:
    """Write the module of a service where children look for it; return its name."""
    (folder / f"{name}.py").write_text(textwrap.dedent(text))
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return name


def htp(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """Replace the commands of the HTP service with those of a test."""
    from xdlc.runtime.htp import process

    monkeypatch.setattr(process, "SERVICE", written(monkeypatch, folder, text))
