"""Loading of shared libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdlc.errors import BackendError
from xdlc.runtime.udo.library import open_library


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "libGone.so")
    with pytest.raises(BackendError, match="cannot be loaded") as caught:
        open_library(path, path)
    assert caught.value.where == path
    assert caught.value.fix
