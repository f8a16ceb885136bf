"""Tests of changes and views, which become values."""

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram
from tests.converter.pytorch.test_control_flow import graph, run
from xdlc.errors import UnsupportedOp

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)


def strided(made: TinyProgram, value: str, *strides: int) -> None:
    """State the strides of a value."""
    made.values[value]["strides"] = [{"as_int": each} for each in strides]


def test_a_change_is_seen_through_views(tmp_path):
    builder = TinyProgram()
    x = builder.op("clone", builder.input("x", (3, 2)))
    rows = builder.op("unbind.int", x, results=[((2,), "float32")] * 3)
    flat = builder.op("view", x, [6], shape=(6,))
    builder.op("add_.Tensor", rows[1], 10)
    builder.op("neg_", builder.op("slice.Tensor", flat, 0, 4, 6, shape=(2,)))
    got = run(builder, tmp_path, [x, flat, rows[2]], {"x": X})
    wanted = X + np.float32([[0], [10], [0]])
    wanted[2] *= -1
    np.testing.assert_allclose(got[0], wanted)
    np.testing.assert_allclose(got[1], wanted.reshape(6))
    np.testing.assert_allclose(got[2], wanted[2])


@pytest.mark.parametrize("copies", [True, False])
def test_strides_decide_whether_a_reshape_is_a_view(tmp_path, copies):
    builder = TinyProgram()
    x = builder.op("clone", builder.input("x", (3, 2)))
    turned = builder.op("transpose.int", x, 0, 1, shape=(2, 3))
    strided(builder, turned, *((1, 2) if copies else (3, 1)))
    builder.op("add_.Tensor", builder.op("reshape", turned, [6], shape=(6,)), 1)
    (got,) = run(builder, tmp_path, [x], {"x": X})
    np.testing.assert_allclose(got, X if copies else X + 1)


def test_dropout_without_effect_is_a_view(tmp_path):
    made = TinyProgram()
    x = made.op("clone", made.input("x", (3, 2)))
    made.op("relu_", made.op("dropout", x, 0.5, False))
    (got,) = run(made, tmp_path, [x], {"x": X})
    np.testing.assert_allclose(got, np.maximum(X, 0))


def test_a_tensor_gets_another_shape_in_place(tmp_path):
    made = TinyProgram()
    x = made.op("clone", made.input("x", (3, 2)))
    y = made.op("t_", x, shape=(2, 3))
    made.op("mul_.Tensor", y, 2)
    got = run(made, tmp_path, [x, y], {"x": X})
    np.testing.assert_allclose(got, [X.T * 2] * 2)


@pytest.mark.parametrize("positive", [True, False])
def test_a_branch_changes_a_tensor_of_the_graph_around(tmp_path, positive):
    builder = TinyProgram()
    x, flag = builder.op("clone", builder.input("x", (3, 2))), builder.input("flag", (), "bool")
    row = builder.op("select.int", x, 0, 1, shape=(2,))
    then = graph(((2,),), ops=lambda g, a: [g.op("add_.Tensor", a, 1)])
    other = graph(((2,),), ops=lambda g, a: [g.op("neg", a)])
    (end,) = builder.op("higher_order.cond", flag, then, other, [row], results=[((2,), "float32")])
    got = run(builder, tmp_path, [x, end], {"x": X, "flag": np.asarray(positive)})
    wanted = X + np.float32([[0], [1], [0]]) if positive else X
    np.testing.assert_allclose(got[0], wanted)
    np.testing.assert_allclose(got[1], wanted[1] if positive else -X[1])


@pytest.mark.parametrize("limit", [3, 100])
def test_a_loop_changes_a_tensor_of_the_graph_around(tmp_path, limit):
    builder = TinyProgram()
    x, start = builder.op("clone", builder.input("x", (3, 2))), builder.weight("start", np.int64(0), "buffer")
    w = builder.weight("w", np.float32([1, 2]))
    shapes = ((), "int64"), ((2,),), ((2,),)
    test = graph(*shapes, ops=lambda g, i, a, b: [g.op("lt.Scalar", i, limit, shape=(), dtype="bool")])

    def ops(g, i, a, b):
        g.op("add_.Tensor", b, a)
        return [g.op("add.Tensor", i, 1)]

    row = builder.op("select.int", x, 0, 1, shape=(2,))
    arguments = [test, graph(*shapes, ops=ops), [start], [w, row]]
    (count,) = builder.op("higher_order.while_loop", *arguments, results=[((), "int64")])
    got = run(builder, tmp_path, [x, count], {"x": X})
    wanted = X.copy()
    wanted[1] += limit * np.float32([1, 2])
    np.testing.assert_allclose(got[0], wanted, rtol=1e-5)
    assert got[1] == limit


def test_changes_of_what_a_branch_may_return_are_refused(tmp_path):
    builder = TinyProgram()
    x, flag = builder.op("clone", builder.input("x", (3, 2))), builder.input("flag", (), "bool")
    row = builder.op("select.int", x, 0, 1, shape=(2,))
    same = graph(((2,),), ((3, 2),), ops=lambda g, a, b: [a])
    (end,) = builder.op("higher_order.cond", flag, same, same, [row, x], results=[((2,), "float32")])
    builder.op("relu_", end)
    with pytest.raises(UnsupportedOp, match="operand"):
        builder.convert(tmp_path, [x, end])
    builder = TinyProgram()
    x, flag = builder.op("clone", builder.input("x", (3, 2))), builder.input("flag", (), "bool")
    row = builder.op("select.int", x, 0, 1, shape=(2,))
    change = graph(((2,),), ((3, 2),), ops=lambda g, a, b: [g.op("relu_", a)])
    (end,) = builder.op("higher_order.cond", flag, change, change, [row, x], results=[((2,), "float32")])
    with pytest.raises(UnsupportedOp, match="view"):
        builder.convert(tmp_path, [x, end])


def test_changes_without_a_functional_form_are_refused(tmp_path):
    builder = TinyProgram()
    x = builder.input("x", (3, 2))
    builder.op("uniform_", x)
    with pytest.raises(UnsupportedOp, match="random"):
        builder.convert(tmp_path, [x])
    for view, given in [("unfold", [0, 2, 1]), ("expand", [[3, 2]])]:
        builder = TinyProgram()
        x = builder.op("clone", builder.input("x", (3, 2)))
        builder.op("relu_", builder.op(view, x, *given, shape=(2, 2)))
        with pytest.raises(UnsupportedOp, match=view):
            builder.convert(tmp_path, [x])


@pytest.mark.parametrize("reads", [True, False])
def test_a_reshape_of_unknown_strides(tmp_path, reads):
    builder = TinyProgram()
    x = builder.op("clone", builder.input("x", (3, 2)))
    builder.values[x]["strides"] = []
    flat = builder.op("relu_", builder.op("reshape", x, [6], shape=(6,)))
    if reads:
        with pytest.raises(UnsupportedOp, match="strides"):
            builder.convert(tmp_path, [x, flat])
    else:
        got = xdlc.run(builder.convert(tmp_path, [flat]), {"x": X})
        np.testing.assert_allclose(got[next(iter(got))], np.maximum(X, 0).reshape(6))
