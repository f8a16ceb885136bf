"""If, Loop and Scan, compared with onnxruntime from the DLC and from the export."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import xdlc
from tests.converter.operators.control_flow import FALSE, TRUE, X, constant_loop, kinds, parsed, runners, same
from xdlc.errors import BackendError
from xdlc.opdefs.control_flow import Loop, called
from xdlc.runtime.steps import accumulators

# ---------------------------------------------------------------------------- If


def test_branches_capture_what_they_read(tmp_path):
    model = same(
        tmp_path,
        """g (bool c, float[2,3] x) => (float[2,3] y)
        <float[3] w = {1, 2, 3}> {
            t = Tanh(x)
            y = If (c) <
                then_branch = a () => (float[2,3] p) { p = Mul(t, w) },
                else_branch = b () => (float[2,3] q) { s = Sigmoid(x)  q = Add(s, t) }
            >
        }""",
        {"c": TRUE, "x": X},
        {"c": FALSE, "x": X},
    )
    (op,) = runners(model)
    assert [tensor.name for tensor in op.inputs[1:]] == ["t", "x"]
    assert list(model.graphs) == ["g", "g_y_then", "g_y_else"]
    assert [tensor.name for tensor in model.graphs["g_y_then"].inputs] == ["t", "x"]
    assert model.graphs["g_y_then"].ops[0].origin.nodes == ("p",)


def test_conditions_on_known_shapes_are_known(tmp_path):
    text = """g (float[2,N] x) => (float[2,M] y)
        <int64 one = {1}, int64 three = {3}> {
            s = Shape(x)
            n = Gather(s, one)
            c = Equal(n, three)
            y = If (c) <
                then_branch = a () => (float[A,B] p) { p = Tanh(x) },
                else_branch = b () => (float[A,B] q) { q = Concat<axis=1>(x, x) }
            >
        }"""
    assert list(same(tmp_path, text, {"x": X}, define_symbol={"N": 3}).graphs) == ["g"]
    model = same(tmp_path, text, {"x": X}, {"x": X[:, :2]})
    assert len(model.graphs) == 3
    assert model.main.outputs[0].dynamic_axes == (1,)


def test_branches_that_do_not_fit_the_shapes_are_kept_for_others(tmp_path):
    """Only one branch fits the bound shape, and the condition is not known."""
    text = """g (int64 n, float[N,3] x) => (float[A,B] y)
        <int64 two = {2}, float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[1,3] z = {0, 0, 1}> {
            c = Equal(n, two)
            y = If (c) <
                then_branch = a () => (float[A,B] p) { p = MatMul(x, w) },
                else_branch = b () => (float[A,B] q) { t = MatMul(w, x) q = Add(t, z) }
            >
        }"""
    model = same(tmp_path, text, {"n": np.array(2), "x": X}, exported=False, input_dims={"x": (2, 3)})
    assert [op.package for op in model.graphs["g_y_else"].ops if op.type == "MatMul"] == ["xdlc"]
    assert {op.package for op in model.graphs["g_y_then"].ops} == {"qti.aisw"}
    with pytest.raises(BackendError):
        xdlc.run(model, {"n": np.array(3), "x": X})


def test_branches_of_different_shape_and_rank(tmp_path):
    text = """g (bool c, float[2,3] x) => (float y, float z)
        <int64[1] zero = {0}, int64[1] m = {-1}> {
            r, z = If (c) <
                then_branch = a () => (float p, float q) { p = ReduceSum<keepdims=0>(x) q = Neg(x) },
                else_branch = b () => (float s, float t) { s = Reshape(x, m) t = Concat<axis=0>(x, x) }
            >
            y = Add(r, r)
        }"""
    model = parsed(text)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    same(tmp_path, model, {"c": TRUE, "x": X}, {"c": FALSE, "x": X})


def test_outputs_that_are_inputs_constants_and_scalars(tmp_path):
    same(
        tmp_path,
        """g (bool[1] c, float[2,3] x, int64 n) => (float[2,3] y, int64 m, float[2,3] z)
        <int64 one = {1}> {
            y, m, z = If (c) <
                then_branch = a () => (float[2,3] p, int64 q, float[2,3] r) {
                    p = Identity(x) q = Add(n, one) r = Relu(x)
                },
                else_branch = b () => (float[2,3] p, int64 q, float[2,3] r) {
                    p = Constant<value = float[2,3] {1, 2, 3, 4, 5, 6}>() q = Identity(n) r = Identity(p)
                }
            >
        }""",
        {"c": np.array([True]), "x": X, "n": np.array(2**40)},
        {"c": np.array([False]), "x": X, "n": np.array(-(2**40))},
    )


def test_nested_branches_read_from_everywhere(tmp_path):
    model = same(
        tmp_path,
        """g (bool c, bool d, float[2,3] x) => (float[2,3] y) {
            t = Tanh(x)
            y = If (c) <
                then_branch = a () => (float[2,3] p) {
                    u = Neg(t)
                    p = If (d) <
                        then_branch = aa () => (float[2,3] v) { v = Add(u, x) },
                        else_branch = ab () => (float[2,3] w) { w = Mul(t, t) }
                    >
                },
                else_branch = b () => (float[2,3] q) { q = Relu(t) }
            >
        }""",
        *({"c": np.array(c), "d": np.array(d), "x": X} for c in (True, False) for d in (True, False)),
    )
    assert len(model.graphs) == 5
    trace = [op.origin for graph in model.graphs.values() for op in graph.ops]
    assert {("v",), ("w",), ("p",), ("y",)} <= {origin.nodes for origin in trace}
    assert all(origin.nodes or origin.reason for origin in trace)


# ---------------------------------------------------------------------------- Loop

POWERS = """g (int64 n, bool c, float[3] x) => (float[3] y, float[K,3] all)
    <float[3] f = {2, 0.5, -1}> {
        y, all = Loop (n, c, x) <
            body = b (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] s) {
                on = Identity(go)
                w = Mul(v, f)
                s = Identity(w)
            }
        >
    }"""


@pytest.mark.parametrize("count", [0, 1, 6])
@pytest.mark.parametrize("go", [TRUE, FALSE])
def test_loops_of_any_length(tmp_path, count, go):
    feeds = {"n": np.array(count), "c": go, "x": X[0]}
    model = same(tmp_path, POWERS, feeds)
    (op,) = runners(model)
    assert op.type == "While"
    assert len(op.outputs) == 2


def test_short_loops_are_unrolled(tmp_path):
    model = same(tmp_path, constant_loop(4), {"x": X[0]})
    assert list(model.graphs) == ["g"]
    assert {op.package for op in model.main.ops} == {"qti.aisw"}
    assert model.main.outputs[1].shape == (4, 3)


@pytest.mark.parametrize("limit", [0, 3])
def test_longer_loops_stay(tmp_path, limit):
    model = same(tmp_path, constant_loop(4), {"x": X[0]}, unroll_loops=limit)
    (op,) = runners(model)
    assert [tensor.shape for tensor in op.outputs] == [(3,), (4, 3), (4,)]  # every iteration runs
    assert model.metadata["history"][0]["args"]["unroll_loops"] == str(limit)


def test_weights_of_unrolled_bodies_are_held_once(tmp_path):
    text = """g (float[1,3] x) => (float[1,3] y)
    <int64 n = {5}> {
        y = Loop (n, , x) <body = b (int64 i, bool go, float[1,3] v) => (bool go, float[1,3] w) {
            k = Constant<value = float[3,3] {1, 2, 3, 4, 5, 6, 7, 8, 9}>()
            t = MatMul(v, k)
            w = Tanh(t)
        }>
    }"""
    model = same(tmp_path, text, {"x": X[:1]})
    assert sum(tensor.is_static for tensor in model.main.tensors.values()) == 1


@pytest.mark.parametrize("limit", [0, 16])
def test_loops_that_end_themselves(tmp_path, limit):
    text = """g (float x) => (float y, int64 steps)
    <int64 zero = {0}, int64 one = {1}, int64 five = {5}, bool yes = {1}> {
        steps, y = Loop (, yes, zero, x) <
            body = b (int64 i, bool go, int64 k, float v) => (bool on, int64 j, float w) {
                j = Add(k, one)
                w = Add(v, v)
                on = Less(j, five)
            }
        >
    }"""
    model = same(tmp_path, text, {"x": np.array(1.5, np.float32)}, unroll_loops=limit)
    assert (len(model.graphs) == 1) == (limit == 16)


def test_states_whose_shape_changes(tmp_path):
    text = """g (int64 n, float[1,2] x) => (float[M,2] y, float[K,1] sums)
    <float[1,2] row = {1, 2}> {
        y, sums = Loop (n, , x) <
            body = b (int64 i, bool go, float[A,2] v) => (bool go, float[B,2] w, float[1] s) {
                w = Concat<axis=0>(v, row)
                t = ReduceSum<keepdims=0>(w)
                e = Constant<value_ints=[1]>()
                s = Reshape(t, e)
            }
        >
    }"""
    for limit in (0, 16):
        model = same(
            tmp_path, text, *({"n": np.array(n), "x": X[:1, :2]} for n in (0, 1, 3)), unroll_loops=limit
        )
        assert model.main.outputs[0].dynamic_axes == (0,)


def test_elements_whose_shape_is_open(tmp_path):
    text = """g (int64 n, float[P] x) => (float[P] y, float[K,P] all)
    <float two = {2}> {
        y, all = Loop (n, , x) <body = b (int64 i, bool go, float[P] v) => (bool go, float[P] w, float[P] s) {
            w = Mul(v, two)
            s = Neg(w)
        }>
    }"""
    same(tmp_path, text, *({"n": np.array(n), "x": X[0]} for n in (1, 4)), {"n": np.array(2), "x": X[0, :1]})


def test_scan_outputs_are_accumulators_for_the_host(tmp_path):
    model = same(tmp_path, constant_loop(4), {"x": X[0]}, unroll_loops=0)
    (op,) = runners(model)
    cond, body = (model.graphs[name] for name in called(op))
    assert list(accumulators(cond, body, Loop.of(op, body))) == [1, 2]


def test_states_that_nothing_changes_are_no_states(tmp_path):
    text = """g (int64 n, float[3] x, float[3] k) => (float[3] y, float[3] same)
    <float[3] w = {1, 2, 3}> {
        y, same, w2 = Loop (n, , x, k, w) <
            body = b (int64 i, bool go, float[3] v, float[3] a, float[3] c)
                => (bool go, float[3] p, float[3] b, float[3] c) {
                q = Add(v, a)
                p = Mul(q, c)
                b = Identity(a)
            }
        >
    }"""
    model = same(tmp_path, text, {"n": np.array(3), "x": X[0], "k": X[1]})
    (op,) = runners(model)
    assert len(op.outputs) == 1
    body = model.graphs[op.param("body_graph")]
    assert any(tensor.is_static and tensor.shape == (3,) for tensor in body.tensors.values())


def test_a_state_that_is_transposed_alone_changes(tmp_path):
    text = """g (float[3,3] x) => (float[3,3] y)
    <int64 n = {3}> {
        y = Loop (n, , x) <body = b (int64 i, bool go, float[3,3] v) => (bool go, float[3,3] w) {
            w = Transpose (v)
        }>
    }"""
    same(tmp_path, text, {"x": np.arange(9, dtype="f4").reshape(3, 3)}, unroll_loops=0)


def test_counters_of_64_bits_stay_exact(tmp_path):
    text = """g (int64 n, int64 start) => (int64 y, int64[K] all)
    <int64 step = {4294967297}> {
        y, all = Loop (n, , start) <body = b (int64 i, bool go, int64 v) => (bool go, int64 w, int64 u) {
            w = Add(v, step)
            u = Mul(i, step)
        }>
    }"""
    same(tmp_path, text, {"n": np.array(5), "start": np.array(2**53 + 1)})


def test_loops_inside_of_loops(tmp_path):
    text = """g (int64 n, float[2] x) => (float[2] y, float[K,3,2] all)
    <int64 three = {3}, float two = {2}> {
        y, all = Loop (n, , x) <
            body = b (int64 i, bool go, float[2] v) => (bool go, float[2] w, float[3,2] u) {
                w, u = Loop (three, , v) <
                    body = c (int64 j, bool on, float[2] p) => (bool on, float[2] q, float[2] t) {
                        f = Cast<to=1>(i)
                        r = Mul(p, two)
                        q = Add(r, f)
                        t = Neg(q)
                    }
                >
            }
        >
    }"""
    for limit in (0, 16):
        model = same(tmp_path, text, *({"n": np.array(n), "x": X[0, :2]} for n in (0, 2)), unroll_loops=limit)
        assert len(runners(model)) == (1 if limit else 2)


def test_fp16_and_quantized_states(tmp_path):
    text = """g (int64 n, float16[3] x, float[3] z) => (float16[3] y, float[3] u)
    <float16[3] f = {2, 1, 1}, float s = {0.125}, uint8 o = {128}> {
        y, u = Loop (n, , x, z) <
            body = b (int64 i, bool go, float16[3] v, float[3] a)
                => (bool go, float16[3] w, float[3] d) {
                w = Add(v, f)
                h = Add(a, a)
                q = QuantizeLinear(h, s, o)
                d = DequantizeLinear(q, s, o)
            }
        >
    }"""
    feeds = {"n": np.array(3), "x": X[0].astype(np.float16), "z": X[1]}
    same(tmp_path, text, feeds)


# ---------------------------------------------------------------------------- Scan


@pytest.mark.parametrize("limit", [0, 16])
@pytest.mark.parametrize("directions", [[0, 0], [1, 0], [0, 1]])
def test_scans_along_any_axis_in_both_directions(tmp_path, directions, limit):
    text = f"""g (float[2] h, float[2,4] x, float[4,3,2] z) => (float[2] y, float[2,4] s, float[2,3,4] t)
    {{
        y, s, t = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
            scan_input_directions = {directions}, scan_output_axes = [1, -1],
            scan_output_directions = {directions},
            body = b (float[2] a, float[2] p, float[3,2] q) => (float[2] k, float[2] k2, float[2,3] r) {{
                k = Add(a, p)
                k2 = Neg(k)
                r = Transpose<perm=[1, 0]>(q)
            }}
        > (h, x, z)
    }}"""
    feeds = {
        "h": X[0, :2],
        "x": np.arange(8, dtype=np.float32).reshape(2, 4),
        "z": np.arange(24, dtype=np.float32).reshape(4, 3, 2),
    }
    model = same(tmp_path, text, feeds, unroll_loops=limit)
    assert (len(model.graphs) == 1) == (limit == 16)


def test_scans_of_open_length(tmp_path):
    text = """g (float[2] h, float[T,2] x) => (float[2] y, float[T,2] s) {
        y, s = Scan <num_scan_inputs = 1, scan_input_directions = [1],
            body = b (float[2] a, float[2] p) => (float[2] k, float[2] l) { k = Add(a, p) l = Neg(k) }> (h, x)
    }"""
    xs = [np.arange(2 * t, dtype=np.float32).reshape(t, 2) for t in (1, 5)]
    same(tmp_path, text, *({"h": X[0, :2], "x": x} for x in xs))


def test_scans_of_opset_8_take_batches(tmp_path):
    text = """g (float[3,2] h, float[3,4,2] x) => (float[3,2] y, float[3,4,2] s) {
        y, s = Scan <num_scan_inputs = 1,
            body = b (float[2] a, float[2] p) => (float[2] k, float[2] l) { k = Add(a, p) l = Neg(k) }
        > (, h, x)
    }"""
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    same(tmp_path, parsed(text, 8), {"h": X.T.copy(), "x": x})


def test_what_no_branch_reads_is_not_handed_to_it(tmp_path):
    model = same(
        tmp_path,
        """g (bool c, float[2,3] x) => (float[2,3] y) {
            e = Exp(x)
            y = If (c) <
                then_branch = a () => (float[2,3] p) { p = If (c) <
                    then_branch = i () => (float[2,3] s) { s = Neg(x) },
                    else_branch = j () => (float[2,3] t) { t = Relu(x) u = Abs(e) }
                > },
                else_branch = b () => (float[2,3] q) { q = Relu(x) r = Abs(e) }
            >
        }""",
        {"c": TRUE, "x": X},
        {"c": FALSE, "x": X},
    )
    assert [op.type for op in model.main.ops] == ["Reshape", "If"]


IMAGES = """g (float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] z)
    <int64 n = {20}, bool yes = {1}, float[2,2,3,3] w, float[1,2,4,4] start> {
    y, z = Loop (n, yes, %s) <body = b (int64 i, bool go, float[1,2,4,4] p, float[1,2,4,4] q)
        => (bool on, float[1,2,4,4] s, float[1,2,4,4] t) {
        on = Identity (go)
        %s
    }>
}"""
CONV = "Conv <pads = [1, 1, 1, 1]>"


@pytest.mark.parametrize(
    ("states", "body", "transposes"),
    [
        ("x, start", f"s = {CONV} (p, w)  t = {CONV} (q, w)", 0),
        ("x, start", f"t = {CONV} (p, w)  s = {CONV} (q, w)", 0),
        ("x, x", f"c = {CONV} (p, w)  s = Softmax <axis = 1> (c)  d = {CONV} (q, w)  t = Add (d, x)", 0),
        ("start, x", f"s = {CONV} (q, w)  t = Identity (p)", 2),
        ("x, start", f"s = {CONV} (p, w)  t = Softmax <axis = 3> (q)", 0),
    ],
)
def test_no_iteration_transposes_what_it_hands_on(tmp_path, states, body, transposes):
    model = parsed(IMAGES % (states, body))
    for name, shape in (("w", (2, 2, 3, 3)), ("start", (1, 2, 4, 4))):
        array = np.random.default_rng(1).normal(size=shape).astype("f4") / 3
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    x = np.random.default_rng(2).normal(size=(1, 2, 4, 4)).astype("f4")
    found = kinds(same(tmp_path, model, {"x": x}))
    (inner,) = (types for name, types in found.items() if name.endswith("_body"))
    assert inner.count("Transpose") == transposes


def test_name_that_one_branch_stores_and_the_other_captures(tmp_path):
    """Both branches read the outer value; a name that one branch has is its own."""
    model = parsed(
        """
        m (float[2,3] x, bool k) => (float[2,3] y)
        <float[1] c = {10}, float[1] d = {20}>
        {
            y = If (k) <
                then_branch = t () => (float[2,3] a) <float[1] c = {1}, float[1] d = {2}>
                    { s = Add (x, c) a = Mul (s, d) },
                else_branch = e () => (float[2,3] b) { b = Add (x, c) }
            >
        }
        """
    )
    same(tmp_path, model, {"x": X, "k": TRUE}, {"x": X, "k": FALSE})
