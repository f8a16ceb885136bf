"""If, Case, While, lists of tensors, and Switch and Merge of TensorFlow 1."""

import numpy as np
import pytest

import xdlc
from tests.converter.tensorflow.tf_models import FLOAT, Function, Graph, Shape, Type
from xdlc.errors import ModelError

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
I32 = Type("int32")


def const(name, value, dtype=np.int32):
    return ("Const", name, [], {"value": np.asarray(value, dtype), "dtype": Type(np.dtype(dtype).name)})


def converted(graph, tmp_path, **options):
    return xdlc.convert(graph.save(tmp_path / "m.pb"), **options)


def types(model):
    return [op.type for op in model.main.ops]


def run(graph, tmp_path, **inputs):
    return xdlc.run(converted(graph, tmp_path), inputs or {"x": X})


# ---------------------------------------------------------------------- functions


def branches(graph):
    graph.function("double", ["a"], {"r": "mul:z:0"}, [("AddV2", "mul", ["a", "a"], {})])
    graph.function("negate", ["a"], {"r": "neg:y:0"}, [("Neg", "neg", ["a"], {})])
    return graph.function("keep", ["a"], {"r": "a"}, [])


@pytest.mark.parametrize("taken", [True, False])
def test_an_if_runs_one_branch(tmp_path, taken):
    graph = branches(Graph().input("x", 2, 3).input("p", dtype="bool"))
    graph.node("If", "if", ["p", "x"], then_branch=Function("double"), else_branch=Function("negate"))
    found = run(graph, tmp_path, x=X, p=np.array(taken))
    assert np.array_equal(found["if:0"], 2 * X if taken else -X)


@pytest.mark.parametrize(("index", "expected"), [(0, 2 * X), (1, -X), (2, X), (7, X), (-1, X)])
@pytest.mark.parametrize("fixed", [True, False])
def test_a_case_runs_the_branch_of_its_index_else_the_last_one(tmp_path, index, expected, fixed):
    graph = branches(Graph().input("x", 2, 3))
    graph = graph.const("i", np.int32(index)) if fixed else graph.input("i", dtype="int32")
    graph.node("Case", "case", ["i", "x"], branches=[Function(one) for one in ("double", "negate", "keep")])
    given = {"x": X} if fixed else {"x": X, "i": np.int32(index)}
    assert np.array_equal(run(graph, tmp_path, **given)["case:0"], expected)


def loop(limit, start=0):
    """Return a graph that adds w to x until a counter is at a limit."""
    graph = Graph().input("x", 2, 3).const("i", np.int32(start)).const("w", np.full((2, 3), 0.5, np.float32))
    graph.function(
        "cond",
        ["i", "a", "w"],
        {"r": "less:z:0"},
        [const("n", limit), ("Less", "less", ["i", "n:output:0"], {})],
    )
    body = [
        const("one", 1),
        ("AddV2", "next", ["i", "one:output:0"], {}),
        ("AddV2", "sum", ["a", "w"], {}),
        ("Identity", "same", ["w"], {}),
    ]
    graph.function("body", ["i", "a", "w"], {"r": "next:z:0", "s": "sum:z:0", "t": "same:output:0"}, body)
    functions = {"cond": Function("cond"), "body": Function("body")}
    graph.node("While", "while", ["i", "x", "w"], **functions, T=[I32, FLOAT, FLOAT])
    return graph.node("Identity", "end", ["while:1"], T=FLOAT)


@pytest.mark.parametrize(("limit", "start", "times"), [(3, 0, 3), (2, 5, 0), (16, 0, 16)])
def test_a_short_loop_of_known_length_is_unrolled(tmp_path, limit, start, times):
    model = converted(loop(limit, start), tmp_path)
    assert "While" not in types(model)
    assert np.allclose(xdlc.run(model, {"x": X})["end:0"], X + times * 0.5)


@pytest.mark.parametrize(("limit", "start"), [(40, 0), (1000, 962)])
def test_a_long_loop_of_known_length_carries_what_changes_only(tmp_path, limit, start):
    model = converted(loop(limit, start), tmp_path)
    (op,) = [op for op in model.main.ops if op.type == "While"]
    assert np.allclose(xdlc.run(model, {"x": X})["end:0"], X + (limit - start) * 0.5)
    assert len(op.outputs) == 2  # the counter and the sum, not w


