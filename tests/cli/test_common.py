from __future__ import annotations

import io
import logging
import signal
import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from xdlc import __version__
from xdlc.cli import common
from xdlc.cli.main import main
from xdlc.errors import ContainerError, ModelError, ProblemList, StorageError, UsageError, XdlcError

TOOLS = (
    "xconv-onnx-to-dlc",
    "xdlc-quant",
    "xdlc-quantize",
    "xdlc-graph-prepare",
    "xdlc-info",
    "xdlc-net-run",
    "xdlc-to-onnx",
    "xdlc-platform-check",
    "xdlc-udo-config",
    "xdlc-udo-package-generator",
    "xdlc",
)
HEAVY = {"numpy", "onnx", "onnxruntime", "tqdm", "lxml", "ml_dtypes", "flatbuffers", "google.protobuf"}


def raising(error: BaseException) -> common.Tool:
    @common.tool("x")
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    "error",
    [
        UsageError("bad value"),
        ContainerError("bad entry", where="a.dlc"),
        ProblemList([ModelError("one"), UsageError("two")], where="m.onnx"),
        StorageError("disk full", fix="free some space"),
    ],
)
def test_xdlc_errors_give_their_text_and_exit_code(error: XdlcError) -> None:
    result = CliRunner().invoke(raising(error))
    assert result.exit_code == error.exit_code
    assert result.stderr == f"x: error: {error}\n"
    assert result.stdout == ""


def test_interrupt() -> None:
    result = CliRunner().invoke(raising(KeyboardInterrupt()))
    assert result.exit_code == 130
    assert result.stderr == "x: interrupted\n"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_tool_that_is_stopped_cleans_up(number: signal.Signals) -> None:
    cleaned = []

    @common.tool("x")
    def stopped() -> None:
        try:
            signal.raise_signal(number)
        finally:
            cleaned.append(True)

    held = signal.signal(number, signal.SIG_DFL)
    try:
        result = CliRunner().invoke(stopped)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, held)
    assert cleaned == [True]
    assert result.exit_code == 128 + number
    assert result.stderr == f"x: stopped by {number.name}\n"


def test_lack_of_memory_is_no_bug() -> None:
    result = CliRunner().invoke(raising(MemoryError("no room for 11 GiB")))
    assert result.exit_code == 7
    assert result.stderr == "x: error: not enough memory: no room for 11 GiB\n"


def test_bug_is_called_a_bug() -> None:
    result = CliRunner().invoke(raising(KeyError("lost")))
    assert result.exit_code == 70
    assert "internal error: KeyError: 'lost'" in result.stderr
    assert "report it" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback() -> None:
    for error in (KeyError("lost"), UsageError("bad value")):
        result = CliRunner().invoke(raising(error), ["--debug"])
        assert "Traceback (most recent call last)" in result.stderr


@pytest.mark.parametrize(("flags", "seen"), [([], "w"), (["--verbose"], "diw"), (["--quiet"], "")])
def test_logs_go_to_stderr(flags: list[str], seen: str) -> None:
    @common.tool("x")
    def command() -> None:
        logger = logging.getLogger("xdlc.part")
        logger.debug("d")
        logger.info("i")
        logger.warning("w")

    result = CliRunner().invoke(command, flags)
    assert "".join(line[-1] for line in result.stderr.split("\n")[:-1]) == seen
    assert result.stdout == ""


def test_progress_is_silent_off_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    @common.tool("x")
    def command() -> None:
        with common.progress("running", "item", 3) as progress:
            progress(1)

    command.main([], standalone_mode=False)
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("wait", "drawn"), [(0.0, False), (1.2, True)])
def test_progress_draws_after_a_second(monkeypatch: pytest.MonkeyPatch, wait: float, drawn: bool) -> None:
    import time

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    @common.tool("x")
    def command() -> None:
        with common.progress("running", "item", 3) as progress:
            progress(1)
            time.sleep(wait)
            progress(2)

    command.main([], standalone_mode=False)
    assert ("running" in terminal.getvalue()) is drawn


