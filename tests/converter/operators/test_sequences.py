"""Sequences and optionals, which no DLC contains, compared with onnxruntime."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest

import xdlc
from tests.converter.operators.control_flow import parsed, refused, same
from xdlc.converter.session.context import SEQUENCE_ELEMENTS
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import HOST_PACKAGE

X = np.arange(24, dtype=np.float32).reshape(6, 4) - 9


def types(model):
    return [op.type for op in model.main.ops]


# ---------------------------------------------------------------------------- splitting and joining


@pytest.mark.parametrize(
    ("split", "keepdims", "pieces"),
    [
        ("", "", 6),
        ("", ", keepdims = 0", 6),
        ("int64 n = {2}", "", 3),
        ("int32 n = {4}", "", 2),
        ("int64[3] n = {1, 3, 2}", "", 3),
        ("int32[2] n = {2, 4}", ", keepdims = 0", 2),
        ("int64[1] n = {6}", "", 1),
    ],
)
def test_pieces_of_a_tensor(tmp_path, split, keepdims, pieces):
    weights = f"<{split}, " if split else "<"
    inputs = "x, n" if split else "x"
    model = same(
        tmp_path,
        f"""g (float[6,4] x) => (float[a,b] y, float[c,d] z, int64 n_pieces)
        {weights} int64 first = {{0}}, int64 last = {{-1}}> {{
            s = SplitToSequence <axis = 0 {keepdims}> ({inputs})
            n_pieces = SequenceLength (s)
            p = SequenceAt (s, first)
            q = SequenceAt (s, last)
            y = Tanh (p)
            z = Exp (q)
        }}""".replace("float[a,b]", "float" if "0" in keepdims and not split else "float[a,b]").replace(
            "float[c,d]", "float" if "0" in keepdims and not split else "float[c,d]"
        ),
        {"x": X},
    )
    assert xdlc.run(model, {"x": X})["n_pieces"] == pieces
    assert types(model).count("Split") == (pieces > 1)
    assert not any("Sequence" in type for type in types(model))


@pytest.mark.parametrize(("axis", "new_axis"), [(0, 0), (-1, 0), (0, 1), (1, 1), (-1, 1)])
def test_elements_side_by_side(tmp_path, axis, new_axis):
    model = same(
        tmp_path,
        f"""g (float[6,4] x, float[6,4] y) => (float[a,b{",c" if new_axis else ""}] z)
        <float[6,4] w = {{{",".join(map(str, range(24)))}}}> {{
            s = SequenceConstruct (x, y, w)
            z = ConcatFromSequence <axis = {axis}, new_axis = {new_axis}> (s)
        }}""",
        {"x": X, "y": X + 1},
    )
    assert types(model)[-1] == "Concat"


def test_known_pieces_are_folded(tmp_path):
    model = same(
        tmp_path,
        """g (float[2] x) => (float[2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, int64 at = {1}> {
            s = SplitToSequence <keepdims = 0> (w)
            v = SequenceAt (s, at)
            y = Mul (x, v)
        }""",
        {"x": np.array([3, 4], np.float32)},
    )
    assert types(model) == ["ElementWiseBinary"]


def test_pieces_of_computed_sizes_go_to_the_host(tmp_path):
    text = """g (float[n,4] x, int64[2] sizes) => (float[a,4] y, int64 k) <int64 at = {1}> {
        s = SplitToSequence (x, sizes)
        y = SequenceAt (s, at)
        k = SequenceLength (s)
    }"""
    model = same(
        tmp_path,
        text,
        {"x": X, "sizes": np.array([2, 4], np.int64)},
        {"x": X[:3], "sizes": np.array([1, 2], np.int64)},
    )
    assert [op.type for op in model.main.ops if op.package == HOST_PACKAGE] == ["Split"]


def test_pieces_of_an_image_stay_channel_last(tmp_path):
    w, v = (",".join(["0.5"] * count) for count in (4, 8))
    model = same(
        tmp_path,
        f"""g (float[1,4,5,5] x) => (float[1,2,5,5] y)
        <float[2,2,1,1] w = {{{w}}}, float[2,4,1,1] v = {{{v}}}, int64 two = {{2}}, int64 at = {{1}}> {{
            c = Relu (x)
            s = SplitToSequence <axis = 1> (c, two)
            p = SequenceAt (s, at)
            a = Conv (p, w)
            b = Conv (x, v)
            y = Add (a, b)
        }}""",
        {"x": np.random.default_rng(0).standard_normal((1, 4, 5, 5)).astype(np.float32)},
    )
    assert types(model).count("Transpose") <= 2


# ---------------------------------------------------------------------------- positions


@pytest.mark.parametrize(("at", "erased"), [("0", "-1"), ("-2", "0"), ("2", "1")])
def test_elements_come_and_go(tmp_path, at, erased):
    model = same(
        tmp_path,
        f"""g (float[4] x, float[4] y, float[4] z) => (float[n] r, int64 k)
        <int64 at = {{{at}}}, int32 erased = {{{erased}}}> {{
            e = SequenceEmpty <dtype = 1> ()
            a = SequenceInsert (e, x)
            b = SequenceInsert (a, y)
            c = SequenceInsert (b, z, at)
            same = Identity (c)
            d = SequenceErase (same, erased)
            f = SequenceErase (c)
            r1 = ConcatFromSequence <axis = 0> (d)
            r2 = ConcatFromSequence <axis = 0> (f)
            r = Concat <axis = 0> (r1, r2)
            k = SequenceLength (d)
        }}""",
        {"x": X[0], "y": X[1], "z": X[2]},
    )
    assert types(model).count("Concat") >= 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("y = SequenceAt (s, far)", "position 3 is outside of a sequence of 3"),
        ("y = SequenceAt (s, below)", "position -4 is outside of a sequence of 3"),
        ("t = SequenceErase (s, far) y = SequenceAt (t, zero)", "position 3 is outside"),
        ("t = SequenceInsert (s, x, below) y = SequenceAt (t, zero)", "position -4 is outside"),
        ("t = SequenceConstruct (s, x) y = SequenceAt (t, zero)", "input 0 is not a tensor"),
        ("t = SequenceInsert (s, zero) y = SequenceAt (t, zero)", "a sequence holds float32 and int64"),
        ("y = SequenceAt (x, zero)", "input 0 is not a sequence"),
        ("y = SequenceAt (s, real)", "must be one integer"),
        ("t = SequenceEmpty () y = SequenceAt (t, zero)", "position 0 is outside of a sequence of 0"),
        ("t = SequenceEmpty () y = ConcatFromSequence <axis = 0> (t)", "an empty sequence"),
        ("t = SequenceEmpty () u = SequenceErase (t) y = SequenceAt (u, zero)", "an empty sequence"),
        (
            "t = SplitToSequence <axis = 3> (x) y = SequenceAt (t, zero)",
            "axis 3 does not fit a value of rank 1",
        ),
        ("t = SplitToSequence (x, far2) y = SequenceAt (t, zero)", "do not cut"),
        (
            "t = SplitToSequence (x, zero) y = SequenceAt (t, zero)",
            "the pieces must be 1 or more, but is 0",
        ),
        ("t = SplitToSequence (x, real) y = SequenceAt (t, zero)", "must be integers"),
        ("y = ConcatFromSequence <axis = 1> (s)", "axis 1 does not fit a result of rank 1"),
        ("y = ConcatFromSequence <axis = -3, new_axis = 1> (s)", "axis -3 does not fit a result of rank 2"),
        ("t = SequenceMap <body = 3> (s) y = SequenceAt (t, zero)", "attribute body is no graph"),
        ("t = SequenceMap (s) y = SequenceAt (t, zero)", "attribute body is missing"),
        ("o = Optional <type = float[4]> () y = OptionalGetElement (o)", "an empty optional"),
    ],
)
def test_what_nobody_can_execute_is_refused(tmp_path, line, reason):
    error = refused(
        tmp_path,
        f"""g (float[4] x) => (float[n] y)
        <int64 zero = {{0}}, int64 far = {{3}}, int64 below = {{-4}}, int64[2] far2 = {{3, 9}},
         float real = {{1.0}}> {{
            s = SequenceConstruct (x, x, x)
            {line}
        }}""",
    )
    assert isinstance(error, ModelError)
    assert reason in error.problem


@pytest.mark.parametrize(
    ("inputs", "lines", "reason"),
    [
        ("float[4] x, int64 i", "s = SequenceConstruct (x, x) y = SequenceAt (s, i)", "must be constant"),
        ("float[n] x", "s = SplitToSequence (x) y = SequenceAt (s, zero)", "is dynamic"),
        (
            "float[4] x, int64 i",
            "s = SplitToSequence (x, i) y = SequenceAt (s, zero)",
            "the number of its pieces is only known when the graph runs",
        ),
        (
            "float[4] x, int64[n] i",
            "s = SplitToSequence (x, i) y = SequenceAt (s, zero)",
            "number of its pieces",
        ),
        ("float[4] x", "s = SequenceConstruct (x) y = Relu (s)", "input 0 has type sequence"),
        ("float[4] x", "y = SequenceConstruct (x)", "output 'y' is a sequence"),
        ("float[4] x", "y = Optional (x)", "output 'y' is a sequence or an optional"),
        ("seq(float[4]) x", "y = SequenceAt (x, zero)", "the input has type sequence"),
        ("optional(float[4]) x", "y = OptionalGetElement (x)", "the input has type optional"),
    ],
)
def test_what_a_dlc_cannot_hold_is_refused(tmp_path, inputs, lines, reason):
    error = refused(tmp_path, f"g ({inputs}) => (float[m] y) <int64 zero = {{0}}> {{ {lines} }}")
    assert isinstance(error, UnsupportedOp)
    assert reason in error.problem
    assert error.fix


# ---------------------------------------------------------------------------- bounds


def test_many_pieces_are_refused_at_once(tmp_path):
    start = time.perf_counter()
    error = refused(
        tmp_path,
        """g (float[2000000000] x) => (float[m] y) <int64 zero = {0}> {
            s = SplitToSequence (x)
            y = SequenceAt (s, zero)
        }""",
    )
    assert "2000000000 nodes" in error.problem
    assert time.perf_counter() - start < 5


def test_the_elements_of_all_sequences_are_bounded(tmp_path):
    start = time.perf_counter()
    node = onnx.helper.make_node
    count = 1 << 12
    nodes = [node("SequenceConstruct", ["x"] * count, ["s0"])]
    nodes += [node("SequenceInsert", [f"s{i}", "x"], [f"s{i + 1}"]) for i in range(400)]
    nodes.append(node("SequenceAt", ["s400", "zero"], ["y"]))
    model = parsed("g (float[4] x) => (float[4] y) <int64 zero = {0}> { y = Relu(x) }")
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert f"list more than {SEQUENCE_ELEMENTS}" in refused(tmp_path, model).problem
    assert time.perf_counter() - start < 5


# ---------------------------------------------------------------------------- graphs in nodes


def test_loops_carry_sequences_from_iteration_to_iteration(tmp_path):
    text = """g (float[6,4] x) => (float[a,4] y) <int64 n = {20}, bool go = {1}, int64 six = {6}> {
        e = SequenceEmpty ()
        s = SplitToSequence <keepdims = 0> (x)
        all = Loop (n, go, e) <body = b (int64 i, bool c, seq(float[4]) v) => (bool d, seq(float[4]) w) {
            d = Identity (c)
            at = Mod (i, six)
            p = SequenceAt (s, at)
            f = Cast <to = 1> (i)
            q = Mul (p, f)
            w = SequenceInsert (v, q)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }"""
    model = same(tmp_path, text, {"x": X})
    assert not {"While", "If"} & set(types(model))


def test_a_computed_number_of_iterations_cannot_carry_sequences(tmp_path):
    text = """g (float[4] x, int64 n) => (float[m] y) <bool go = {1}> {
        e = SequenceEmpty ()
        all = Loop (n, go, e) <body = b (int64 i, bool c, seq(float[4]) v) => (bool d, seq(float[4]) w) {
            d = Identity (c)
            w = SequenceInsert (v, x)
        }>
        y = ConcatFromSequence <axis = 0> (all)
    }"""
    error = refused(tmp_path, text)
    assert isinstance(error, UnsupportedOp)
    assert "a state of the loop is a sequence" in error.problem


def test_loops_read_sequences_around_them(tmp_path):
    text = """g (float[6,4] x, int64 n) => (float[4] y) <bool go = {1}, int64 two = {2}> {
        s = SplitToSequence <keepdims = 0> (x)
        o = Optional (s)
        z = SequenceAt (s, two)
        y = Loop (n, go, z) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
            d = Identity (c)
            t = OptionalGetElement (o)
            p = SequenceAt (t, two)
            w = Add (v, p)
        }>
    }"""
    same(tmp_path, text, {"x": X, "n": np.array(3)}, {"x": X, "n": np.array(0)})


@pytest.mark.parametrize("chosen", [0, 1])
def test_known_conditions_choose_a_sequence(tmp_path, chosen):
    text = f"""g (float[4] x, float[4] y) => (float[n] z) <bool c = {{{chosen}}}> {{
        s = If (c) <
            then_branch = a () => (seq(float[4]) p) {{ p = SequenceConstruct (x, y) }},
            else_branch = b () => (seq(float[4]) q) {{ q = SequenceConstruct (y, x, y) }}
        >
        z = ConcatFromSequence <axis = 0> (s)
    }}"""
    model = same(tmp_path, text, {"x": X[0], "y": X[1]})
    assert types(model) == ["Concat"]


def test_computed_conditions_choose_between_sequences_of_one_length(tmp_path):
    text = """g (float[4] x, float[4] y, bool c) => (float[n] z) {
        s = If (c) <
            then_branch = a () => (seq(float[4]) p) { p = SequenceConstruct (x, y) },
            else_branch = b () => (seq(float[4]) q) { t = Exp (y) q = SequenceConstruct (t, x) }
        >
        z = ConcatFromSequence <axis = 0> (s)
    }"""
    feeds = {"x": X[0], "y": X[1]}
    same(tmp_path, text, {**feeds, "c": np.array(True)}, {**feeds, "c": np.array(False)})
    error = refused(tmp_path, text.replace("q = SequenceConstruct (t, x)", "q = SequenceConstruct (t)"))
    assert isinstance(error, UnsupportedOp)
    assert "sequences of 2 and 1 elements" in error.problem


def test_maps_run_their_body_for_each_element(tmp_path):
    text = """g (float[6,4] x, float[4] w) => (float[a,b] y, int64[c] z) {
        s = SplitToSequence <keepdims = 0> (x)
        e = SequenceConstruct (w, w, w, w, w, w)
        t, u = SequenceMap (s, w, e) <body = b (float[4] p, float[4] q, float[4] r)
            => (float[4] sum, int64[1] shape) {
            d = Mul (p, q)
            sum = Add (d, r)
            shape = Shape (p)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (t)
        z = ConcatFromSequence <axis = 0> (u)
    }"""
    model = same(tmp_path, text, {"x": X, "w": X[2]})
    assert "While" not in types(model)


# ---------------------------------------------------------------------------- optionals


@pytest.mark.parametrize(("given", "has_element"), [("x", True), ("", False)])
def test_optionals_known_while_converting(tmp_path, given, has_element):
    attribute = "" if given else "<type = float[4]>"
    text = f"""g (float[4] x) => (float[4] y) {{
        o = Optional {attribute} ({given})
        has = OptionalHasElement (o)
        y = If (has) <
            then_branch = a () => (float[4] p) {{ e = OptionalGetElement (o) p = Exp (e) }},
            else_branch = b () => (float[4] q) {{ q = Tanh (x) }}
        >
    }}"""
    model = same(tmp_path, text, {"x": X[0]})
    assert types(model) == ["ElementWiseUnary" if has_element else "ElementWiseNeuron"]


@pytest.mark.parametrize("kind", ["tensor", "sequence"])
def test_optionals_that_a_branch_leaves_empty(tmp_path, kind):
    """Which branch it was goes along as a truth value of its own."""
    element = "float[4]" if kind == "tensor" else "seq(float[4])"
    wrapped = "o = Optional (x)" if kind == "tensor" else "s = SequenceConstruct (x, x) o = Optional (s)"
    taken = "q = OptionalGetElement (i)"
    if kind == "sequence":
        taken = "t = OptionalGetElement (i) q = SequenceAt (t, zero)"
    text = f"""g (float[4] x, bool c) => (float[4] y, bool has) <int64 zero = {{0}}> {{
        i = If (c) <
            then_branch = a () => (optional({element}) o) {{ {wrapped} }},
            else_branch = b () => (optional({element}) e) {{ e = Optional <type = {element}> () }}
        >
        has = OptionalHasElement (i)
        y = If (has) <
            then_branch = d () => (float[4] q) {{ {taken} }},
            else_branch = f () => (float[4] r) {{ r = Tanh (x) }}
        >
    }}"""
    same(tmp_path, text, {"x": X[0], "c": np.array(True)}, {"x": X[0], "c": np.array(False)})


def test_from_opset_18_on_any_value_is_an_optional(tmp_path):
    text = """g (float[4] x) => (float[4] y, bool a, bool b, bool c) <int64 zero = {0}> {
        s = SequenceConstruct (x)
        t = OptionalGetElement (s)
        y = SequenceAt (t, zero)
        a = OptionalHasElement (x)
        b = OptionalHasElement (t)
        c = OptionalHasElement ()
    }"""
    same(tmp_path, text, {"x": X[0]}, opset=18)
