"""A SoC's verdict on a model: of the vendor's library, else of our tables."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.control_flow_models import if_model, loop_model
from tests.support.htp_models import cnn, needs_htp, refused
from tests.support.single_ops import op_graph
from xdlc.errors import ConstraintError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Graph,
    Model,
    Origin,
    ScaleOffset,
    Tensor,
    make_op,
    static,
    string,
    u32,
)
from xdlc.ir import dtype as dt
from xdlc.runtime.dynamic_dims import REASON
from xdlc.runtime.htp import library, support
from xdlc.targets import find_soc

SM8650 = find_soc("sm8650")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_spec", lambda name: None)


@pytest.fixture(params=["tables", pytest.param("vendor", marks=needs_htp)])
def both_judges(request: pytest.FixtureRequest) -> None:
    """Let the vendor's library judge, and without it the tables."""
    if request.param == "tables":
        request.getfixturevalue("tables")


def one_op(x: Tensor, y: Tensor, *, on_host: bool = False) -> Model:
    """Return a graph of a Relu, or of an op that runs on the host only."""
    graph = Graph("g")
    graph.add_input(x)
    if on_host:
        origin = Origin(("node",), "no QNN operation has determinants")
        graph.append(make_op(graph, "Det", [x], [y], name="op", package="xdlc", origin=origin))
    else:
        graph.append(make_op(graph, "ElementWiseNeuron", [x], [y], {"operation": u32(4)}, name="op"))
    graph.add_output(y)
    return Model({"g": graph})


def said(verdict: support.Verdict) -> list[tuple[str | None, str]]:
    assert all(isinstance(each, ConstraintError) and each.fix for each in (*verdict.plain, *verdict.refused))
    return [(each.node, each.problem) for each in (*verdict.plain, *verdict.refused)]


@needs_htp
def test_the_vendors_library_is_asked_where_it_is() -> None:
    verdict = support.judge(refused(), SM8650)
    assert verdict.is_vendors
    assert verdict.judge.startswith("the vendor's library (onnxruntime-qnn ")
    assert [(each.node, each.op) for each in verdict.refused] == [("softmax", "Softmax"), ("tile", "Tile")]
    assert said(support.judge(cnn(quantized=True), SM8650)) == []


@pytest.mark.usefixtures("tables")
def test_without_it_the_tables_speak() -> None:
    for quantized in (False, True):
        verdict = support.judge(cnn(quantized=quantized), SM8650)
        assert (verdict.judge, verdict.is_vendors, said(verdict)) == ("xdlc's tables of HTP", False, [])
    verdict = support.judge(refused(), SM8650)
    assert said(verdict) == [("tile", "has a tensor of rank 6, but HTP supports at most rank 5")]


@pytest.mark.parametrize("tables_only", [True, pytest.param(False, marks=needs_htp)])
def test_dynamic_dimensions_keep_branches_off(tables_only: bool) -> None:
    model = if_model()
    for tensor in (tensor for graph in model.graphs.values() for tensor in graph.tensors.values()):
        tensor.dynamic_axes = (0,) if tensor.shape == (2, 3) and not tensor.is_static else ()
    lines = support.judge(model, SM8650, tables_only=tables_only).inner
    assert [line.partition(": ")[2][:12] for line in lines] == ["not on HTP: "] * 2


@pytest.mark.usefixtures("tables")
def test_tables_know_what_a_generation_lacks() -> None:
    assert (
        "has no float graphs for sm6450"
        in said(support.judge(cnn(quantized=False), find_soc("sm6450")))[0][1]
    )
    x = Tensor("x", (1, 4), dt.UFIXED16, ScaleOffset(1e-4, -32768))
    w = static("w", np.zeros((2, 4), "int16"), dt.SFIXED16, ScaleOffset(1e-4, 0))
    y = Tensor("y", (1, 2), dt.UFIXED16, ScaleOffset(1e-4, -32768))
    graph = op_graph("FullyConnected", [x, w], [y], name="fc")
    model = Model({"g": graph})
    old = [problem for _, problem in said(support.judge(model, find_soc("sm8350")))]
    assert "needs 16-bit weights or factors with 16-bit activations, which v68 of sm8350 does not have" in old
    assert not [problem for _, problem in said(support.judge(model, SM8650)) if "needs" in problem]


@pytest.mark.parametrize("tables_only", [True, pytest.param(False, marks=needs_htp)])
def test_results_with_a_scale_per_channel_are_refused(tables_only: bool) -> None:
    x = Tensor("x", (1, 2), dt.FLOAT32)
    y = Tensor("y", (1, 2), dt.UFIXED8, AxisScaleOffset(1, (0.5, 0.25), (0, -8)))
    graph = op_graph("Quantize", [x], [y], name="q")
    verdict = support.judge(Model({"g": graph}), SM8650, tables_only=tables_only)
    assert said(verdict) == [("q", "its result has a scale per channel, but HTP needs one scale")]


