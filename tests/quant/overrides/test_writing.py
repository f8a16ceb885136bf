"""What is written reads as what it was, in every format."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdlc.ir import as_float32
from xdlc.quant.overrides import ENCODING_VERSIONS, Grain, Override, read_overrides
from xdlc.quant.overrides.export import encodings_content
from xdlc.quant.overrides.versions import VERSIONS, Layout

SCALES = st.floats(1e-20, 1e20).map(as_float32)


@st.composite
def affine(draw):
    kind = draw(st.sampled_from(["activation", "param"]))
    bits = draw(st.sampled_from([2, 4, 8, 16, 32]))
    symmetric = kind == "param" and draw(st.booleans())
    offset = -(1 << (bits - 1)) if symmetric else draw(st.integers(1 - (1 << bits), 0))
    if symmetric and draw(st.booleans()):
        scales = tuple(draw(st.lists(SCALES, min_size=2, max_size=5)))
        return Override("", kind, bits, False, Grain.CHANNEL, scales, (offset,) * len(scales), True, axis=0)
    return Override("", kind, bits, False, Grain.TENSOR, (draw(SCALES),), (offset,), symmetric)


@st.composite
def blocks(draw):
    channels, count, size = draw(st.integers(2, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 64))
    expands = draw(st.booleans())
    total = channels * count
    scales = tuple(draw(st.lists(SCALES, min_size=channels if expands else total, max_size=total))[:total])
    scales = scales[:channels] if expands else scales
    axis = draw(st.integers(0, 1))
    override = Override(
        "", "param", 4, False, Grain.BLOCK, scales, (-8,) * len(scales), True, axis, 1 - axis, size
    )
    if not expands:
        return channels, override
    integers = tuple(draw(st.lists(st.integers(1, 16), min_size=total, max_size=total)))
    return channels, replace(override, grain=Grain.EXPANSION, block_scales=integers, block_scale_bits=4)


def read_again(entries, version, **grids):
    content = encodings_content(entries, VERSIONS[version], grids)
    return list(read_overrides(json.loads(json.dumps(content))).entries.values())


def plain(entries, **changed):
    return [replace(entry, where="", axis=None, block_axis=None, **changed) for entry in entries]


@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("version", ENCODING_VERSIONS)
@given(st.lists(affine(), max_size=5))
def test_scales_of_tensors_and_channels(version, entries):
    entries = [replace(entry, name=f"t{place}") for place, entry in enumerate(entries)]
    entries.sort(key=lambda entry: entry.kind)
    results = read_again(entries, version)
    if VERSIONS[version].layout is Layout.ONE_LIST:
        assert plain(results) == plain(entries, kind=None)
        assert [entry.axis for entry in results] == [entry.axis for entry in entries]
        return
    assert plain(results) == plain(entries)


@settings(max_examples=60, deadline=None)
@given(blocks(), st.sampled_from([2, 4]))
def test_scales_of_blocks(made, rank):
    channels, entry = made
    entry = replace(entry, name="w")
    assert plain(read_again([entry], "1.0.0")) == plain([entry])
    (found,) = read_again([entry], "2.0.0", w=(rank, channels))
    assert found == replace(entry, kind=None)


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1", "1.0.0"])
def test_floats(version):
    entry = Override("t", "activation", 16, is_float=True)
    assert read_again([entry], version) == [entry]


def test_floats_are_left_out_where_a_format_has_no_word_for_them():
    entry = Override("t", "activation", 16, is_float=True)
    assert read_again([entry], "0.4.0") == []
    assert read_again([entry], "2.0.0") == []
