"""Operators that run graphs: branches, loops, scans, regions that run once."""

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram
from xdlc.converter.pytorch.calls import Ref

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)


def graph(*inputs: tuple, ops) -> TinyProgram:
    """Return a graph for an operator; ``ops`` adds calls and returns outputs."""
    made = TinyProgram()
    outputs = ops(made, *(made.input(f"a{index}", *each) for index, each in enumerate(inputs)))
    made.ends = outputs
    return made


def run(made: TinyProgram, tmp_path, ends, feed, **options) -> list[np.ndarray]:
    """Return the outputs of a program."""
    model = made.convert(tmp_path, ends, **options)
    got = xdlc.run(model, feed)
    return [got[tensor.name] for tensor in model.main.outputs]


@pytest.mark.parametrize("positive", [True, False])
def test_cond(tmp_path, positive):
    builder = TinyProgram()
    x, flag = builder.input("x", (3, 2)), builder.input("flag", (), "bool")
    then = graph(((3, 2),), ops=lambda g, a: [g.op("relu", a), g.op("add.Tensor", a, 1)])
    other = graph(((3, 2),), ops=lambda g, a: [g.op("neg", a), a])
    ends = builder.op("higher_order.cond", flag, then, other, [x], results=[((3, 2), "float32")] * 2)
    got = run(builder, tmp_path, ends, {"x": X, "flag": np.asarray(positive)})
    wanted = [np.maximum(X, 0), X + 1] if positive else [-X, X]
    np.testing.assert_allclose(got, wanted)


@pytest.mark.parametrize(("limit", "unrolled"), [(5, True), (1000, False)])
def test_while_loop(tmp_path, limit, unrolled):
    builder = TinyProgram()
    x, start = builder.input("x", (3, 2)), builder.weight("start", np.int64(0), "buffer")
    shapes = ((), "int64"), ((3, 2),), ((2,),)
    test = graph(*shapes, ops=lambda g, i, a, b: [g.op("lt.Scalar", i, limit, shape=(), dtype="bool")])
    body = graph(*shapes, ops=lambda g, i, a, b: [g.op("add.Tensor", i, 1), g.op("add.Tensor", a, b)])
    step = builder.weight("step", np.float32([1, 2]))
    results = [((), "int64"), ((3, 2), "float32")]
    ends = builder.op("higher_order.while_loop", test, body, [start, x], [step], results=results)
    count, total = run(builder, tmp_path, ends, {"x": X})
    assert count == limit
    np.testing.assert_allclose(total, X + limit * np.float32([1, 2]), rtol=1e-4)
    hosts = [op for op in builder.convert(tmp_path, ends).main.ops if op.type == "While"]
    assert (not hosts) == unrolled


@pytest.mark.parametrize("rows", [3, 40])
def test_scan_and_map(tmp_path, rows):
    data = np.linspace(0, 1, rows * 2, dtype=np.float32).reshape(rows, 2)
    builder = TinyProgram()
    x, h, w = builder.input("x", (rows, 2)), builder.input("h", (2,)), builder.weight("w", np.float32([2, 3]))

    def ops(g, state, row, scale):
        after = g.op("add.Tensor", state, g.op("mul.Tensor", row, scale))
        return [after, g.op("neg", after)]

    body = graph(((2,),), ((2,),), ((2,),), ops=ops)
    results = [((2,), "float32"), ((rows, 2), "float32")]
    last, each = builder.op("higher_order.scan", body, [h], [x], [w], results=results)
    row = graph(((2,),), ((2,),), ops=lambda g, a, b: [g.op("mul.Tensor", a, b)])
    (products,) = builder.op("higher_order.map_impl", row, [x], [w], results=results[1:])
    got = run(builder, tmp_path, [last, each, products], {"x": data, "h": np.float32([1, -1])})
    sums = np.float32([1, -1]) + np.cumsum(data * np.float32([2, 3]), axis=0)
    wanted = [sums[-1], -sums, data * np.float32([2, 3])]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_regions_run_in_place_of_their_calls(tmp_path):
    builder = TinyProgram()
    x = builder.input("x", (3, 2))
    body = graph(((3, 2),), ops=lambda g, a: [g.op("neg", g.op("add.Tensor", a, 1)), a])
    results = [((3, 2), "float32")] * 2
    first, same = builder.op("higher_order.wrap_with_set_grad_enabled", False, body, x, results=results)
    second, _ = builder.op("higher_order.invoke_subgraph", body, "body", first, results=results)
    second, _ = builder.op("higher_order.tag_activation_checkpoint", body, second, results=results)
    model = builder.convert(tmp_path, [second, same])
    assert [op.type for op in model.main.ops if op.type == "If"] == []
    got = xdlc.run(model, {"x": X})
    np.testing.assert_allclose([got[end.name] for end in model.main.outputs], [-X - 1, X], atol=1e-6)


@pytest.mark.parametrize("enabled", [True, False])
def test_autocast(tmp_path, enabled):
    builder = TinyProgram()
    x = builder.input("x", (2, 2))
    body = graph(((2, 2),), ops=lambda g, a: [g.op("mm", a, a)])
    arguments = ["cpu", np.dtype("float16"), enabled, None, body, x]
    ends = builder.op("higher_order.wrap_with_autocast", *arguments, results=[((2, 2), "float32")])
    if enabled:
        with pytest.raises(xdlc.XdlcError, match="autocast"):
            builder.convert(tmp_path, ends)
    else:
        (got,) = run(builder, tmp_path, ends, {"x": X[:2]})
        np.testing.assert_allclose(got, X[:2] @ X[:2], rtol=1e-6)


def test_an_operator_of_the_user_that_changes_a_tensor_has_its_new_value_as_a_result(tmp_path):
    builder = TinyProgram()
    x = builder.input("x", (3, 2))
    name, given = "higher_order.auto_functionalized_v2", {"_x_base_index": 0, "_all_bases": [x]}
    builder.op(name, "torch.ops.mine.change.default", y=x, **given, results=[((3, 2), "float32")])
    with pytest.raises(xdlc.XdlcError, match="mine::change"):
        builder.convert(tmp_path)


@pytest.mark.parametrize(
    ("target", "arguments", "results"),
    [
        ("higher_order.flex_attention", [Ref("x")], [((3, 2), "float32")]),
        ("higher_order.associative_scan", [Ref("x")], [((3, 2), "float32")]),
        ("mine.change_", [Ref("x")], []),
        ("torch._functorch.predispatch._vmap_increment_nesting", [2, "error"], []),
        ("higher_order.invoke_subgraph", [Ref("x")], [((3, 2), "float32")]),
    ],
)
def test_what_has_no_form_is_refused(tmp_path, target, arguments, results):
    made = TinyProgram()
    x = made.input("x", (3, 2))
    made.op(target, *arguments, results=results)
    with pytest.raises(xdlc.XdlcError) as caught:
        made.convert(tmp_path, made._last or [x])
    assert ("vmap" if "vmap" in target else target.split(".")[1]) in str(caught.value)