@pytest.mark.parametrize("tables_only", [True, pytest.param(False, marks=needs_htp)])
def test_floats_of_a_quantized_graph_are_left_to_the_cpu(tables_only: bool) -> None:
    x = Tensor("x", (1, 4), dt.FLOAT32)
    a = Tensor("a", (1, 4), dt.FLOAT32)
    graph = op_graph("Relu", [x], [a], name="relu")
    model = Model({"g": graph})
    soc = find_soc("qcs6490")
    (problem,) = support.judge(model, soc, tables_only=tables_only).refused
    assert problem.fix is not None
    assert problem.fix.startswith("quantize the model")
    q = Tensor("q", (1, 4), dt.UFIXED16, ScaleOffset(1e-4, -32768))
    graph.append(make_op(graph, "Quantize", [a], [q], name="quantize"))
    graph.add_output(q)
    (problem,) = support.judge(model, soc, tables_only=tables_only).refused
    assert problem.fix is not None
    assert "partition=True" in problem.fix
    assert "quantize the model" not in problem.fix


@pytest.mark.parametrize("tables_only", [True, pytest.param(False, marks=needs_htp)])
def test_a_second_factor_of_16_bits_needs_a_generation_too(tables_only: bool) -> None:
    x, z = (Tensor(name, (4, 4), dt.UFIXED16, ScaleOffset(1e-4, -32768)) for name in "xz")
    y = Tensor("y", (4, 4), dt.UFIXED16, ScaleOffset(1e-4, -32768))
    graph = op_graph("MatMul", [x, z], [y], name="product")
    for soc, refused_ops in (("qcs6490", ["product"]), ("sm8550", [])):
        verdict = support.judge(Model({"g": graph}), find_soc(soc), tables_only=tables_only)
        assert [each.node for each in verdict.refused] == refused_ops
        assert all("target" in (each.fix or "") for each in verdict.refused)


@pytest.mark.parametrize("tables_only", [True, pytest.param(False, marks=needs_htp)])
@pytest.mark.parametrize("soc", ["sm8350", "sm8650", "sm8850"])
def test_no_soc_has_real_scales_per_block(soc: str, tables_only: bool) -> None:
    x = Tensor("x", (1, 64), dt.UFIXED8, ScaleOffset(0.1, 0))
    encoding = BlockScaleOffset((1, 32), (0.1,) * 4, (0,) * 4, 4)
    w = static("w", np.zeros((2, 64), "int8"), dt.SFIXED8, encoding)
    y = Tensor("y", (1, 2), dt.UFIXED8, ScaleOffset(0.1, 0))
    graph = op_graph("FullyConnected", [x, w], [y], name="fc")
    refused = support.judge(Model({"g": graph}), find_soc(soc), tables_only=tables_only).refused
    assert ("fc", True) in {(each.node, "use_lpbq=True" in (each.fix or "")) for each in refused}


@pytest.mark.usefixtures("tables")
def test_block_scales_need_a_generation_too() -> None:
    x = Tensor("x", (1, 64), dt.UFIXED8, ScaleOffset(0.1, 0))
    encoding = BlockwiseExpansion(0, (0.1,) * 2, (0,) * 2, 2, 4, (1,) * 4)
    w = static("w", np.zeros((2, 64), "int8"), dt.SFIXED8, encoding)
    y = Tensor("y", (1, 2), dt.UFIXED8, ScaleOffset(0.1, 0))
    graph = op_graph("FullyConnected", [x, w], [y], name="fc")
    problems = [text for _, text in said(support.judge(Model({"g": graph}), find_soc("sm8350")))]
    assert any("block scales" in text for text in problems)


@pytest.mark.usefixtures("tables")
def test_open_extents_and_wide_integers_are_named() -> None:
    inner = one_op(Tensor("x", (1, 4), dt.FLOAT32), Tensor("y", (1, 4), dt.FLOAT32, dynamic_axes=(0,)))
    assert said(support.judge(inner, SM8650)) == [("op", support.FIXED_DIMS)]
    x, y = Tensor("x", (2,), dt.INT64), Tensor("y", (2,), dt.INT64)
    wide = static("wide", np.array([1, 2**40]))
    graph = op_graph("ElementWiseBinary", [x, wide], [y], {"operation": u32(0)}, name="add")
    model = Model({"g": graph})
    assert said(support.judge(model, SM8650))[0] == (
        "add",
        "input 1 ('wide') holds 1099511627776, but HTP's integers have 32 bits",
    )
    assert model.main.outputs[0].dtype is dt.INT64  # the model is as it was


