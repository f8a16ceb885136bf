from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import xdlc
from tests.support.section_models import Net, feeds_of, on_cpu, residual
from xdlc.container.aip_record import OWN_FLAVOUR, OWN_RECORD, Dimension, Engine, parse_aip
from xdlc.container.section_payload import is_subgraph
from xdlc.errors import ConstraintError, ProblemList, UsageError
from xdlc.ir import ArrayData, ScaleOffset, static, u32
from xdlc.ir.dtype import FLOAT32, SFIXED16
from xdlc.prepare.hta import prepare, without_sections
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.section_record import find_record, layer_ids, placed
from xdlc.runtime.sections import SectionSession

HTA, HNN = Engine.HTA, Engine.HNN


def spans(prepared):
    return [(one.engine, one.first, one.last) for one in prepared.sections]


def assert_same(model, prepared):
    feeds = feeds_of(model)
    expected = CpuSession(model, threads=1).run(feeds, native=True)
    found = SectionSession(prepared.model, threads=1).run(feeds, native=True)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_sections_cover_the_model_and_hold_sub_graphs():
    model = residual()
    prepared = prepare(model, "13-13,15-16")
    assert spans(prepared) == [(HNN, 0, 12), (HTA, 13, 13), (HNN, 14, 14), (HTA, 15, 16), (HNN, 17, 17)]
    assert_same(model, prepared)


def test_a_record_reads_back_and_is_the_same_each_time():
    first, second = (prepare(residual(), "13-13,15-16").model.records[OWN_RECORD].numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    record = parse_aip(first.tobytes(), where="record")
    assert (record.version, record.flavour, record.unknown) == ("1.2.0.0", OWN_FLAVOUR, "1.0.0.0")
    assert [is_subgraph(one.binary) for one in record.sections] == [False, True, False, True, False]


def test_buffers_say_how_sections_connect():
    prepared = prepare(residual(), "13-13,15-16")
    before, conv, between, dense, after = prepared.sections
    assert [(buffer.name, buffer.is_output, buffer.layer, hex(buffer.id)) for buffer in before.buffers] == [
        ("x", False, 0, "0x0"),
        ("t10", True, 10, "0xa1000"),
        ("t12", True, 12, "0xc1000"),
    ]
    assert [(buffer.name, buffer.is_output, hex(buffer.id)) for buffer in conv.buffers] == [
        ("t10", False, "0xd0000"),
        ("t13", True, "0xd1000"),
    ]
    assert conv.buffers[0].dimensions == (
        Dimension("channel", 32, 32),
        Dimension("height", 4, 32),
        Dimension("channel", 1, 32),
        Dimension("width", 4, 32),
    )
    taken = prepare(residual(), "0-1").sections[0].buffers[0]
    assert taken.dimensions == (
        Dimension("height", 8, 3),
        Dimension("width", 8, 3),
        Dimension("channel", 3, 3),
    )
    # Named by the layer that reads it and which of its inputs it is.
    assert [(buffer.name, hex(buffer.id)) for buffer in between.buffers] == [
        ("t12", "0xe0000"),
        ("t13", "0xe0001"),
        ("t14", "0xe1000"),
    ]
    assert all(buffer.dimensions == () for buffer in between.buffers)
    assert [buffer.dimensions[1:] for buffer in dense.buffers] == [
        (Dimension("height", 4, 32), Dimension("channel", 1, 32), Dimension("width", 4, 32)),
        (Dimension("height", 1, 32), Dimension("channel", 1, 32), Dimension("width", 1, 32)),
    ]
    assert [buffer.name for buffer in after.buffers] == ["t16", "t17"]


def test_old_records_go_whatever_becomes_of_the_model():
    model = on_cpu(residual(), [3])
    for name in ("aip.metadata0", "aip.metadata1", "aip.metadata7", "xdlc.aip.facts", "xdlc.aip.metadata1"):
        model.records[name] = ArrayData(np.zeros(8, np.uint8))
    model.records["htp.cache.sm8550.0"] = model.records["xdlc.trace"] = ArrayData(np.zeros(8, np.uint8))
    kept = {"htp.cache.sm8550.0", "xdlc.trace"}
    assert set(without_sections(model).records) == kept
    assert set(prepare(model, "13-13").model.records) == {*kept, OWN_RECORD}
    failed = prepare(model, "11-13")
    assert failed.problems
    assert set(failed.model.records) == kept
    assert OWN_RECORD in model.records


def test_layers_that_hta_does_not_take():
    prepared = prepare(residual(), "11-13")
    assert prepared.sections == ()
    first, second = prepared.problems
    assert "HTA does not support layer 11 'transpose11': type: expected an operation that HTA has" in str(
        first
    )
    assert (second.node, second.op) == ("transpose12", "Transpose")
    assert {(one.layer, one.type) for one in prepared.rejected} >= {(11, "Transpose"), (12, "Transpose")}
    assert str(next(one for one in prepared.rejected if one.layer == 11)).startswith(
        "layer 11 'transpose11' (Transpose): type: expected"
    )


@pytest.mark.parametrize(
    ("text", "problem"), [("3-1,2-5", "reversed(?s:.*)overlap"), ("0-18", "the last layer, 17")]
)
def test_ranges_that_divide_no_network(text, problem):
    with pytest.raises((UsageError, ProblemList), match=problem):
        prepare(residual(), text)


def test_a_float_model_is_refused_with_one_error():
    net = Net()
    net.graph.add_output(net.conv(net.input(1, 4, 4, 3), 4))
    with pytest.raises(
        ConstraintError, match="is not quantized: HTA computes with ufixed8 and ufixed16, not float32"
    ) as caught:
        prepare(xdlc.Model({"net": net.graph}))
    assert "--enable-hta" in str(caught.value)


def test_socs_without_hta():
    model = residual()
    with pytest.raises(
        UsageError, match=r"sm8550 \(v73\) has no HTA: its tensor unit is inside HTP"
    ) as caught:
        prepare(model, soc="sm8550")
    assert "prepare for HTP" in str(caught.value)
    with pytest.raises(UsageError, match="its DSP has no tensor unit"):
        prepare(model, soc="sm6150")
    assert prepare(model, "13-13", soc="SM8250").sections


def test_automatic_sections_give_what_the_model_gives():
    model = residual()
    seen = []
    prepared = prepare(model, step=lambda _, done, total: seen.append((done, total)))
    assert prepared.problems == ()
    assert any(engine is HTA for engine, _, _ in spans(prepared))
    assert all(
        one[0] is not other[0] for one, other in zip(spans(prepared), spans(prepared)[1:], strict=False)
    )
    count = sum(engine is HTA for engine, _, _ in spans(prepared))
    assert seen[-count:] == [(number, count) for number in range(1, count + 1)]
    assert_same(model, prepared)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    first=st.sets(st.integers(0, 11), min_size=1, max_size=6),
    second=st.sets(st.integers(13, 18), max_size=4),
    data=st.data(),
)
def test_any_ranges_give_what_the_model_gives(first, second, data):
    ranges = []
    for borders in (sorted(first), sorted(second)):
        for begin, end in pairwise(borders):
            if data.draw(st.booleans()):
                ranges.append(f"{begin}-{end - 1}")
    assume(ranges)
    model = residual()
    prepared = prepare(model, ",".join(ranges))
    assert prepared.problems == ()
    assert [f"{one.first}-{one.last}" for one in prepared.sections if one.engine is HTA] == ranges
    assert_same(model, prepared)


