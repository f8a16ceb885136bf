import contextlib
import dataclasses
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.control_flow_models import if_model, loop_model
from tests.support.section_models import feeds_of, on_cpu, residual, with_record
from xdlc.container.aip_record import OWN_RECORD, Engine, Section
from xdlc.container.section_payload import read_subgraph, write_subgraph
from xdlc.container.storage import model_bytes
from xdlc.errors import ContainerError, UsageError
from xdlc.ir import ArrayData, ScaleOffset, Tensor, make_op
from xdlc.prepare.hta import prepare
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp_fusion import partitions_of
from xdlc.runtime.section_record import layer_ids
from xdlc.runtime.sections import SectionSession

HTA, HNN = Engine.HTA, Engine.HNN
LAST = len(residual().main) - 1


def refused(model, match=None):
    with pytest.raises(ContainerError, match=match) as caught:
        SectionSession(model)
    assert caught.value.fix


def prepared(partitions="13-13"):
    found = prepare(residual(), partitions)
    assert found.problems == ()
    return found


def with_payload(change, partitions="13-13"):
    """Return a prepared model whose payloads on HTA are changed."""
    found = prepared(partitions)
    sections = [
        dataclasses.replace(one, binary=change(one.binary)) if one.engine is HTA else one
        for one in found.sections
    ]
    return with_record(residual(), sections)


def test_outputs_come_as_from_the_whole_model():
    model = residual()
    feeds = feeds_of(model)
    whole, parts = CpuSession(model), SectionSession(on_cpu(model, [3, 9]))
    for native in (False, True):
        expected, found = whole.run(feeds, native=native), parts.run(feeds, native=native)
        assert list(found) == list(expected)
        for name, array in expected.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    assert parts.notices == ()


def test_inputs_are_checked_before_anything_runs():
    session = SectionSession(on_cpu(residual(), [3]))
    with pytest.raises(UsageError, match="input 'x' is missing"):
        session.run({})
    with pytest.raises(UsageError, match="needs shape"):
        session.run({"x": np.zeros((1, 2, 2, 3), np.float32)})


def test_a_conversion_of_nothing_is_a_layer():
    model = residual()
    result = Tensor("nothing", (1,), model.main.outputs[0].dtype)
    model.main.append(make_op(model.main, "Cast", [], [result], name="odd"))
    assert list(layer_ids(model))[-1].name == "odd"


def test_a_model_without_a_record():
    refused(residual(), "has no AIP record")


@pytest.mark.parametrize(
    ("sections", "match"),
    [
        (
            [(HNN, 0, LAST - 1)],
            f"the sections end at layer {LAST - 1}, but the model has layers up to {LAST}",
        ),
        ([(HNN, 0, LAST + 1)], f"the sections end at layer {LAST + 1}"),
        ([(HNN, 1, LAST)], "begins at layer 1, but the model begins at layer 0"),
        ([(HNN, 0, 3), (HNN, 5, LAST)], "but must begin at layer 4"),
        ([(HNN, 0, 3), (HNN, 3, LAST)], "but must begin at layer 4"),
        ([(HNN, 0, 3), (HNN, 4, 2), (HNN, 3, LAST)], "layers 4-2"),
        ([], "has 0 sections"),
        ([(HNN, 0, 0xFFFFFFFF)], "the sections end at layer 4294967295"),
    ],
)
def test_records_that_do_not_cover_the_model(sections, match):
    refused(with_record(residual(), [Section(*one, ()) for one in sections]), match)


def test_the_vendors_code_runs_on_the_cpu_with_a_notice():
    model = residual()
    feeds = feeds_of(model)
    sections = [
        Section(HTA, 0, 6, (), b"\0\0\2\0vendor"),
        Section(HNN, 7, 9, ()),
        Section(HTA, 10, LAST, (), b"x"),
    ]
    session = SectionSession(with_record(model, sections, "aip.metadata1"))
    (notice,) = session.notices
    assert notice.startswith(f"layers 0-6, 10-{LAST} have the vendor's")
    for name, array in CpuSession(model).run(feeds).items():
        np.testing.assert_array_equal(session.run(feeds)[name], array)


def test_own_records_come_before_the_vendors():
    model = on_cpu(residual(), [2])
    model.records["aip.metadata0"] = ArrayData(np.zeros(3, np.uint8))
    refused(model, "ends at byte 3")  # each is read
    model = with_record(on_cpu(residual(), [2]), [Section(HTA, 0, LAST, (), b"vendor")], "aip.metadata0")
    assert SectionSession(model).notices == ()