@pytest.mark.usefixtures("both_judges")
def test_open_inputs_are_the_problem_and_not_what_follows() -> None:
    tensors = [Tensor(name, (1, 4), dt.FLOAT32, dynamic_axes=(0,)) for name in "xyzu"]
    model = one_op(*tensors[:2])
    graph = model.main
    for source, result, reason in zip(tensors[1:3], tensors[2:], (REASON, "no such operation"), strict=True):
        origin = Origin((), reason)
        graph.append(make_op(graph, "Any", [source], [result], name=reason, package="xdlc", origin=origin))
    graph.add_output(tensors[-1])
    verdict = support.judge(model, SM8650)
    assert [(each.node, each.op) for each in verdict.plain] == [("x", "input"), ("no such operation", "Any")]
    assert (verdict.plain[0].fix or "").endswith(" input_dims={'x': [1, 4]}")
    assert verdict.refused == ()


@needs_htp
def test_a_value_that_does_not_fit_hides_no_refusal() -> None:
    model = refused()
    graph = model.main
    x, y = graph.add_input(Tensor("i", (2,), dt.INT64)), Tensor("j", (2,), dt.INT64)
    wide = static("wide", np.array([1, 2**40]))
    graph.append(make_op(graph, "ElementWiseBinary", [x, wide], [y], {"operation": u32(0)}, name="add"))
    graph.add_output(y)
    verdict = support.judge(model, SM8650)
    assert [each.node for each in verdict.plain] == ["add"]
    assert [each.node for each in verdict.refused] == ["softmax", "tile"]


@pytest.mark.usefixtures("both_judges")
def test_ops_of_the_host_are_named_with_their_reason() -> None:
    model = one_op(Tensor("x", (2, 2), dt.FLOAT32), Tensor("y", (), dt.FLOAT32), on_host=True)
    verdict = support.judge(model, SM8650)
    assert said(verdict) == [("op", "runs on the host only: no QNN operation has determinants")]
    assert verdict.refused == ()


def test_socs_without_htp_are_told_by_the_table_of_socs() -> None:
    verdict = support.judge(cnn(quantized=True), find_soc("sm8250"))
    assert verdict.judge == "xdlc's table of SoCs"
    assert said(verdict) == [
        (None, "sm8250 has no HTP: its DSP has architecture v66, and HTP starts with v68")
    ]


@pytest.mark.usefixtures("both_judges")
def test_the_ops_that_keep_a_branch_off_are_named() -> None:
    deep = (1, 1, 1, 1, 1, 1)

    def branch(name: str, kind: str) -> Graph:
        x, y = Tensor("x", deep, dt.FLOAT32), Tensor("y", deep, dt.FLOAT32)
        package = "xdlc" if kind == "Det" else "qti.aisw"
        params = {} if kind == "Det" else {"multiples": static("", np.ones(6, np.uint32))}
        return op_graph(kind, [x], [y], params, name=f"{name}_op", package=package, graph_name=name)

    c, x = Tensor("c", (1,), dt.BOOL8), Tensor("x", deep, dt.FLOAT32)
    y = Tensor("y", deep, dt.FLOAT32)
    names = {"then_graph": string("then"), "else_graph": string("else")}
    main = op_graph("If", [c, x], [y], names, name="if", package="xdlc", graph_name="main")
    graphs = (main, branch("then", "Tile"), branch("else", "Det"))
    verdict = support.judge(Model({graph.name: graph for graph in graphs}), SM8650)
    assert [problem.node for problem in verdict.plain] == ["if", "else_op"]
    assert verdict.plain[0].problem == (
        "runs on the host only: HTP has no op that runs other graphs; "
        "HTP also does not support these ops inside: "
        "then branch: 'then_op' (Tile); else branch: 'else_op' (Det)"
    )
    assert {problem.node for problem in verdict.refused} == {"then_op"}
    assert [line.partition("runs on")[0] for line in verdict.inner][1:] == [
        "else branch of 'if': not on HTP: 'else_op' (Det): "
    ]
    assert verdict.inner[0].startswith("then branch of 'if': not on HTP: 'then_op' (Tile): ")


@pytest.mark.usefixtures("both_judges")
def test_a_loop_whose_body_is_supported_is_no_problem() -> None:
    verdict = support.judge(loop_model(), SM8650)
    assert (verdict.plain, verdict.refused) == ((), ())
    assert verdict.inner == ("body of 'power': HTP supports all ops",)
