"""Requests to the child process when an operation runs again or reshaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.udo.udo_graphs import custom_graph
from tests.support.compilers import needs_cc
from xdlc.ir import Graph, f32
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels
from xdlc.worker.process import Process

RNG = np.random.default_rng(5)
DATA = """\
import numpy as np
from xdlc.udo import kernel
@kernel("Math", "Scale")
def nonzero(inputs, params, outputs):
    assert outputs[0].shape == (None, 3)
    return inputs[0][inputs[0][:, 0] > 0]
"""


def real(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def asked(
    kernels: Kernels, graph: Graph, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> list[list[str]]:
    """Return what a child is asked to do in each run."""
    session = CpuSession(graph, kernels=kernels)
    requests: list[list[str]] = []
    ask = Process.ask

    def counted(self: Process, request: dict[str, Any], *rest: Any, **more: Any) -> dict[str, Any]:
        requests[-1].append(request["do"])
        return ask(self, request, *rest, **more)

    monkeypatch.setattr(Process, "ask", counted)
    for x, expected in runs:
        requests.append([])
        np.testing.assert_array_equal(session.run({"x0": x})["y"], expected)
    return requests


@needs_cc
def test_a_run_is_one_message_while_shapes_stay(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = custom_graph("Grow", {"factor": f32(1)}, open_axes=(0,), output=(4, 3))
    given = [real(rows, 3) for rows in (2, 2, 2, 2000, 2000)]
    with Kernels(library) as kernels:
        made = asked(kernels, graph, [(x, np.concatenate([x, x])) for x in given], monkeypatch)
        assert made[1] == made[2] == made[4] == ["run"]
        assert made[3] == ["share", "inputs", "share", "outputs", "run"]


def test_results_of_shapes_that_only_values_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.py").write_text(DATA)
    graph = custom_graph("Scale", open_axes=(0,), shape=(4, 3))
    signs = [[1, 1, -1, -1], [-1, 1, 1, -1], [1, 1, 1, 1], [-1] * 4, [-1] * 4]
    given = [np.outer(sign, [1, 2, 3]).astype(np.float32) for sign in signs]
    with Kernels(tmp_path / "data.py") as kernels:
        made = asked(kernels, graph, [(x, x[x[:, 0] > 0]) for x in given], monkeypatch)
        assert made[1:] == [["run"], ["run", "collect"], ["run", "collect"], ["run"]]


@needs_cc
def test_ops_whose_memory_has_grown_since_they_ran(library: Path) -> None:
    with Kernels(library) as kernels:
        small, large = (
            CpuSession(custom_graph("Scale", {"factor": f32(2)}, shape=(rows, 3)), kernels=kernels)
            for rows in (2, 20000)
        )
        for session, rows in ((small, 2), (large, 20000), (small, 2)):
            x = real(rows, 3)
            np.testing.assert_array_equal(session.run({"x0": x})["y"], x * np.float32(2))