def test_records_may_come_from_elsewhere():
    model = residual()
    records = on_cpu(model, [4]).records
    assert SectionSession(model, records=records).run(feeds_of(model)).keys() == {"t17", "t10"}


def test_a_section_on_hta_outputs_what_the_model_does():
    found = prepared()
    model = residual()
    feeds = feeds_of(model)
    expected = CpuSession(model).run(feeds, native=True)
    for name, array in SectionSession(found.model).run(feeds, native=True).items():
        np.testing.assert_array_equal(array, expected[name])


def other_graph(payload):
    return write_subgraph(graph_of(residual(3), 13))


def graph_of(model, position):
    return partitions_of(model.main, [[list(model.main.ops)[position]]])[0].graph


def nested(payload):
    inner = prepared().model
    return payload[:8] + model_bytes(inner)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda payload: b"XHTA" + struct.pack("<HH", 1, 0) + bytes(8), "integer program"),
        (lambda payload: b"XHTA" + struct.pack("<HH", 3, 0) + payload[8:], "version 3"),
        (lambda payload: b"XHTA", "is not a sub-graph"),
        (lambda payload: payload[:8], "end-of-directory"),
        (lambda payload: payload[:-30], "directory"),
        (nested, "1 records"),
        (lambda payload: payload[:8] + model_bytes(if_model()), "3 graphs"),
        (other_graph, "other operations, weights or encodings"),
    ],
)
def test_payloads_that_do_not_fit_the_section(change, match):
    refused(with_payload(change), match)


def test_a_payload_named_as_another_graph_runs_as_the_section():
    def renamed(payload):
        graph = read_subgraph(payload, where="section")
        graph.name = "other"
        return write_subgraph(graph)

    model = with_payload(renamed)
    other = model.main.clone()
    other.name = "other"
    model.add_graph(other)
    feeds = feeds_of(model)
    expected, found = CpuSession(model).run(feeds), SectionSession(model).run(feeds)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_section_from_an_earlier_version_says_what_to_do():
    with pytest.raises(ContainerError) as caught:
        SectionSession(with_payload(lambda payload: b"XHTA" + struct.pack("<HH", 1, 0) + bytes(8)))
    assert "--enable-hta" in caught.value.fix


def test_a_section_of_another_state_of_the_model():
    original = prepared()
    stale = original.model.clone()
    conv = list(stale.main.ops)[13]
    conv.outputs[0].encoding = ScaleOffset(0.5, -3)
    refused(stale, "section 1 .*other operations, weights or encodings")
    other = original.model.clone()
    list(other.main.ops)[2].outputs[0].encoding = ScaleOffset(0.5, -3)  # of another section
    SectionSession(other)


def test_narrow_types_are_those_that_a_container_has():
    """A Relu of its own type is an ElementWiseNeuron once it was in a container."""
    model = residual()
    for op in model.main.ops:
        if op.type == "ElementWiseNeuron" and op.param("operation") == 4:
            op.type = "Relu"
            op.params.clear()
    found = prepare(model, "0-1")
    assert found.problems == ()
    feeds = feeds_of(model)
    expected = CpuSession(model).run(feeds, native=True)
    for name, array in SectionSession(found.model).run(feeds, native=True).items():
        np.testing.assert_array_equal(array, expected[name])


@settings(max_examples=25, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_any_damage_is_refused_or_harmless(place, value):
    model = prepared().model.clone()
    content = model.records[OWN_RECORD].numpy().copy()
    content[int(place * content.size)] = value
    model.records[OWN_RECORD] = ArrayData(content)
    with contextlib.suppress(ContainerError):  # anything else is a failure
        SectionSession(model).run(feeds_of(model))


@pytest.mark.parametrize("model", [if_model(), loop_model(3)], ids=["if", "while"])
def test_branches_and_loops_run_in_their_sections(model):
    rng = np.random.default_rng(0)
    feeds = {
        tensor.name: (rng.normal(0, 1, tensor.shape) * 2).astype(tensor.dtype.numpy)
        for tensor in model.main.inputs
    }
    session = SectionSession(on_cpu(model, range(1, len(model.main))), loop_timeout=10)
    for name, array in CpuSession(model).run(feeds).items():
        np.testing.assert_array_equal(session.run(feeds)[name], array)
