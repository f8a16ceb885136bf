"""Graphs of one op, and their feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xdlc.ir import Graph, Param, Tensor, dtype, make_op
from xdlc.ir.dtype import DType

Case = tuple[Graph, dict[str, np.ndarray]]


def op_graph(
    kind: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    params: Mapping[str, Param] | None = None,
    *,
    name: str = "op",
    package: str = "qti.aisw",
    graph_name: str = "g",
) -> Graph:
    """Return a graph of one op; what is not static goes in, all results come out."""
    graph = Graph(graph_name)
    for tensor in inputs:
        if tensor is not None and not tensor.is_static:
            graph.add_input(tensor)
    graph.append(make_op(graph, kind, inputs, outputs, params, name=name, package=package))
    for tensor in outputs:
        graph.add_output(tensor)
    return graph


def one_op(
    kind: str,
    operands: Sequence[np.ndarray | Tensor],
    shape: tuple[int, ...],
    params: Mapping[str, Param],
    result: DType | None = None,
    package: str = "qti.aisw",
) -> Case:
    """Return a graph of one op with the result y; arrays are its inputs."""
    inputs, feeds = [], {}
    for index, operand in enumerate(operands):
        if isinstance(operand, np.ndarray):
            feeds[f"x{index}"] = operand
            operand = Tensor(f"x{index}", operand.shape, dtype.from_numpy(operand.dtype))
        inputs.append(operand)
    y = Tensor("y", shape, result or inputs[0].dtype)
    return op_graph(kind, inputs, [y], params, package=package, graph_name="one"), feeds