def test_a_loop_that_a_value_ends_is_kept(tmp_path):
    graph = Graph().input("x", 2, 3)
    condition = [
        const("axes", [0, 1]),
        const("n", 50, np.float32),
        ("Sum", "sum", ["a", "axes:output:0"], {}),
        ("Less", "less", ["sum:output:0", "n:output:0"], {}),
    ]
    graph.function("cond", ["a"], {"r": "less:z:0"}, condition)
    body = [const("y", 1, np.float32), ("AddV2", "add", ["a", "y:output:0"], {})]
    graph.function("body", ["a"], {"r": "add:z:0"}, body)
    graph.node("StatelessWhile", "while", ["x"], cond=Function("cond"), body=Function("body"), T=[FLOAT])
    assert np.array_equal(run(graph, tmp_path)["while:0"], X + 8)


# ---------------------------------------------------------------------- lists


def mapped(count, shape=(3,)):
    """Return a graph that doubles the rows of x into a list of unknown shape."""
    graph = Graph().input("x", count, *shape).const("i", np.int32(0)).const("shape", np.int32(-1))
    graph.const("row", np.asarray(shape, np.int32)).const("n", np.int32(count))
    graph.node("TensorListFromTensor", "in", ["x", "row"], element_dtype=FLOAT, shape_type=I32)
    graph.node("TensorListReserve", "made", ["shape", "n"], element_dtype=FLOAT, shape_type=I32)
    condition = [const("n", count), ("Less", "less", ["i", "n:output:0"], {})]
    graph.function("cond", ["i", "o", "l"], {"r": "less:z:0"}, condition)
    body = [
        const("one", 1),
        const("row", shape),
        ("AddV2", "next", ["i", "one:output:0"], {}),
        ("TensorListGetItem", "item", ["l", "i", "row:output:0"], {"element_dtype": FLOAT}),
        ("AddV2", "sum", ["item:item:0", "item:item:0"], {}),
        ("TensorListSetItem", "set", ["o", "i", "sum:z:0"], {"element_dtype": FLOAT}),
    ]
    graph.function("body", ["i", "o", "l"], {"r": "next:z:0", "s": "set:output_handle:0", "t": "l"}, body)
    functions = {"cond": Function("cond"), "body": Function("body")}
    variant = Type("variant")
    graph.node("While", "while", ["i", "made", "in"], **functions, T=[I32, variant, variant])
    return graph.node("TensorListStack", "end", ["while:1", "row"], element_dtype=FLOAT, num_elements=count)


@pytest.mark.parametrize("count", [4, 20])
def test_a_list_is_filled_by_a_loop(tmp_path, count):
    x = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    model = converted(mapped(count), tmp_path)
    assert ("While" in types(model)) == (count > 16)
    assert np.array_equal(xdlc.run(model, {"x": x})["end:0"], 2 * x)


def test_elements_are_pushed_and_taken(tmp_path):
    graph = Graph().input("x", 2, 3).const("shape", np.int32(-1)).const("two", np.int32(2))
    graph.node("EmptyTensorList", "l0", ["shape", "two"], element_dtype=FLOAT)
    graph.node("Neg", "neg", ["x"], T=FLOAT)
    graph.node("TensorListPushBack", "l1", ["l0", "x"], element_dtype=FLOAT)
    graph.node("TensorListPushBack", "l2", ["l1", "neg"], element_dtype=FLOAT)
    graph.node("TensorListPopBack", "pop", ["l2", "shape"], element_dtype=FLOAT)
    graph.node("TensorListStack", "all", ["l2", "shape"], element_dtype=FLOAT)
    graph.node("Identity", "last", ["pop:1"], T=FLOAT)
    found = run(graph, tmp_path)
    assert np.array_equal(found["all:0"], np.stack([X, -X]))
    assert np.array_equal(found["last:0"], -X)


def test_an_element_outside_of_a_list_is_refused(tmp_path):
    graph = Graph().input("x", 2, 3).const("row", np.asarray([3], np.int32)).const("i", np.int32(5))
    graph.const("n", np.int32(2)).node("TensorListReserve", "l", ["row", "n"], element_dtype=FLOAT)
    graph.node("TensorListGetItem", "item", ["l", "i", "row"], element_dtype=FLOAT)
    graph.node("AddV2", "end", ["item", "x"], T=FLOAT)
    with pytest.raises(ModelError, match="element 5"):
        run(graph, tmp_path)


