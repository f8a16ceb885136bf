"""Backends have the names of QNN and of SNPE, and some names include others."""

from dataclasses import replace

import pytest

from tests.opdefs.user_configs import BLEND
from xdlc.errors import ModelError, UsageError
from xdlc.ir import dtype as dt
from xdlc.opdefs import backends
from xdlc.opdefs.backend_view import only_default, resolve
from xdlc.opdefs.model import Constraint, SupplementTable
from xdlc.opdefs.xml_reader import parse_collection


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


@pytest.fixture(scope="module")
def blend():
    return parse_collection(BLEND.encode(), "blend.xml")


def test_what_is_left_to_the_backend_is_settled(blend):
    cpu = resolve(blend.opdefs[0], blend, "CPU")
    assert cpu.inputs[0].dtypes == (dt.FLOAT32,)
    assert (cpu.outputs[0].dtypes, cpu.outputs[0].layout) == ((dt.FLOAT32,), "NHWC")
    assert cpu.backends == ("CPU",)
    assert not only_default(cpu.params["mode"])
    htp = resolve(blend.opdefs[0], blend, "DSP_V68")  # the supplement is for HTP, which it is one of
    assert htp.inputs[0].dtypes == (dt.UFIXED8, dt.UFIXED16)
    assert (htp.inputs[0].layout, htp.inputs[0].text) == ("NHWC", "one batch")
    assert (htp.outputs[0].dtypes, htp.outputs[0].layout) == ((dt.UFIXED8,), "NHCW")
    assert htp.inputs[2].dtypes == (dt.SFIXED32,)
    assert only_default(htp.params["mode"])
    assert htp.params["pads"] == blend.opdefs[0].params["pads"]


def test_constraints_are_replaced_by_id_and_others_added(blend):
    assert resolve(blend.opdefs[0], blend, "HTP").inputs[0].constraints == (
        Constraint("0", "Shape", "rank = 4"),
        Constraint("7", "Shape", "shape(in[0])[0] = 1"),
    )


def test_the_narrower_name_counts(blend):
    (row,) = blend.supplements[1].ops["Blend"]
    narrow = replace(row, inputs={"in[0]": replace(row.inputs["in[0]"], dtypes=(dt.UFIXED4,), text="")})
    tables = (SupplementTable("DSP_V68", frozenset(), {"Blend": (narrow,)}), *blend.supplements)
    found = resolve(blend.opdefs[0], replace(blend, supplements=tables), "DSP_V68").inputs[0]
    assert (found.dtypes, found.text) == ((dt.UFIXED4,), "one batch")


def test_what_cannot_be_resolved_is_told(blend):
    with pytest.raises(UsageError, match="unknown backend 'HPT'") as caught:
        resolve(blend.opdefs[0], blend, "HPT")
    assert "HTP" in caught.value.fix
    with pytest.raises(ModelError, match="is not defined for GPU, but for CPU, DSP_V68"):
        resolve(blend.opdefs[0], blend, "GPU")
    bare = replace(blend, supplements=())
    with pytest.raises(
        ModelError, match=r"data type of 'in\[0\]' is BACKEND_SPECIFIC; no supplement states it for CPU"
    ):
        resolve(blend.opdefs[0], bare, "CPU")
    table = replace(
        blend.supplements[0], ops={"Blend": (replace(blend.supplements[0].ops["Blend"][0], outputs={}),)}
    )
    opdef = replace(blend.opdefs[0], outputs=(replace(blend.opdefs[0].outputs[0], dtypes=(dt.INT8,)),))
    with pytest.raises(ModelError, match=r"layout of 'out\[0\]' is BACKEND_SPECIFIC"):
        resolve(opdef, replace(blend, supplements=(table,)), "CPU")


def test_an_op_without_backends_is_for_all(blend):
    relu = replace(blend, supplements=())
    assert resolve(relu.opdefs[1], relu, "GPU").inputs == relu.opdefs[1].inputs
