from pathlib import Path

import pytest

from xdlc.cli.output_path import check_target, folder_for
from xdlc.errors import StorageError, UsageError
from xdlc.ir.files import check_readable, kept_apart


def test_check_target(tmp_path: Path) -> None:
    assert check_target(tmp_path / "a.dlc") == tmp_path / "a.dlc"
    with pytest.raises(StorageError, match="folder does not exist"):
        check_target(tmp_path / "none" / "a.dlc")
    with pytest.raises(StorageError, match="is a folder"):
        check_target(tmp_path)
    (tmp_path / "a.dlc").touch()
    assert check_target(tmp_path / "a.dlc") == tmp_path / "a.dlc"
    with kept_apart():
        check_readable(tmp_path / "a.dlc")
        with pytest.raises(UsageError, match="would replace the input"):
            check_target(tmp_path / "." / "a.dlc")


def test_a_folder_that_nothing_came_into_is_taken_away(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), folder_for(tmp_path / "a/b/file"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").mkdir()
    with folder_for(tmp_path / "a/b/c/file"):
        (tmp_path / "a/b/other").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "other"]
    with pytest.raises(StorageError, match="cannot be written: File name too long"):
        folder_for(tmp_path / "new" / ("n" * 300) / "file").__enter__()
    assert not (tmp_path / "new").exists()
