"""One encoding in every convention reads as the same."""

import json
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from xdlc.errors import UsageError
from xdlc.ir import as_float32
from xdlc.quant.overrides import Grain, read_overrides
from xdlc.quant.overrides.override import Stated, normalised

WHERE = "f.json: 'x'"
BITS = st.sampled_from([2, 4, 8, 16, 32])
SCALES = st.floats(1e-20, 1e20, allow_nan=False).map(as_float32)


def span(bits, scale, offset):
    return offset * scale, (offset + (1 << bits) - 1) * scale


@settings(max_examples=100, deadline=None)
@given(BITS, SCALES, st.data())
def test_asymmetric_conventions_agree(bits, scale, data):
    half = 1 << (bits - 1)
    offset = data.draw(st.integers(1 - (1 << bits), 0))
    low, high = span(bits, scale, offset)
    stated = [
        Stated(bits, None, None, scale, offset, False),
        Stated(bits, low, high, scale, offset, False),
        Stated(bits, low, high, scale, None, False),
    ]
    # A range tells which convention an offset follows, unless both readings are within a step.
    if abs(half) > 2 and abs(2 * offset) > 2 and abs(2 * offset + half) > 2:
        stated.append(Stated(bits, low, high, scale, -offset, False))
        stated.append(Stated(bits, low, high, scale, offset + half, False))
    for one in stated:
        found = normalised(one, WHERE)
        assert (found.scale, found.offset, found.symmetric) == (scale, offset, False)
    of_range = normalised(Stated(bits, low, high, symmetric=False), WHERE)
    assert math.isclose(of_range.scale, scale, rel_tol=1e-6)
    assert abs(of_range.offset - offset) <= max(1, abs(offset) * 1e-6)


@settings(max_examples=100, deadline=None)
@given(BITS, SCALES)
def test_symmetric_conventions_agree(bits, scale):
    half = 1 << (bits - 1)
    full, strict = span(bits, scale, -half), (-(half - 1) * scale, (half - 1) * scale)
    offsets = [-half, -(half - 1), half, half - 1, 0] if bits > 2 else [-half, half, 0]
    stated = [Stated(bits, *ends, scale, offset, True) for ends in (full, strict) for offset in offsets]
    stated += [Stated(bits, None, None, scale, offset, True) for offset in offsets]
    stated += [Stated(bits, *ends, scale, None, True) for ends in (full, strict)]
    stated += [Stated(bits, *ends, symmetric=True) for ends in (full, strict)]
    for one in stated:
        found = normalised(one, WHERE)
        assert math.isclose(found.scale, scale, rel_tol=1e-6)
        assert (found.offset, found.symmetric) == (-half, True)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([4, 8, 16]), SCALES, st.data())
def test_a_range_of_another_encoding_is_refused(bits, scale, data):
    steps = (1 << bits) - 1
    offset = data.draw(st.integers(-steps, 0))
    low, high = span(bits, scale, offset)
    factor = data.draw(st.sampled_from([0.25, 0.5, 2.0, 4.0]))
    assume(max(-low, high) > 8 * scale)
    with pytest.raises(UsageError, match="contradict"):
        normalised(Stated(bits, low * factor, high * factor, scale, offset), WHERE)


def test_unsigned_symmetric_starts_at_zero():
    for stated in (Stated(8, 0.0, 2.55, symmetric=True), Stated(8, 0.0, 2.55, 0.01, 0, True)):
        found = normalised(stated, WHERE)
        assert (found.offset, found.symmetric) == (0, False)
        assert found.scale == as_float32(0.01)