# ---------------------------------------------------------------------- TensorFlow 1


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("constant", [True, False])
def test_a_merge_becomes_an_if(tmp_path, taken, constant):
    graph = Graph().input("x", 2, 3).input("p", dtype="bool")
    graph.node("Identity", "id", ["p"], T=Type("bool")).node("Switch", "s", ["x", "id"], T=FLOAT)
    graph.node("Switch", "pivots", ["p", "p"], T=Type("bool"))
    graph.node("Identity", "on", ["pivots:1"], T=Type("bool")).node("Neg", "neg", ["s"], T=FLOAT)
    graph.node("Const", "c", ["^on"], value=np.ones((2, 3), np.float32), dtype=FLOAT)
    graph.node("AddV2", "sum", ["s:1", "s:1"], T=FLOAT)
    graph.node("Merge", "m", ["neg", "c" if constant else "sum"], T=FLOAT, N=2)
    graph.node("AddV2", "end", ["m", "x"], T=FLOAT)
    found = xdlc.run(
        converted(graph, tmp_path, importer_options={"out_node": ["end"]}), {"x": X, "p": np.array(taken)}
    )
    other = X + 1 if constant else 3 * X
    assert np.array_equal(found["end:0"], other if taken else np.zeros_like(X))


def frame(graph, name, variables, limit, body, outside=()):
    """Add a loop of TensorFlow 1 that runs while its first variable is below a limit."""
    for index, start in enumerate(variables):
        graph.node("Enter", f"{name}e{index}", [start], frame_name=name, is_constant=False)
        graph.node("Merge", f"{name}m{index}", [f"{name}e{index}", f"{name}n{index}"], N=2)
        graph.node("Switch", f"{name}s{index}", [f"{name}m{index}", f"{name}go"])
        graph.node("Identity", f"{name}v{index}", [f"{name}s{index}:1"])
        graph.node("Exit", f"{name}x{index}", [f"{name}s{index}"])
    for value in outside:
        graph.node("Enter", f"{name}_{value}", [value], frame_name=name, is_constant=True)
    graph.const(f"{name}limit", np.int32(limit)).node("Less", f"{name}less", [f"{name}m0", f"{name}limit"])
    graph.node("LoopCond", f"{name}go", [f"{name}less"])
    for index, value in enumerate(body):
        graph.node("NextIteration", f"{name}n{index}", [value])


@pytest.mark.parametrize("times", [3, 30])
def test_frames_become_loops_inside_of_loops(tmp_path, times):
    graph = Graph().input("x", 2, 3).const("zero", np.int32(0)).const("one", np.int32(1))
    frame(graph, "f", ["zero", "x"], times, ["fplus", "gx1"], ["x", "one"])
    graph.node("AddV2", "fplus", ["fv0", "f_one"])
    graph.const("start", np.int32(0)).node("Neg", "negx", ["f_x"])
    frame(graph, "g", ["start", "fv1"], 2, ["gplus", "gsum"], ["negx", "f_one"])
    graph.node("AddV2", "gplus", ["gv0", "g_f_one"]).node("Sub", "gsum", ["gv1", "g_negx"])
    graph.node("Identity", "end", ["fx1"])
    model = converted(graph, tmp_path, importer_options={"out_node": ["end"]})
    assert np.allclose(xdlc.run(model, {"x": X})["end:0"], X + times * 2 * X)


def test_a_loop_without_a_condition_is_refused(tmp_path):
    graph = Graph().input("x", 2, 3).node("Enter", "e", ["x"], frame_name="f", is_constant=False)
    graph.node("Merge", "m", ["e", "n"], N=2).node("NextIteration", "n", ["m"])
    with pytest.raises(ModelError, match="incomplete"):
        converted(graph, tmp_path, importer_options={"out_node": ["m"]})


def test_a_tensor_array_is_a_list(tmp_path):
    graph = Graph().input("x", 2, 3).const("n", np.int32(2)).const("i", np.asarray([0, 1], np.int32))
    graph.node("TensorArrayV3", "a", ["n"], dtype=FLOAT, element_shape=Shape((3,)))
    graph.node("TensorArrayScatterV3", "s", ["a", "i", "x", "a:1"], T=FLOAT)
    graph.const("zero", np.int32(0)).node("TensorArrayReadV3", "r", ["a", "zero", "s"], dtype=FLOAT)
    graph.node("Neg", "neg", ["r"], T=FLOAT).node(
        "TensorArrayWriteV3", "w", ["a", "zero", "neg", "s"], T=FLOAT
    )
    graph.node("TensorArrayGatherV3", "end", ["a", "i", "w"], dtype=FLOAT)
    assert np.array_equal(run(graph, tmp_path)["end:0"], np.stack([-X[0], X[1]]))
