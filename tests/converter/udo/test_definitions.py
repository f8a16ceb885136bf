"""What a model keeps of its custom ops: definitions, and kernels beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.custom_ops import converted, custom, like_first, my_node, onnx_model, param, place
from xdlc.container import load, udo
from xdlc.converter.checking import check
from xdlc.converter.onnx import FRONTEND
from xdlc.errors import BackendError
from xdlc.ir import f32
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.op_view import OpView
from xdlc.opdefs.source_match import Kernel, UdoSet
from xdlc.runtime.udo.kernel_files import read_calls

F32 = np.float32


def parse_params(node: Any) -> Any:
    return {"factor": f32(node.attributes["by"])}


def build_kernel(op: OpView) -> Kernel:
    """Build a kernel for each op, one for each factor."""
    assert [spec and spec.shape for spec in op.inputs] == [(2,), (4,)]
    return Kernel("k", "run", "fo", (op.params["factor"], np.arange(3)), "linux-x86_64", "gcc", b"\x7fELF")


SCALE = custom(
    "Scale",
    [place("x"), place("w", is_static=True)],
    [place("y")],
    param("factor", FLOAT32),
    accepts=lambda node: True,
    parse_params=parse_params,
    infer_shape_and_type=like_first,
    build_kernel=build_kernel,
)


def test_a_kernel_of_several_ops_is_stored_once_and_ops_have_names_of_their_own(tmp_path: Path) -> None:
    branches = {
        f"{word}_branch": helper.make_graph(
            [my_node("Scale", ["m", "w"], [word], by=2.0)],
            word,
            [],
            [helper.make_tensor_value_info(word, 1, [2])],
        )
        for word in ("then", "else")
    }
    nodes = [
        helper.make_node("Scale", ["x", "w"], ["m"], name="first", domain="my.domain", by=0.5),
        helper.make_node("If", ["c"], ["y"], name="n_if", **branches),
    ]
    source = onnx_model(
        nodes,
        {"c": (np.bool_, []), "x": (F32, [2])},
        {"y": (F32, [2])},
        {"w": np.arange(4, dtype=F32)},
    )
    model = converted(tmp_path, source, SCALE)
    model.save(tmp_path / "m.dlc")
    loaded = load(tmp_path / "m.dlc")
    names = {op.name for graph in loaded.graphs.values() for op in graph.ops if op.package == "Pkg"}
    assert len(names) == 3
    first, second = read_calls(tmp_path / "kernel_meta" / "k.json")
    assert [first.kernel.values[0], second.kernel.values[0]] == [0.5, 2.0]
    assert first.ops == ("first",)
    assert {*first.ops, *second.ops} == names
    assert udo.definitions(loaded)["Pkg"].opdefs == (SCALE.definition,)


def test_a_kernel_that_cannot_be_built_is_a_problem_of_the_model(tmp_path: Path) -> None:
    def fail(op: OpView) -> Kernel:
        raise BackendError("there is no compiler", fix="install one")

    broken = replace(SCALE, build_kernel=fail)
    node = my_node("Scale", ["x", "w"], ["y"], by=2.0)
    given = onnx_model([node], {"x": (F32, [2])}, {"y": (F32, [2])}, {"w": np.arange(4, dtype=F32)})
    with pytest.raises(BackendError, match="no compiler"):
        converted(tmp_path, given, broken)
    report = check(FRONTEND, tmp_path / "model.onnx", udos=UdoSet((broken,)))
    assert [problem.why for problem in report.problems] == ["there is no compiler"]
