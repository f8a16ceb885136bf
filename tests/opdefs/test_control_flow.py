"""The rules of If and While."""

import numpy as np
import pytest

from tests.support.control_flow_models import graph_of, if_model, loop_model, model_of, op
from xdlc.ir import Graph, ScaleOffset, Tensor, static, string, u32
from xdlc.ir.dtype import BOOL8, FLOAT16, FLOAT32, INT32, UFIXED8
from xdlc.opdefs.control_flow import Loop, blockers, called, has_control_flow, reachable, remove_uncalled
from xdlc.opdefs.control_flow_rules import MAX_DEPTH, verify_control_flow


def caller(model):
    return next(op for op in model.main.ops if op.package == "xdlc")


def problems(model):
    return [(error.where, error.problem) for error in verify_control_flow(model.graphs)]


def only(model):
    (error,) = verify_control_flow(model.graphs)
    return error


def test_models_that_keep_the_rules():
    for model in (if_model(), loop_model()):
        assert problems(model) == []
        assert has_control_flow(model.main)
        assert list(reachable(model.main, model.graphs)) == list(model.graphs.values())
    assert called(caller(if_model())) == ("main_then", "main_else")
    assert Loop.of(caller(loop_model()), loop_model().graphs["main_body"]) == Loop(1, 1, 2)


def test_uncalled_graphs_go():
    model = if_model()
    model.add_graph(Graph("extra"))
    remove_uncalled(model)
    assert list(model.graphs) == ["main", "main_then", "main_else"]


def test_parameters():
    model = if_model()
    params = caller(model).params
    params["then_graph"] = u32(1)
    params["else_graph"] = string("main_els")
    params["more"] = u32(1)
    found = [(error.problem, error.fix) for error in verify_control_flow(model.graphs)]
    assert found == [
        ("parameter 'then_graph' names a graph: found 1", "set it to the name of a graph"),
        (
            "parameter 'else_graph' names a graph: there is no graph 'main_els'",
            "nearest: main_else, main_then, main",
        ),
        ("its parameters are then_graph and else_graph: found more", "remove the other parameters"),
    ]
    assert only(model_without("else_graph")).problem == "parameter 'else_graph' names a graph: found none"


def model_without(param):
    model = if_model()
    del caller(model).params[param]
    return model


def test_condition_of_an_if():
    model = if_model()
    model.main.inputs[0].dtype = INT32
    assert only(model).problem == "input 0, the condition, must be bool8[1]: found int32[1]"
    model.main.inputs[0].dtype, model.main.inputs[0].shape = BOOL8, (2,)
    assert only(model).where == "graph 'main': op 'choose' (If)"


@pytest.mark.parametrize("change", ["dtype", "dim", "rank", "count", "encoding"])
def test_branches_have_the_signature_of_the_op(change):
    model = if_model()
    branch = model.graphs["main_else"]
    tensor = branch.outputs[0]
    if change == "dtype":
        tensor.dtype = FLOAT16
    if change == "dim":
        tensor.shape = (2, 4)
    if change == "rank":
        tensor.shape = (1, 2, 3)
    if change == "count":
        branch.add_input(Tensor("more", (1,), FLOAT32))
    if change == "encoding":
        for held in (tensor, caller(model).outputs[0], model.graphs["main_then"].outputs[0]):
            held.dtype, held.encoding = UFIXED8, ScaleOffset(0.5, 0)
        tensor.encoding = ScaleOffset(0.25, 0)
    assert "else_graph 'main_else': " in only(model).problem


def test_open_extents_fit_any():
    model = if_model()
    for graph, shape in (("main_then", (2, 9)), ("main_else", (2, 1))):
        model.graphs[graph].outputs[0].shape = shape
    assert len(problems(model)) == 2
    caller(model).outputs[0].dynamic_axes = (1,)
    assert problems(model) == []
    caller(model).outputs[0].shape, caller(model).outputs[0].dynamic_axes = (1,), (0,)  # an open rank
    assert problems(model) == []


