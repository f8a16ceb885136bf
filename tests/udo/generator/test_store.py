"""What generating into a package that is there keeps, and what it replaces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xdlc.errors import StorageError, UsageError
from xdlc.udo.generator.rendering import Rendered
from xdlc.udo.generator.store import Outcome, write_packages


def write(folder: Path, *files: tuple[str, str, bool], force: bool = True) -> Outcome:
    rendered = [Rendered(path, text.encode(), user) for path, text, user in files]
    (outcome,) = write_packages(folder, [("P", rendered)], force=force)
    return outcome


def texts(folder: Path) -> dict[str, str]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in sorted(found.items()) if name != ".xdlc-udo.json"}


def test_a_filled_kernel_is_kept_and_the_new_skeleton_is_beside_it(tmp_path: Path) -> None:
    write(tmp_path, ("ops/A.cpp", "skeleton", True), ("ops/B.cpp", "skeleton", True))
    (tmp_path / "P/ops/A.cpp").write_text("my work")
    outcome = write(tmp_path, ("ops/A.cpp", "skeleton 2", True), ("ops/B.cpp", "skeleton 2", True))
    assert outcome.kept == outcome.beside == ["ops/A.cpp"]
    assert texts(tmp_path / "P") == {
        "ops/A.cpp": "my work",
        "ops/A.cpp.new": "skeleton 2",
        "ops/B.cpp": "skeleton 2",
    }
    again = write(tmp_path, ("ops/A.cpp", "skeleton 2", True), ("ops/B.cpp", "skeleton 2", True))
    assert (again.kept, again.beside) == (["ops/A.cpp"], [])
    assert texts(tmp_path / "P")["ops/A.cpp"] == "my work"


def test_other_files_are_regenerated_and_their_changes_set_aside(tmp_path: Path) -> None:
    write(tmp_path, ("Makefile", "one", False))
    (tmp_path / "P/Makefile").write_text("changed")
    outcome = write(tmp_path, ("Makefile", "two", False))
    assert outcome.replaced == ["Makefile"]
    assert texts(tmp_path / "P") == {"Makefile": "two", "Makefile.old": "changed"}
    (tmp_path / "P/Makefile").write_text("changed again")
    write(tmp_path, ("Makefile", "two", False))
    assert texts(tmp_path / "P")["Makefile.old2"] == "changed again"
    assert texts(tmp_path / "P")["Makefile.old"] == "changed"


def test_files_of_the_users_own_stay(tmp_path: Path) -> None:
    write(tmp_path, ("Makefile", "one", False))
    (tmp_path / "P/notes.txt").write_text("mine")
    (tmp_path / "P/link").symlink_to("notes.txt")
    write(tmp_path, ("Makefile", "two", False))
    assert texts(tmp_path / "P") == {"Makefile": "two", "link": "mine", "notes.txt": "mine"}
    assert (tmp_path / "P/link").is_symlink()


def test_files_of_ops_that_are_gone_go_unless_they_were_changed(tmp_path: Path) -> None:
    write(tmp_path, ("ops/A.cpp", "a", True), ("ops/B.cpp", "b", True), ("x/C.cpp", "c", True))
    (tmp_path / "P/ops/B.cpp").write_text("my work")
    outcome = write(tmp_path, ("Makefile", "m", False))
    assert outcome.left == ["ops/B.cpp"]
    assert texts(tmp_path / "P") == {"Makefile": "m", "ops/B.cpp.old": "my work"}
    assert not (tmp_path / "P/x").exists()


def test_what_is_already_there_counts_as_the_users_if_nothing_tells_otherwise(tmp_path: Path) -> None:
    (tmp_path / "P").mkdir()
    (tmp_path / "P/A.cpp").write_text("mine")
    (tmp_path / "P/.xdlc-udo.json").write_text('{"files": [')
    assert write(tmp_path, ("A.cpp", "skeleton", True)).kept == ["A.cpp"]


@pytest.mark.parametrize(
    ("folder", "problem"), [("file/x", "is a file, not a folder"), ("link", "is a broken link")]
)
def test_a_place_that_is_no_folder_is_told(tmp_path: Path, folder: str, problem: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nothing")
    with pytest.raises(UsageError, match=problem) as caught:
        write_packages(tmp_path / folder, [("P", [])], force=True)
    assert caught.value.where == str(tmp_path / folder.split("/")[0])


def test_a_hostile_manifest_removes_nothing_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("x")
    (tmp_path / "P").mkdir()
    (tmp_path / "P/up").symlink_to(tmp_path)
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # of "x"
    listed = ", ".join(f'"{path}": "{digest}"' for path in ("../outside.txt", str(outside), "up/outside.txt"))
    (tmp_path / "P/.xdlc-udo.json").write_text(f'{{"files": {{{listed}}}}}')
    write(tmp_path, ("A.cpp", "skeleton", True))
    assert outside.read_text() == "x"


def test_a_link_in_a_package_is_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    write(tmp_path, ("ops/A.cpp", "one", False))
    before = texts(tmp_path / "P")
    os.rename(tmp_path / "P/ops", tmp_path / "P/moved")
    (tmp_path / "P/ops").symlink_to(outside)
    with pytest.raises(UsageError, match="inside a link"):
        write(tmp_path, ("ops/A.cpp", "two", False))
    assert list(outside.iterdir()) == []
    assert before == {"ops/A.cpp": "one"}


def test_a_package_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "P").symlink_to(tmp_path / "real")
    with pytest.raises(UsageError, match="is a link or a file"):
        write(tmp_path, ("A.cpp", "one", False))


def test_all_packages_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "out", ("A.cpp", "one", False))
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        if target.name == "Q":
            raise OSError(28, "No space left on device", str(target))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    packages = [(name, [Rendered("A.cpp", b"two")]) for name in ("P", "Q")]
    with pytest.raises(StorageError, match="No space left"):
        write_packages(tmp_path / "out", packages, force=True)
    assert texts(tmp_path / "out") == {
        "P/A.cpp": "one",
        "P/.xdlc-udo.json": (tmp_path / "out/P/.xdlc-udo.json").read_text(),
    }
    assert os.listdir(tmp_path / "out") == ["P"]
