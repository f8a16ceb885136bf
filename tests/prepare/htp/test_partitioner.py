"""Division of graphs into partitions, with a fake judge of what the device takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.single_ops import op_graph
from xdlc.errors import BackendError, ContainerError
from xdlc.ir import Graph, Model, Op, Tensor, make_op, static, u32
from xdlc.ir import dtype as dt
from xdlc.prepare.htp import partition_plan
from xdlc.prepare.htp.partition_plan import connected, crossings, move_later, partition, stages
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.partition_schedule import partition_graph, schedule
from xdlc.runtime.htp.session import emulated_partitions

ADD = 0


def build(wiring: list[tuple[int, int]]) -> Graph:
    """Return a graph of int32 sums; value 0 is the input, i + 1 that of op i."""
    graph = Graph("g")
    values = [graph.add_input(Tensor("v0", (1, 4), dt.INT32))]
    for index, (left, right) in enumerate(wiring):
        value = Tensor(f"v{index + 1}", (1, 4), dt.INT32)
        sources = [values[left], values[right]]
        graph.append(
            make_op(graph, "ElementWiseBinary", sources, [value], {"operation": u32(ADD)}, name=f"op{index}")
        )
        values.append(value)
    for value in values[1:]:
        if not graph.consumers(value):
            graph.add_output(value)
    return graph


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, set[str]]:
    """Return a graph and the names of ops that the device takes."""
    count = draw(st.integers(1, 14))
    wiring = [(draw(st.integers(0, i)), draw(st.integers(0, i))) for i in range(count)]
    taken = {f"op{i}" for i in range(count) if draw(st.booleans())}
    return build(wiring), taken


def grouped(graph: Graph, taken: set[str]) -> dict[str, list[str]]:
    ops = {op for op in graph.ops if op.name in taken}
    numbers = stages(graph, ops)
    move_later(graph, numbers)
    assert set(numbers) == ops
    partitions: dict[str, list[str]] = {}
    for number in sorted(set(numbers.values())):
        partitions[f"partition{number}"] = [op.name for op in graph.ops if numbers.get(op) == number]
    return partitions


def reaches(graph: Graph) -> dict[Op, set[Op]]:
    """Return the ops behind each op."""
    behind: dict[Op, set[Op]] = {}
    for op in reversed(list(graph.ops)):
        readers = {reader for tensor in op.outputs for reader in graph.consumers(tensor)}
        behind[op] = readers.union(*(behind[reader] for reader in readers))
    return behind


def parted(graph: Graph, taken: Collection[Op]) -> tuple[dict[Op, int], list[Op]]:
    """Return the numbers of the ops of a lone graph, and those that do not pay off."""
    numbers = partition({graph: taken})[graph]
    return numbers, [op for op in graph.ops if op in taken and op not in numbers]


class OnCpu:
    """Stands in for the emulation: runs the partitions on the CPU."""

    def __init__(self, graph: Graph, partitions: Mapping[str, list[str]]) -> None:
        self.sessions = {
            name: CpuSession(partition_graph(graph, ops, name)) for name, ops in partitions.items()
        }

    def run(self, feeds: Mapping[str, Any], *, native: bool, graph: str) -> dict[str, Any]:
        return self.sessions[graph].run(feeds, native=native)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_parts_are_convex_and_no_two_could_be_one(drawn: tuple[Graph, set[str]]) -> None:
    graph, taken = drawn
    partitions = grouped(graph, taken)
    assert sorted(name for names in partitions.values() for name in names) == sorted(taken)
    behind = reaches(graph)
    for names in partitions.values():
        inside = {op for op in graph.ops if op.name in names}
        for op in graph.ops:
            if op not in inside:
                comes_from = any(op in behind[member] for member in inside)
                assert not (comes_from and behind[op] & inside)
    scheduled = schedule(graph, partitions)
    assert sorted(op.name for _, ops in scheduled for op in ops) == sorted(op.name for op in graph.ops)
    done: set[Op] = set()
    for _, ops in scheduled:
        for op in ops:
            assert all(t.producer is None or t.producer in done for t in op.inputs if t is not None)
            done.add(op)
    names = list(partitions)
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            merged = {key: held for key, held in partitions.items() if key not in (first, second)}
            with pytest.raises(ContainerError, match="enters it again"):
                schedule(graph, {**merged, "both": partitions[first] + partitions[second]})


@settings(max_examples=25, deadline=None)
@given(graphs())
def test_parts_in_order_compute_what_the_graph_does(drawn: tuple[Graph, set[str]]) -> None:
    graph, taken = drawn
    partitions = grouped(graph, taken)
    x = np.array([[1, -2, 3, 5]], np.int32)
    model = Model({"g": graph})
    emulated = emulated_partitions(model, {"g": partitions}, OnCpu(graph, partitions))
    session = CpuSession(model, accelerator=emulated)
    expected = CpuSession(graph).run({"v0": x})
    found = session.run({"v0": x})
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ({}, "the cache has no output 'v1' of shape [1, 4]"),
        ({"v1": np.zeros((1, 5), np.int32)}, "but shape [1, 5]"),
    ],
)
def test_a_cache_that_gives_something_else_is_refused(results: dict[str, Any], said: str) -> None:
    class Other:
        def run(self, feeds: Mapping[str, Any], *, native: bool, graph: str) -> dict[str, Any]:
            return results

    model = Model({"g": build([(0, 0)])})
    session = CpuSession(model, accelerator=emulated_partitions(model, {"g": {"p": ["op0"]}}, Other()))
    with pytest.raises(BackendError) as caught:
        session.run({"v0": np.ones((1, 4), np.int32)})
    assert said in caught.value.problem
    assert caught.value.where == "graph 'p' of the cache"


def test_what_can_wait_goes_where_less_crosses() -> None:
    # op0 feeds op1, which the device does not take, and op2, which only op3 behind op1 reads
    graph = build([(0, 0), (1, 1), (1, 0), (2, 3)])
    numbers = stages(graph, {op for op in graph.ops if op.name != "op1"})
    assert {op.name: number for op, number in numbers.items()} == {"op0": 0, "op2": 0, "op3": 1}
    assert [tensor.name for tensor in crossings(graph, numbers)] == ["v1", "v3"]
    move_later(graph, numbers)
    assert {op.name: number for op, number in numbers.items()} == {"op0": 0, "op2": 1, "op3": 1}
    assert [tensor.name for tensor in crossings(graph, numbers)] == ["v1"]


def test_pieces_of_a_part_are_told_apart() -> None:
    graph = Graph("g")
    for name in "ab":
        x, y = graph.add_input(Tensor(name, (4,), dt.INT32)), Tensor(f"{name}_out", (4,), dt.INT32)
        graph.append(
            make_op(graph, "ElementWiseNeuron", [x], [y], {"operation": u32(4)}, name=f"relu_{name}")
        )
        graph.add_output(y)
    numbers = stages(graph, set(graph.ops))
    assert set(numbers.values()) == {0}
    assert [[op.name for op in component] for component in connected(graph, numbers)] == [
        ["relu_a"],
        ["relu_b"],
    ]


def test_parts_that_are_not_theirs_are_refused() -> None:
    graph = build([(0, 0), (1, 1)])
    for partitions, said in (
        ({"p": ["op9"]}, "has no op with this name"),
        ({"p": ["op0"], "q": ["op0"]}, "has this op in partition 'p'"),
    ):
        with pytest.raises(ContainerError, match=said):
            schedule(graph, partitions)
    with pytest.raises(ContainerError, match="lacks: op9"):
        partition_graph(graph, ["op0", "op9"], "p")
    with pytest.raises(ContainerError, match="no ops"):
        partition_graph(graph, [], "p")


def big(kind: str, source: Tensor, graph: Graph, name: str) -> Tensor:
    """Append an op on (64, 256): a matrix product worth going to HTP for, or a sum."""
    y = Tensor(f"{name}_out", (64, 256), dt.INT32)
    if kind == "MatMul":
        weight = static(f"{name}_w", np.ones((256, 256), np.int32))
        graph.append(make_op(graph, "MatMul", [source, weight], [y], name=name))
    else:
        params = {"operation": u32(ADD)}
        graph.append(make_op(graph, "ElementWiseBinary", [source, source], [y], params, name=name))
    return y


def chain(*kinds: str) -> Graph:
    graph = Graph("g")
    value = graph.add_input(Tensor("x", (64, 256), dt.INT32))
    for index, kind in enumerate(kinds):
        value = big(kind, value, graph, f"{kind.lower()}{index}")
    graph.add_output(value)
    return graph


def test_what_is_not_worth_the_way_goes_to_the_cpu() -> None:
    graph = chain("MatMul", "Odd", "Sum", "Odd", "MatMul")
    taken = {op for op in graph.ops if "odd" not in op.name}
    numbers, costly = parted(graph, taken)
    assert {op.name: number for op, number in numbers.items()} == {"matmul0": 0, "matmul4": 1}
    assert [op.name for op in costly] == ["sum2"]


def test_a_piece_that_is_not_worth_it_goes_from_a_part_that_is() -> None:
    graph = chain("MatMul")
    lone = graph.add_input(Tensor("lone", (64, 256), dt.INT32))
    graph.add_output(big("Sum", lone, graph, "sum"))
    numbers, costly = parted(graph, set(graph.ops))
    assert [op.name for op in numbers] == ["matmul0"]
    assert [op.name for op in costly] == ["sum"]


def test_where_nothing_is_worth_it_all_parts_stay() -> None:
    graph = chain("Sum", "Odd", "Sum")
    numbers, costly = parted(graph, {op for op in graph.ops if "odd" not in op.name})
    assert {op.name: number for op, number in numbers.items()} == {"sum0": 0, "sum2": 1}
    assert costly == []


def test_where_no_part_makes_up_for_its_start_those_stay_that_compute_most() -> None:
    graph = Graph("g")
    value = graph.add_input(Tensor("x", (1, 8), dt.INT32))
    for index, kind in enumerate(("MatMul", "Odd", "Neg", "Odd", "MatMul")):
        inputs = [value]
        if kind == "MatMul":
            inputs.append(static(f"w{index}", np.ones((8, 8), np.int32)))
        value = Tensor(f"v{index}", (1, 8), dt.INT32)
        graph.append(make_op(graph, kind, inputs, [value], name=f"{kind.lower()}{index}"))
    graph.add_output(value)
    numbers, costly = parted(graph, {op for op in graph.ops if op.type != "Odd"})
    assert {op.name: number for op, number in numbers.items()} == {"matmul0": 0, "matmul4": 1}
    assert [op.name for op in costly] == ["neg2"]


def test_many_parts_that_gain_too_little_do_not_go_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, rounds = build([(index, index) for index in range(60 * 12)]), []
    taken = {op for index, op in enumerate(graph.ops) if index % 12}
    monkeypatch.setattr(partition_plan, "stages", lambda *args: (rounds.append(args), stages(*args))[1])
    numbers, costly = parted(graph, taken)
    assert len(set(numbers.values())) == 60  # none makes up for its start, so that all stay
    assert not costly
    assert len(rounds) < 40


def test_moving_data_alone_is_never_worth_it() -> None:
    x, y = Tensor("x", (4, 4), dt.INT32), Tensor("y", (16,), dt.INT32)
    graph = op_graph("Reshape", [x], [y], name="reshape")
    numbers, costly = parted(graph, set(graph.ops))
    assert numbers == {}
    assert [op.name for op in costly] == ["reshape"]
