"""Small models with branches and loops."""

import numpy as np

from xdlc.ir import Graph, Model, Tensor, make_op, static, string, u32
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32

ADD, LESS, MULTIPLY = 0, 8, 13


def graph_of(name, inputs, build) -> Graph:
    """Return a graph; ``build`` gets it and its inputs and returns its outputs."""
    graph = Graph(name)
    made = [graph.add_input(Tensor(key, shape, dtype)) for key, shape, dtype in inputs]
    for tensor in build(graph, *made):
        graph.add_output(tensor)
    return graph


def op(graph, type, inputs, outputs, params=None, *, name=None, package="qti.aisw"):
    """Append an op; return its outputs, given as tensors."""
    graph.append(make_op(graph, type, inputs, outputs, params, name=name, package=package))
    return outputs


def binary(graph, operation, a, b, name, dtype=None):
    """Append an ElementWiseBinary; return its output."""
    out = Tensor(name, a.shape, dtype or a.dtype)
    return op(graph, "ElementWiseBinary", [a, b], [out], {"operation": u32(operation)})[0]


def model_of(*graphs) -> Model:
    model = Model()
    for graph in graphs:
        model.add_graph(graph)
    return model


def if_model(shape=(2, 3)) -> Model:
    """``y = tanh((relu(x) if c else -relu(x)) + relu(x))``."""

    def main(graph, c, x):
        (h,) = op(graph, "Relu", [x], [Tensor("h", shape, FLOAT32)])
        params = {"then_graph": string("main_then"), "else_graph": string("main_else")}
        (b,) = op(graph, "If", [c, h], [Tensor("b", shape, FLOAT32)], params, name="choose", package="xdlc")
        s = binary(graph, ADD, b, h, "s")
        return op(graph, "Tanh", [s], [Tensor("y", shape, FLOAT32)])

    inputs = [("h", shape, FLOAT32)]
    return model_of(
        graph_of("main", [("c", (1,), BOOL8), ("x", shape, FLOAT32)], main),
        graph_of("main_then", inputs, lambda g, h: op(g, "Relu", [h], [Tensor("same", shape, FLOAT32)])),
        graph_of(
            "main_else", inputs, lambda g, h: op(g, "ElementWiseNeg", [h], [Tensor("minus", shape, FLOAT32)])
        ),
    )


def while_params(name="main"):
    return {"cond_graph": string(f"{name}_cond"), "body_graph": string(f"{name}_body")}


def loop_model(most=None) -> Model:
    """Return ``y = x * f ** n`` by a loop.

    Args:
        most: What the condition compares the counter with instead of ``n``.
    """
    shape = (3,)
    types = [("p", shape, FLOAT32), ("i", (1,), INT32), ("n", (1,), INT32), ("f", shape, FLOAT32)]

    def main(graph, x, n, f):
        zero = static("zero", np.zeros(1, np.int32))
        y = Tensor("y", shape, FLOAT32)
        return op(graph, "While", [x, zero, n, f], [y], while_params(), name="power", package="xdlc")

    def cond(graph, p, i, n, f):
        limit = n if most is None else static("most", np.array([most], np.int32))
        return [binary(graph, LESS, i, limit, "more", BOOL8)]

    def body(graph, p, i, n, f):
        one = static("one", np.ones(1, np.int32))
        return [binary(graph, MULTIPLY, p, f, "q"), binary(graph, ADD, i, one, "j")]

    return model_of(
        graph_of("main", [("x", shape, FLOAT32), ("n", (1,), INT32), ("f", shape, FLOAT32)], main),
        graph_of("main_cond", types, cond),
        graph_of("main_body", types, body),
    )
