"""If, Loop and Scan that are refused, and bounds of what they cost."""

from __future__ import annotations

import time

import onnx
import pytest

import xdlc
from tests.converter.operators.control_flow import constant_loop, parsed
from xdlc.errors import ModelError, ProblemList, UnsupportedOp, XdlcError


def refused(folder, model, **options):
    onnx.save(parsed(model) if isinstance(model, str) else model, folder / "m.onnx")
    with pytest.raises(XdlcError) as caught:
        xdlc.convert(folder / "m.onnx", **options)
    return caught.value


def test_sequences_as_states_are_refused_with_the_reason(tmp_path):
    text = """g (int64 n, float[3] x) => (float[3] y) {
        e = SequenceEmpty()
        s = Loop (n, , e) <body = b (int64 i, bool go, seq(float[3]) v) => (bool go, seq(float[3]) w) {
            w = SequenceInsert(v, x)
        }>
        y = ConcatFromSequence<axis=0>(s)
    }"""
    model = parsed(text)
    error = refused(tmp_path, model)
    found = error.problems if isinstance(error, ProblemList) else (error,)
    assert all(isinstance(problem, UnsupportedOp) for problem in found)
    assert any("a state of the loop is a sequence" in problem.problem for problem in found)


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


def nested_ifs(depth):
    """Return the bytes of a model of ``depth`` branches inside each other."""
    leaf = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")]
    ).SerializeToString()
    else_branch = onnx.helper.make_attribute(
        "else_branch", onnx.GraphProto.FromString(leaf)
    ).SerializeToString()
    tail = onnx.helper.make_graph([], "g", [], [onnx.ValueInfoProto(name="y")]).SerializeToString()
    head = onnx.NodeProto(input=["c"], output=["y"], op_type="If").SerializeToString()
    kind = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH).SerializeToString()
    graph = leaf
    for _ in range(depth):
        attribute = kind + _field(6, graph)
        graph = _field(1, head + _field(5, attribute) + _field(5, else_branch)) + tail
    inputs = [
        onnx.helper.make_tensor_value_info("c", 9, ()),
        onnx.helper.make_tensor_value_info("x", 1, (1,)),
    ]
    for entry in inputs:
        graph += _field(11, entry.SerializeToString())
    opset = onnx.helper.make_opsetid("", 17).SerializeToString()
    return onnx.ModelProto(ir_version=8).SerializeToString() + _field(8, opset) + _field(7, graph)


def _field(number, content):
    def varint(value):
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    return varint(number << 3 | 2) + varint(len(content)) + content


def test_deep_nesting_is_refused_at_once(tmp_path):
    (tmp_path / "m.onnx").write_bytes(nested_ifs(16))
    assert len(xdlc.convert(tmp_path / "m.onnx").graphs) == 33
    for depth in (40, 10_000):
        (tmp_path / "m.onnx").write_bytes(nested_ifs(depth))
        begun = time.monotonic()
        with pytest.raises(XdlcError) as caught:
            xdlc.convert(tmp_path / "m.onnx")
        assert time.monotonic() - begun < 5
        assert caught.value.fix


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
