"""Automatic sections are worth as much as the best of all divisions."""

from itertools import pairwise, permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from xdlc.container.aip_record import Engine
from xdlc.ir import Graph, Tensor, make_op
from xdlc.ir.dtype import UFIXED8
from xdlc.prepare.hta.partitioner import WORK_OF_BYTE, WORK_OF_CROSSING, automatic, by_hand, fewest_changes
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


def worth(sizes, skips, accepted, engines):
    """Return what a division is worth, by the definition."""
    total = sum(size for size, engine in zip(sizes, engines, strict=True) if engine is Engine.HTA)
    readers = {index: [index + 1, *(r for s, r in skips if s == index)] for index in range(len(sizes))}
    readers[len(sizes) - 1] = [r for r in readers[len(sizes) - 1] if r < len(sizes)]
    for border in range(1, len(sizes)):
        if engines[border] is not engines[border - 1]:
            carried = sum(
                sizes[index] for index in range(border) if any(reader >= border for reader in readers[index])
            )
            total -= WORK_OF_CROSSING * sum(sizes) + WORK_OF_BYTE * carried
    return total


@st.composite
def cases(draw):
    count = draw(st.integers(1, 8))
    sizes = draw(st.lists(st.integers(1, 4000), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] < p[1] - 1)
    skips = draw(st.lists(pairs, max_size=2, unique=True)) if count > 2 else []
    accepted = draw(st.sets(st.integers(0, count - 1)))
    tied = draw(st.lists(pairs, max_size=1)) if count > 2 else []
    return sizes, skips, accepted, tied


@settings(max_examples=150, deadline=None)
@given(case=cases())
def test_no_division_is_worth_more(case):
    sizes, skips, accepted, tied = case
    graph = chain(sizes, skips)
    ops = list(graph.ops)
    bonds = [Bond(ops[first], ops[second], True, False) for first, second in tied]
    runs = automatic(graph, list(graph.ops), {ops[index] for index in accepted}, bonds)
    assert [op for run in runs for op in run.ops] == ops
    assert all(run.engine is not following.engine for run, following in pairwise(runs))
    chosen = [run.engine for run in runs for _ in run.ops]

    def allowed(engines):
        legal = all(engine is Engine.HNN or index in accepted for index, engine in enumerate(engines))
        return legal and all(len(set(engines[first : second + 1])) == 1 for first, second in tied)

    assert allowed(chosen)
    best = max(
        worth(sizes, skips, accepted, engines)
        for engines in product(Engine, repeat=len(ops))
        if allowed(engines)
    )
    assert abs(worth(sizes, skips, accepted, chosen) - best) <= 1e-6 * sum(sizes)


def test_a_graph_that_hta_takes_whole_is_one_section():
    graph = chain([10, 2000, 3])
    (run,) = automatic(graph, list(graph.ops), set(graph.ops), [])
    assert run.engine is Engine.HTA


def test_pieces_that_are_not_worth_their_crossings_are_left_out():
    graph = chain([9000, 2, 50, 2, 100_000])
    ops = list(graph.ops)
    runs = automatic(graph, list(graph.ops), {ops[0], ops[2], ops[4]}, [])
    # The first gives 9000 bytes, each of which costs more than it took to compute it.
    assert [(run.engine, len(run.ops)) for run in runs] == [(Engine.HNN, 4), (Engine.HTA, 1)]


def test_ranges_that_touch_stay_apart():
    graph = chain([1, 1, 1, 1])
    ops = list(graph.ops)
    runs = by_hand(ops, [ops[:1], ops[1:3]])
    assert [(run.engine, len(run.ops)) for run in runs] == [
        (Engine.HTA, 1),
        (Engine.HTA, 2),
        (Engine.HNN, 1),
    ]


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
