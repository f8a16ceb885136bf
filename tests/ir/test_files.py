import os
import stat
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdlc.errors import StorageError, UsageError
from xdlc.ir import MappedFile
from xdlc.ir.files import (
    SummedFile,
    check_output,
    check_readable,
    csv_text,
    kept_apart,
    read_bytes,
    replace_file,
    replace_text,
    together,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", "/dev/zero"):
        with pytest.raises(StorageError) as caught:
            check_readable(path)
        assert caught.value.where == str(path)
    for path in ("a\0b", "", "\ud800"):
        with pytest.raises(StorageError):
            check_readable(path)
        with pytest.raises(StorageError):
            check_output(path)


def test_bytes_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    assert read_bytes(tmp_path / "a", 2) == b"123"


def test_a_mapped_file_that_became_shorter(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(8192))
    file = MappedFile(tmp_path / "a")
    os.truncate(tmp_path / "a", 10)
    with pytest.raises(StorageError, match="became shorter"):
        file.view(4096, 4)


def test_inputs_and_outputs_are_kept_apart_by_inode(tmp_path: Path) -> None:
    original, link, soft = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    original.write_bytes(b"old")
    os.link(original, link)
    soft.symlink_to(original)
    with kept_apart():
        check_readable(original)
        for path in (original, link, soft):
            with pytest.raises(UsageError, match="would replace the input"):
                check_output(path)
            with pytest.raises(UsageError, match="would replace the input"):
                replace_file(path, b"new")
    with kept_apart():
        check_output(original)
        with kept_apart(), pytest.raises(UsageError, match="would replace the input"):
            check_readable(link)
        with pytest.raises(UsageError, match="two outputs"):
            check_output(soft)
        check_output(tmp_path / "new")
        with pytest.raises(UsageError, match="two outputs"):
            check_output(tmp_path / "." / "new")
    with kept_apart([original]):
        check_readable(original)
        check_output(original)
        replace_file(original, b"new")
    assert original.read_bytes() == b"new"
    assert link.read_bytes() == b"old"


def test_an_input_that_is_gone_does_not_keep_its_inode(tmp_path: Path) -> None:
    removed, output = tmp_path / "a", tmp_path / "b"
    removed.write_bytes(b"old")
    with kept_apart():
        check_readable(removed)
        removed.rename(output)  # the file system may give a new file the inode of a removed one
        replace_file(output, b"new")
    assert output.read_bytes() == b"new"


def test_an_output_that_was_written_may_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with kept_apart():
        replace_file(check_output(tmp_path / "a"), b"new")
        assert read_bytes(tmp_path / "a", 9) == b"new"


def test_mode_and_links_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    old = os.umask(0o022)
    try:
        replace_text(path, "x\ud800")
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        path.chmod(0o660)
        (tmp_path / "link").symlink_to(path)
        replace_file(tmp_path / "link", b"new")
        replace_text(tmp_path / "tool", "#!", executable=True)
        replace_text(path, "#!", executable=True)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o770
    assert stat.S_IMODE((tmp_path / "tool").stat().st_mode) == 0o755
    assert names(tmp_path) == ["a", "link", "tool"]
    path.chmod(0o440)
    with pytest.raises(StorageError, match="read-only"):
        replace_file(path, b"newer")
    assert path.read_bytes() == b"#!"


@pytest.mark.parametrize(("exists", "has_links"), [(True, True), (True, False), (False, True)])
def test_files_that_belong_together(tmp_path: Path, monkeypatch: Any, exists: bool, has_links: bool) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths if exists else ():
        path.write_bytes(b"old")
    moved, fail = os.replace, [0, 1]

    def replace(source: str, target: str) -> None:
        fail[0] += 1
        if fail[0] == 2:
            raise OSError(5, "Input/output error")
        moved(source, target)

    def link(source: str, target: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(os, "link", os.link if has_links else link)

    def write() -> None:
        with together():
            for path in paths:
                replace_file(path, b"new")
                assert not path.exists() or path.read_bytes() == b"old"

    with pytest.raises(StorageError, match="Input/output"):
        write()
    assert names(tmp_path) == (["a", "b"] if exists else [])
    assert {path.read_bytes() for path in paths if exists} <= {b"old"}
    with pytest.raises(StorageError), together():
        replace_file(paths[0], lambda file: file.write(b"new") and replace_file("a\0b", b""))
    assert names(tmp_path) == (["a", "b"] if exists else [])
    write()
    assert [path.read_bytes() for path in paths] == [b"new", b"new"]
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(
    ("cell", "stored"),
    [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("-1+x", "'-1+x"),
        ("-", "-"),
        (-1.5e-9, "-1.5e-09"),
        ("a\x1b[2J", "a\\x1b[2J"),
        ("\t=1", "\\t=1"),
        ("\ud800", "\\ud800"),
        ("\u202eb", "\\u202eb"),
        ("ä, b", '"ä, b"'),
    ],
)
def test_cells_of_tables_are_plain_text(cell: object, stored: str) -> None:
    assert csv_text([["name", cell]]) == f"name,{stored}\n"


def test_large_contents_are_summed_while_they_are_written(tmp_path: Path) -> None:
    content = np.arange(1 << 20, dtype=np.float32)
    content[-1] = np.nan
    with open(tmp_path / "file", "wb") as file:
        summed = SummedFile(file)
        summed.floats = content.dtype
        summed.write(b"head")
        summed.write(memoryview(content).cast("B"))
    assert summed.has_nan
    assert summed.crc == zlib.crc32((tmp_path / "file").read_bytes())