def test_a_model_that_came_quantized_is_rounded_everywhere():
    model = residual()
    feeds = feeds_of(model)
    as_htp = CpuSession(model).run(feeds, native=True)
    model.metadata["history"] = [{"tool": "xconv-onnx-to-dlc"}]
    assert any(
        np.any(as_htp[name] != array) for name, array in CpuSession(model).run(feeds, native=True).items()
    )
    for ranges in (None, "1-4,6-8", "0-0,3-3"):
        notes = []
        assert_same(model, prepare(model, ranges, notify=notes.append))
        assert not [note for note in notes if not note.startswith("warning: ")]


def test_a_section_computes_what_it_needs_beyond_its_border():
    notes = []
    prepared = prepare(residual(), "1-4", notify=notes.append)
    assert notes == ["the section of layers 1-4 also computes layers 0"]
    assert_same(residual(), prepared)


def between_two(spoil):
    """Return two convolutions, and a function that reads one unrounded."""
    net = Net()
    model = net.quantized(net.prelu(net.conv(net.conv(net.input(1, 4, 4, 3), 4), 4)))
    conv, prelu = list(model.main.ops)[1:]
    held = conv.outputs[0].encoding
    conv.outputs[0].encoding = ScaleOffset(held.scale * 3, -100)
    spoil(conv, prelu)
    return model


def test_a_section_cannot_begin_with_what_reads_a_foreign_layer_unrounded():
    def spoil(conv, prelu):
        conv.params["group"] = u32(1)
        conv.inputs[1].dtype = SFIXED16

    model = between_two(spoil)
    assert [one.type for one in prepare(model).rejected] == ["Conv2d"]
    (problem,) = prepare(model, "2-2").problems
    text = str(problem)
    assert text.startswith("layer 1 'conv2d1' (Conv2d): a border of layers 2-2")
    assert "found sfixed16" in text


def test_a_section_may_end_before_a_foreign_layer_that_reads_it_unrounded():
    def spoil(conv, prelu):
        slope = prelu.inputs[1]
        slope.dtype, slope.encoding = FLOAT32, None
        slope.data = static("slope", np.array([0.2], np.float32)).data

    model = between_two(spoil)
    prepared = prepare(model, "0-1")
    assert [one.type for one in prepared.rejected] == ["Prelu"]
    assert_same(model, prepared)


