"""Verdict of a SoC on each op."""

from tests.support.control_flow_models import if_model
from tests.support.htp_models import cnn
from xdlc.errors import ConstraintError
from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.runtime.htp.support import SocSupport
from xdlc.targets import find_soc
from xdlc.view.content import side
from xdlc.view.graphs import REFUSED
from xdlc.view.verdicts import REFUSES, STAYS, SUPPORTED, findings_of, verdict


def test_a_supported_model() -> None:
    findings = verdict(cnn(quantized=True), find_soc("sm8650"), tables_only=True)
    assert findings.overlays[0].values == [[SUPPORTED] * 5]
    assert (findings.flags, findings.problems) == ({}, [])
    assert findings.facts[0][0] == "verdict on sm8650 by"


def test_a_soc_without_htp_refuses_all_ops() -> None:
    findings = verdict(cnn(quantized=True), find_soc("sm8250"), tables_only=True)
    assert findings.overlays[0].values == [[REFUSES] * 5]
    assert set(findings.flags.values()) == {REFUSED}


def test_refused_ops_have_reason_fix_and_place() -> None:
    model = cnn(quantized=True)
    error = ConstraintError("has rank 6", fix="insert a Reshape", node="reshape_flat", op="Reshape")
    lost = ConstraintError("is gone", node="gone", op="Relu")
    support = SocSupport(
        "tables", False, (), (error, lost), ops={("cnn", "reshape_flat"): error, ("cnn", "gone"): lost}
    )
    findings = findings_of(model, "sm8650", support)
    overlay = findings.overlays[0]
    assert overlay.values[0][3] == REFUSES
    assert overlay.notes[0][3] == "has rank 6; fix: insert a Reshape"
    assert findings.flags == {(0, 3): REFUSED}
    assert [place for _, *place in findings.problems] == [[0, 3], [None, None]]


def test_floats_on_a_soc_without_them() -> None:
    error = ConstraintError("no float graphs", node="conv2d_conv", op="Conv2d", code="XD104")
    support = SocSupport("tables", False, (), (error,), ops={("cnn", "conv2d_conv"): error})
    findings = findings_of(cnn(quantized=False), "sm8350", support)
    assert findings.overlays[0].values == [[REFUSES] * 5]


def test_ops_of_the_host_stay_there() -> None:
    findings = verdict(if_model(), find_soc("sm8650"), tables_only=True)
    assert STAYS in findings.overlays[0].values[0]


def test_flags_reach_the_page() -> None:
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1,) * 6, FLOAT32))
    y = Tensor("y", (1,) * 6, FLOAT32)
    graph.append(Op("Relu", [x], [y], name="deep"))
    graph.add_output(y)
    model = Model({"g": graph})
    findings = verdict(model, find_soc("sm8650"), tables_only=True)
    only = side(model, findings=[findings])
    assert only["graphs"][0]["ops"][0][10] & REFUSED
    assert only["problems"][0][1:] == (0, 0)
