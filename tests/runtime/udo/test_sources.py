"""Paths of libraries and Python files as users give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdlc.errors import UsageError
from xdlc.runtime.udo.sources import paths_of, sources_of


@pytest.mark.parametrize("given", ["", ",", "a.so,", "a.so,,b.so", " ", ["a.so", ""]])
def test_empty_names(given: str | list[str]) -> None:
    with pytest.raises(UsageError, match="has an empty name") as caught:
        paths_of(given)
    assert "remove the empty name" in str(caught.value.fix)


def test_blanks_around_names_and_commas_in_them(tmp_path: Path) -> None:
    assert paths_of(" a.so , b.py\n") == ["a.so", "b.py"]
    path = tmp_path / "a,b.py"
    path.touch()
    assert paths_of(str(path)) == [str(path)]


def test_what_is_no_file(tmp_path: Path) -> None:
    built = tmp_path / "Pkg/libs/x86-64_linux_clang"
    built.mkdir(parents=True)
    (built / "libUdoPkgReg.so").touch()
    (tmp_path / "Pkg/.xdlc-udo.json").touch()  # the generator's own notes
    (tmp_path / "empty").mkdir()
    (tmp_path / "ops.py").touch()
    for path, problem, fix in [
        (tmp_path / "Pkg", "is a folder", f"give {built}/libUdoPkgReg.so"),
        (tmp_path / "empty", "is a folder", "pass the path of a registration library"),
        (Path("/dev/null"), "is not a regular file", "pass the path of a registration library"),
        (
            tmp_path / ("n" * 300),
            "cannot be read: File name too long",
            "pass the path of a registration library",
        ),
        (tmp_path / "nul\0", "the file does not exist", "pass the path of a registration library"),
        (tmp_path / "ops.py:Scale", "the file does not exist", "pass only the file, ops.py: xdlc"),
    ]:
        with pytest.raises(UsageError) as caught:
            sources_of([path])
        assert (caught.value.problem, caught.value.where) == (problem, str(path))
        assert str(caught.value.fix).startswith(fix)
