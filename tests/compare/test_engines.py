"""Values of a graph in several requests."""

from collections.abc import Mapping, Sequence

import numpy as np

from xdlc.compare.engines import Progress

NODES = [(["x"], ["a"]), (["a"], ["b"]), (["b", "a"], ["c"]), (["c", "x"], ["d"]), (["c"], ["unused"])]


class _Runs:
    """Sums of what nodes read, and one; counts the nodes."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.progress = Progress(NODES)

    def values(self, names: Sequence[str], sample: int = 0, value: float = 1.0) -> list[float]:
        results = self.progress.values({"x": np.full(1, value)}, names, sample, self._run)
        return [float(results[name][0]) for name in names]

    def _run(
        self, numbers: tuple[int, ...], feeds: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> dict[str, np.ndarray]:
        values = dict(feeds)
        for number in numbers:
            reads, (result,) = NODES[number]
            values[result] = sum((values[name] for name in reads), np.ones(1))
            self.ran.append(number)
        return {name: values[name] for name in names}


def test_later_requests_continue() -> None:
    runs = _Runs()
    assert runs.values(["a"]) + runs.values(["b"]) + runs.values(["d"]) == [2.0, 3.0, 8.0]
    assert runs.ran == [0, 1, 2, 3]


def test_values_that_later_nodes_read_are_kept() -> None:
    runs = _Runs()
    runs.values(["c"])
    assert runs.values(["c", "d"]) == [6.0, 8.0]
    assert runs.ran == [0, 1, 2, 3]


def test_request_for_values_that_are_gone_starts_anew() -> None:
    runs = _Runs()
    runs.values(["d"])
    assert runs.values(["b"]) == [3.0]
    assert runs.ran == [0, 1, 2, 3, 0, 1]


def test_samples_are_apart_and_other_feeds_start_anew() -> None:
    runs = _Runs()
    assert [runs.values(["a"], sample, value) for sample, value in ((0, 1.0), (1, 2.0))] == [[2.0], [3.0]]
    assert runs.values(["b"], 0, 5.0) == [7.0]
    assert runs.values(["b"], 1, 2.0) == [4.0]
    assert runs.ran == [0, 0, 0, 1, 1]
