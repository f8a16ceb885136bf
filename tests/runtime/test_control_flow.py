"""Branches and loops on the host: step by step, and as one ONNX model."""

import logging
import time

import numpy as np
import onnxruntime
import pytest

from tests.support.control_flow_models import (
    ADD,
    binary,
    graph_of,
    if_model,
    loop_model,
    model_of,
    op,
    while_params,
)
from tests.support.running import run
from xdlc.container import load, save
from xdlc.errors import BackendError, ConstraintError, ProblemList, UsageError
from xdlc.ir import Tensor, static, string, u32
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.export import export
from xdlc.runtime.steps import LoopMemory

X = np.array([[-1, 2, -3], [4, -5, 0.5]], np.float32)
P = np.array([1, 2, -3], np.float32)
F = np.array([2, 0.5, -1], np.float32)


def exported(model, feeds, folder):
    """Return what onnxruntime makes of the exported model."""
    export(model, folder / "m.onnx")
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.mark.parametrize("chosen", [True, False])
def test_if_takes_the_branch_of_its_condition(tmp_path, chosen):
    save(if_model(), tmp_path / "m.dlc")
    model, feeds = load(tmp_path / "m.dlc"), {"c": np.array([chosen]), "x": X}
    h = np.maximum(X, 0)
    wanted = np.tanh((h if chosen else -h) + h)
    np.testing.assert_allclose(run(model, feeds)["y"], wanted, atol=1e-6)
    np.testing.assert_allclose(exported(model, feeds, tmp_path)["y"], wanted, atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_while_counts(tmp_path, count):
    save(loop_model(), tmp_path / "m.dlc")
    model, feeds = load(tmp_path / "m.dlc"), {"x": P, "n": np.array([count], np.int32), "f": F}
    np.testing.assert_array_equal(run(model, feeds)["y"], P * F**count)
    np.testing.assert_array_equal(exported(model, feeds, tmp_path)["y"], P * F**count)


def nested():
    """Return a loop with a branch: ``x`` is doubled where ``c`` holds, three times."""
    model = loop_model(most=3)
    del model.graphs["main_body"]
    types = [("p", (3,), FLOAT32), ("i", (1,), INT32), ("n", (1,), INT32), ("f", (3,), FLOAT32)]

    def body(graph, p, i, n, f):
        even = binary(
            graph,
            3,
            binary(graph, 12, i, static("two", np.array([2], np.int32)), "r"),
            static("zero", np.zeros(1, np.int32)),
            "even",
            BOOL8,
        )
        params = {"then_graph": string("twice"), "else_graph": string("same")}
        (q,) = op(graph, "If", [even, p], [Tensor("q", (3,), FLOAT32)], params, package="xdlc")
        return [q, binary(graph, ADD, i, static("one", np.ones(1, np.int32)), "j")]

    p = [("p", (3,), FLOAT32)]
    for graph in (
        graph_of("main_body", types, body),
        graph_of("twice", p, lambda g, p: [binary(g, ADD, p, p, "d")]),
        graph_of("same", p, lambda g, p: op(g, "Reshape", [p], [Tensor("k", (3,), FLOAT32)])),
    ):
        model.add_graph(graph)
    return model


def test_a_branch_inside_of_a_loop(tmp_path):
    feeds = {"x": P, "n": np.zeros(1, np.int32), "f": F}
    np.testing.assert_array_equal(run(nested(), feeds)["y"], 4 * P)
    np.testing.assert_array_equal(exported(nested(), feeds, tmp_path)["y"], 4 * P)


def growing():
    """``y`` holds ``x`` once for each iteration: an accumulator that starts empty."""

    def main(graph, x, n):
        grown = Tensor("y", (1, 2), FLOAT32, dynamic_axes=(0,))
        start = [static("none", np.zeros((0, 2), np.float32)), static("zero", np.zeros(1, np.int32)), n, x]
        return op(graph, "While", start, [grown], while_params(), package="xdlc")

    types = [("a", (1, 2), FLOAT32), ("i", (1,), INT32), ("n", (1,), INT32), ("x", (1, 2), FLOAT32)]

    def cond(graph, a, i, n, x):
        return [binary(graph, 8, i, n, "more", BOOL8)]

    def body(graph, a, i, n, x):
        longer = Tensor("b", (1, 2), FLOAT32, dynamic_axes=(0,))
        op(graph, "Concat", [a, x], [longer], {"axis": u32(0)})
        return [longer, binary(graph, ADD, i, static("one", np.ones(1, np.int32)), "j")]

    model = model_of(
        graph_of("main", [("x", (1, 2), FLOAT32), ("n", (1,), INT32)], main),
        graph_of("main_cond", types, cond),
        graph_of("main_body", types, body),
    )
    for name in ("main_cond", "main_body"):
        model.graphs[name].inputs[0].dynamic_axes = (0,)
    return model


@pytest.mark.parametrize("count", [0, 1, 5])
def test_shapes_that_change_from_iteration_to_iteration(tmp_path, count):
    feeds = {"x": np.array([[1, 2]], np.float32), "n": np.array([count], np.int32)}
    save(growing(), tmp_path / "m.dlc")
    model = load(tmp_path / "m.dlc")
    wanted = np.tile(feeds["x"], (count, 1))
    for found in (run(model, feeds), exported(model, feeds, tmp_path)):
        assert found["y"].shape == (count, 2)
        np.testing.assert_array_equal(found["y"], wanted)


def test_a_state_that_doubles_is_refused_before_it_fills_the_memory():
    model = growing()
    body = model.graphs["main_body"]
    (concat,) = [op for op in body.ops if op.type == "Concat"]
    body.set_inputs(concat, [concat.inputs[0], *concat.inputs])
    feeds = {"x": np.zeros((1, 2), np.float32), "n": np.array([40], np.int32)}
    with pytest.raises(BackendError, match="carries grew to") as caught:
        CpuSession(model, loop_timeout=15).run(feeds)
    assert caught.value.where.endswith("(While)")


def test_results_that_are_collected_may_take_more_than_a_state_that_doubles():
    memory, row = LoopMemory("loop", []), np.broadcast_to(np.float32(0), (1 << 18,))
    for _ in range(380):
        memory.add([row], [0])
    with pytest.raises(BackendError, match="carries grew to"):
        memory.add([row] * 8, range(8))


def test_tensors_between_steps_can_be_given_out():
    found = CpuSession(if_model(), outputs=["s", "b", "h", "x"]).run({"c": np.array([True]), "x": X})
    assert list(found) == ["y", "s", "b", "h", "x"]
    np.testing.assert_array_equal(found["s"], 2 * np.maximum(X, 0))
    np.testing.assert_array_equal(found["x"], X)
    with pytest.raises(UsageError, match="no tensor 'same'"):
        CpuSession(if_model(), outputs=["same"])


@pytest.mark.parametrize("chosen", [True, False])
def test_of_a_known_condition_one_branch_is_opened(chosen):
    model = if_model()
    choose = next(op for op in model.main.ops if op.type == "If")
    model.main.set_inputs(choose, [static("known", np.array([chosen])), *choose.inputs[1:]])
    model.graphs["main_else" if chosen else "main_then"].ops[0].type = "Nonsense"
    h = np.maximum(X, 0)
    found = run(model, {"c": np.array([not chosen]), "x": X})["y"]
    np.testing.assert_allclose(found, np.tanh((h if chosen else -h) + h), atol=1e-6)


def test_problems_of_all_graphs_are_told_together():
    model = if_model()
    for name in ("main_then", "main_else"):
        model.graphs[name].ops[0].type = "Nonsense"
    with pytest.raises(ProblemList) as caught:
        CpuSession(model)
    assert [problem.where for problem in caught.value.problems] == [
        "graph 'main_then': op 'Relu' (Nonsense)",
        "graph 'main_else': op 'ElementWiseNeg' (Nonsense)",
    ]


def test_broken_rules_are_told_before_anything_runs():
    model = if_model()
    del model.graphs["main_else"]
    with pytest.raises(ConstraintError, match="there is no graph 'main_else'"):
        CpuSession(model)
    with pytest.raises(ProblemList, match="there is no graph 'main_then'"):
        CpuSession(model.main)


def test_a_loop_without_end_is_ended():
    feeds = {"x": P, "n": np.array([5], np.int32), "f": F}
    model = loop_model(most=2**31 - 1)
    begun = time.monotonic()
    with pytest.raises(BackendError, match=r"did not end after 0.2 s, with \d+ iterations done") as caught:
        CpuSession(model, loop_timeout=0.2).run(feeds)
    assert time.monotonic() - begun < 2
    assert caught.value.where == "graph 'main': op 'power' (While)"
    assert "loop_timeout" in caught.value.fix
    session = CpuSession(loop_model(most=3), loop_timeout=0.2)
    for _ in range(2):
        np.testing.assert_array_equal(session.run(feeds)["y"], P * F**3)


def test_one_iteration_without_end_is_ended():
    """The timer ends an iteration between two of its ops."""
    model = loop_model(most=1)
    shape = (1024, 1024)
    for graph in model.graphs.values():
        for tensor in graph.tensors.values():
            tensor.shape = shape if tensor.shape == (3,) else tensor.shape
    body = model.graphs["main_body"]
    first = body.ops[0]
    source = body.inputs[3]
    for index in range(400):
        product = Tensor(f"w{index}", shape, FLOAT32)
        op(body, "MatMul", [source, body.inputs[3]], [product])
        source = product
    body.set_inputs(first, [body.inputs[0], source])
    body.unlink(first)
    body.append(first)
    x = np.zeros(shape, np.float32)
    with pytest.raises(BackendError, match=r"after 0\.3 s, with 0 iterations done"):
        CpuSession(model, loop_timeout=0.3, threads=1).run({"x": x, "n": np.ones(1, np.int32), "f": x})


def test_an_inner_loop_without_end_is_named():
    inner = loop_model(most=2**31 - 1)
    model = loop_model(most=1)
    for name in ("cond", "body"):
        graph = inner.graphs[f"main_{name}"]
        graph.name = f"inner_{name}"
        model.add_graph(graph)
    body = model.graphs["main_body"]
    (more,) = op(
        body,
        "While",
        body.inputs,
        [Tensor("z", (3,), FLOAT32)],
        while_params("inner"),
        name="inner",
        package="xdlc",
    )
    first = body.ops[0]
    body.set_inputs(first, [more, body.inputs[3]])
    body.unlink(first)
    body.append(first)
    with pytest.raises(BackendError) as caught:
        CpuSession(model, loop_timeout=0.2).run({"x": P, "n": np.ones(1, np.int32), "f": F})
    assert caught.value.where == "graph 'main': op 'power' (While)"
    assert (
        "0 iterations done; the inner loop graph 'main_body': op 'inner' (While) did" in caught.value.problem
    )


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "2"])
def test_time_outs_that_are_none(seconds):
    with pytest.raises(UsageError, match="loop_timeout is"):
        CpuSession(if_model(), loop_timeout=seconds)


def test_a_longer_time_out_is_cut_with_a_warning(caplog):
    logging.getLogger("xdlc").propagate = True
    CpuSession(if_model(), loop_timeout=60)
    assert "a loop time-out of 60 s" in caplog.text
