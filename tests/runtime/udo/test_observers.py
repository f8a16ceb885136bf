"""Observers of a graph see the values of users' operations, whoever reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.udo.udo_graphs import between_relus, custom_graph
from xdlc.ir import Graph, Tensor, f32, make_op, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.lower import Lowered
from xdlc.runtime.udo import Kernels

X = np.float32([[-1, 2, 3], [4, -5, 6]])


class Largest:
    """Takes the largest element of each tensor, in the first part that has it."""

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {}

    def refine(self, lowered: Lowered) -> None:
        for name in list(lowered.graph.tensors):
            if name not in self.seen:
                self.seen[name] = []
                (value,) = lowered.add_node("ReduceMax", [lowered.value(name, any_layout=True)], keepdims=0)
                lowered.add_output(f"largest:{name}", value, FLOAT32, ())

    def see(self, results: Mapping[str, Any]) -> None:
        for name, value in results.items():
            self.seen[name.removeprefix("largest:")].append(float(value))


def chain() -> Graph:
    """Return ``y`` from three users' ops in a row; the second has another output."""
    graph = custom_graph("Scale", {"factor": f32(2)})
    y = graph.tensors["y"]
    z, w = (Tensor(name, (2, 3), FLOAT32) for name in "zw")
    graph.append(make_op(graph, "Scale", [y], [z], {"factor": f32(3)}, package="Math"))
    graph.append(make_op(graph, "Sum", [z, y], [w], {"mode": u32(0)}, package="Math"))
    graph.add_output(w)
    return graph


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (between_relus("Scale", {"factor": f32(-2)}), {"x": 6, "before": 6, "after": 0, "y": 0}),
        (chain(), {"y": 12, "z": 36, "w": 48}),
    ],
    ids=["between", "chain"],
)
def test_every_value_is_seen_once_a_run(graph: Graph, expected: dict[str, float], python_file: Path) -> None:
    observer = Largest()
    with Kernels(python_file) as kernels:
        session = CpuSession(graph, kernels=kernels, observer=observer)
        for _ in range(2):
            results = session.run({graph.inputs[0].name: X})
    assert observer.seen == {name: [value] * 2 for name, value in expected.items()}
    assert set(results) == {tensor.name for tensor in graph.outputs}


def test_refinements_give_outputs_of_results_that_nothing_reads(python_file: Path) -> None:
    done: list[str] = []

    def refine(lowered: Lowered) -> None:
        if "w" in lowered.graph.tensors and not done:
            done.append("w")
            (value,) = lowered.add_node("ReduceMin", [lowered.value("w")], keepdims=0)
            lowered.add_output("least", value, FLOAT32, ())

    with Kernels(python_file) as kernels:
        got = CpuSession(chain(), kernels=kernels, refine=refine).run({"x0": X})
    assert got["least"] == -40
    assert got["w"].min() == -40
