"""If, Loop and Scan that are refused, and bounds of what they cost."""

from __future__ import annotations

import time

import onnx
import pytest

import xdlc
from tests.converter.operators.control_flow import constant_loop, parsed, refused
from xdlc.errors import ModelError, ProblemList


@pytest.mark.parametrize(
    "node", ["If <then_branch = 1, else_branch = 2> (c)", "Loop <body = 1> (n, c, x)", "Scan <body = 1> (x)"]
)
def test_attributes_that_are_no_graphs_are_refused(tmp_path, node):
    error = refused(tmp_path, f"g (bool c, int64 n, float[3] x) => (float[3] y) {{ y = {node} }}")
    assert isinstance(error, ModelError)
    assert "is no graph" in error.problem


def test_problems_inside_of_branches_name_the_way_to_them(tmp_path):
    text = """g (bool c, float[3] x) => (float[3] y) {
        y = If (c) <
            then_branch = a () => (float[3] p) { p = Nonsense(x) },
            else_branch = b () => (float[3] q) { q = Rubbish(x) }
        >
    }"""
    error = refused(tmp_path, text)
    assert [problem.where.split(": ", 1)[1] for problem in error.problems] == [
        "in If 'y': node 'p' (Nonsense, opset 17)",
        "in If 'y': node 'q' (Rubbish, opset 17)",
    ]


def test_problems_of_loop_bodies_are_told_once(tmp_path):
    for limit in (0, 16):
        error = refused(tmp_path, constant_loop(4).replace("Mul(v, f)", "Nonsense(v, f)"), unroll_loops=limit)
        assert not isinstance(error, ProblemList)
        assert "operator Nonsense" in error.problem


def test_branches_that_give_different_types_are_invalid(tmp_path):
    text = """g (bool c, float[3] x) => (float[3] y) {
        y = If (c) <
            then_branch = a () => (float[3] p) { p = Neg(x) },
            else_branch = b () => (int64[3] q) { q = Cast<to=7>(x) }
        >
    }"""
    error = refused(tmp_path, text)
    assert isinstance(error, ModelError)
    assert "a value has several types, float32 and int64" in error.problem


@pytest.mark.slow
def test_unrolling_is_bounded(tmp_path):
    """Loops inside of loops, each short, whose iterations are millions in all."""
    inner = "w = Neg(v)"
    for level in range(8):
        inner = f"""w = Loop (n, , v) <
            body = b{level} (int64 i{level}, bool go, float[3] v) => (bool go, float[3] w) {{ {inner} }}>"""
    text = f"g (float[3] v) => (float[3] w) <int64 n = {{10}}> {{ {inner} }}"
    begun = time.monotonic()
    onnx.save(parsed(text), tmp_path / "m.onnx")
    model = xdlc.convert(tmp_path / "m.onnx")
    assert sum(len(graph) for graph in model.graphs.values()) < 40_000
    assert time.monotonic() - begun < 30