def test_outcomes_are_drawn_with_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    collected = {}

    @common.tool("x")
    def command() -> None:
        with common.outcomes("compiling", "SoC", 3) as (tell, found):
            tell("a", "started")
            tell("b", "started")
            tell("b", "failed")
            tell("c", "kept")
        collected.update(found)

    command.main([], standalone_mode=False)
    assert collected == {"b": "failed", "c": "kept"}
    drawn = terminal.getvalue().split("\r")
    assert any("1/3" in line and "b failed; a under way" in line for line in drawn)
    assert any("2/3" in line and "c kept; a under way" in line for line in drawn)


def test_dims_by_name() -> None:
    @click.command()
    @click.option("-d", "dims", type=(str, str), multiple=True, callback=common.dims_by_name)
    def command(dims: dict[str, tuple[int, ...]]) -> None:
        click.echo(dims)

    assert (
        CliRunner().invoke(command, ["-d", "x", "1,3", "-d", "y:0", "7"]).output
        == "{'x': (1, 3), 'y:0': (7,)}\n"
    )
    for wrong in (
        ["-d", "x", "1,three"],
        ["-d", "x", "-1"],
        ["-d", "x", "1", "-d", "x", "2"],
        ["-d", "x", ""],
        ["-d", "x", "1,٣"],
    ):
        assert CliRunner().invoke(command, wrong).exit_code == 2


def test_distinct_names() -> None:
    @click.command()
    @click.option("-n", "found", multiple=True, callback=common.distinct_names)
    def command(found: tuple[str, ...]) -> None:
        click.echo(found)

    assert CliRunner().invoke(command, ["-n", "a,b", "-n", "c"]).output == "('a', 'b', 'c')\n"
    for wrong in (["-n", "a,a"], ["-n", "a", "-n", "a"], ["-n", ""], ["-n", "a,"]):
        assert CliRunner().invoke(command, wrong).exit_code == 2


def test_check_target(tmp_path: Path) -> None:
    assert common.check_target(tmp_path / "a.dlc") == tmp_path / "a.dlc"
    with pytest.raises(StorageError, match="folder does not exist"):
        common.check_target(tmp_path / "none" / "a.dlc")
    with pytest.raises(StorageError, match="is a folder"):
        common.check_target(tmp_path)
    (tmp_path / "a.dlc").touch()
    assert common.check_target(tmp_path / "a.dlc", keep=tmp_path / "b.dlc") == tmp_path / "a.dlc"
    with pytest.raises(UsageError, match="would replace the input"):
        common.check_target(tmp_path / "a.dlc", keep=tmp_path / "." / "a.dlc")


def test_group_lists_and_resolves() -> None:
    listed = CliRunner().invoke(main, ["--help"])
    assert listed.exit_code == 0
    for name in ("onnx-to-dlc", "quant", "graph-prepare", "info", "net-run", "to-onnx", "platform-check"):
        assert f"  {name} " in listed.output
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0
    assert CliRunner().invoke(main, ["convert", "--help"]).exit_code == 0
    wrong = CliRunner().invoke(main, ["quantt"])
    assert wrong.exit_code == 2
    assert "nearest: quant" in wrong.output


def test_scripts_are_the_commands() -> None:
    scripts = {e.name: e for e in entry_points(group="console_scripts") if e.value.startswith("xdlc.")}
    assert set(scripts) == set(TOOLS)
    for name, entry in scripts.items():
        command = entry.load()
        assert command.name == name
        assert command.callback.__doc__


@pytest.mark.parametrize("name", TOOLS)
def test_version(name: str) -> None:
    (entry,) = entry_points(group="console_scripts", name=name)
    result = CliRunner().invoke(entry.load(), ["--version"], prog_name=name)
    assert result.output == f"{name} {__version__}\n"


def modules_of(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", TOOLS)
def test_help_loads_next_to_nothing(name: str) -> None:
    (entry,) = entry_points(group="console_scripts", name=name)
    module, _, attribute = entry.value.partition(":")
    asked = (
        "import io, contextlib\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    from {module} import {attribute}\n"
        f"    {attribute}(['--help'], standalone_mode=False)"
    )
    loaded = modules_of(asked) - modules_of("import click")
    assert not loaded & HEAVY
    assert len(loaded) < 80, sorted(loaded)


def test_a_warning_reads_like_an_error():
    @common.tool("warns")
    def warns():
        warnings.warn("mind \x1b[31mthis\n  fix: mend it", stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = CliRunner().invoke(warns, [])
    assert result.exit_code == 0
    assert result.stderr == "warns: warning: mind \\x1b[31mthis\n  fix: mend it\n"
