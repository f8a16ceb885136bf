import logging
import signal
import warnings

import pytest
from click.testing import CliRunner

from xdlc.cli.tool import Tool, tool
from xdlc.errors import ContainerError, ModelError, ProblemList, StorageError, UsageError, XdlcError


def raising(error: BaseException) -> Tool:
    @tool("x")
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
    assert result.stderr == f"x: error[{error.code}]: {error}\n"
    assert result.stdout == ""


def test_a_tool_with_codes_of_its_own_ends_with_the_highest_after_each_error() -> None:
    @tool("x", codes={0: "equal", 1: "different", 2: "error"})
    def command() -> None:
        raise ContainerError("bad entry", where="a.dlc")

    assert CliRunner().invoke(command).exit_code == 2
    assert CliRunner().invoke(command, ["--no-such-flag"]).exit_code == 2
    help_text = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert "Exit codes: 0 equal, 1 different, 2 error, 70 bug" in help_text


def test_interrupt() -> None:
    result = CliRunner().invoke(raising(KeyboardInterrupt()))
    assert result.exit_code == 130
    assert result.stderr == "x: interrupted\n"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_tool_that_is_stopped_cleans_up(number: signal.Signals) -> None:
    cleaned = []

    @tool("x")
    def stopped() -> None:
        try:
            signal.raise_signal(number)
        finally:
            cleaned.append(True)

    handler = signal.signal(number, signal.SIG_DFL)
    try:
        result = CliRunner().invoke(stopped)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, handler)
    assert cleaned == [True]
    assert result.exit_code == 128 + number
    assert result.stderr == f"x: stopped by {number.name}\n"


def test_lack_of_memory_is_no_bug() -> None:
    result = CliRunner().invoke(raising(MemoryError("no room for 11 GiB")))
    assert result.exit_code == 7
    assert result.stderr == "x: error[XD700]: not enough memory: no room for 11 GiB\n"


def test_bug_is_called_a_bug() -> None:
    result = CliRunner().invoke(raising(KeyError("lost")))
    assert result.exit_code == 70
    assert "internal error: KeyError: 'lost'" in result.stderr
    assert "report this bug" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback() -> None:
    for error in (KeyError("lost"), UsageError("bad value")):
        result = CliRunner().invoke(raising(error), ["--debug"])
        assert "Traceback (most recent call last)" in result.stderr


@pytest.mark.parametrize(("flags", "seen"), [([], "w"), (["--verbose"], "diw"), (["--quiet"], "")])
def test_logs_go_to_stderr(flags: list[str], seen: str) -> None:
    @tool("x")
    def command() -> None:
        logger = logging.getLogger("xdlc.part")
        logger.debug("d")
        logger.info("i")
        logger.warning("w")

    result = CliRunner().invoke(command, flags)
    assert "".join(line[-1] for line in result.stderr.split("\n")[:-1]) == seen
    assert result.stdout == ""


def test_a_warning_reads_like_an_error():
    @tool("warns")
    def warns():
        warnings.warn("mind \x1b[31mthis\n  fix: mend it", stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = CliRunner().invoke(warns, [])
    assert result.exit_code == 0
    assert result.stderr == "warns: warning: mind \\x1b[31mthis\n  fix: mend it\n"
