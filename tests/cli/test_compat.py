import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from xdlc.cli.tools import compat
from xdlc.cli.vendor_flags import vendor_tools


def invoke(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(compat.main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def test_launchers_call_the_tools(tmp_path: Path) -> None:
    invoke("install", tmp_path / "a b")
    assert {path.name for path in (tmp_path / "a b").iterdir()} == set(vendor_tools())
    words = [tmp_path / "a b" / "snpe-net-run", "--container", "x y.dlc", "--input_list", "l", "--use_dsp"]
    for start in ([], [sys.executable]):
        done = subprocess.run([*start, *words], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 8
        assert done.stderr.startswith("xdlc snpe-net-run: error[XD801]: x y.dlc")


def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "snpe-dlc-info").write_text("#!/bin/sh\n")
    out = invoke("install", tmp_path, "--tools", "snpe-dlc-info,snpe-net-run,snpe-netrun", code=2)
    assert "nearest: snpe-net-run" in out
    assert [path.name for path in tmp_path.iterdir()] == ["snpe-dlc-info"]
    invoke("install", tmp_path, "--tools", "snpe-dlc-info", "--force", code=2)
    assert (tmp_path / "snpe-dlc-info").read_text() == "#!/bin/sh\n"


def test_a_full_disk_leaves_no_part_of_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        invoke("install", tmp_path, "--tools", "snpe-net-run", code=8)
    assert not [*tmp_path.iterdir()]
    invoke("install", tmp_path, "--tools", "snpe-net-run")


def test_launchers_of_another_python_are_replaced_on_request(tmp_path: Path) -> None:
    invoke("install", tmp_path, "--tools", "snpe-net-run")
    path = tmp_path / "snpe-net-run"
    ours = path.read_text()
    path.write_text(ours.replace("-P", "-I"))
    assert "--force" in invoke("install", tmp_path, "--tools", "snpe-net-run", code=2)
    invoke("install", tmp_path, "--tools", "snpe-net-run", "--force")
    assert path.read_text() == ours


def test_lists_of_flags() -> None:
    for name, tool in vendor_tools().items():
        assert str(tool or "no counterpart") in invoke("flags", name)
    assert "nearest" in invoke("flags", "snpe-netrun", code=2)


def test_an_unknown_flag_names_the_list_of_flags() -> None:
    from xdlc.cli.main import main

    result = CliRunner().invoke(main, ["snpe-net-run", "--bogus"])
    assert "fix: see `xdlc compat flags snpe-net-run`" in result.stderr


def test_flags_that_work_have_their_names_in_xdlc() -> None:
    lines = [line.split() for line in invoke("flags", "snpe-net-run").splitlines()]
    assert ["--container", "works", "--input"] in lines


def test_one_flag_has_a_line_for_the_tools_that_share_it() -> None:
    assert invoke("flags", "snpe-net-run", "--perf-profile").split()[:2] == ["--perf_profile", "ignored"]
    lines = invoke("flags", "--input_list").splitlines()
    assert [line.split()[1] for line in lines] == ["refused", "becomes", "works"]
    assert "snpe-net-run" in lines[-1]
    assert "nearest: --input-list" in invoke("flags", "--input_lists", code=2)


@pytest.mark.parametrize(
    ("flag", "fix", "tool"),
    [("--input_log", "--profiling_level", "snpe-diagview"), ("--fixed_fps", "xdlc run", "snpe-parallel-run")],
)
def test_a_flag_of_a_tool_without_a_counterpart_says_what_to_use(flag: str, fix: str, tool: str) -> None:
    (line,) = invoke("flags", flag).splitlines()
    assert line.split()[:2] == [flag, "refused"]
    assert fix in line
    assert tool in line
    assert "no flag" in invoke("flags", "snpe-net-run", flag, code=2)