def test_ranges_away_from_zero_are_widened_to_it():
    found = normalised(Stated(8, 1.0, 2.55), WHERE)
    assert (found.scale, found.offset) == (as_float32(0.01), 0)
    found = normalised(Stated(8, -2.55, -1.0), WHERE)
    assert (found.scale, found.offset) == (as_float32(0.01), -255)


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ({}, "neither a scale nor a range"),
        ({"low": 0.0}, "only one of"),
        ({"low": 1.0, "high": 0.0}, "above max"),
        ({"low": 0.0, "high": 0.0}, "span an empty"),
        ({"low": -1e308, "high": 1e308}, "span an empty"),
        ({"low": -1.0, "high": 3.0, "symmetric": True}, "are not"),
        ({"scale": 0.0, "offset": 0}, "positive"),
        ({"scale": -1.0, "offset": 0}, "positive"),
        ({"scale": 1e300, "offset": 0}, "float32"),
        ({"scale": 1e-60, "offset": 0}, "float32"),
        ({"scale": 0.1}, "no offset"),
        ({"scale": 0.1, "offset": 5}, "can represent zero"),
        ({"scale": 0.1, "offset": -300}, "can represent zero"),
        ({"scale": 0.1, "offset": -3, "symmetric": True}, "is symmetric"),
    ],
)
def test_what_is_no_encoding_is_refused(stated, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        normalised(Stated(8, **stated), WHERE)
    assert caught.value.where == WHERE
    assert caught.value.fix


LEGACY = {"bitwidth": 8, "min": -1.28, "max": 1.27, "scale": 0.01, "offset": -128}
FILES = {
    "vendor": {
        "activation_encodings": {
            "x": [{"bitwidth": 8, "scale": 0.01, "offset": -128, "is_symmetric": "False"}]
        },
        "param_encodings": {
            "w": [{"bitwidth": 4, "scale": s, "offset": 0, "is_symmetric": "True"} for s in (1, 2)]
        },
    },
    "0.4.0": {
        "version": "0.4.0",
        "activation_encodings": {"x": [LEGACY | {"is_symmetric": False}]},
        "param_encodings": {
            "w": [{"bitwidth": 4, "scale": s, "offset": -8, "is_symmetric": True} for s in (1, 2)]
        },
    },
    "0.6.1": {
        "version": "0.6.1",
        "activation_encodings": {"x": [LEGACY | {"dtype": "int", "is_symmetric": "False"}]},
        "param_encodings": {
            "w": [
                {"bitwidth": 4, "dtype": "int", "min": -8 * s, "max": 7 * s, "is_symmetric": "True"}
                for s in (1, 2)
            ]
        },
        "quantizer_args": {"activation_bitwidth": 8},
    },
    "1.0.0": {
        "version": "1.0.0",
        "activation_encodings": [
            {"name": "x", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": False}
            | {"scale": [0.01], "offset": [-128]}
        ],
        "param_encodings": [
            {"name": "w", "enc_type": "PER_CHANNEL", "dtype": "INT", "bw": 4, "is_sym": True}
            | {"scale": [1.0, 2.0], "offset": [-8, -8]}
        ],
        "excluded_layers": [],
    },
    "2.0.0": {
        "version": "2.0.0",
        "encodings": [
            {"name": "x", "output_dtype": "uint8", "y_scale": 0.01, "y_zero_point": 128},
            {"name": "w", "output_dtype": "int4", "y_scale": [1.0, 2.0], "axis": 0},
        ],
    },
}


@pytest.mark.parametrize("version", FILES)
@pytest.mark.parametrize("stored", [False, True])
def test_files_of_all_versions_read_as_the_same(version, stored, tmp_path):
    source = FILES[version]
    if stored:
        source = tmp_path / "overrides.json"
        source.write_text(json.dumps(FILES[version]))
    entries = read_overrides(source).entries
    x, w = entries["x"], entries["w"]
    assert (x.bits, x.scales, x.offsets, x.symmetric, x.grain) == (
        8,
        (as_float32(0.01),),
        (-128,),
        False,
        Grain.TENSOR,
    )
    assert (w.bits, w.scales, w.offsets, w.symmetric, w.grain) == (
        4,
        (1.0, 2.0),
        (-8, -8),
        True,
        Grain.CHANNEL,
    )
    kinds = (None, None) if version == "2.0.0" else ("activation", "param")
    assert (x.kind, w.kind) == kinds


def expansion(**changed):
    entry = {"name": "w", "enc_type": "LPBQ", "dtype": "INT", "bw": 8, "compressed_bw": 4, "is_sym": True}
    entry |= {
        "block_size": 2,
        "scale": [0.5, 1.0],
        "offset": [-128, -128],
        "per_block_int_scale": [1, 2, 3, 16],
    }
    return {"version": "1.0.0", "activation_encodings": [], "param_encodings": [entry | changed]}


def test_blocks_read_as_the_same():
    entries = [
        {"per_block_int_scale": [[1, 2], [3, 16]], "per_channel_float_scale": [[0.5], [1.0]], "axis": 1},
        {"per_block_int_scale": [[1, 3], [2, 16]], "per_channel_float_scale": [[0.5, 1.0]], "axis": 0},
        {"y_scale": {"x": [[1, 2], [3, 16]], "x_scale": [0.5, 1.0], "axis": 0}, "axis": 1},
    ]
    expected = read_overrides(expansion()).entries["w"]
    assert expected.grain is Grain.EXPANSION
    for entry in entries:
        entry = {"name": "w", "output_dtype": "int4", "block_size": 2} | entry
        blocks = read_overrides({"version": "2.1.0", "encodings": [entry]}).entries["w"]
        for name in (
            "bits",
            "scales",
            "offsets",
            "block_scales",
            "block_scale_bits",
            "block_size",
            "symmetric",
        ):
            assert getattr(blocks, name) == getattr(expected, name), (entry, name)
        assert (blocks.axis, blocks.block_axis) == (1 - entry["axis"], entry["axis"])
    named = {"name": "w", "enc_type": "PER_BLOCK", "dtype": "INT", "bw": 4, "is_sym": True, "block_size": 2}
    named |= {"scale": [1, 2, 3, 4], "offset": [-8] * 4}
    expected = read_overrides(
        {"version": "1.0.0", "activation_encodings": [], "param_encodings": [named]}
    ).entries["w"]
    for scales, axis in (([[1, 2], [3, 4]], 1), ([[1, 3], [2, 4]], 0), ([[[1], [2]], [[3], [4]]], 1)):
        entry = {"name": "w", "output_dtype": "int4", "y_scale": scales, "axis": axis, "block_size": 2}
        blocks = read_overrides({"version": "2.0.0", "encodings": [entry]}).entries["w"]
        assert (blocks.scales, blocks.grain, blocks.block_size) == (expected.scales, Grain.BLOCK, 2)


def test_floats():
    files = [
        {"activation_encodings": {"x": [{"bitwidth": 16, "dtype": "float"}]}, "param_encodings": {}},
        {
            "activation_encodings": [{"name": "x", "dtype": "FLOAT", "bw": 16, "enc_type": "PER_TENSOR"}],
            "param_encodings": [],
        },
        {"encodings": [{"name": "x", "output_dtype": "float16"}]},
    ]
    for file in files:
        found = read_overrides(file).entries["x"]
        assert (found.is_float, found.bits, found.scales) == (True, 16, ())
