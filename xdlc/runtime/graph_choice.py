"""Choice of a graph by the shapes of inputs, where several are one network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdlc.container import caches
from xdlc.errors import UsageError
from xdlc.ir import Graph, Model
from xdlc.opdefs.control_flow import outer_graphs

Shapes = Mapping[str, tuple[int, ...]]
"""Shape of each array by the name of its input."""


def alternatives(model: Model, soc: str | None = None) -> list[Graph]:
    """Return the graphs with the inputs of the main one, which may have other shapes.

    Those of a model without graphs are the graphs of its cache.

    Args:
        soc: Name of the SoC whose cache is preferred.
    """
    graphs = outer_graphs(model)
    if not graphs and caches(model):
        from xdlc.runtime.htp.context_binary import described

        graphs = list(described(model, soc)[1].values())
    return [graph for graph in graphs if _names(graph) == _names(graphs[0])]


def fitting(graphs: Sequence[Graph], shapes: Shapes) -> Graph:
    """Return the first graph whose inputs have some shapes.

    It is the first graph if an array has a name that no input has, which is an error of the run.

    Raises:
        UsageError: If no graph fits; it lists the graphs.
    """
    for graph in graphs:
        if all(_fits(graph, name, shape) for name, shape in shapes.items()):
            return graph
    if shapes.keys() <= _names(graphs[0]):
        listed = "; ".join(
            f"{graph.name}: {', '.join(f'{tensor.name} {list(tensor.shape)}' for tensor in graph.inputs)}"
            for graph in graphs
        )
        passed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise UsageError(f"no graph has inputs of these shapes: {passed}", fix=f"use one of {listed}")
    return graphs[0]


def _names(graph: Graph) -> set[str]:
    return {tensor.name for tensor in graph.inputs}


def _fits(graph: Graph, name: str, shape: tuple[int, ...]) -> bool:
    tensor = next((tensor for tensor in graph.inputs if tensor.name == name), None)
    return (
        tensor is not None
        and len(shape) == tensor.rank
        and all(
            axis in tensor.dynamic_axes or size == dim
            for axis, (size, dim) in enumerate(zip(shape, tensor.shape, strict=True))
        )
    )