def test_nothing_to_put_on_hta():
    net = Net()
    x = net.op("Softmax", [net.input(1, 4, 4, 3)], (1, 4, 4, 3), axis=u32(1))
    prepared = prepare(net.quantized(x))
    (problem,) = prepared.problems
    assert "HTA supports 0 of 1" in str(problem)
    assert [one.type for one in prepared.rejected] == ["Softmax"]
    assert OWN_RECORD not in prepared.model.records


def test_ids_of_translated_layers_are_those_of_sections():
    model = residual()
    model.metadata["layers"] = {op.name: 10 + 2 * index for index, op in enumerate(model.main.ops)}
    prepared = prepare(model, "36-36")
    assert spans(prepared) == [(HNN, 0, 35), (HTA, 36, 36), (HNN, 37, 44)]
    assert layer_ids(prepared.model) == layer_ids(model)
    assert {one.layer for one in prepared.rejected} >= {32, 34}
    assert_same(residual(), prepared)


def test_a_section_never_divides_a_layer_of_several_ops():
    model = residual()
    model.metadata["layers"] = {op.name: index // 3 for index, op in enumerate(model.main.ops)}
    prepared = prepare(model)
    ends = [op for one in placed(prepared.model, *find_record(prepared.model.records)) for op in one.ops]
    assert ends == list(prepared.model.main.ops)
    ids = [buffer.id for section in prepared.sections for buffer in section.buffers if buffer.is_output]
    assert len(ids) == len(set(ids))
    assert_same(model, prepared)


def channel_first():
    """Return two branches after a Transpose, one of which HTA does not support."""
    net = Net()
    x = net.transpose(net.input(1, 3, 8, 8), 0, 2, 3, 1)
    parts = [net.conv(x, 4, taps=3)]
    for _ in range(2):
        other = net.op("Softmax", [net.conv(x, 4)], (1, 8, 8, 4), axis=u32(1))
        parts += [net.conv(other, 8, taps=3), net.conv(x, 8, taps=3)]
    return net.quantized(net.transpose(net.concat(*parts), 0, 3, 1, 2))


def test_conversions_at_the_border_are_no_layers():
    model = channel_first()
    ops = list(model.main.ops)
    assert list(layer_ids(model).items()) == [(op, index) for index, op in enumerate(ops[1:-1])]
    prepared = prepare(model, "0-1,9-9")
    assert spans(prepared) == [(HTA, 0, 1), (HNN, 2, 8), (HTA, 9, 9)]
    assert prepared.sections[0].buffers[0].dimensions[0] == Dimension("height", 8, 3)  # not in blocks
    assert_same(model, prepared)


def test_another_order_has_fewer_sections():
    model = channel_first()
    before = prepare(model, "0-1,3-5,7-9")
    for ranges, text in (("0-1,3-5,7-9", "3 sections instead of 5"), (None, "3 sections instead of")):
        notes = []
        prepared = prepare(model, ranges, reorder=True, notify=notes.append)
        assert any(text in note and "have new ids" in note for note in notes)
        assert len(prepared.sections) == 3 < len(before.sections)
        assert_same(model, prepared)
        assert_same(prepared.model, prepared)
    assert [op.name for op in channel_first().main.ops] == [op.name for op in model.main.ops]
    assert "no order of the layers has fewer" in run_notes(model, "0-1", reorder=True)[-1]


def run_notes(model, *args, **options):
    notes: list[str] = []
    assert prepare(model, *args, notify=notes.append, **options).problems == ()
    return notes


def test_figures_of_crossings():
    prepared = prepare(residual(), "13-13")
    found = prepared.crossings
    entering = [buffer for one in prepared.sections for buffer in one.buffers if not buffer.is_output]
    assert found.count == 2
    assert found.values == found.requantized == len(entering) - 1  # all but the network's input
    assert found.nbytes == sum(
        residual().main.tensors[one.name].nbytes for one in entering if one.name != "x"
    )


def test_sections_that_get_lost_are_listed():
    prepared = prepare(residual(), "13-13,15-16").model
    prepared.records["aip.metadata0"] = ArrayData(np.zeros(8, np.uint8))
    whole, damaged = run_notes(prepared, "13-13")
    assert whole == "drops the AIP record 'xdlc.aip.metadata0' with the HTA sections of layers 13-13, 15-16"
    assert "which is damaged" in damaged


def test_sections_survive_a_container(tmp_path):
    model = residual()
    prepared = prepare(model, "13-13")
    prepared.model.save(tmp_path / "m.dlc")
    loaded = xdlc.load(tmp_path / "m.dlc")
    feeds = feeds_of(model)
    expected = CpuSession(model).run(feeds, native=True)
    for name, array in SectionSession(loaded).run(feeds, native=True).items():
        np.testing.assert_array_equal(array, expected[name])
