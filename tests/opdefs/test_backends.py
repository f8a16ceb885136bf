"""Backends have the names of QNN and of SNPE, and some names include others."""

import pytest

from xdlc.opdefs import backends


def test_every_name_speaks_for_itself_and_wider_names_are_names():
    for name in backends.NAMES:
        assert backends.chain(name)[0] == name
        assert set(backends.chain(name)) <= set(backends.NAMES)
        assert backends.unknown([name]) == []


@pytest.mark.parametrize(
    ("a", "b", "overlap"),
    [
        ("DSP", "DSP_V60", True),
        ("DSP", "HTP", True),
        ("HTP", "DSP_V81", True),
        ("HTP", "HTP_FP16", True),
        ("HTP", "DSP_V65", False),
        ("DSP_V68", "DSP_V69", False),
        ("CPU", "GPU", False),
    ],
)
def test_overlap(a, b, overlap):
    assert backends.overlap(a, b) is overlap
    assert backends.overlap(b, a) is overlap


def test_names_that_are_none_come_with_the_nearest():
    assert backends.unknown(["CPU", "dsp_v68", "x"])[0][1].startswith("nearest: DSP_V68, DSP_V8")
    assert backends.unknown(["x"])[0][1].startswith("use one of CPU, GPU, DSP")


@pytest.mark.parametrize(
    ("name", "dsp"), [("DSP_V60", True), ("HTP_FP16", True), ("CPU", False), ("HTA", False)]
)
def test_dsps(name, dsp):
    assert backends.is_dsp(name) is dsp
