"""Automatic sections have the most layers on HTA, and orders the fewest changes."""

from itertools import pairwise, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdlc.container.aip_record import Engine
from xdlc.errors import ProblemList, UsageError, each_problem
from xdlc.ir import Graph, Op, Tensor, make_op
from xdlc.ir.dtype import UFIXED8
from xdlc.prepare.hta.partitioner import Range, automatic, by_hand, fewest_changes, ops_in, parse_ranges
from xdlc.runtime.htp_fusion import Bond


def chain(sizes, skips=()):
    """Return a chain of ops, some of which read an earlier one too."""
    graph = Graph("g")
    last = graph.add_input(Tensor("x", (1, 1), UFIXED8))
    for index, size in enumerate(sizes):
        extra = [graph.tensors[f"t{source}"] for source, reader in skips if reader == index]
        out = Tensor(f"t{index}", (1, size), UFIXED8)
        graph.append(make_op(graph, "ElementWiseNeuron", [last, *extra], [out], name=f"op{index}"))
        last = out
    graph.add_output(last)
    return graph


@settings(max_examples=150, deadline=None)
@given(data=st.data(), count=st.integers(1, 8))
def test_no_division_has_more_layers_on_hta(data, count):
    ops = list(chain([1] * count).ops)
    accepted = data.draw(st.sets(st.sampled_from(ops)))
    tied = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=2))
    tied = [sorted(pair) for pair in tied]
    runs = automatic(ops, accepted, [Bond(ops[first], ops[last], True, False) for first, last in tied])
    assert [op for run in runs for op in run.ops] == ops
    assert all(run.engine is not following.engine for run, following in pairwise(runs))

    def is_allowed(engines):
        legal = all(engine is Engine.HNN or op in accepted for op, engine in zip(ops, engines, strict=True))
        return legal and all(len(set(engines[first : last + 1])) == 1 for first, last in tied)

    chosen = tuple(run.engine for run in runs for _ in run.ops)
    assert is_allowed(chosen)
    assert chosen.count(Engine.HTA) == max(
        engines.count(Engine.HTA) for engines in product(Engine, repeat=count) if is_allowed(engines)
    )


def test_ranges_that_touch_stay_apart():
    graph = chain([1, 1, 1, 1])
    ops = list(graph.ops)
    runs = by_hand(ops, [ops[:1], ops[1:3]])
    assert [(run.engine, len(run.ops)) for run in runs] == [(Engine.HTA, 1), (Engine.HTA, 2), (Engine.HNN, 1)]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(1, 6))
def test_no_order_changes_engines_less_often(data, count):
    pairs = [(first, second) for first in range(count) for second in range(first + 2, count)]
    graph = chain([1] * count, data.draw(st.sets(st.sampled_from(pairs))) if pairs else ())
    ops = list(graph.ops)
    for op in ops[1:]:  # no chain: the readers of some ops are those of the pairs alone
        if data.draw(st.booleans()):
            graph.set_inputs(op, [*op.inputs[1:], graph.inputs[0]])
    on_hta = data.draw(st.sets(st.sampled_from(ops)))

    def changes(order):
        return sum((first in on_hta) != (second in on_hta) for first, second in pairwise(order))

    def is_order(layers):
        return all(layers.index(op) < layers.index(r) for op in ops for r in graph.consumers(op.outputs[0]))

    layers = fewest_changes(graph, ops, on_hta, [])
    assert is_order(layers)
    assert changes(layers) == min(changes(order) for order in permutations(ops) if is_order(order))


def problems(text):
    with pytest.raises((UsageError, ProblemList)) as caught:
        parse_ranges(text)
    assert caught.value.exit_code == 2
    return "\n".join(map(str, each_problem(caught.value)))


def test_a_list_of_ranges():
    assert parse_ranges("0-11,177-215") == (Range(0, 11), Range(177, 215))
    assert parse_ranges(" 5 - 5 ") == (Range(5, 5),)
    assert parse_ranges("0-3,4-7") == (Range(0, 3), Range(4, 7))


@pytest.mark.parametrize("text", ["", "a-b", "1-2-3", "-3-5", "1-", "0-1,,2-3", "1.5-2", "0x1-2", "1–2"])  # noqa: RUF001
def test_what_is_no_range(text):
    assert "is not a range of layer ids like 0-11" in problems(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0-3,7", "fix: write 7-7"),
        ("11-3", "the range 11-3 is reversed"),
        ("0-5,4-9", "the ranges 0-5 and 4-9 overlap in layers 4-5"),
        ("0-5,5-9", "overlap in layer 5"),
        ("0-9,2-3", "overlap in layers 2-3"),
        ("5-7,0-3", "the range 0-3 follows 5-7"),
    ],
)
def test_ranges_that_divide_no_network(text, problem):
    assert problem in problems(text)


def test_all_problems_at_once():
    found = problems("0-5,x,9-7,4-6")
    for part in ("'x' is not a range", "9-7 is reversed", "0-5 and 4-6 overlap", "4-6 follows 7-9"):
        assert part in found


def test_ops_of_ranges():
    ops = [Op("Relu", [], [], name=str(number)) for number in range(4)]
    ids = dict(zip(ops, (1, 2, 2, 5), strict=True))
    assert ops_in(parse_ranges("0-2,5-5"), ids) == [tuple(ops[:3]), (ops[3],)]
    with pytest.raises(ProblemList) as caught:
        ops_in(parse_ranges("3-4,5-6"), ids)
    assert "the layers of range 3-4 have no operations" in str(caught.value)
    assert "the range 5-6 exceeds the last layer, 5" in str(caught.value)
