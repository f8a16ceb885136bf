"""Parts of a graph give what the whole gives, wherever it is cut."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.section_models import feeds_of, on_cpu, residual
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp_fusion import bonds, partitions_of
from xdlc.runtime.sections import SectionSession


def test_bonds_are_where_nothing_is_rounded_or_otherwise():
    graph = residual().main
    found = {(bond.producer.type, bond.reader.type): (bond.unrounded, bond.shaping) for bond in bonds(graph)}
    assert found == {
        ("Conv2d", "ElementWiseNeuron"): (False, True),  # the sigmoid's, met last
        ("Conv2d", "Prelu"): (True, True),
        ("ElementWiseNeuron", "ElementWiseBinary"): (True, False),
        ("DepthWiseConv2d", "ElementWiseNeuron"): (False, True),
    }
    assert bonds(graph, stated=True) == []


def test_equal_encodings_need_no_bond():
    graph = residual().main
    conv, relu = list(graph.ops)[:2]
    conv.outputs[0].encoding = relu.outputs[0].encoding
    assert all(bond.producer is not conv for bond in bonds(graph))


def test_a_part_computes_what_its_ops_read_unrounded():
    graph = residual().main
    ops = list(graph.ops)
    first, second = partitions_of(graph, [ops[:6], ops[6:]])
    assert [op.type for op in second.lent] == ["ElementWiseNeuron"]
    assert {tensor.name for tensor in first.graph.outputs} >= {ops[4].outputs[0].name, ops[5].outputs[0].name}
    assert first.lent == ()
    first, second = partitions_of(graph, [ops[:5], ops[5:]])
    assert first.lent == ()
    assert [op.name for op in first.readers] == [ops[5].name]  # decides how the convolution rounds
    assert second.lent == second.readers == ()


@settings(max_examples=25, deadline=None)
@given(cuts=st.sets(st.integers(1, 17)), seed=st.integers(0, 3))
def test_parts_give_what_the_whole_gives(cuts, seed):
    model = residual()
    feeds = feeds_of(model, seed)
    expected = CpuSession(model, threads=1).run(feeds, native=True)
    found = SectionSession(on_cpu(model, sorted(cuts)), threads=1).run(feeds, native=True)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
