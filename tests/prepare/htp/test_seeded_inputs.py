"""Seeded inputs of graphs that strangers made."""

import numpy as np
import pytest

from xdlc.ir import Graph, Tensor, i32, make_op, static
from xdlc.ir import dtype as dt
from xdlc.prepare.htp.verify import NoInputError, seeded


def indices(depth: int, rows: int) -> Graph:
    """Return a graph that gathers by an input, which has two ways at each step."""
    graph = Graph("g")
    tensor = graph.add_input(Tensor("i", (1,), dt.INT32))
    for step in range(depth):
        ways = [Tensor(f"{way}{step}", tensor.shape, dt.INT32) for way in "ab"]
        for way in ways:
            graph.append(make_op(graph, "Reshape", [tensor], [way], name=f"op_{way.name}"))
        joined = Tensor(f"c{step}", (2 * tensor.shape[0],), dt.INT32)
        graph.append(make_op(graph, "Concat", ways, [joined], {"axis": i32(0)}, name=f"join{step}"))
        tensor = Tensor(f"s{step}", (1,), dt.INT32)
        graph.append(make_op(graph, "Reshape", [joined], [tensor], name=f"first{step}"))
    table, result = static("t", np.zeros((rows, 3), "f4")), Tensor("y", (1, 3), dt.FLOAT32)
    graph.append(make_op(graph, "Gather", [table, tensor], [result], {"axis": i32(0)}, name="gather"))
    graph.add_output(result)
    return graph


@pytest.mark.parametrize("depth", [0, 2000])
def test_indices_are_bounded_by_a_table_at_any_distance(depth: int) -> None:
    assert seeded(indices(depth, 1))["i"].max() == 0


def test_indices_of_an_empty_table_are_made() -> None:
    assert seeded(indices(0, 0))["i"].max() == 0


def test_inputs_beyond_the_memory_are_not_made() -> None:
    graph = Graph("g")
    graph.add_input(Tensor("x", (1 << 20, 1 << 20), dt.FLOAT32))
    with pytest.raises(NoInputError):
        seeded(graph)
