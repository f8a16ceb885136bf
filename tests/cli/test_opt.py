"""``xdlc-opt``: passes by name."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support import commands
from xdlc.cli.tools.opt import main
from xdlc.ir import Graph, Model, Tensor, make_op, static
from xdlc.ir.dtype import FLOAT32

invoke = partial(commands.invoke, main)


@pytest.fixture
def dlc(tmp_path: Any) -> Any:
    graph = Graph("g")
    tensor = graph.add_input(Tensor("x", (2, 3), FLOAT32))
    for name in "yz":
        perm = {"perm": static(f"perm_{name}", np.array([1, 0], np.uint32))}
        shape = tensor.shape[::-1]
        op = make_op(graph, "Transpose", [tensor], [Tensor(name, shape, FLOAT32)], perm, name=name)
        graph.append(op)
        tensor = op.outputs[0]
    relu = make_op(graph, "Relu", [tensor], [Tensor("out", (2, 3), FLOAT32)], name="relu")
    graph.append(relu)
    graph.add_output(relu.outputs[0])
    path = tmp_path / "net.dlc"
    xdlc.save(Model({"g": graph}), path)
    return path


def test_a_pass_is_applied_by_its_name(dlc: Any) -> None:
    target = dlc.with_name("made.dlc")
    result = invoke(dlc, "-o", target, "--pass", "merge_views")
    assert result.stdout == f"written: {target}\n"
    made = xdlc.load(target)
    assert len(made.main.ops) == 1
    assert made.metadata["history"][-1]["tool"] == "xdlc-opt"
    sample = {"x": np.arange(-3, 3, dtype=np.float32).reshape(2, 3)}
    np.testing.assert_array_equal(xdlc.run(made, sample)["out"], xdlc.run(dlc, sample)["out"])


def test_a_pass_that_does_not_exist_is_an_error(dlc: Any) -> None:
    assert "merge_views" in invoke(dlc, "--pass", "merge_view", code=2).stderr


def test_passes_are_listed() -> None:
    assert "fold_pad (converter)" in invoke("--list").stdout.splitlines()
