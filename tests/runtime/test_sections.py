import contextlib
import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control_flow_models import if_model, loop_model
from tests.section_models import Net, feeds_of, on_cpu, residual, with_record
from xdlc.container.aip_record import OWN_FACTS, OWN_RECORD, Engine, Section
from xdlc.errors import ContainerError, UsageError
from xdlc.ir import ArrayData, ScaleOffset
from xdlc.ir.quantization import to_quantized
from xdlc.prepare.hta import prepare
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.hta.form import decode, encode
from xdlc.runtime.hta.session import PlanSession
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


def replan(change, partitions="13-13"):
    """Return a prepared model without notes on its origin, its plan changed."""
    found = prepared(partitions)
    sections = [
        dataclasses.replace(one, binary=encode(change(decode(one.binary, where="plan"))))
        if one.engine is HTA
        else one
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


def test_a_model_without_a_record():
    refused(residual(), "holds no AIP record")


@pytest.mark.parametrize(
    ("sections", "match"),
    [
        ([(HNN, 0, LAST - 1)], f"covers layers up to {LAST - 1}, the model has layers up to {LAST}"),
        ([(HNN, 0, LAST + 1)], f"covers layers up to {LAST + 1}"),
        ([(HNN, 1, LAST)], "begins at layer 1, the model at layer 0"),
        ([(HNN, 0, 3), (HNN, 5, LAST)], "where layer 4 follows"),
        ([(HNN, 0, 3), (HNN, 3, LAST)], "where layer 4 follows"),
        ([(HNN, 0, 3), (HNN, 4, 2), (HNN, 3, LAST)], "layers 4-2"),
        ([], "has 0 sections"),
        ([(HNN, 0, 0xFFFFFFFF)], "covers layers up to 4294967295"),
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
    assert notice.startswith(f"the HTA code of layers 0-6, 10-{LAST} is the vendor's")
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


def test_a_compiled_section_gives_what_the_model_gives():
    found = prepared()
    model = residual()
    feeds = feeds_of(model)
    expected = CpuSession(model).run(feeds, native=True)
    for name, array in SectionSession(found.model).run(feeds, native=True).items():
        np.testing.assert_array_equal(array, expected[name])


def test_values_are_requantized_where_a_plan_holds_them_otherwise():
    net = Net()
    model = net.quantized(net.conv(net.input(1, 4, 4, 3), 4))
    feeds = feeds_of(model)
    (section,) = prepare(model, "0-0").sections
    plan = decode(section.binary, where="plan")
    finer, coarser = (plan.buffers[side[0]] for side in (plan.inputs, plan.outputs))
    buffers = list(plan.buffers)
    buffers[plan.inputs[0]] = finer = dataclasses.replace(finer, scale=finer.scale / 2, zero=-40)
    buffers[plan.outputs[0]] = coarser = dataclasses.replace(coarser, scale=coarser.scale * 1.7, zero=-90)
    changed = dataclasses.replace(plan, buffers=tuple(buffers))
    section = dataclasses.replace(section, binary=encode(changed))
    found = SectionSession(with_record(model, [section])).run(feeds, native=True)

    taken = np.clip(np.rint(feeds["x"] / np.float32(finer.scale)) + 40, 0, 255).astype(np.uint8)
    given = PlanSession(changed).run({"x": taken})["t0"].astype(np.float32)
    (tensor,) = model.main.outputs
    np.testing.assert_array_equal(found["t0"], to_quantized((given - 90) * np.float32(coarser.scale), tensor))


def change_buffer(index_of, **changes):
    def change(plan):
        buffers = list(plan.buffers)
        index = index_of(plan)
        buffers[index] = dataclasses.replace(buffers[index], **changes)
        return dataclasses.replace(plan, buffers=tuple(buffers))

    return change


def output(plan):
    return plan.outputs[0]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (change_buffer(output, name="other"), "has the port 'other', the layers of the section do not"),
        (change_buffer(output, scale=0.0), "with scale 0 and offset"),
        (change_buffer(output, scale=1e300), "no encoding"),
        (change_buffer(output, zero=1 << 70), "no encoding"),
        (lambda plan: dataclasses.replace(plan, outputs=()), "does not give 't13'"),
        (
            lambda plan: dataclasses.replace(plan, outputs=(*plan.outputs, plan.inputs[0])),
            "has the port 't10'",
        ),
    ],
)
def test_plans_that_do_not_fit_the_section(change, match):
    refused(replan(change), match)


def test_a_section_compiled_from_another_state_of_the_model():
    found = prepared()
    stale = found.model.clone()
    conv = list(stale.main.ops)[13]
    conv.outputs[0].encoding = ScaleOffset(0.5, -3)
    refused(stale, r"section 1 \(layers 13-13\).*compiled from other operations, weights or encodings")
    other = found.model.clone()
    list(other.main.ops)[2].outputs[0].encoding = ScaleOffset(0.5, -3)  # of another section
    SectionSession(other)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"version":2,"sections":{}}', b'{"version":1,"sections":[]}', b"[" * 100000],
)
def test_damaged_notes_on_the_origin(content):
    model = prepared().model.clone()
    model.records[OWN_FACTS] = ArrayData(np.frombuffer(content, np.uint8))
    refused(model)


def test_a_section_compiled_for_another_rounding():
    model = prepared().model.clone()
    model.metadata["history"] = [{"tool": "xconv-onnx-to-dlc"}]
    refused(model, "tells of sections that round values otherwise than the model's run does")


def test_unknown_origin_of_a_section():
    model = prepared().model.clone()
    model.records[OWN_FACTS] = ArrayData(
        np.frombuffer(json.dumps({"version": 1, "sections": {}, "stated": False}).encode(), np.uint8)
    )
    refused(model, "compiled from other")


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
