from __future__ import annotations

from pathlib import Path

import pytest

from xdlc.cli.output_path import check_target
from xdlc.errors import StorageError, UsageError


def test_check_target(tmp_path: Path) -> None:
    assert check_target(tmp_path / "a.dlc") == tmp_path / "a.dlc"
    with pytest.raises(StorageError, match="folder does not exist"):
        check_target(tmp_path / "none" / "a.dlc")
    with pytest.raises(StorageError, match="is a folder"):
        check_target(tmp_path)
    (tmp_path / "a.dlc").touch()
    assert check_target(tmp_path / "a.dlc", keep=tmp_path / "b.dlc") == tmp_path / "a.dlc"
    with pytest.raises(UsageError, match="would replace the input"):
        check_target(tmp_path / "a.dlc", keep=tmp_path / "." / "a.dlc")
