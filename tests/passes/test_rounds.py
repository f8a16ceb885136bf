"""Rounds of passes: each sees the last change, and none runs without need."""

import pytest

from xdlc.errors import ModelError
from xdlc.ir import Graph
from xdlc.passes import Pass, run


def _counted(changes):
    """Return passes that change the graph so often, and the names of those that ran."""
    ran = []

    def one(name, left):
        def rewrite(_graph):
            ran.append(name)
            left[0] -= 1
            return left[0] >= 0

        return Pass(name, rewrite, "converter")

    return [one(name, [count]) for name, count in changes.items()], ran


@pytest.mark.parametrize(
    ("changes", "ran"),
    [
        ({"a": 0, "b": 0, "c": 0}, "abc"),
        ({"a": 1, "b": 0, "c": 0}, "abca"),
        ({"a": 0, "b": 2, "c": 0}, "abcabcab"),
        ({"a": 1, "b": 0, "c": 1}, "abcabc"),
    ],
)
def test_passes_stop_when_all_have_seen_the_last_change(changes, ran):
    passes, names = _counted(changes)
    assert run(Graph("g"), passes) == any(changes.values())
    assert "".join(names) == ran


def test_passes_that_always_change_something_are_a_bug():
    passes, _ = _counted({"a": 1000})
    with pytest.raises(ModelError):
        run(Graph("g"), passes)
