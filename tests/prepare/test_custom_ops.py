"""Users' operations in prepared models stay on the CPU, and messages say so."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.support.htp_models import add, needs_htp
from xdlc.cli.tools.graph_prepare import main
from xdlc.errors import ConstraintError, each_problem
from xdlc.ir import Graph, Model, Param, ScaleOffset, Tensor, make_op, static, string, u32
from xdlc.ir import dtype as dt
from xdlc.ir.fingerprint import fingerprint
from xdlc.prepare.hta import prepare as prepare_hta
from xdlc.prepare.htp import prepare_all

FORM = (dt.UFIXED8, ScaleOffset(1 / 64, -128))


def model(type: str = "Blur", **params: Param) -> Model:
    """Return ``Relu(conv(x))``, an op of package Pkg, and a convolution."""
    graph = Graph("main")
    w = graph.add_tensor(static("w", np.eye(8, dtype="i1").reshape(1, 1, 8, 8), dt.SFIXED8, ScaleOffset(1.0)))
    window = {
        "stride": static("", np.ones(2, "u4")),
        "pad_amount": static("", np.zeros((2, 2), "u4")),
        "dilation": static("", np.ones(2, "u4")),
    }

    def value(name: str) -> Tensor:
        return Tensor(name, (1, 16, 16, 8), *FORM)

    x = graph.add_input(value("x"))
    a = add(graph, "Conv2d", [x, w], value("a"), **window, group=u32(1))
    b = add(graph, "ElementWiseNeuron", [a], value("b"), operation=u32(4))
    c = value("c")
    graph.append(make_op(graph, type, [b], [c], params, name="mine", package="Pkg"))
    y = add(graph, "Conv2d", [c, w], value("y"), **window, group=u32(1))
    graph.add_output(y)
    return Model({graph.name: graph})


@needs_htp
@pytest.mark.parametrize("type", ["Blur", "Conv2d", "Softmax", "Quantize"])
def test_parts_around_are_cached(type: str) -> None:
    prepared = prepare_all(model(type), ["sm8650"], partition=True)
    assert prepared.problems == ()
    (plan,) = prepared.plans
    assert [(left.op, left.type) for left in plan.left] == [("mine", type)]
    assert [partition.ops for partition in plan.partitions] == [
        ("conv2d_a", "elementwiseneuron_b"),
        ("conv2d_y",),
    ]
    assert (
        f"the CPU runs 1 {type} ('mine'): runs on the host only: it is a UDO of package Pkg"
        in (prepared.notices[1])
    )


@needs_htp
def test_as_a_whole_it_is_refused_naming_the_op_and_the_way_out() -> None:
    prepared = prepare_all(model(), ["sm8650"])
    (problem,) = (single for error in prepared.problems for single in each_problem(error))
    assert isinstance(problem, ConstraintError)
    assert (problem.node, problem.op) == ("mine", "Blur")
    assert "UDO of package Pkg" in problem.problem
    assert "partition=True" in (problem.fix or "")


@needs_htp
def test_a_prepare_library_is_told_to_change_nothing(tmp_path: Path) -> None:
    model().save(tmp_path / "m.dlc")
    flags = ["--input_dlc", tmp_path / "m.dlc", "--partition", "--udo_package_path", "libUdoPkgImplDsp.so"]
    result = CliRunner().invoke(main, [str(flag) for flag in flags], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "has no effect" in result.output
    assert (tmp_path / "m_cached.dlc").exists()


@pytest.mark.parametrize("type", ["Blur", "Conv2d"])
def test_hta_leaves_it_to_the_rest(type: str) -> None:
    prepared = prepare_hta(model(type))
    reasons = {one.op: one.reasons for one in prepared.rejected}
    assert reasons["mine"] == ("package: expected qti.aisw, found Pkg",)


def _changed(edit: Callable[[Graph], None]) -> str:
    found = model(scale=u32(2), label=string("a"), table=static("", np.float32([1, 2])))
    edit(found.main)
    return fingerprint(found.main)


def test_fingerprints_tell_packages_and_parameters_apart() -> None:
    def op(graph: Graph):  # type: ignore[no-untyped-def]
        return next(op for op in graph.ops if op.name == "mine")

    def package(graph: Graph) -> None:
        op(graph).package = "Other"

    def scalar(graph: Graph) -> None:
        op(graph).params["scale"] = u32(3)

    def text(graph: Graph) -> None:
        op(graph).params["label"] = string("b")

    def table(graph: Graph) -> None:
        op(graph).params["table"] = static("", np.float32([1, 3]))

    def nothing(graph: Graph) -> None:
        del graph

    prints = [_changed(edit) for edit in (nothing, package, scalar, text, table)]
    assert len(set(prints)) == 5
    assert _changed(nothing) == prints[0]
