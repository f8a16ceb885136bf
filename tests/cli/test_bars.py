from __future__ import annotations

import io
import sys

import pytest

from xdlc.cli import bars
from xdlc.cli.tool import tool


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_silent_off_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool("x")
    def command() -> None:
        with bars.progress("running", "item", 3) as progress:
            progress(1)

    command.main([], standalone_mode=False)
    monkeypatch.setattr(sys, "stderr", None)  # as daemons have it
    command.main([], standalone_mode=False)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("wait", "drawn"), [(0.0, False), (1.2, True)])
def test_progress_draws_after_a_second(monkeypatch: pytest.MonkeyPatch, wait: float, drawn: bool) -> None:
    import time

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    @tool("x")
    def command() -> None:
        with bars.progress("running", "item", 3) as progress:
            progress(1)
            time.sleep(wait)
            progress(2)

    command.main([], standalone_mode=False)
    assert ("running" in terminal.getvalue()) is drawn


def test_outcomes_are_drawn_with_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    collected = {}

    @tool("x")
    def command() -> None:
        with bars.outcomes("compiling", "SoC", 3) as (tell, found):
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
