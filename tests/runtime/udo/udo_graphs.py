"""Graphs with ops of a package ``Math``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdlc.ir import Graph, ScaleOffset, Tensor, make_op, u32
from xdlc.ir.dtype import FLOAT32, DType
from xdlc.ir.tensor import Param

RELU = 4


def custom_graph(
    type: str,
    params: Mapping[str, Param] | None = None,
    *,
    package: str = "Math",
    shape: tuple[int, ...] = (2, 3),
    inputs: int = 1,
    omitted: Sequence[int] = (),
    output: tuple[int, ...] | None = None,
    dtype: DType = FLOAT32,
    encoding: ScaleOffset | None = None,
    result: DType | None = None,
    open_axes: tuple[int, ...] = (),
    name: str = "graph",
) -> Graph:
    """Return a graph of one op from inputs ``x0``, ``x1``... to ``y``."""
    graph = Graph(name)
    sources = [
        None
        if index in omitted
        else graph.add_input(Tensor(f"x{index}", shape, dtype, encoding, dynamic_axes=open_axes))
        for index in range(inputs)
    ]
    made = Tensor("y", output or shape, result or dtype, encoding, dynamic_axes=open_axes)
    graph.append(make_op(graph, type, sources, [made], params, package=package, name="custom"))
    graph.add_output(made)
    return graph


def between_relus(
    type: str, params: Mapping[str, Param] | None = None, *, shape: tuple[int, ...] = (2, 3)
) -> Graph:
    """Return ``y = Relu(op(Relu(x)))``, with the tensors ``before`` and ``after``."""
    graph = Graph("graph")
    x = graph.add_input(Tensor("x", shape, FLOAT32))
    before, after, y = (Tensor(name, shape, FLOAT32) for name in ("before", "after", "y"))
    graph.append(make_op(graph, "ElementWiseNeuron", [x], [before], {"operation": u32(RELU)}))
    graph.append(make_op(graph, type, [before], [after], params, package="Math", name="custom"))
    graph.append(make_op(graph, "ElementWiseNeuron", [after], [y], {"operation": u32(RELU)}))
    graph.add_output(y)
    return graph
