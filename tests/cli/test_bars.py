from __future__ import annotations

import contextlib
import io
import os
import sys
import time

import pytest

from xdlc.cli import bars
from xdlc.cli.tool import notice, tool


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_silent_off_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool("x")
    def command() -> None:
        with bars.steps("running") as step:
            step("running", 1, 3)

    command.main([], standalone_mode=False)
    monkeypatch.setattr(sys, "stderr", None)  # as daemons have it
    command.main([], standalone_mode=False)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("late", [False, True])
def test_progress_is_drawn_after_a_while_and_moves_on(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(bars, "DELAY", 0.1 if late else 60.0)
    monkeypatch.setattr(bars, "REDRAWN", 0.05)

    @tool("x")
    def command() -> None:
        with bars.steps("reading") as step:
            time.sleep(0.3)
            step("running", 1, 3)
            time.sleep(0.2)
            notice("a word")
            step("running", 2, 3)

    command.main([], standalone_mode=False)
    drawn = terminal.getvalue()
    assert ("reading [00:00" in drawn, "running:  33%" in drawn) == (late, late)
    assert "notice: a word\n" in drawn
    assert not late or drawn.split("\r")[-1].strip() == "", "the line is gone in the end"
    assert late or drawn == "notice: a word\n"


def test_progress_is_drawn_in_a_terminal_that_states_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty")
    monkeypatch.setattr(bars, "DELAY", 0)
    reader, writer = pty.openpty()  # 0 columns, 0 rows, as recorders and CI have it

    @tool("x")
    def command() -> None:
        with bars.steps("reading") as step:
            step("reading", 1, 3)
            time.sleep(0.15)
            step("reading", 2, 3)

    with open(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        command.main([], standalone_mode=False)
    drawn = b""
    with contextlib.suppress(OSError):  # at the end, as terminals have it
        while piece := os.read(reader, 1000):
            drawn += piece
    os.close(reader)
    assert b"reading" in drawn