def test_inputs_cannot_be_left_out():
    model = if_model()
    model.main.set_inputs(caller(model), [caller(model).inputs[0], None])
    assert only(model).problem == "the op needs all inputs: input 1 is missing"
    model.main.set_inputs(caller(model), [])
    assert "the op has no inputs" in only(model).problem


def test_counts_of_a_while():
    model = loop_model()
    model.graphs["main_body"].outputs.clear()
    assert "it has 0 outputs, the op 1 outputs and 4 inputs" in only(model).problem
    model = loop_model()
    model.main.set_inputs(caller(model), caller(model).inputs[:3])
    assert [problem.split(":")[0] for _, problem in problems(model)] == [
        "cond_graph 'main_cond'",
        "body_graph 'main_body'",
    ]


def test_condition_of_a_while():
    model = loop_model()
    cond = model.graphs["main_cond"]
    cond.outputs[0].shape = (2,)
    assert only(model).problem == "cond_graph 'main_cond': output 0, must be bool8[1]: found bool8[2]"
    cond.outputs.append(cond.outputs[0])
    assert "must output one bool8 of shape [1]: it has 2 outputs" in only(model).problem


def test_states_keep_their_types():
    model = loop_model()
    model.graphs["main_body"].outputs[1].dtype = FLOAT32
    assert only(model).problem == (
        "body_graph 'main_body': output i must be the next value of input i: number 1, "
        "expected int32[1], found float32[1]"
    )
    model = loop_model()
    caller(model).outputs[0].shape = (4,)
    assert only(model).problem.startswith("body_graph 'main_body': its first outputs must match the op's")


def test_graphs_read_only_their_own_inputs():
    model = if_model()
    branch = model.graphs["main_then"]
    branch.inputs[0].role = Tensor("", (), FLOAT32).role
    assert only(model).problem.startswith("graph 'main_then' may read only its own inputs: tensor 'h'")


def test_a_graph_cannot_run_itself():
    model = loop_model()
    graph = model.graphs["main_body"]
    params = {"cond_graph": string("main_cond"), "body_graph": string("main_body")}
    op(graph, "While", graph.inputs, [Tensor("z", (3,), FLOAT32)], params, name="again", package="xdlc")
    error = only(model)
    assert error.where == "graph 'main_body': op 'again' (While)"
    assert error.problem.startswith("graph 'main_body' must not run itself")


def chain(depth, calls=1, both=True):
    """Graphs that run each other: ``depth`` of them, each ``calls`` times the next."""
    graphs = []
    for index in range(depth):

        def build(graph, c, x, index=index):
            if index == depth - 1:
                return op(graph, "Relu", [x], [Tensor("y", (1,), FLOAT32)])
            params = {
                "then_graph": string(f"g{index + 1}"),
                "else_graph": string(f"g{index + 1 if both else depth - 1}"),
            }
            for call in range(calls):
                (x,) = op(graph, "If", [c, c, x], [Tensor(f"y{call}", (1,), FLOAT32)], params, package="xdlc")
            return [x]

        graphs.append(graph_of(f"g{index}", [("c", (1,), BOOL8), ("x", (1,), FLOAT32)], build))
    return model_of(*graphs)


def test_depth_and_copies_are_bounded():
    assert problems(chain(4)) == []
    assert f"graphs may nest at most {MAX_DEPTH} levels deep" in only(chain(3000, both=False)).problem
    assert "sub-graphs may have at most 1048576 ops" in only(chain(24)).problem
    assert "sub-graphs may have at most 1048576 ops" in only(chain(12, calls=4)).problem


def test_what_keeps_a_loop_off_a_backend():
    model = loop_model()
    host = static("s", np.ones(3, np.float32))
    body = model.graphs["main_body"]
    op(body, "Unique", [host], [Tensor("u", (3,), FLOAT32)], name="odd", package="xdlc")
    refused = {"xdlc": "it is host-only"}
    (found,) = blockers(model.main, model.graphs, lambda graph, op: refused.get(op.package))
    assert found.caller is caller(model)
    assert str(found) == "graph 'main_body' has op 'odd' (Unique): it is host-only"
    assert blockers(model.main, model.graphs, lambda graph, op: None) == []
